#pragma once
// The parts of `make bench PART=primitives`.

namespace warren::bench {

void bench_leases();
// The process that bench_leases() kills.
int hold_until_killed(unsigned short port);
void bench_mirrors();
void bench_once();

}  // namespace warren::bench
