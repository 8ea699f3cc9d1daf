#pragma once
// The parts of `make bench PART=foghorn`.

namespace warren::bench {

// Decisions from memory, without a server.
void bench_balance();
// Redirects over HTTP, under wrk.
void bench_play();

}  // namespace warren::bench
