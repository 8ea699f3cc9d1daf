#pragma once
// Where a slot of a cluster is: at one server, or between two.
//
//   CLUSTER NODES   aa… 10.0.0.1:6379@16379 myself,master - 0 0 3 connected 0-5460 [93->-bb…]
//                   bb… 10.0.0.2:6379@16379 master - 0 0 2 connected 5461-10922
//
// While it moves, each key is at one of the two and goes from the one to the other only: whoever
// asks the one and then the other for all keys misses none.
#include <optional>
#include <string>
#include <string_view>

namespace warren::mirror {

struct SlotPlace {
  std::string owner;           // its id
  std::string epoch;           // under which it owns the slot
  std::string target;          // the id of the one that gets it; empty: it does not move
  std::string target_address;  // "10.0.0.2:6379"

  bool moves() const { return !target.empty(); }
  bool operator==(const SlotPlace&) const = default;
  // Whether all keys that were there then and that nobody changed were found, by asking the owner
  // and then the target for all of theirs, if this is how it is afterwards.
  bool was_read_whole(const SlotPlace& afterwards) const;
};

// None when the server that says this does not own the slot: only the owner knows whether it moves.
std::optional<SlotPlace> parse_slot_place(std::string_view nodes, int slot);

}  // namespace warren::mirror
