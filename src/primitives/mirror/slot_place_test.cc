#include "primitives/mirror/slot_place.h"

#include <doctest/doctest.h>

using namespace warren::mirror;

namespace {

constexpr auto nodes =
    "bb 10.0.0.2:6379@16379,two.example master - 0 1700000000000 2 connected 5461-10922\n"
    "aa 10.0.0.1:6379@16379 myself,master - 0 0 3 connected 0-90 93 100-5460 [93->-bb] [7-<-bb]\n"
    "cc 10.0.0.3:6379@16379 slave aa 0 1700000000000 3 connected\n";

}  // namespace

TEST_CASE("the owner of a slot says whether it moves, and where to") {
  CHECK(parse_slot_place(nodes, 93) == SlotPlace{"aa", "3", "bb", "10.0.0.2:6379"});
  CHECK(parse_slot_place(nodes, 0) == SlotPlace{"aa", "3", "", ""});
  CHECK(parse_slot_place(nodes, 5460) == SlotPlace{"aa", "3", "", ""});
  CHECK(!parse_slot_place(nodes, 91));    // no server has it
  CHECK(!parse_slot_place(nodes, 5461));  // another server has it, which knows more of it
  CHECK(!parse_slot_place("", 0));
  CHECK(!parse_slot_place("nonsense\n[93->-bb] 93", 93));
}

TEST_CASE("what was read is whole unless the slot began to move, or moved somewhere else") {
  SlotPlace rests{"aa", "3", "", ""}, moves{"aa", "3", "bb", "b:1"}, arrived{"bb", "4", "", ""};
  CHECK(rests.was_read_whole(rests));
  CHECK(!rests.was_read_whole(moves));
  CHECK(!rests.was_read_whole(arrived));
  CHECK(!rests.was_read_whole({"aa", "5", "", ""}));  // it went away and came back
  CHECK(moves.was_read_whole(moves));
  CHECK(moves.was_read_whole(arrived));
  CHECK(!moves.was_read_whole(rests));  // the move was given up: some keys may be on their way back
  CHECK(!moves.was_read_whole({"bb", "4", "cc", "c:1"}));
}
