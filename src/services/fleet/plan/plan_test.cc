#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <set>

#include "services/fleet/plan/claims.h"
#include "services/fleet/plan/demand.h"
#include "services/fleet/plan/drain_request.h"
#include "services/fleet/plan/gone.h"
#include "services/fleet/plan/owners.h"
#include "services/fleet/plan/placement.h"
#include "services/fleet/plan/records.h"
#include "services/fleet/plan/shelf.h"

namespace warren::fleet {
namespace {

constexpr auto start = Clock::time_point(1000s);
constexpr std::uint64_t mb = 1 << 20;

std::vector<Candidate> nodes(int count, std::uint64_t free = 100 * mb) {
  std::vector<Candidate> all;
  for (int i = 0; i < count; ++i) all.push_back({fmt::format("n{}", i), 100 * mb, free});
  return all;
}

Claims claims_of(const std::string& node, std::vector<Candidate> all) {
  Claims claims({.node = node, .seed = 1});
  claims.on_nodes(std::move(all));
  return claims;
}

}  // namespace

TEST_CASE("records are read back as they were written, and what is missing has its default") {
  RepoSpec spec{.url = "https://h/a.git",
                .refs = {"main", "v1"},
                .is_pinned = true,
                .priority = -3,
                .replicas = 2,
                .reindex = 7};
  auto back = parse_spec(to_json(spec));
  REQUIRE(back);
  CHECK(to_json(*back) == to_json(spec));
  auto bare = parse_spec(R"({"url":"u","unknown":[1]})");
  REQUIRE(bare);
  CHECK(bare->replicas == 1);
  RepoNote note{
      .commit_hash = "c", .is_ready = true, .phase = Phase::serving, .size_bytes = 1u << 31};
  auto read = parse_note(to_json(note));
  REQUIRE(read);
  CHECK(read->phase == Phase::serving);
  CHECK(read->size_bytes == 1u << 31);
  CHECK(parse_note(""));
  for (auto text : {"", "[]", "{", R"({"url":3})", R"({"refs":[1]})", R"({"replicas":"2"})"})
    CHECK_FALSE(parse_spec(text));
  CHECK_FALSE(parse_info(R"({"budget_bytes":-1})"));
}

TEST_CASE("a row is named after its repository and its slot") {
  CHECK(row_key("h/a/b", 2) == "h/a/b#2");
  auto parts = parse_row_key("h/a#b#12");
  REQUIRE(parts);
  CHECK(parts->repo == "h/a#b");
  CHECK(parts->slot == 12);
  for (auto key : {"h/a", "#1", "a#", "a#x", "a#-1"}) CHECK_FALSE(parse_row_key(key));
}

TEST_CASE(
    "pinned rows are offered first, then by priority, then what was asked for, then small ones") {
  RepoSpec plain, pinned{.url = "", .is_pinned = true}, wanted{.url = "", .priority = 1};
  CHECK(rank_of(pinned, 0, 1u << 30) > rank_of(wanted, 999'999, 0));
  CHECK(rank_of(wanted, 0, 1u << 30) > rank_of(plain, 999'999, 0));
  CHECK(rank_of(plain, 1, 1u << 30) > rank_of(plain, 0, 0));
  CHECK(rank_of(plain, 0, 10) > rank_of(plain, 0, 1u << 20));
  for (const auto& spec : {plain, pinned, wanted}) {
    CHECK(demand_of(rank_of(spec, 0, 1u << 20)) == 0);
    CHECK(demand_of(rank_of(spec, 17, 1u << 20)) == 17);
    CHECK(demand_of(rank_of(spec, 99'999, 0)) == 999);
  }
  CHECK(demand_of(rank_of(RepoSpec{.url = "", .priority = -1000}, 5, 0)) == 5);
  CHECK(check_rank(rank_of(RepoSpec{.url = "", .is_pinned = true, .priority = 1000}, 9999, 0)));
}

TEST_CASE(
    "repositories spread over nodes by their budgets, and a node that goes moves only its own") {
  auto all = nodes(4);
  all[3].budget_bytes = 200 * mb;
  std::map<std::string, int> first;
  for (int i = 0; i < 2000; ++i) ++first[order_for(fmt::format("r{}", i), all, mb).front()];
  for (auto name : {"n0", "n1", "n2"}) {
    CHECK(first[name] > 320);
    CHECK(first[name] < 480);
  }
  CHECK(first["n3"] > 700);
  auto fewer = all;
  fewer.pop_back();
  for (int i = 0; i < 500; ++i) {
    auto order = order_for(fmt::format("r{}", i), all, mb);
    std::erase(order, "n3");
    CHECK(order == order_for(fmt::format("r{}", i), fewer, mb));
  }
}

TEST_CASE("a node without room, or in a zone that has a replica, comes last or not at all") {
  auto all = nodes(3);
  all[0].free_bytes = mb;
  auto order = order_for("r", all, 2 * mb);
  CHECK(order.size() == 2);
  CHECK(std::ranges::find(order, "n0") == order.end());
  all[1].zone = "east";
  all[2].zone = "west";
  CHECK(order_for("r", all, 2 * mb, {"east"}) == std::vector<std::string>{"n2", "n1"});
  CHECK(order_for("r", all, 2 * mb, {"west"}) == std::vector<std::string>{"n1", "n2"});
}

TEST_CASE("the next owner of a slot is sought outside of the zones that have the others") {
  auto all = nodes(6);
  for (std::size_t i = 0; i < all.size(); ++i) all[i].zone = fmt::format("z{}", i / 2);
  auto row = [](int slot, std::string owner, int replicas = 3) {
    RepoSpec spec{.url = "https://h/a", .replicas = replicas};
    return Row{.key = row_key("h/a", slot), .spec = to_json(spec), .owner = std::move(owner)};
  };
  Owners owners;
  Changes everything;
  everything.is_everything = true;
  everything.rows = {row(0, "n0/1"), row(1, "n2/1"), row(2, "n4/1")};
  CHECK(owners.on_changes(everything) == std::set<std::string>{"h/a"});
  CHECK(owners.beside("h/a#0") == std::vector<std::string>{"n2", "n4"});

  // n0 drains: it is no candidate, and n1, in its zone, comes before those in zones that are taken.
  Placement others({all.begin() + 1, all.end()});
  auto order = others.order("h/a", mb, others.zones_of(owners.beside("h/a#0")));
  REQUIRE(order.size() == 5);
  CHECK(order.front() == "n1");

  Changes later;
  later.rows = {row(1, "n2/2"), row(2, "")};
  // Another life of the same node, and one without an owner.
  CHECK(owners.on_changes(later).empty());
  CHECK(owners.beside("h/a#0") == std::vector<std::string>{"n2"});
  later = {};
  later.removed = {"h/a#1"};
  owners.on_changes(later);
  CHECK(owners.beside("h/a#0").empty());
  later = {};
  later.rows = {row(0, "n0/1", 1)};
  owners.on_changes(later);
  CHECK(owners.beside("h/a#1").empty());
}

TEST_CASE("a node whose zone has got another slot lets nodes of other zones go first") {
  auto all = nodes(3);
  all[0].zone = all[1].zone = "east";
  all[2].zone = "west";
  Claims claims({.node = "n1", .step = 1s});
  claims.on_nodes(all);
  std::vector<Offer> offers{{.key = "h/a#1", .repo = "h/a", .bytes = mb}};
  auto now = Clock::now();
  claims.on_offers(now, offers);
  claims.on_beside(now, "h/a#1", {"n0"});
  // A look that says the same does not begin its turn anew.
  offers[0].zones = claims.zones_of({"n0"});
  CHECK(offers[0].zones == std::vector<std::string>{"east"});
  claims.on_offers(now + 3s, offers);
  CHECK_FALSE(claims.next(now + 999ms, 100 * mb));
  CHECK(claims.next(now + 3s, 100 * mb));
  // And one in a zone of its own does not wait for them.
  Claims west({.node = "n2", .step = 1s});
  west.on_nodes(all);
  west.on_offers(now, {{.key = "h/a#1", .repo = "h/a", .bytes = mb}});
  west.on_beside(now, "h/a#1", {"n0"});
  CHECK(west.next(now + 1s, 100 * mb));
}

TEST_CASE("a node's place is the one that it has in the order") {
  auto all = nodes(7);
  all[2].budget_bytes = 300 * mb;
  all[5].free_bytes = 1;
  for (std::size_t i = 0; i < all.size(); ++i) all[i].zone = i % 3 == 0 ? "east" : "west";
  Placement placement(all);
  for (int i = 0; i < 300; ++i) {
    auto repo = fmt::format("r{}", i);
    std::vector<std::string> taken;
    if (i % 2 == 0) taken = {"east"};
    auto order = placement.order(repo, mb, taken);
    CHECK(order == order_for(repo, all, mb, taken));
    for (std::size_t k = 0; k < order.size(); ++k)
      CHECK(placement.place(order[k], repo, mb, taken) == k);
    CHECK_FALSE(placement.place("n5", repo, mb, taken));
    CHECK_FALSE(placement.place("n9", repo, mb, taken));
  }
}

TEST_CASE("each node claims at its turn, and the best one a step before the next") {
  auto order = order_for("r", nodes(4), mb);
  std::map<std::string, Clock::time_point> turns;
  for (const auto& name : order) {
    auto claims = claims_of(name, nodes(4));
    claims.on_offers(start, {{.key = "r#0", .repo = "r", .bytes = mb}});
    auto turn = claims.wake_at();
    CHECK_FALSE(claims.next(turn - 1ms, 100 * mb));
    auto offer = claims.next(turn, 100 * mb);
    REQUIRE(offer);
    CHECK(offer->key == "r#0");
    CHECK_FALSE(claims.next(turn, 100 * mb));  // it is being asked for
    turns[name] = turn;
  }
  for (std::size_t i = 0; i < order.size(); ++i) {
    CHECK(turns[order[i]] >= start + i * 250ms);
    CHECK(turns[order[i]] <= start + (i + 1) * 250ms);
  }
}

TEST_CASE(
    "who has a mirror of a repository comes before the others, unless its zone has a replica") {
  auto last = [](std::vector<std::string> taken) {
    auto all = nodes(8);
    for (auto& node : all) node.zone = node.name;
    auto order = order_for("r", all, mb);
    auto claims = claims_of(order.back(), all);
    claims.on_offers(start, {{.key = "r#0",
                              .repo = "r",
                              .bytes = mb,
                              .zones = taken.empty() ? taken : std::vector{order.back()},
                              .has_mirror = true}});
    return claims.wake_at() - start;
  };
  CHECK(last({}) <= 8 * 250ms / 16);
  CHECK(last({"its own"}) >= 7 * 250ms);
}

TEST_CASE("a look that shows the same offer again does not begin its turn anew") {
  auto claims = claims_of("n0", nodes(1));
  claims.on_offers(start, {{.key = "r#0", .repo = "r"}});
  auto turn = claims.wake_at();
  claims.on_offers(start + 100ms, {{.key = "r#0", .repo = "r"}});
  CHECK(claims.wake_at() == turn);
  claims.on_offers(start + 200ms, {});
  CHECK(claims.wake_at() == Clock::time_point::max());
}

TEST_CASE("what does not fit is not claimed, what is in memory is claimed first, and why is told") {
  auto claims = claims_of("n0", nodes(2));
  claims.on_offers(start, {{.key = "big#0", .repo = "big", .bytes = 50 * mb},
                           {.key = "here#0", .repo = "here", .bytes = 50 * mb, .is_here = true},
                           {.key = "ours#1", .repo = "ours", .is_ours = true},
                           {.key = "huge#0", .repo = "huge", .bytes = 500 * mb}});
  auto now = start + 10s;
  auto offer = claims.next(now, 10 * mb);
  REQUIRE(offer);
  CHECK(offer->key == "here#0");
  CHECK_FALSE(claims.next(now, 10 * mb));
  CHECK(claims.why_not(now, "big#0", 10 * mb).contains("are free"));
  CHECK(claims.why_not(now, "ours#1", 10 * mb).contains("another replica"));
  CHECK(claims.why_not(now, "huge#0", 1000 * mb).contains("no node has"));
  CHECK(claims.why_not(now, "none#0", 10 * mb).contains("not on offer"));
  offer = claims.next(now + 5s, 100 * mb);
  REQUIRE(offer);
  CHECK(offer->key == "big#0");
}

TEST_CASE("an offer that somebody took is not claimed, and needs no second look") {
  auto claims = claims_of("n0", nodes(1));
  claims.on_offers(start, {{.key = "a#0", .repo = "a"}, {.key = "b#0", .repo = "b"}});
  claims.on_taken("a#0");
  CHECK(claims.next(start + 1s, mb)->key == "b#0");
  CHECK_FALSE(claims.next(start + 1s, mb));
}

TEST_CASE("a node with enough to bring claims only what it has in memory") {
  Claims claims({.node = "n0", .most_unready = 2});
  claims.on_nodes(nodes(1));
  claims.on_offers(start, {{.key = "a#0", .repo = "a"},
                           {.key = "here#0", .repo = "here", .bytes = mb, .is_here = true}});
  auto now = start + 1s;
  CHECK(claims.next(now, mb, 2)->key == "here#0");
  CHECK_FALSE(claims.next(now, mb, 2));
  CHECK(claims.wake_at() > now);
  CHECK(claims.next(claims.wake_at(), mb, 1)->key == "a#0");
}

TEST_CASE("offers that nobody has room for do not hide the others for long") {
  auto claims = claims_of("n0", nodes(1));
  auto look = [&](std::size_t huge) {
    std::vector<Offer> offers;
    for (std::size_t i = 0; i < claims.wanted_offers(); ++i)
      offers.push_back({.key = fmt::format("r{:04}#0", i),
                        .repo = fmt::format("r{:04}", i),
                        .bytes = i < huge ? 500 * mb : mb});
    claims.on_offers(start, std::move(offers));
  };
  CHECK(claims.wanted_offers() == 64);
  look(100);
  CHECK(claims.wanted_offers() == 128);
  look(100);
  CHECK(claims.wanted_offers() == 128);
  CHECK(claims.next(start + 1s, 100 * mb)->key == "r0100#0");
  for (int i = 0; i < 20; ++i) look(100'000);
  CHECK(claims.wanted_offers() == Claims::most_offers);
  claims.on_offers(start, {{.key = "a#0", .repo = "a"}});
  CHECK(claims.wanted_offers() == 64);
  look(0);
  CHECK(claims.wanted_offers() == 64);
  auto refuses = [](const Offer&) { return false; };
  CHECK_FALSE(claims.next(start + 1s, refuses));
  look(0);
  CHECK(claims.wanted_offers() == 128);
}

TEST_CASE("of many nodes each looks at more, and again when all that it saw is taken") {
  auto claims = claims_of("n0", nodes(100));
  claims.on_offers(start, {{.key = "a#0", .repo = "a"}});
  CHECK(claims.wanted_offers() == 200);
  claims.on_taken("a#0");
  CHECK_FALSE(claims.wants_look());  // there was no more
  std::vector<Offer> offers;
  for (int i = 0; i < 200; ++i)
    offers.push_back({.key = fmt::format("{}#0", i), .repo = fmt::format("{}", i)});
  claims.on_offers(start, std::move(offers));
  CHECK_FALSE(claims.wants_look());
  for (int i = 0; i < 200; ++i) claims.on_taken(fmt::format("{}#0", i));
  CHECK(claims.wants_look());
}

TEST_CASE(
    "what fails is not offered for twice as long each time, for ten minutes at most, and half of "
    "that "
    "more or less by chance") {
  CHECK(pause_after(0, 0.5) == 5s);
  CHECK(pause_after(1, 0.5) == 10s);
  CHECK(pause_after(6, 0.5) == 320s);
  CHECK(pause_after(7, 0.5) == 10min);
  CHECK(pause_after(4'000'000'000u, 0.5) == 10min);
  CHECK(pause_after(1, 0) == 5s);
  CHECK(pause_after(1, 1) == 15s);
  auto pauses = [](std::uint64_t seed) {
    Claims claims({.node = "n0", .seed = seed});
    std::vector<std::chrono::milliseconds> all;
    for (int i = 0; i < 50; ++i) all.push_back(claims.pause(1));
    return all;
  };
  CHECK(pauses(7) == pauses(7));
  CHECK(pauses(7) != pauses(8));
  auto [shortest, longest] = std::ranges::minmax(pauses(7));
  CHECK(shortest >= 5s);
  CHECK(shortest < 6s);
  CHECK(longest > 14s);
  CHECK(longest <= 15s);
}

TEST_CASE("what a node has evicted it leaves to the others for ten minutes, if one has room") {
  Shelf shelf({.budget_bytes = 100 * mb});
  shelf.put(start, "r", {.bytes = 10 * mb});
  CHECK_FALSE(shelf.was_evicted(start, "r"));
  shelf.on_evicted(start, "r");
  CHECK(shelf.was_evicted(start + 9min, "r"));
  CHECK_FALSE(shelf.was_evicted(start + 10min, "r"));

  auto all = nodes(2);
  all[1].free_bytes = 40 * mb;
  Offer offer{.key = "r#0", .repo = "r", .bytes = 20 * mb, .was_evicted = true};
  auto would_claim = [&](const Offer& what) {
    auto claims = claims_of("n0", all);
    claims.on_offers(start, {what});
    return claims.next(start + 1s, 100 * mb).has_value();
  };
  CHECK_FALSE(would_claim(offer));
  auto claims = claims_of("n0", all);
  claims.on_offers(start, {offer});
  CHECK(claims.why_not(start, "r#0", 100 * mb).contains("evicted here"));
  auto asked_for = offer;
  asked_for.demand = 1;
  CHECK(would_claim(asked_for));
  auto pinned = offer;
  pinned.is_pinned = true;
  CHECK(would_claim(pinned));
  all[1].free_bytes = 19 * mb;
  CHECK(would_claim(offer));
  all.pop_back();
  CHECK(would_claim(offer));
}

TEST_CASE("an offer takes what its last owner said of it, and what was too large says how large") {
  auto offer = offer_of("a#0", "a", rank_of({}, 3, 0), {});
  CHECK(offer.bytes == 32 * mb);
  CHECK(offer.demand == 3);
  RepoNote note{.memory_bytes = 5 * mb, .fetch_ms = 1500, .index_ms = 500};
  CHECK(offer_of("a#0", "a", 0, note).bytes == 18 * mb);
  CHECK(offer_of("a#0", "a", 0, note).rebuild_seconds == 2);
  CHECK(offer.rebuild_seconds > 1);  // as long as it usually takes
  CHECK(offer_of("a#0", "a", 0, with_peak(note, 78 * mb)).bytes == 78 * mb);
  CHECK(offer_of("a#0", "a", 0, with_peak(note, mb)).bytes <= 9 * mb);
}

TEST_CASE("what is too large for all is made room for by who lacks least, by demotion") {
  auto all = nodes(3, 20 * mb);
  all[1].hot_bytes = 70 * mb;
  for (auto name : {"n0", "n1", "n2"}) {
    auto claims = claims_of(name, all);
    auto lacks = [&](std::uint64_t bytes, std::uint64_t demand) {
      claims.on_offers(start, {{.key = "r#0", .repo = "r", .bytes = bytes, .demand = demand}});
      return claims.lacks_room();
    };
    bool is_it = std::string(name) == "n1";
    CHECK(lacks(50 * mb, 0) == (is_it ? 50 * mb : 0));
    CHECK(lacks(50 * mb, 2) == (is_it ? 50 * mb : 0));
    CHECK(lacks(15 * mb, 0) == 0);
    CHECK(lacks(60 * mb, 0) == 0);  // that much it could never free
  }
  Shelf shelf({.budget_bytes = 100 * mb});
  for (auto repo : {"a", "b"}) shelf.put(start, repo, {.bytes = 40 * mb});
  CHECK_FALSE(shelf.next(start + 1h));
  shelf.want_room(50 * mb);
  for (auto repo : {"a", "b"}) {
    auto step = shelf.next(start + 1h);
    REQUIRE(step);
    CHECK(step->act == Shelf::Act::demote);
    CHECK(step->repo == repo);
    shelf.put(start + 1h, repo, {.bytes = 15 * mb, .is_warm = true});
  }
  CHECK_FALSE(shelf.next(start + 1h));
}

TEST_CASE("who refused what people ask for demotes for it") {
  auto all = nodes(2, 20 * mb);
  all[0].hot_bytes = 70 * mb;
  all[1].hot_bytes = 75 * mb;
  auto claims = claims_of("n0", all);
  Offer offer{.key = "r#0", .repo = "r", .bytes = 50 * mb, .demand = 1};
  claims.on_offers(start, {offer});
  CHECK(claims.lacks_room() == 0);  // n1 could free more
  CHECK_FALSE(claims.next(start + 1s, 20 * mb));
  claims.on_offers(start + 1s, {offer});
  CHECK(claims.lacks_room() == 50 * mb);
  offer.demand = 0;
  claims.on_offers(start + 2s, {offer});
  CHECK(claims.lacks_room() == 0);
}

TEST_CASE("only for what people ask for does anybody go") {
  Shelf shelf({.budget_bytes = 100 * mb});
  shelf.put(start, "a", {.bytes = 80 * mb, .is_warm = true});
  auto now = start + 10min;
  Offer offer{.key = "r#0", .repo = "r", .bytes = 30 * mb};
  CHECK_FALSE(room_for(now, shelf, offer));
  offer.demand = 5;
  CHECK(*room_for(now, shelf, offer) == std::vector<std::string>{"a"});
  offer.bytes = 10 * mb;
  CHECK(room_for(now, shelf, offer)->empty());
  offer.demand = 0;
  offer.bytes = 1000 * mb;
  offer.is_here = true;
  CHECK(room_for(now, shelf, offer)->empty());
}

TEST_CASE("for what is pinned others go, though nobody asks for it and they are asked for often") {
  Shelf shelf({.budget_bytes = 100 * mb});
  shelf.put(start, "a", {.bytes = 40 * mb, .is_warm = true});
  shelf.put(start, "b", {.bytes = 40 * mb, .is_warm = true, .is_pinned = true});
  auto now = start + 10min;
  for (int i = 0; i < 1000; ++i) shelf.on_served(now, "a");
  Offer offer{.key = "r#0", .repo = "r", .bytes = 30 * mb};
  CHECK_FALSE(room_for(now, shelf, offer));
  offer.is_pinned = true;
  CHECK(*room_for(now, shelf, offer) == std::vector<std::string>{"a"});
  offer.bytes = 70 * mb;  // it would fit only without the other pinned one
  CHECK_FALSE(room_for(now, shelf, offer));
  offer.bytes = 30 * mb;
  CHECK_FALSE(room_for(start + 1min, shelf, offer));  // "a" is too young to go

  // Every node has a turn for it, and a node that refuses it demotes for it.
  auto all = nodes(2, 20 * mb);
  all[0].hot_bytes = 40 * mb;
  all[1].hot_bytes = 75 * mb;
  auto claims = claims_of("n0", all);
  claims.on_offers(start, {offer});
  CHECK_FALSE(claims.next(start + 1s, 20 * mb));
  claims.on_offers(start + 1s, {offer});
  CHECK(claims.lacks_room() == 30 * mb);
  offer.bytes = 90 * mb;  // demoting is not enough, but comes before any eviction
  claims.on_offers(start + 2s, {offer});
  CHECK(claims.lacks_room() == 90 * mb);
  offer.bytes = 30 * mb;
  NodeInfo info{.endpoint = "", .budget_bytes = 100 * mb, .used_bytes = 70 * mb};
  CHECK(why_refused(info, offer).empty());
}

TEST_CASE("why a node refuses an offer can be told from what it says of itself") {
  for (std::uint64_t used : {0, 40, 60, 70, 80, 95})
    for (std::uint64_t bytes : {10, 20, 40, 200})
      for (std::uint64_t demand : {0, 5}) {
        CAPTURE(used);
        CAPTURE(bytes);
        CAPTURE(demand);
        Shelf shelf({.budget_bytes = 100 * mb});
        shelf.put(start, "a", {.bytes = used * mb});  // hot and young: nothing goes for another
        Offer offer{.key = "r#0", .repo = "r", .bytes = bytes * mb, .demand = demand};
        NodeInfo info{.endpoint = "", .budget_bytes = shelf.budget(), .used_bytes = shelf.used()};
        CHECK(why_refused(info, offer).empty() == room_for(start, shelf, offer).has_value());
      }
  Offer offer{.key = "r#0", .repo = "r", .bytes = 40'000'000};
  NodeInfo info{.endpoint = "", .budget_bytes = 80'000'000, .used_bytes = 77'000'000};
  CHECK(why_refused(info, offer) == "has 3.0 of 80.0 MB free");
  info.used_bytes = 70'000'000;
  offer.bytes = 9'000'000;
  CHECK(why_refused(info, offer) == "would be more than 90 % full");
  info.is_draining = true;
  CHECK(why_refused(info, offer) == "is being drained");
}

TEST_CASE("for what people ask for every node has a turn, with room or without") {
  Claims claims({.node = "n0"});
  claims.on_nodes(nodes(3, mb));
  claims.on_offers(start, {{.key = "a#0", .repo = "a", .bytes = 50 * mb, .demand = 1},
                           {.key = "b#0", .repo = "b", .bytes = 50 * mb},
                           {.key = "c#0", .repo = "c", .bytes = 500 * mb, .demand = 1}});
  auto makes_room = [](const Offer& offer) { return offer.demand > 0; };
  CHECK(claims.next(start + 2s, makes_room)->key == "a#0");
  CHECK_FALSE(claims.next(start + 2s, makes_room));
  CHECK(claims.why_not(start, "c#0", mb).contains("are free"));
}

TEST_CASE("a reservation counts against room, and evicts nobody") {
  Shelf shelf({.budget_bytes = 100 * mb});
  shelf.put(start, "a", {.bytes = 60 * mb});
  CHECK_FALSE(shelf.reserve("b", 50 * mb));
  CHECK(shelf.reserve("b", 40 * mb));
  CHECK(shelf.reserve("b", 30 * mb));  // the same build, smaller
  CHECK(shelf.free() == 10 * mb);
  CHECK_FALSE(shelf.next(start + 1h));
  shelf.unreserve("b");
  CHECK(shelf.free() == 40 * mb);
  CHECK(shelf.hot() == 60 * mb);
  shelf.put(start, "a", {.bytes = 30 * mb, .is_warm = true});
  CHECK(shelf.hot() == 0);
  shelf.put(start, "b", {.bytes = 10 * mb});
  CHECK(shelf.hot() == 10 * mb);
  shelf.remove("b");
  CHECK(shelf.hot() == 0);
  CHECK(shelf.used() == 30 * mb);
}

TEST_CASE("what is worth least is demoted first, and evicted only under lasting pressure") {
  Shelf shelf({.budget_bytes = 100 * mb});
  for (auto repo : {"a", "b", "c"}) shelf.put(start, repo, {.bytes = 14 * mb});
  shelf.put(start, "rest", {.bytes = 51 * mb, .is_warm = true, .is_pinned = true});
  auto now = start + 10min;
  for (int i = 0; i < 10; ++i) {
    shelf.on_served(now, "a");
    if (i < 5) shelf.on_served(now, "c");
  }
  auto step = shelf.next(now);
  REQUIRE(step);
  CHECK(step->act == Shelf::Act::demote);
  CHECK(step->repo == "b");
  for (auto repo : {"b", "c", "a"}) {  // demoted one by one, and still too much
    REQUIRE(shelf.next(now)->repo == repo);
    shelf.put(now, repo, {.bytes = 14 * mb, .is_warm = true});
  }
  CHECK(shelf.counters().demoted == 3);
  CHECK_FALSE(shelf.next(now + 59s));
  step = shelf.next(now + 61s);
  REQUIRE(step);
  CHECK(step->act == Shelf::Act::evict);
  CHECK(step->repo == "b");
  shelf.on_evicted(now + 61s, "b");
  CHECK_FALSE(shelf.next(now + 10min));
  CHECK(shelf.on_missed(now + 2min, "b"));
  CHECK_FALSE(shelf.on_missed(now + 1h, "b"));
  CHECK(shelf.counters().regretted == 1);
}

TEST_CASE("what there is no room to compress is not demoted") {
  Shelf shelf({.budget_bytes = 100 * mb});
  shelf.put(start, "large", {.bytes = 60 * mb});
  shelf.put(start, "small", {.bytes = 30 * mb, .rebuild_seconds = 100});
  auto step = shelf.next(start + 1min);
  CHECK_FALSE(step);  // 10 MB are free, and both need more
  shelf.put(start, "small", {.bytes = 20 * mb, .rebuild_seconds = 100});
  shelf.put(start, "large", {.bytes = 66 * mb});
  step = shelf.next(start + 1min);
  REQUIRE(step);
  CHECK(step->repo == "small");  // though it is worth more
}

TEST_CASE("pinned and young repositories stay, whatever the pressure") {
  Shelf shelf({.budget_bytes = 100 * mb});
  shelf.put(start, "pinned", {.bytes = 60 * mb, .is_warm = true, .is_pinned = true});
  shelf.put(start + 10min, "young", {.bytes = 39 * mb, .is_warm = true});
  CHECK_FALSE(shelf.next(start + 11min));
  auto step = shelf.next(start + 16min);  // 99 %: at once
  REQUIRE(step);
  CHECK(step->repo == "young");
  shelf.on_pinned("young", true);
  CHECK_FALSE(shelf.next(start + 16min));
}

TEST_CASE("by the policy lru the one that was served longest ago goes") {
  Shelf shelf({.budget_bytes = 100 * mb, .policy = EvictionPolicy::lru});
  shelf.put(start, "often", {.bytes = 49 * mb, .is_warm = true, .rebuild_seconds = 100});
  shelf.put(start, "once", {.bytes = 49 * mb, .is_warm = true});
  for (int i = 0; i < 100; ++i) shelf.on_served(start + 10s, "often");
  shelf.on_served(start + 20s, "once");
  CHECK(shelf.next(start + 10min)->repo == "often");
}

TEST_CASE("room for a repository that somebody waits for is made of what is worth least") {
  Shelf shelf({.budget_bytes = 100 * mb});
  for (auto repo : {"a", "b", "c"}) shelf.put(start, repo, {.bytes = 30 * mb});
  auto now = start + 10min;
  shelf.on_served(now, "a");
  shelf.put(start, "c", {.bytes = 15 * mb});
  CHECK_FALSE(shelf.room_for(now, {.bytes = 40 * mb, .queries = 1}));  // it can be demoted
  for (auto repo : {"a", "b", "c"}) shelf.put(start, repo, {.bytes = 30 * mb, .is_warm = true});
  auto room = [&](Clock::time_point when, std::uint64_t bytes, std::uint64_t queries) {
    return shelf.room_for(when, {.bytes = bytes, .queries = queries});
  };
  CHECK(room(now, 10 * mb, 1)->empty());
  CHECK(*room(now, 40 * mb, 1) == std::vector<std::string>{"b"});
  CHECK(*room(now, 70 * mb, 2) == std::vector<std::string>{"b", "c"});
  CHECK_FALSE(room(now, 100 * mb, 1));  // "a" is worth as much
  CHECK(room(now, 100 * mb, 1000));
  CHECK_FALSE(room(now, 200 * mb, 1000));
  CHECK_FALSE(room(start + 1min, 40 * mb, 1));  // all too young
  shelf.on_evicted(now, "b");
  CHECK_FALSE(room(now + 1s, 60 * mb, 1));  // its effect is awaited
  CHECK(room(now + 31s, 60 * mb, 1));
}

TEST_CASE("what is asked for in vain is told once in a while, with how often lately") {
  Demand demand;
  CHECK_FALSE(demand.next(start));
  for (int i = 0; i < 3; ++i) demand.on_asked(start, "a");
  demand.on_asked(start, "b");
  auto asked = demand.next(start);
  REQUIRE(asked);
  CHECK(asked->repo == "a");
  CHECK(asked->queries == 3);
  CHECK(demand.next(start)->repo == "b");
  demand.on_asked(start + 10s, "a");
  CHECK_FALSE(demand.next(start + 29s));
  CHECK(demand.next(start + 30s)->queries == 4);
  CHECK_FALSE(demand.next(start + 10min));  // nobody has asked since
  demand.on_asked(start + 10min + 10s, "a");
  CHECK(demand.next(start + 10min + 10s)->queries == 3);
  demand.on_served("a");
  demand.on_asked(start + 11min, "a");
  CHECK(demand.next(start + 11min)->queries == 1);
}

TEST_CASE("what nobody waits for is taken only where it presses out nobody") {
  Shelf shelf({.budget_bytes = 100 * mb});
  CHECK(shelf.admits(100 * mb));
  shelf.put(start, "a", {.bytes = 80 * mb});
  CHECK(shelf.admits(20 * mb));
  CHECK_FALSE(shelf.admits(21 * mb));
  shelf.put(start, "b", {.bytes = 5 * mb});
  CHECK(shelf.admits(10 * mb));
  CHECK_FALSE(shelf.admits(11 * mb));
  CHECK(shelf.reserve("c", 15 * mb));  // for one that somebody waits for
}

TEST_CASE("the wish to drain a node is a row of no repository, for one life of it") {
  auto row = row_of("n1/8f3a", {.within = 90s});
  CHECK(check_row(row));
  CHECK_FALSE(parse_row_key(row.key));
  CHECK(session_of_drain(row.key) == "n1/8f3a");
  CHECK(parse_drain(row.spec).within == 90s);
  CHECK(row.rank < rank_of({.url = "u", .priority = -1000}, 0, std::uint64_t{1} << 60));
  CHECK_FALSE(session_of_drain("drain:host/a#0"));
  CHECK_FALSE(session_of_drain("host/a#0"));
  CHECK(parse_drain("nonsense").within == DrainRequest().within);
}

TEST_CASE("the grace of a repository that is gone is the catalog's waits, one after the other") {
  Gone seen{.url = "https://host/a", .why = "not found"};
  auto first = next_wait("", seen, 30h);
  REQUIRE(first);
  CHECK(first->wait == 24h);
  CHECK(first->error.empty());
  auto kept = parse_gone(first->note.value_or(""));
  REQUIRE(kept);
  CHECK(kept->why == "not found");
  CHECK(kept->left == 6h);
  auto second = next_wait(*first->note, seen, 30h);
  REQUIRE(second);
  CHECK(second->wait == 6h);
  CHECK_FALSE(next_wait(*second->note, seen, 30h));
  // Another URL is another repository, and a shorter grace holds for what is left.
  seen.url = "https://host/b";
  auto anew = next_wait(*second->note, seen, 1h);
  REQUIRE(anew);
  CHECK(anew->wait == 1h);
  seen.url = "https://host/a";
  auto shorter = next_wait(*first->note, seen, 1h);
  REQUIRE(shorter);
  CHECK(shorter->wait == 1h);
  CHECK_FALSE(parse_gone("{}"));
  CHECK_FALSE(parse_gone("no JSON"));
}

TEST_CASE("the row that counts a grace is taken for no repository's, whatever that is called") {
  for (const char* name : {"host/a", "a#1", "drain:host/a", "x#gone"}) {
    auto key = gone_key(name);
    CHECK(repo_of_gone(key) == name);
    CHECK_FALSE(parse_row_key(key));
    CHECK_FALSE(session_of_drain(key));
    CHECK(check_row(gone_row(name)));
  }
  CHECK_FALSE(repo_of_gone("host/a#0"));
  CHECK_FALSE(repo_of_gone("#gone"));
}

}  // namespace warren::fleet
