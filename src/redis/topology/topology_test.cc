#include <doctest/doctest.h>

#include "redis/resp/parser.h"
#include "redis/topology/cluster.h"
#include "redis/topology/router.h"
#include "redis/topology/sentinel.h"

using namespace warren;
using namespace warren::redis;

namespace {

const Address a{"10.0.0.1", 6379, ""}, b{"10.0.0.2", 6379, ""}, c{"10.0.0.3", 6379, ""};

Reply reply_of(std::string_view bytes) {
  Parser parser;
  REQUIRE(parser.parse(bytes).status == Parser::Status::complete);
  return parser.take();
}

}  // namespace

TEST_CASE("the newest configuration names the primary, whoever tells it") {
  SentinelView view(3);
  view.on_report(0, {a, 1, {b, c}});
  CHECK(!view.has_majority());
  view.on_report(1, {b, 2, {a, c}});
  CHECK(view.has_majority());
  CHECK(view.primary() == b);
  view.on_report(2, {a, 1, {b, c}});  // a sentinel that was away
  CHECK(view.primary() == b);
  CHECK(view.epoch() == 2);
}

TEST_CASE("a replica that is promoted before our eyes is believed before any sentinel names it") {
  SentinelView view(1);
  view.on_report(0, {a, 1, {b, c}});
  CHECK(!view.on_role(b, false));
  CHECK(view.on_role(b, true));
  CHECK(view.primary() == b);
  view.on_report(0, {b, 2, {a, c}});
  CHECK(view.primary() == b);
}

TEST_CASE(
    "a replica that says that it is the primary, but was never seen as a replica, is not it") {
  SentinelView view(1);
  view.on_report(0, {a, 1, {b, c}});
  CHECK(!view.on_role(b, true));
  CHECK(view.on_role(a, true));
}

TEST_CASE("a primary that was replaced and wakes up is not believed, until it is named again") {
  SentinelView view(3);
  for (std::size_t i = 0; i < 3; ++i) view.on_report(i, {a, 1, {b, c}});
  view.on_role(b, false);
  CHECK(view.on_role(b, true));
  CHECK(!view.on_role(a, true));
  view.on_report(0, {a, 1, {b, c}});  // the sentinel has not noticed yet
  CHECK(!view.on_role(a, true));
  CHECK(view.primary() == b);
  for (std::size_t i = 0; i < 3; ++i) view.on_report(i, {b, 2, {a, c}});
  CHECK(!view.on_role(a, true));  // it is listed as a replica now, but does not know yet
  CHECK(view.on_role(b, true));
  view.on_report(0, {a, 3, {b, c}});
  CHECK(view.primary() == a);
}

TEST_CASE("what we saw does not outlive what the server itself, or all sentinels, go on saying") {
  SentinelView view(3);
  auto all_name_a = [&] {
    for (std::size_t i = 0; i < 3; ++i) view.on_report(i, {a, 1, {b, c}});
  };
  all_name_a();
  view.on_role(b, false);
  CHECK(view.on_role(b, true));
  CHECK(!view.on_role(b, false));  // the promotion was reverted
  CHECK(view.on_role(a, true));
  CHECK(view.on_role(b, true));
  for (int i = 0; i < 1000; ++i) all_name_a();
  CHECK(view.primary() == a);
}

TEST_CASE("sentinels that all begin anew, with a lower epoch, are believed again") {
  SentinelView view(3);
  for (std::size_t i = 0; i < 3; ++i) view.on_report(i, {a, 7, {b, c}});
  for (std::size_t i = 0; i < 3; ++i) view.on_report(i, {c, 0, {b}});
  CHECK(view.primary() == c);
  CHECK(view.epoch() == 0);
}

TEST_CASE("a server that nobody knows, or knows any more, is not the primary, whatever it says") {
  SentinelView view(1);
  view.on_report(0, {a, 1, {b}});
  view.on_role(c, false);
  CHECK(!view.on_role(c, true));
  view.on_role(b, false);
  view.on_report(0, {a, 1, {c}});
  CHECK(!view.on_role(b, true));
}

TEST_CASE("replicas are collected from all sentinels of the newest configuration") {
  SentinelView view(3);
  view.on_report(0, {a, 1, {b}});
  view.on_report(1, {a, 1, {c}});
  CHECK(view.candidates() == std::vector<Address>{a, b, c});
}

TEST_CASE("a replica is down when more than half of all sentinels say so, and not before") {
  SentinelView view(3);
  auto says = [&](std::size_t sentinel, std::string id, std::vector<Address> down) {
    view.on_report(sentinel, {a, 1, {b, c}, std::move(down), std::move(id), 3});
  };
  CHECK(!view.is_down(c));
  says(0, "x", {c});
  CHECK(!view.is_down(c));
  says(1, "x", {c});  // the same sentinel at another address
  CHECK(!view.is_down(c));
  says(1, "y", {c});
  CHECK(view.is_down(c));
  CHECK(!view.is_down(b));
  says(2, "z", {});
  CHECK(view.is_down(c));
  view.on_silence(1);
  CHECK(!view.is_down(c));
  CHECK(view.candidates() == std::vector<Address>{a, b, c});
  says(1, "y", {c});
  SUBCASE("reports about an older configuration do not count") {
    view.on_report(2, {b, 2, {a, c}, {a}, "z", 3});
    CHECK(!view.is_down(c));
    CHECK(!view.is_down(a));
  }
  SUBCASE("nothing is known while a replica is being promoted") {
    view.on_role(b, false);
    CHECK(view.on_role(b, true));
    CHECK(!view.is_down(c));
  }
  SUBCASE("sentinels that are not configured here count, too") {
    view.on_report(0, {a, 1, {b, c}, {c}, "x", 5});
    CHECK(!view.is_down(c));
  }
}

