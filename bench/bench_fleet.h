#pragma once
// The parts of bench_fleet.
#include <string>
#include <string_view>

namespace warren::bench {

// Claims of rows of a catalog beside a bare compare-and-set, on each engine or one of them.
void bench_claims(std::string_view engine);

// Of a corpus (see scripts/corpus): 500 repositories cut from it and asked through a router, beside
// the nodes themselves and the peer, if its URL is given; a large one of its files handed from node to
// node; the whole of it added.
void bench_serving(const std::string& package, const std::string& peer_url);
void bench_hand_over(const std::string& package);
void bench_first_answer(const std::string& package);

}  // namespace warren::bench
