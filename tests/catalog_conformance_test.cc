// What a catalog promises, asked of every engine that keeps one.
#include <doctest/doctest.h>

#include <map>
#include <set>

#include "primitives/catalog/catalog.h"
#include "primitives/catalog/returns.h"
#include "proof/testkit/faulty_link.h"
#include "proof/testkit/run.h"
#include "tests/with_etcd_catalog.h"
#include "tests/with_postgres_catalog.h"
#include "tests/with_redis_catalog.h"

namespace warren {
namespace {

Clock::time_point soon() { return Clock::now() + 20s; }

// Runs body(place, catalog) and closes the catalog however that ends.
template <class Place, class Body, class... Args>
void with_catalog(Body body, Args&... args) {
  Place place;
  run([](Place& where, Body work, Args&... others) -> awaitable<void> {
    auto catalog = co_await where.open();
    REQUIRE(catalog);
    std::exception_ptr thrown;
    try {
      co_await work(where, **catalog, others...);
    } catch (...) {
      thrown = std::current_exception();
    }
    co_await (*catalog)->close();
    if (thrown) std::rethrow_exception(thrown);
  }(place, std::move(body), args...));
}

awaitable<NodeSession> joined(Catalog& catalog, std::string name,
                              std::chrono::milliseconds ttl = 30s) {
  auto session = co_await catalog.join(std::move(name), "{}", ttl, soon());
  REQUIRE(session);
  co_return *session;
}

awaitable<void> add_rows(Catalog& catalog, std::vector<Row> rows) {
  auto count = rows.size();
  auto added = co_await catalog.add(std::move(rows), soon());
  REQUIRE(added);
  REQUIRE(*added == count);
}

awaitable<Claim> claimed(Catalog& catalog, NodeSession session, std::string key) {
  auto claim = co_await catalog.claim(std::move(session), std::move(key), soon());
  REQUIRE_MESSAGE(claim, (claim ? "" : claim.error().what));
  co_return *claim;
}

awaitable<std::map<std::string, Row>> all_rows(Catalog& catalog) {
  auto changes = co_await catalog.changes("", Clock::now(), soon());
  REQUIRE(changes);
  REQUIRE(changes->is_everything);
  std::map<std::string, Row> rows;
  for (auto& row : changes->rows) rows[row.key] = row;
  co_return rows;
}

awaitable<Row> row_of(Catalog& catalog, std::string key) {
  auto rows = co_await all_rows(catalog);
  REQUIRE(rows.contains(key));
  co_return rows[key];
}

std::vector<std::string> keys_of(const std::vector<Row>& rows) {
  std::vector<std::string> keys;
  for (const auto& row : rows) keys.push_back(row.key);
  return keys;
}

// Named first: g++ 12 destroys a list twice that stands inside of co_await.
template <class... Words>
std::vector<std::string> keys(const Words&... words) {
  return {words...};
}

template <class T>
Errc code_of(const Result<T>& result) {
  REQUIRE_FALSE(result);
  return result.error().code;
}

// Runs body(catalog, far, link): both are the same catalog, and what goes to `far` passes the link.
template <class Place, class Body>
void with_far_catalog(Body body) {
  auto both = [](Place& place, Catalog& catalog, Body& work) -> awaitable<void> {
    FaultyLink link(place.port());
    auto far = co_await place.open_at(link.port());
    REQUIRE(far);
    std::exception_ptr thrown;
    try {
      co_await work(catalog, **far, link);
    } catch (...) {
      thrown = std::current_exception();
    }
    link.heal();
    co_await (*far)->close();
    if (thrown) std::rethrow_exception(thrown);
  };
  with_catalog<Place>(both, body);
}

// A node that nobody hears of again: waits until its lease has ended, by the catalog's word.
awaitable<void> until_dead(Catalog& catalog, NodeSession session) {
  auto is_gone = [](Catalog& where, NodeSession& who) -> awaitable<bool> {
    auto nodes = co_await where.nodes(soon());
    REQUIRE(nodes);
    for (const auto& node : *nodes)
      if (node.session == who) co_return false;
    co_return true;
  };
  co_await eventually(60s, "the lease of a silent node ends", is_gone, catalog, session);
}

}  // namespace

#define PLACES RedisPlace, PostgresPlace, EtcdPlace

TEST_CASE_TEMPLATE("a row is claimed by one node, written under its epoch and given back", Place,
                   PLACES) {
  with_catalog<Place>([](Place&, Catalog& catalog) -> awaitable<void> {
    std::vector<Row> some{{.key = "a#0", .spec = "{\"url\":\"x\"}", .rank = 7}};
    co_await add_rows(catalog, std::move(some));
    auto alice = co_await joined(catalog, "alice");
    auto bob = co_await joined(catalog, "bob");
    CHECK(node_name(alice) == "alice");

    auto claim = co_await claimed(catalog, alice, "a#0");
    auto refused = co_await catalog.claim(bob, "a#0", soon());
    CHECK(code_of(refused) == Errc::held_elsewhere);
    CHECK(refused.error().what.contains("alice"));
    auto row = co_await row_of(catalog, "a#0");
    CHECK(row.state == RowState::claimed);
    CHECK(row.owner == alice);
    CHECK(row.epoch == claim.epoch);
    CHECK(row.spec == "{\"url\":\"x\"}");
    CHECK(row.rank == 7);

    auto written =
        co_await catalog.write(claim, RowState::ready, "{\"commit_hash\":\"c1\"}", soon());
    REQUIRE(written);
    auto drains = co_await catalog.write(claim, RowState::draining, {}, soon());
    REQUIRE(drains);
    row = co_await row_of(catalog, "a#0");
    CHECK(row.state == RowState::draining);
    CHECK(row.note == "{\"commit_hash\":\"c1\"}");

    Release how;
    auto released = co_await catalog.release(claim, how, soon());
    REQUIRE(released);
    row = co_await row_of(catalog, "a#0");
    CHECK(row.state == RowState::free);
    CHECK(row.owner.empty());
    CHECK(row.note == "{\"commit_hash\":\"c1\"}");
    auto next = co_await claimed(catalog, bob, "a#0");
    CHECK(next.epoch > claim.epoch);
  });
}

TEST_CASE_TEMPLATE("a write under an older epoch, or by another node, changes nothing", Place,
                   PLACES) {
  with_catalog<Place>([](Place&, Catalog& catalog) -> awaitable<void> {
    std::vector<Row> some{{.key = "a"}};
    co_await add_rows(catalog, std::move(some));
    auto alice = co_await joined(catalog, "alice");
    auto bob = co_await joined(catalog, "bob");
    auto first = co_await claimed(catalog, alice, "a");
    Release how;
    auto released = co_await catalog.release(first, how, soon());
    REQUIRE(released);
    auto second = co_await claimed(catalog, alice, "a");
    CHECK(second.epoch > first.epoch);

    auto stale = co_await catalog.write(first, RowState::ready, "stale", soon());
    CHECK(code_of(stale) == Errc::lease_lost);
    Claim forged{bob, "a", second.epoch};
    auto foreign = co_await catalog.write(forged, RowState::ready, "foreign", soon());
    CHECK(code_of(foreign) == Errc::lease_lost);
    auto late = co_await catalog.release(first, how, soon());
    CHECK(code_of(late) == Errc::lease_lost);
    Claim absent{alice, "b", second.epoch};
    auto nowhere = co_await catalog.write(absent, RowState::ready, {}, soon());
    CHECK(code_of(nowhere) == Errc::lease_lost);
    auto row = co_await row_of(catalog, "a");
    CHECK(row.state == RowState::claimed);
    CHECK(row.note.empty());
    CHECK(row.epoch == second.epoch);
  });
}

TEST_CASE_TEMPLATE("calls whose answer was lost may be made again", Place, PLACES) {
  with_catalog<Place>([](Place&, Catalog& catalog) -> awaitable<void> {
    std::vector<Row> some{{.key = "a"}, {.key = "b"}};
    co_await add_rows(catalog, std::move(some));
    std::vector<Row> more{{.key = "a", .spec = "other"}, {.key = "c"}};
    auto again = co_await catalog.add(std::move(more), soon());
    REQUIRE(again);
    CHECK(*again == 1);
    auto kept = co_await row_of(catalog, "a");
    CHECK(kept.spec.empty());

    auto alice = co_await joined(catalog, "alice");
    auto bob = co_await joined(catalog, "bob");
    auto claim = co_await claimed(catalog, alice, "a");
    auto same = co_await claimed(catalog, alice, "a");
    CHECK(same.epoch == claim.epoch);
    for (int i = 0; i < 2; ++i) {
      auto written = co_await catalog.write(claim, RowState::ready, "n", soon());
      CHECK(written);
    }
    auto given = co_await catalog.hand_over(claim, bob, soon());
    REQUIRE(given);
    auto repeated = co_await catalog.hand_over(claim, bob, soon());
    REQUIRE(repeated);
    CHECK(repeated->epoch == given->epoch);
    Release how;
    for (int i = 0; i < 2; ++i) {
      auto released = co_await catalog.release(*given, how, soon());
      CHECK(released);
    }
    for (int i = 0; i < 2; ++i) {
      auto left = co_await catalog.leave(bob, soon());
      CHECK(left);
    }
    auto removed = co_await catalog.remove(keys("a", "b"), soon());
    REQUIRE(removed);
    CHECK(*removed == 2);
    auto gone = co_await catalog.remove(keys("a", "b"), soon());
    REQUIRE(gone);
    CHECK(*gone == 0);
  });
}

TEST_CASE_TEMPLATE(
    "all rows of a node that falls silent are offered again, and its late writes refused", Place,
    PLACES) {
  with_catalog<Place>([](Place&, Catalog& catalog) -> awaitable<void> {
    std::vector<Row> rows;
    for (int i = 0; i < 300; ++i) rows.push_back({.key = fmt::format("r{:03}", i)});
    co_await add_rows(catalog, rows);
    auto alice = co_await joined(catalog, "alice", 2s);
    auto bob = co_await joined(catalog, "bob", 60s);
    std::vector<Claim> claims;
    for (const auto& row : rows) {
      auto claim = co_await claimed(catalog, alice, row.key);
      claims.push_back(claim);
      auto beaten = co_await catalog.beat(alice, "{}", soon());
      REQUIRE(beaten);
    }
    co_await until_dead(catalog, alice);

    auto late = co_await catalog.write(claims[0], RowState::ready, "late", soon());
    CHECK(code_of(late) == Errc::lease_lost);
    auto beat = co_await catalog.beat(alice, "{}", soon());
    CHECK(code_of(beat) == Errc::lease_lost);
    auto dead = co_await catalog.claim(alice, "r000", soon());
    CHECK(code_of(dead) == Errc::lease_lost);
    std::vector<Row> more{{.key = "unowned"}};
    co_await add_rows(catalog, std::move(more));
    auto wanted = co_await catalog.claim(alice, "unowned", soon());
    CHECK(code_of(wanted) == Errc::lease_lost);
    auto removed = co_await catalog.remove(keys("unowned"), soon());
    REQUIRE(removed);

    // One that nobody has looked at yet is claimed at once, and the others are offered in the end.
    auto direct = co_await claimed(catalog, bob, "r299");
    CHECK(direct.epoch > claims[299].epoch);
    std::set<std::string> offered;
    while (offered.size() < 299) {
      auto some = co_await catalog.claimable(100, soon());
      REQUIRE(some);
      REQUIRE_FALSE(some->empty());
      for (const auto& row : *some) {
        CHECK(row.owner.empty());
        offered.insert(row.key);
        auto claim = co_await claimed(catalog, bob, row.key);
        CHECK(claim.epoch > claims[std::stoul(row.key.substr(1))].epoch);
      }
    }
    auto none = co_await catalog.claimable(100, soon());
    REQUIRE(none);
    CHECK(none->empty());
  });
}

TEST_CASE_TEMPLATE("a heartbeat keeps all rows of a node for another ttl", Place, PLACES) {
  with_catalog<Place>([](Place&, Catalog& catalog) -> awaitable<void> {
    std::vector<Row> some{{.key = "a"}};
    co_await add_rows(catalog, std::move(some));
    auto alice = co_await joined(catalog, "alice", 6s);
    auto bob = co_await joined(catalog, "bob", 60s);
    auto claim = co_await claimed(catalog, alice, "a");
    auto begin = Clock::now();
    while (Clock::now() < begin + 13s) {
      auto beaten =
          co_await catalog.beat(alice, fmt::format("{}", (Clock::now() - begin).count()), soon());
      REQUIRE(beaten);
      auto taken = co_await catalog.claim(bob, "a", soon());
      REQUIRE(code_of(taken) == Errc::held_elsewhere);
      co_await sleep_for(300ms);
    }
    auto written = co_await catalog.write(claim, RowState::ready, {}, soon());
    CHECK(written);
  });
}

TEST_CASE_TEMPLATE("a node that leaves frees its rows at once, and its next life is another", Place,
                   PLACES) {
  with_catalog<Place>([](Place&, Catalog& catalog) -> awaitable<void> {
    std::vector<Row> some{{.key = "a"}, {.key = "b"}};
    co_await add_rows(catalog, std::move(some));
    auto first = co_await joined(catalog, "alice");
    auto claim = co_await claimed(catalog, first, "a");
    auto left = co_await catalog.leave(first, soon());
    REQUIRE(left);
    auto second = co_await joined(catalog, "alice");
    CHECK(second != first);
    auto stale = co_await catalog.write(claim, RowState::ready, {}, soon());
    CHECK(code_of(stale) == Errc::lease_lost);
    auto offered = co_await catalog.claimable(10, soon());
    REQUIRE(offered);
    CHECK(keys_of(*offered) == std::vector<std::string>{"a", "b"});
    auto again = co_await claimed(catalog, second, "a");
    CHECK(again.epoch > claim.epoch);
    auto nodes = co_await catalog.nodes(soon());
    REQUIRE(nodes);
    REQUIRE(nodes->size() == 1);
    CHECK(nodes->front().session == second);
  });
}

TEST_CASE_TEMPLATE("nodes are listed with what they said last and how long they have left", Place,
                   PLACES) {
  with_catalog<Place>([](Place&, Catalog& catalog) -> awaitable<void> {
    auto alice = co_await catalog.join("alice", "{\"budget\":1}", 30s, soon());
    REQUIRE(alice);
    auto beaten = co_await catalog.beat(*alice, "{\"budget\":2}", soon());
    REQUIRE(beaten);
    auto nodes = co_await catalog.nodes(soon());
    REQUIRE(nodes);
    REQUIRE(nodes->size() == 1);
    CHECK(nodes->front().session == *alice);
    CHECK(nodes->front().info == "{\"budget\":2}");
    CHECK(nodes->front().ttl == 30s);
    CHECK(nodes->front().left > 0s);
    CHECK(nodes->front().left <= 31s);
  });
}

TEST_CASE_TEMPLATE("rows are offered by rank, then by key, and not while they are to wait", Place,
                   PLACES) {
  with_catalog<Place>([](Place&, Catalog& catalog) -> awaitable<void> {
    std::vector<Row> some{
        {.key = "c"}, {.key = "a", .rank = -5}, {.key = "b", .rank = 9}, {.key = "d"}};
    co_await add_rows(catalog, std::move(some));
    auto offered = co_await catalog.claimable(10, soon());
    REQUIRE(offered);
    CHECK(keys_of(*offered) == std::vector<std::string>{"b", "c", "d", "a"});
    auto two = co_await catalog.claimable(2, soon());
    REQUIRE(two);
    CHECK(keys_of(*two) == std::vector<std::string>{"b", "c"});
    auto zero = co_await catalog.claimable(0, soon());
    REQUIRE(zero);
    CHECK(zero->empty());

    auto alice = co_await joined(catalog, "alice");
    auto claim = co_await claimed(catalog, alice, "b");
    Release how{.error = "no such ref", .wait = 3s};
    auto released = co_await catalog.release(claim, how, soon());
    REQUIRE(released);
    auto row = co_await row_of(catalog, "b");
    CHECK(row.state == RowState::failed);
    CHECK(row.error == "no such ref");
    CHECK(row.attempts == 1);
    CHECK(row.wait > 0ms);
    CHECK(row.wait <= 4s);
    auto early = co_await catalog.claim(alice, "b", soon());
    CHECK(code_of(early) == Errc::held_elsewhere);
    auto others = co_await catalog.claimable(10, soon());
    REQUIRE(others);
    CHECK(keys_of(*others) == std::vector<std::string>{"c", "d", "a"});
    auto is_offered = [](Catalog& where) -> awaitable<bool> {
      auto rows = co_await where.claimable(1, soon());
      REQUIRE(rows);
      co_return rows->front().key == "b";
    };
    co_await eventually(30s, "a wait is over", is_offered, catalog);

    claim = co_await claimed(catalog, alice, "b");
    how = {.error = "again", .wait = 1h};
    released = co_await catalog.release(claim, how, soon());
    REQUIRE(released);
    row = co_await row_of(catalog, "b");
    CHECK(row.attempts == 2);
    RowChange change;
    change.rank = -9;
    change.ends_wait = true;
    auto changed = co_await catalog.change("b", change, soon());
    REQUIRE(changed);
    offered = co_await catalog.claimable(10, soon());
    REQUIRE(offered);
    CHECK(keys_of(*offered) == std::vector<std::string>{"c", "d", "a", "b"});
    claim = co_await claimed(catalog, alice, "b");
    auto ready = co_await catalog.write(claim, RowState::ready, {}, soon());
    REQUIRE(ready);
    row = co_await row_of(catalog, "b");
    CHECK(row.attempts == 0);
    CHECK(row.error.empty());
  });
}

TEST_CASE_TEMPLATE("a row is handed over in one step, under a new epoch, to a node that lives",
                   Place, PLACES) {
  with_catalog<Place>([](Place&, Catalog& catalog) -> awaitable<void> {
    std::vector<Row> some{{.key = "a"}};
    co_await add_rows(catalog, std::move(some));
    auto alice = co_await joined(catalog, "alice");
    auto bob = co_await joined(catalog, "bob");
    auto claim = co_await claimed(catalog, alice, "a");
    auto drains = co_await catalog.write(claim, RowState::draining, "note", soon());
    REQUIRE(drains);
    auto nobody = co_await catalog.hand_over(claim, "carol/1", soon());
    CHECK(code_of(nobody) == Errc::not_found);
    auto given = co_await catalog.hand_over(claim, bob, soon());
    REQUIRE(given);
    CHECK(given->session == bob);
    CHECK(given->epoch > claim.epoch);
    auto row = co_await row_of(catalog, "a");
    CHECK(row.owner == bob);
    CHECK(row.state == RowState::ready);
    CHECK(row.note == "note");
    auto late = co_await catalog.write(claim, RowState::ready, {}, soon());
    CHECK(code_of(late) == Errc::lease_lost);
    auto right = co_await catalog.write(*given, RowState::ready, "mine", soon());
    CHECK(right);
    // It is alice's no more when she dies: the row stays where it is.
    auto left = co_await catalog.leave(alice, soon());
    REQUIRE(left);
    auto offered = co_await catalog.claimable(10, soon());
    REQUIRE(offered);
    CHECK(offered->empty());
  });
}

TEST_CASE_TEMPLATE("what one no longer owns one cannot hand over", Place, PLACES) {
  with_catalog<Place>([](Place&, Catalog& catalog) -> awaitable<void> {
    std::vector<Row> some{{.key = "a"}};
    co_await add_rows(catalog, std::move(some));
    auto alice = co_await joined(catalog, "alice");
    auto bob = co_await joined(catalog, "bob");
    auto carol = co_await joined(catalog, "carol");
    auto first = co_await claimed(catalog, alice, "a");
    auto second = co_await catalog.hand_over(first, bob, soon());
    REQUIRE(second);
    auto third = co_await catalog.hand_over(*second, carol, soon());
    REQUIRE(third);
    CHECK(third->epoch > second->epoch);
    for (const auto& late : {first, *second}) {
      auto again = co_await catalog.hand_over(late, bob, soon());
      CHECK(code_of(again) == Errc::lease_lost);
      auto back = co_await catalog.hand_over(late, alice, soon());
      CHECK(code_of(back) == Errc::lease_lost);
    }
    // Claiming tells its owner under which epoch it has it.
    auto known = co_await claimed(catalog, carol, "a");
    CHECK(known.epoch == third->epoch);
    auto left = co_await catalog.leave(carol, soon());
    REQUIRE(left);
    auto dead = co_await catalog.hand_over(*third, bob, soon());
    CHECK(code_of(dead) == Errc::lease_lost);
    auto row = co_await row_of(catalog, "a");
    CHECK(row.owner != bob);
  });
}

TEST_CASE_TEMPLATE("a stale owner hands nothing over to who has the row for another reason", Place,
                   PLACES) {
  with_catalog<Place>([](Place&, Catalog& catalog) -> awaitable<void> {
    std::vector<Row> some{{.key = "a"}, {.key = "b"}};
    co_await add_rows(catalog, std::move(some));
    auto alice = co_await joined(catalog, "alice");
    auto bob = co_await joined(catalog, "bob");
    Release how;
    // Bob claimed it himself.
    auto first = co_await claimed(catalog, alice, "a");
    auto released = co_await catalog.release(first, how, soon());
    REQUIRE(released);
    auto own = co_await claimed(catalog, bob, "a");
    auto stale = co_await catalog.hand_over(first, bob, soon());
    CHECK(code_of(stale) == Errc::lease_lost);
    // Alice did hand it over, and bob has given it back and claimed it since.
    auto second = co_await claimed(catalog, alice, "b");
    auto given = co_await catalog.hand_over(second, bob, soon());
    REQUIRE(given);
    released = co_await catalog.release(*given, how, soon());
    REQUIRE(released);
    auto again = co_await claimed(catalog, bob, "b");
    stale = co_await catalog.hand_over(second, bob, soon());
    CHECK(code_of(stale) == Errc::lease_lost);
    for (const auto& claim : {own, again}) {
      auto row = co_await row_of(catalog, claim.key);
      CHECK(row.owner == bob);
      CHECK(row.epoch == claim.epoch);
    }
  });
}

TEST_CASE_TEMPLATE("a write that arrives late does not undo a newer one under the same epoch",
                   Place, PLACES) {
  with_far_catalog<Place>([](Catalog& catalog, Catalog& far, FaultyLink& link) -> awaitable<void> {
    std::vector<Row> some{{.key = "a"}};
    co_await add_rows(catalog, std::move(some));
    auto alice = co_await joined(catalog, "alice", 300s);
    auto claim = co_await claimed(catalog, alice, "a");
    auto written = co_await far.write(claim, RowState::ready, "first", soon());
    REQUIRE(written);
    auto before = link.counters().bytes_to_server;
    link.half_open();
    auto older = co_await far.write(claim, RowState::ready, "older", Clock::now() + 1s);
    CHECK_FALSE(older);
    auto newer = co_await catalog.write(claim, RowState::draining, "newer", soon());
    REQUIRE(newer);
    link.heal();
    auto has_arrived = [before](FaultyLink& on) { return on.counters().bytes_to_server > before; };
    co_await eventually(20s, "what was held arrives", has_arrived, link);
    // Time for a server that would take it to do so.
    for (int i = 0; i < 20; ++i) {
      auto row = co_await row_of(catalog, "a");
      REQUIRE(row.note == "newer");
      REQUIRE(row.state == RowState::draining);
      co_await sleep_for(20ms);
    }
    // Who writes after that is heard, over either.
    written = co_await far.write(claim, RowState::ready, "last", soon());
    REQUIRE(written);
    auto row = co_await row_of(catalog, "a");
    CHECK(row.note == "last");
    CHECK(row.state == RowState::ready);
  });
}

TEST_CASE_TEMPLATE("what a node could not give back is due until the catalog has taken it", Place,
                   PLACES) {
  with_far_catalog<Place>([](Catalog& catalog, Catalog& far, FaultyLink& link) -> awaitable<void> {
    std::vector<Row> some{{.key = "failed"}, {.key = "held"}, {.key = "unknown"}};
    co_await add_rows(catalog, std::move(some));
    auto alice = co_await joined(catalog, "alice", 300s);
    auto claim = co_await claimed(far, alice, "failed");
    co_await claimed(catalog, alice, "held");
    co_await claimed(catalog, alice, "unknown");
    Returns returns;
    auto is_known = [](const std::string& key) { return key == "held"; };
    link.cut();
    Release how{.error = "no such ref", .wait = 1h};
    returns.owe(claim, how);
    auto refused = co_await far.release(claim, how, Clock::now() + 500ms);
    REQUIRE_FALSE(refused);
    returns.on_released(claim, refused);
    link.heal();
    auto all = co_await catalog.changes("", Clock::now(), soon());
    REQUIRE(all);
    returns.on_changes(*all, alice);

    auto due = returns.due(is_known);
    REQUIRE(due.size() == 2);
    for (auto& one : due) {
      auto released = co_await far.release(one.claim, one.how, soon());
      CHECK(released);
      returns.on_released(one.claim, released);
    }
    CHECK(returns.due(is_known).empty());
    auto rows = co_await all_rows(catalog);
    CHECK(rows["failed"].state == RowState::failed);
    CHECK(rows["failed"].error == "no such ref");
    CHECK(rows["failed"].attempts == 1);
    CHECK(rows["held"].owner == alice);
    CHECK(rows["unknown"].state == RowState::free);
  });
}

TEST_CASE_TEMPLATE("an epoch never repeats, not even for a row that was removed and added again",
                   Place, PLACES) {
  with_catalog<Place>([](Place&, Catalog& catalog) -> awaitable<void> {
    auto alice = co_await joined(catalog, "alice");
    FencingToken last{};
    for (int i = 0; i < 5; ++i) {
      std::vector<Row> some{{.key = "a"}};
      co_await add_rows(catalog, std::move(some));
      auto claim = co_await claimed(catalog, alice, "a");
      CHECK(claim.epoch > last);
      last = claim.epoch;
      auto removed = co_await catalog.remove(keys("a"), soon());
      REQUIRE(removed);
      auto late = co_await catalog.write(claim, RowState::ready, {}, soon());
      CHECK(code_of(late) == Errc::lease_lost);
    }
  });
}

TEST_CASE_TEMPLATE("a replay of the changes gives the same rows as a list", Place, PLACES) {
  with_catalog<Place>([](Place&, Catalog& catalog) -> awaitable<void> {
    auto alice = co_await joined(catalog, "alice");
    auto first = co_await catalog.changes("", Clock::now(), soon());
    REQUIRE(first);
    CHECK(first->is_everything);
    CHECK(first->rows.empty());
    std::map<std::string, Row> replayed;
    auto position = first->position;
    std::map<std::string, Claim> claims;
    for (int i = 0; i < 200; ++i) {
      auto key = fmt::format("r{}", i * 7 % 23);
      switch (i % 5) {
        case 0:
        case 1: {
          std::vector<Row> row{{.key = key, .spec = fmt::format("{}", i)}};
          auto added = co_await catalog.add(std::move(row), soon());
          REQUIRE(added);
          break;
        }
        case 2: {
          auto claim = co_await catalog.claim(alice, key, soon());
          if (claim) claims[key] = *claim;
          break;
        }
        case 3: {
          if (!claims.contains(key)) break;
          auto written =
              co_await catalog.write(claims[key], RowState::ready, fmt::format("n{}", i), soon());
          static_cast<void>(written);
          break;
        }
        default: {
          auto removed = co_await catalog.remove(keys(key), soon());
          REQUIRE(removed);
        }
      }
      if (i % 9 != 0) continue;
      auto changes = co_await catalog.changes(position, Clock::now(), soon());
      REQUIRE(changes);
      if (changes->is_everything) replayed.clear();
      for (const auto& gone : changes->removed) replayed.erase(gone);
      for (const auto& row : changes->rows) replayed[row.key] = row;
      position = changes->position;
    }
    for (;;) {
      auto changes = co_await catalog.changes(position, Clock::now(), soon());
      REQUIRE(changes);
      CHECK_FALSE(changes->is_everything);
      for (const auto& gone : changes->removed) replayed.erase(gone);
      for (const auto& row : changes->rows) replayed[row.key] = row;
      if (changes->position == position) break;
      position = changes->position;
    }
    auto listed = co_await all_rows(catalog);
    REQUIRE(listed.size() == replayed.size());
    for (const auto& [key, row] : listed) {
      REQUIRE(replayed.contains(key));
      CHECK(replayed[key].epoch == row.epoch);
      CHECK(replayed[key].state == row.state);
      CHECK(replayed[key].note == row.note);
      CHECK(replayed[key].spec == row.spec);
    }
  });
}

TEST_CASE_TEMPLATE("who was away while a thousand rows changed is told of each of them", Place,
                   PLACES) {
  with_catalog<Place>([](Place&, Catalog& catalog) -> awaitable<void> {
    auto before = co_await catalog.changes("", Clock::now(), soon());
    REQUIRE(before);
    std::vector<Row> rows;
    for (int i = 0; i < 1200; ++i) rows.push_back({.key = fmt::format("r{:04}", i)});
    co_await add_rows(catalog, rows);
    auto removed = co_await catalog.remove(keys("r0000", "r1199"), soon());
    REQUIRE(removed);
    std::set<std::string> told, gone;
    auto position = before->position;
    for (;;) {
      auto changes = co_await catalog.changes(position, Clock::now(), soon());
      REQUIRE(changes);
      CHECK_FALSE(changes->is_everything);
      for (const auto& row : changes->rows) told.insert(row.key);
      for (const auto& key : changes->removed) {
        told.erase(key);
        gone.insert(key);
      }
      if (changes->position == position) break;
      position = changes->position;
    }
    CHECK(told.size() == 1198);
    CHECK(gone == std::set<std::string>{"r0000", "r1199"});
  });
}

TEST_CASE_TEMPLATE("who waits for a change is told of it, and of nothing at the end of the wait",
                   Place, PLACES) {
  with_catalog<Place>([](Place&, Catalog& catalog) -> awaitable<void> {
    auto all = co_await catalog.changes("", Clock::now(), soon());
    REQUIRE(all);
    auto nothing = co_await catalog.changes(all->position, Clock::now() + 300ms, soon());
    REQUIRE(nothing);
    CHECK(nothing->rows.empty());
    CHECK_FALSE(nothing->is_everything);

    auto waiting = [](Catalog& where, std::string from) -> Async<Changes> {
      co_return co_await where.changes(std::move(from), Clock::now() + 30s, Clock::now() + 40s);
    };
    auto adding = [](Catalog& where) -> awaitable<void> {
      co_await sleep_for(200ms);
      std::vector<Row> rows{{.key = "a"}};
      co_await add_rows(where, std::move(rows));
    };
    using namespace asio::experimental::awaitable_operators;
    auto begin = Clock::now();
    auto told = co_await (waiting(catalog, nothing->position) && adding(catalog));
    REQUIRE(told);
    REQUIRE(told->rows.size() == 1);
    CHECK(told->rows[0].key == "a");
    CHECK(Clock::now() - begin < 25s);
    // A heartbeat is no change.
    auto alice = co_await joined(catalog, "alice");
    auto beaten = co_await catalog.beat(alice, "new", soon());
    REQUIRE(beaten);
    auto silence = co_await catalog.changes(told->position, Clock::now() + 300ms, soon());
    REQUIRE(silence);
    CHECK(silence->rows.empty());
  });
}

TEST_CASE_TEMPLATE("of many nodes that want one row, one has it", Place, PLACES) {
  with_catalog<Place>([](Place& place, Catalog& catalog) -> awaitable<void> {
    constexpr int count = 20;
    std::vector<Row> rows;
    for (int i = 0; i < 10; ++i) rows.push_back({.key = fmt::format("r{}", i)});
    co_await add_rows(catalog, rows);
    auto other = co_await place.open();
    REQUIRE(other);
    std::map<std::string, int> winners;
    auto contest = [](Catalog& where, std::string name,
                      std::map<std::string, int>& won) -> awaitable<void> {
      auto session = co_await where.join(std::move(name), "", 60s, soon());
      REQUIRE(session);
      for (int i = 0; i < 10; ++i) {
        auto key = fmt::format("r{}", i);
        auto claim = co_await where.claim(*session, key, soon());
        if (claim)
          ++won[key];
        else
          CHECK(claim.error().code == Errc::held_elsewhere);
      }
    };
    TaskGroup tasks(co_await asio::this_coro::executor);
    for (int i = 0; i < count; ++i)
      tasks.start("contest",
                  contest(i % 2 == 0 ? catalog : **other, fmt::format("n{}", i), winners));
    co_await tasks.join();
    co_await (*other)->close();
    CHECK(winners.size() == 10);
    for (const auto& [key, times] : winners) CHECK(times == 1);
  });
}

TEST_CASE_TEMPLATE("what cannot be kept is refused before anything is written", Place, PLACES) {
  with_catalog<Place>([](Place&, Catalog& catalog) -> awaitable<void> {
    std::vector<Row> one_is_bad{{.key = "good"}, {.key = "two words"}};
    auto bad_row = co_await catalog.add(std::move(one_is_bad), soon());
    CHECK(code_of(bad_row) == Errc::invalid);
    auto rows = co_await all_rows(catalog);
    CHECK(rows.empty());
    auto bad_node = co_await catalog.join("a/b", "", 30s, soon());
    CHECK(code_of(bad_node) == Errc::invalid);
    auto bad_ttl = co_await catalog.join("a", "", 10ms, soon());
    CHECK(code_of(bad_ttl) == Errc::invalid);
    auto alice = co_await joined(catalog, "alice");
    auto bad_info = co_await catalog.beat(alice, std::string("\0", 1), soon());
    CHECK(code_of(bad_info) == Errc::invalid);
    auto absent = co_await catalog.claim(alice, "absent", soon());
    CHECK(code_of(absent) == Errc::not_found);
    RowChange change;
    change.rank = 1;
    auto unchanged = co_await catalog.change("absent", change, soon());
    CHECK(code_of(unchanged) == Errc::not_found);
    std::vector<Row> some{{.key = "a"}};
    co_await add_rows(catalog, std::move(some));
    auto claim = co_await claimed(catalog, alice, "a");
    auto bad_state = co_await catalog.write(claim, RowState::failed, {}, soon());
    CHECK(code_of(bad_state) == Errc::invalid);
    Release how{.error = "e", .wait = -1s};
    auto bad_wait = co_await catalog.release(claim, how, soon());
    CHECK(code_of(bad_wait) == Errc::invalid);
  });
}

TEST_CASE_TEMPLATE("a paused catalog ends every call at its deadline, and goes on afterwards",
                   Place, PLACES) {
  with_catalog<Place>([](Place& place, Catalog& catalog) -> awaitable<void> {
    std::vector<Row> some{{.key = "a"}};
    co_await add_rows(catalog, std::move(some));
    auto alice = co_await joined(catalog, "alice", 60s);
    place.pause();
    auto begin = Clock::now();
    auto claim = co_await catalog.claim(alice, "a", Clock::now() + 500ms);
    auto beaten = co_await catalog.beat(alice, "", Clock::now() + 500ms);
    auto changes = co_await catalog.changes("", Clock::now(), Clock::now() + 500ms);
    place.resume();
    CHECK_FALSE(claim);
    CHECK_FALSE(beaten);
    CHECK_FALSE(changes);
    CHECK(Clock::now() - begin < 20s);
    auto after = co_await claimed(catalog, alice, "a");
    CHECK(after.epoch > FencingToken{});
  });
}

TEST_CASE_TEMPLATE("a catalog that was restarted has every row, its owner and its epoch", Place,
                   PLACES) {
  with_catalog<Place>([](Place& place, Catalog& catalog) -> awaitable<void> {
    std::vector<Row> some{{.key = "a", .spec = "s"}, {.key = "b"}};
    co_await add_rows(catalog, std::move(some));
    auto alice = co_await joined(catalog, "alice", 300s);
    auto claim = co_await claimed(catalog, alice, "a");
    auto ready = co_await catalog.write(claim, RowState::ready, "n", soon());
    REQUIRE(ready);
    place.restart();
    auto row = co_await row_of(catalog, "a");
    CHECK(row.owner == alice);
    CHECK(row.epoch == claim.epoch);
    CHECK(row.note == "n");
    auto beaten = co_await catalog.beat(alice, "", soon());
    CHECK(beaten);
    auto next = co_await claimed(catalog, alice, "b");
    CHECK(next.epoch > claim.epoch);
  });
}

TEST_CASE_TEMPLATE("an idle node changes one row with each heartbeat, however many it owns", Place,
                   PLACES) {
  with_catalog<Place>([](Place& place, Catalog& catalog) -> awaitable<void> {
    std::vector<Row> rows;
    for (int i = 0; i < 200; ++i) rows.push_back({.key = fmt::format("r{}", i)});
    co_await add_rows(catalog, rows);
    auto alice = co_await joined(catalog, "alice", 60s);
    for (const auto& row : rows) co_await claimed(catalog, alice, row.key);
    auto beaten = co_await catalog.beat(alice, "{}", soon());
    REQUIRE(beaten);
    auto before = place.rows_changed();
    for (int i = 0; i < 10; ++i) {
      beaten = co_await catalog.beat(alice, "{}", soon());
      REQUIRE(beaten);
    }
    CHECK(place.rows_changed() - before <= 10);
  });
}

}  // namespace warren
