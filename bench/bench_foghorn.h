#pragma once
// The parts of `make bench PART=foghorn`.

namespace warren::bench {

// Decisions from memory, without a server.
void bench_balance();
// The start of an instance, with a Redis.
void bench_load();
// Redirects over HTTP, under wrk.
void bench_play();

}  // namespace warren::bench