TEST_CASE("a slot map is read from CLUSTER SLOTS; an empty host is that of the server asked") {
  auto slots = reply_of(
      "*2\r\n"
      "*4\r\n:0\r\n:8191\r\n*3\r\n$8\r\n10.0.0.1\r\n:6379\r\n$2\r\nid\r\n"
      "*3\r\n$8\r\n10.0.0.3\r\n:6379\r\n$3\r\nid3\r\n"
      "*3\r\n:8192\r\n:16383\r\n*3\r\n$0\r\n\r\n:6379\r\n$3\r\nid2\r\n");
  auto map = SlotMap::parse(slots, b);
  REQUIRE(map);
  REQUIRE(map->owner(0));
  CHECK(*map->owner(8191) == a);
  CHECK(*map->owner(8192) == b);
  CHECK(*map->owner(16383) == b);
  CHECK(map->replicas() == std::vector<Address>{c});
  for (const auto& member : {a, b, c}) CHECK(map->has(member));
  CHECK(!map->has({"10.0.0.4", 6379, ""}));
}

TEST_CASE("MOVED mends one slot of the map and no other") {
  SlotMap map;
  CHECK(map.owner(5) == nullptr);
  map.patch(5, a);
  CHECK(*map.owner(5) == a);
  CHECK(map.owner(4) == nullptr);
  map.patch(5, b);
  CHECK(*map.owner(5) == b);
}

TEST_CASE("the newest map counts, and among those of one epoch the one that most servers have") {
  SlotMap mine, theirs;
  mine.patch(5, a);
  theirs.patch(5, b);
  CHECK(newest_of({{7, mine}, {7, theirs}, {7, theirs}}).map == theirs);
  CHECK(newest_of({{7, theirs}, {7, mine}, {7, theirs}}).map == theirs);
  CHECK(newest_of({{8, mine}, {7, theirs}, {7, theirs}}).map == mine);
  CHECK(newest_of({{7, mine}}).epoch == 7);
}

TEST_CASE("a slot map that makes no sense is refused") {
  for (const char* bytes : {"*1\r\n*2\r\n:0\r\n:1\r\n", "*1\r\n:3\r\n",
                            "*1\r\n*3\r\n:0\r\n:99999\r\n*2\r\n$1\r\na\r\n:1\r\n",
                            "*1\r\n*3\r\n:9\r\n:1\r\n*2\r\n$1\r\na\r\n:1\r\n",
                            "*1\r\n*3\r\n:-5\r\n:1\r\n*2\r\n$1\r\na\r\n:1\r\n",
                            "*1\r\n*3\r\n:0\r\n:1\r\n*2\r\n$1\r\na\r\n:70000\r\n"}) {
    CAPTURE(bytes);
    CHECK(!SlotMap::parse(reply_of(bytes), a));
  }
}

TEST_CASE("a redirection says where to go; an empty host is that of the server that said it") {
  auto moved = parse_redirection("MOVED 3999 10.0.0.2:6379", a);
  REQUIRE(moved);
  CHECK(moved->slot == 3999);
  CHECK(moved->address == b);
  auto here = parse_redirection("ASK 1 :7000", a);
  REQUIRE(here);
  CHECK(here->address == Address{"10.0.0.1", 7000, ""});
  auto v6 = parse_redirection("MOVED 1 ::1:7000", a);
  REQUIRE(v6);
  CHECK(v6->address == Address{"::1", 7000, ""});
  for (const char* bad : {"MOVED", "MOVED 1", "MOVED x a:1", "MOVED 1 a", "MOVED 1 a:0",
                          "MOVED 99999 a:1", "MOVED 1 a:x", "MOVED -1 a:1", "MOVED 1 a:1x"}) {
    CAPTURE(bad);
    CHECK(!parse_redirection(bad, a));
  }
}

TEST_CASE("what a server of a cluster refuses goes on, waits or comes back to the caller") {
  using Kind = Onward::Kind;
  auto after = [](std::string words, CallOptions options = {}, std::size_t detours = 0) {
    return onward_from(a, Reply{Reply::Kind::error, 0, std::move(words), {}}, options, detours);
  };
  auto moved = after("MOVED 3999 10.0.0.2:6379"), asked = after("ASK 3999 10.0.0.2:6379");
  CHECK(moved.kind == Kind::moved);
  CHECK(moved.is_map_old);
  CHECK(moved.to.slot == 3999);
  CHECK(asked.kind == Kind::asked);
  CHECK(!asked.is_map_old);  // the slot is still here
  CHECK(asked.to.address == Address{"10.0.0.2", 6379, ""});
  CHECK(after("ASK 3999 10.0.0.2:6379", {}, 4).kind == Kind::asked);
  CHECK(after("ASK 3999 10.0.0.2:6379", {}, 5).kind == Kind::astray);
  auto nowhere = after("MOVED to nowhere");
  CHECK(nowhere.kind == Kind::told);
  CHECK(nowhere.why->code == Errc::protocol);

  const char* split = "TRYAGAIN Multiple keys request during rehashing of slot";
  CHECK(after(split).kind == Kind::later);
  auto told = after(split, CallOptions().unless_keys_are_split());
  CHECK(told.kind == Kind::told);
  CHECK(told.why->code == Errc::unavailable);
  CHECK(after("LOADING Redis is loading the dataset in memory").kind == Kind::later);
  CHECK(after("CLUSTERDOWN The cluster is down").is_map_old);
  CHECK(after("READONLY You can't write against a read only replica.").is_map_old);
  CHECK(after("WRONGTYPE Operation against a key").kind == Kind::told);
}
