#pragma once
// The parts of bench_fleet.
#include <string_view>

namespace warren::bench {

// Claims of rows of a catalog beside a bare compare-and-set, on each engine or one of them.
void bench_claims(std::string_view engine);

}  // namespace warren::bench
