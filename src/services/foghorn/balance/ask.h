#pragma once
// A query, looked up in a table once; what choosing and explaining have in common.
#include <array>
#include <string_view>

#include "services/foghorn/balance/choose.h"
#include "services/foghorn/balance/routing_table.h"

namespace warren::balance {

struct Ask {
  Ask(const RoutingTable& table, const Query& query);

  const RoutingTable& table;
  const Query& query;
  Point viewer;
  bool wants_stream;
  const StreamEntry* stream;  // null: nobody has it, or none is wanted
  bool knows_client;
  bool is_open;  // to nodes without the stream, which pull it from one that has it

  // Nodes of the client's own address.
  std::uint64_t same_host(const NodeBlock& block) const {
    return knows_client ? block.words->hosts.of(as_word(query.client)) : 0;
  }
  bool is_allowed(const NodeFacts& facts) const;  // by the node's list of streams
};

// By node of a block: the sum of the adjustments that match its tags.
class TagSums {
 public:
  void read(const Ask& ask, const NodeBlock& block);
  std::int64_t operator[](std::uint32_t at) const { return is_empty_ ? 0 : sums_[at]; }

 private:
  bool is_empty_ = true;
  std::array<std::int64_t, block_size> sums_;  // when not empty
};

inline std::string_view trimmed(std::string_view text) {
  constexpr std::string_view blanks = " \t\n\v\f\r";
  text.remove_prefix(std::min(text.find_first_not_of(blanks), text.size()));
  return text.substr(0, text.find_last_not_of(blanks) + 1);
}

// Calls with each entry of a list, without the spaces around it. A text without a comma is one entry, also
// when it is empty.
template <class Visit>
void each_entry(std::string_view list, Visit visit) {
  for (;;) {
    auto comma = list.find(',');
    visit(trimmed(list.substr(0, comma)));
    if (comma == list.npos) return;
    list.remove_prefix(comma + 1);
  }
}

// Likewise, and empty entries are left out.
template <class Visit>
void each_word(std::string_view list, Visit visit) {
  each_entry(list, [&](std::string_view word) {
    if (!word.empty()) visit(word);
  });
}

inline std::uint64_t five_times(std::uint64_t score) {
  return score > ~std::uint64_t{0} / 5 ? ~std::uint64_t{0} : score * 5;
}

// Of a node that passed the gates. `has_stream`: it can serve the stream without pulling it.
Score score_of(const Ask& ask, const NodeBlock& block, std::uint32_t at, std::uint64_t used,
               bool has_stream, std::int64_t adjustment);
// The first gate that stops this node, in the order of docs/protocols/balancer.md. The score, if
// it got so far.
Rejection judge(const Ask& ask, const NodeBlock& block, std::uint32_t at, const Holding* holding,
                std::int64_t adjustment, Score& score);

// Calls with the place, the judgement and the score of every node.
template <class Visit>
void each_judged(const Ask& ask, Visit visit) {
  std::vector<Holder> none;  // allocates nothing
  const auto& holders = ask.stream ? ask.stream->holders : none;
  auto holder = holders.begin();
  TagSums tags;
  for (std::uint32_t i = 0; i < ask.table.blocks.size(); ++i) {
    const auto& block = *ask.table.blocks[i];
    tags.read(ask, block);
    for (auto rest = block.known; rest != 0; rest &= rest - 1) {
      auto at = static_cast<std::uint32_t>(__builtin_ctzll(rest));
      auto place = i * block_size + at;
      while (holder != holders.end() && holder->place < place) ++holder;
      bool has_it = holder != holders.end() && holder->place == place;
      Score score;
      auto rejection = judge(ask, block, at, has_it ? &holder->holding : nullptr, tags[at], score);
      visit(place, rejection, score);
    }
  }
}

}  // namespace warren::balance
