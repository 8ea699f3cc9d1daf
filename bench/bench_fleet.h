#pragma once
// The parts of bench_fleet.
#include <string>
#include <string_view>

namespace warren::bench {

// Claims of rows of a catalog compared with a bare compare-and-set, on each engine or on one.
void bench_claims(std::string_view engine);

// These use a corpus (see scripts/corpus). Serving: 500 repositories cut from it are searched
// through a router, compared with the nodes themselves and with the peer, if its URL is given.
// Hand-over: a large repository of its files moves from node to node. First answer: the whole
// corpus is added.
void bench_serving(const std::string& package, const std::string& peer_url);
void bench_hand_over(const std::string& package);
void bench_first_answer(const std::string& package);

}  // namespace warren::bench
