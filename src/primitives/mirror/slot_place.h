#pragma once
// Where a slot of a cluster is: on one server, or between two.
//
//   CLUSTER NODES   aa… 10.0.0.1:6379@16379 myself,master - 0 0 3 connected 0-5460 [93->-bb…]
//                   bb… 10.0.0.2:6379@16379 master - 0 0 2 connected 5461-10922
//
// While it moves, each key is on one of the two servers and only ever moves from the first to the
// second: asking the first and then the second for all keys misses none.
#include <optional>
#include <string>
#include <string_view>

namespace warren::mirror {

struct SlotPlace {
  std::string owner;           // the owner's id
  std::string epoch;           // the epoch under which it owns the slot
  std::string target;          // id of the server that receives the slot; empty: it does not move
  std::string target_address;  // "10.0.0.2:6379"

  bool moves() const { return !target.empty(); }
  bool operator==(const SlotPlace&) const = default;
  // Whether asking the owner and then the target for all their keys found every key that existed
  // then and did not change. `afterwards` is where the slot was after that.
  bool was_read_whole(const SlotPlace& afterwards) const;
};

// Returns nullopt if the answering server does not own the slot: only the owner knows whether it
// moves.
std::optional<SlotPlace> parse_slot_place(std::string_view nodes, int slot);

}  // namespace warren::mirror
