#pragma once
// 64 nodes side by side: what a decision asks of all of them is one word of bits, what it
// calculates with is an array.
#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "services/foghorn/balance/score.h"

namespace warren::balance {

inline constexpr std::uint32_t block_size = 64;

// Which nodes of a block have a word. However many words there are, each is one mask.
class WordMasks {
 public:
  std::uint64_t of(std::string_view word) const;
  void add(std::string_view word, std::uint64_t mask);

 private:
  struct Entry {
    std::string word;
    std::uint64_t mask;
  };
  std::vector<Entry> entries_;  // by word
};

struct BlockWords {
  WordMasks capabilities;  // flags and roles alike
  WordMasks tags;
  WordMasks tenants;
  WordMasks hosts;  // known ones
};

struct Node {
  NodeFacts facts;
  std::shared_ptr<Penalty> penalty;  // shared with the viewers who were sent there
};

struct NodeBlock {
  std::uint64_t edition = 0;

  std::uint64_t known = 0;
  std::uint64_t active = 0;  // healthy and not stale
  std::uint64_t maintenance = 0, draining = 0;
  std::uint64_t measured = 0;    // memory and bandwidth are known
  std::uint64_t owned = 0;       // by a tenant
  std::uint64_t restricted = 0;  // to a list of streams
  std::uint64_t placed = 0;      // somewhere on the globe

  template <class T>
  using Column = std::array<T, block_size>;
  Column<std::uint64_t> cpu = {}, ram = {};  // scores
  Column<std::uint64_t> up_speed = {}, bw_limit = {};
  Column<double> sin_latitude = {}, cos_latitude = {}, longitude = {};
  Column<const Penalty*> penalties = {};
  // What bounds are made of: the score without distance and penalties, and where the node is on
  // the unit sphere, in its middle when that is not known.
  Column<float> ceiling = {}, x = {}, y = {}, z = {};
  Column<std::shared_ptr<const Node>> nodes = {};
  std::shared_ptr<const BlockWords> words = std::make_shared<BlockWords>();

  void set(std::uint32_t at, std::shared_ptr<const Node> node, const Weights& weights);
  void clear(std::uint32_t at);
  void weigh(const Weights& weights);  // anew

  const NodeFacts& facts(std::uint32_t at) const { return nodes[at]->facts; }
  Point point(std::uint32_t at) const {
    return {sin_latitude[at], cos_latitude[at], longitude[at], (placed >> at & 1) != 0};
  }
  // With what redirects under way will add.
  std::uint64_t used(std::uint32_t at) const {
    const auto& penalty = *penalties[at];
    return saturating_sum(
        saturating_sum(up_speed[at], penalty.bandwidth.load(std::memory_order_relaxed)),
        penalty.peer_bandwidth.load(std::memory_order_relaxed));
  }

 private:
  void rebuild_words();
};

inline std::string_view as_word(const BinaryHost& host) {
  return {reinterpret_cast<const char*>(host.data()), host.size()};
}

}  // namespace warren::balance
