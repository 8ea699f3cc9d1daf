#include "primitives/catalog/postgres.h"

#include <doctest/doctest.h>
#include <stdlib.h>

#include <fstream>

#include "proof/testkit/faulty_link.h"
#include "tests/with_postgres_catalog.h"

using namespace warren;

namespace {

const Release plainly;

using Keys = std::vector<std::string>;
using Opened = std::unique_ptr<Catalog>;

Clock::time_point soon() { return Clock::now() + 60s; }

// at_postgres([](PostgresPlace& place, Catalog& catalog) -> awaitable<void> { … });
template <class Body>
void at_postgres(Body body) {
  PostgresPlace place;
  auto whole = [](PostgresPlace& there, Body inner) -> awaitable<void> {
    auto catalog = co_await there.open();
    REQUIRE(catalog);
    co_await inner(there, **catalog);
  };
  run(whole(place, body), 120s);
}

awaitable<NodeSession> joined(Catalog& catalog, std::string name,
                              std::chrono::milliseconds ttl = 10min) {
  auto session = co_await catalog.join(std::move(name), "{}", ttl, soon());
  REQUIRE(session);
  co_return *session;
}

awaitable<std::size_t> added(Catalog& catalog, std::vector<Row> rows) {
  auto count = co_await catalog.add(std::move(rows), soon());
  REQUIRE(count);
  co_return *count;
}

awaitable<std::size_t> removed(Catalog& catalog, Keys keys) {
  auto count = co_await catalog.remove(std::move(keys), soon());
  REQUIRE(count);
  co_return *count;
}

awaitable<void> add_all(Catalog& catalog, Keys keys) {
  std::vector<Row> rows;
  for (auto& key : keys) rows.push_back({.key = std::move(key), .spec = "{}"});
  auto count = rows.size();
  CHECK((co_await added(catalog, std::move(rows))) == count);
}

template <class... Words>
awaitable<void> add_rows(Catalog& catalog, Words... keys) {
  return add_all(catalog, Keys{keys...});
}

awaitable<Claim> claimed(Catalog& catalog, NodeSession session, std::string key) {
  auto claim = co_await catalog.claim(std::move(session), std::move(key), soon());
  REQUIRE(claim);
  co_return *claim;
}

awaitable<Changes> changes_after(Catalog& catalog, std::string position,
                                 Clock::duration wait = 0s) {
  auto changes = co_await catalog.changes(std::move(position), Clock::now() + wait, soon());
  REQUIRE(changes);
  co_return *std::move(changes);
}

std::vector<std::string> keys_of(const std::vector<Row>& rows) {
  std::vector<std::string> keys;
  for (const auto& row : rows) keys.push_back(row.key);
  std::ranges::sort(keys);
  return keys;
}

Async<> open_into(PostgresPlace& place, std::vector<Result<Opened>>& opened) {
  opened.push_back(co_await place.open());
  co_return ok;
}

Async<> claim_into(Catalog& catalog, NodeSession session, std::string key,
                   std::vector<Result<Claim>>& claims) {
  claims.push_back(co_await catalog.claim(std::move(session), std::move(key), soon()));
  co_return ok;
}

std::string waiting_for_locks(const PostgresServer& server) {
  return server.query(
      "SELECT count(*) FROM pg_stat_activity WHERE usename = 'warren' AND wait_event_type = "
      "'Lock'");
}

}  // namespace

TEST_CASE("twenty who open a catalog in an empty database at once make one set of tables") {
  PostgresPlace place;
  run([](PostgresPlace& there) -> awaitable<void> {
    std::vector<Result<Opened>> opened;
    TaskGroup group(co_await asio::this_coro::executor);
    for (int i = 0; i < 20; ++i) group.start("open", open_into(there, opened));
    co_await group.join();
    REQUIRE(opened.size() == 20);
    for (auto& catalog : opened) {
      if (!catalog) FAIL(catalog.error().what);
    }
    CHECK(there.server.query("SELECT count(*), max(version) FROM fleet_meta") == "1|2");
    co_await add_rows(**opened.front(), "a");
    CHECK((co_await changes_after(**opened.back(), "")).rows.size() == 1);
  }(place));
}

TEST_CASE("tables that a newer version made are refused with both versions") {
  at_postgres([](PostgresPlace& place, Catalog&) -> awaitable<void> {
    place.server.query("UPDATE fleet_meta SET version = 7");
    auto refused = co_await place.open();
    REQUIRE(!refused);
    CHECK(refused.error().code == Errc::refused);
    CHECK(refused.error().what.find("version 7") != std::string::npos);
    CHECK(refused.error().what.find("version 2") != std::string::npos);
  });
}

TEST_CASE("tables that an older version made get what they lack, and keep their rows") {
  at_postgres([](PostgresPlace& place, Catalog& catalog) -> awaitable<void> {
    co_await add_rows(catalog, "a");
    place.server.query(
        "ALTER TABLE fleet_catalog DROP COLUMN write_order; UPDATE fleet_meta SET version = 1");
    auto newer = co_await place.open();
    REQUIRE_MESSAGE(newer, (newer ? "" : newer.error().what));
    CHECK(place.server.query("SELECT version FROM fleet_meta") == "2");
    auto session = co_await (*newer)->join("n1", "", 30s, soon());
    REQUIRE(session);
    auto claim = co_await (*newer)->claim(*session, "a", soon());
    REQUIRE(claim);
    auto written = co_await (*newer)->write(*claim, RowState::ready, "n", soon());
    CHECK(written);
  });
}

TEST_CASE("a role that may not make tables uses those that are there, and is denied without them") {
  at_postgres([](PostgresPlace& place, Catalog&) -> awaitable<void> {
    auto& server = place.server;
    server.query("CREATE ROLE guest LOGIN; GRANT ALL ON ALL TABLES IN SCHEMA public TO guest");
    auto url = server.url();
    url.replace(url.find("warren@"), 6, "guest");
    auto executor = co_await asio::this_coro::executor;
    auto guest = co_await PostgresCatalog::open(executor, url, "fleet", soon());
    REQUIRE(guest);
    co_await add_rows(**guest, "a");
    auto denied = co_await PostgresCatalog::open(executor, url, "other", soon());
    REQUIRE(!denied);
    CHECK(denied.error().code == Errc::denied);
  });
}

TEST_CASE("a change that commits late is told, and none is told twice") {
  at_postgres([](PostgresPlace& place, Catalog& catalog) -> awaitable<void> {
    co_await add_rows(catalog, "early", "late", "removed");
    auto start = co_await changes_after(catalog, "");
    CHECK(start.is_everything);
    // Its transaction is older than the other's and commits after that was read.
    auto late = place.server.connect();
    late.query(
        "BEGIN;"
        "UPDATE fleet_catalog SET rank = 5, changed = pg_current_xact_id() WHERE key = 'late'");
    RowChange change{.rank = 7};
    REQUIRE(co_await catalog.change("early", std::move(change), soon()));
    Keys gone{"removed"};
    CHECK((co_await removed(catalog, gone)) == 1);
    auto first = co_await changes_after(catalog, start.position);
    CHECK_FALSE(first.is_everything);
    CHECK(keys_of(first.rows) == Keys{"early"});
    CHECK(first.removed == Keys{"removed"});
    auto nothing = co_await changes_after(catalog, first.position);
    CHECK(nothing.rows.empty());
    CHECK(nothing.removed.empty());
    late.query("COMMIT");
    auto second = co_await changes_after(catalog, nothing.position);
    CHECK(keys_of(second.rows) == Keys{"late"});
    CHECK(second.rows.front().rank == 5);
    CHECK(second.removed.empty());
  });
}

TEST_CASE("who waits for changes is told when there is one, and nothing at the end of the wait") {
  at_postgres([](PostgresPlace& place, Catalog& catalog) -> awaitable<void> {
    auto start = co_await changes_after(catalog, "");
    CHECK(start.rows.empty());
    auto none = co_await changes_after(catalog, start.position, 200ms);
    CHECK_FALSE(none.is_everything);
    CHECK(none.rows.empty());
    // A wait that lasts as long as the call may does not end with an error.
    auto until = Clock::now() + 200ms;
    auto same = co_await catalog.changes(none.position, until, until);
    REQUIRE(same);
    CHECK(same->rows.empty());

    auto other = co_await place.open();
    REQUIRE(other);
    auto wait = [](Catalog& reader, std::string position, Changes& found) -> Async<> {
      found = co_await changes_after(reader, std::move(position), 60s);
      co_return ok;
    };
    Changes found;
    TaskGroup group(co_await asio::this_coro::executor);
    group.start("reader", wait(catalog, same->position, found));
    co_await add_rows(**other, "a");
    co_await group.join();
    CHECK(keys_of(found.rows) == Keys{"a"});
    // A heartbeat is not a change.
    auto session = co_await joined(catalog, "n1");
    REQUIRE(co_await catalog.beat(session, "{}", soon()));
    CHECK((co_await changes_after(catalog, found.position)).rows.empty());
  });
}

TEST_CASE("a removed row is told for an hour, and who was away for longer gets everything") {
  at_postgres([](PostgresPlace& place, Catalog& catalog) -> awaitable<void> {
    auto& server = place.server;
    co_await add_rows(catalog, "gone", "stays");
    auto before = co_await changes_after(catalog, "");
    Keys keys{"gone", "never there"};
    CHECK((co_await removed(catalog, keys)) == 1);
    auto after = co_await changes_after(catalog, before.position);
    CHECK(after.removed == Keys{"gone"});
    CHECK(server.query("SELECT key FROM fleet_rows") == "stays");

    // Another process, since each looks for old rows once a minute.
    auto young = co_await place.open();
    REQUIRE(young);
    REQUIRE(co_await (*young)->claimable(1, soon()));
    CHECK(server.query("SELECT count(*) FROM fleet_catalog") == "2");
    server.query("UPDATE fleet_catalog SET removed = removed - interval '61 minutes'");
    auto old = co_await place.open();
    REQUIRE(old);
    REQUIRE(co_await (*old)->claimable(1, soon()));
    CHECK(server.query("SELECT key FROM fleet_catalog") == "stays");

    auto late = co_await changes_after(catalog, before.position);
    CHECK(late.is_everything);
    CHECK(keys_of(late.rows) == Keys{"stays"});
    CHECK_FALSE((co_await changes_after(catalog, after.position)).is_everything);
  });
}

TEST_CASE("a removed row is kept while an older transaction is open") {
  at_postgres([](PostgresPlace& place, Catalog& catalog) -> awaitable<void> {
    co_await add_rows(catalog, "gone");
    auto open = place.server.connect();
    open.query("BEGIN; SELECT pg_current_xact_id()");
    Keys keys{"gone"};
    CHECK((co_await removed(catalog, keys)) == 1);
    place.server.query("UPDATE fleet_catalog SET removed = removed - interval '61 minutes'");
    REQUIRE(co_await catalog.claimable(1, soon()));
    CHECK(place.server.query("SELECT count(*) FROM fleet_catalog") == "1");
  });
}

TEST_CASE("a position of another history gives everything") {
  at_postgres([](PostgresPlace& place, Catalog& catalog) -> awaitable<void> {
    auto& server = place.server;
    co_await add_rows(catalog, "a");
    auto position = (co_await changes_after(catalog, "")).position;
    CHECK_FALSE((co_await changes_after(catalog, position)).is_everything);
    auto identity = position.substr(0, position.find(' '));
    auto future = server.query("SELECT pg_snapshot_xmax(pg_current_snapshot())::text::bigint + 9");
    Keys foreign{"nonsense",
                 "1-0",
                 "a b",
                 " ",
                 "1-1-x 5:5:",
                 identity + " 9:5:",
                 identity + " 1;2",
                 identity + " " + future + ":" + future + ":",
                 std::string("\0 1:1:", 6)};
    for (const auto& other : foreign) {
      auto all = co_await changes_after(catalog, other);
      CHECK(all.is_everything);
      CHECK(keys_of(all.rows) == Keys{"a"});
    }

    // Recovered from existing data, as after a failover.
    auto session = co_await joined(catalog, "n1");
    auto claim = co_await claimed(catalog, session, "a");
    CHECK(claim.epoch.epoch == 1);
    position = (co_await changes_after(catalog, "")).position;
    server.query("ALTER SYSTEM SET restore_command = 'false'");
    server.stop();
    std::ofstream(server.folder() / "data" / "recovery.signal").close();
    server.restart();
    CHECK((co_await changes_after(catalog, position)).is_everything);
    REQUIRE(co_await catalog.release(claim, plainly, soon()));
    auto next = co_await claimed(catalog, session, "a");
    CHECK(next.epoch.epoch == 2);
    CHECK(next.epoch > claim.epoch);

    position = (co_await changes_after(catalog, "")).position;
    server.query("DROP VIEW fleet_rows; DROP TABLE fleet_catalog, fleet_nodes, fleet_meta");
    auto again = co_await place.open();
    REQUIRE(again);
    auto anew = co_await changes_after(catalog, position);
    CHECK(anew.is_everything);
    CHECK(anew.rows.empty());
  });
}

TEST_CASE("a heartbeat changes exactly one row, and an idle node nothing else") {
  at_postgres([](PostgresPlace& place, Catalog& catalog) -> awaitable<void> {
    co_await add_rows(catalog, "a", "b");
    auto session = co_await joined(catalog, "n1");
    co_await claimed(catalog, session, "a");
    std::string info(60'000, 'x');  // too long to be stored in the row itself
    REQUIRE(co_await catalog.beat(session, info, soon()));
    auto position = (co_await changes_after(catalog, "")).position;
    auto before = place.rows_changed();
    for (int i = 0; i < 10; ++i) {
      REQUIRE(co_await catalog.beat(session, info, soon()));
      REQUIRE(co_await catalog.claimable(10, soon()));
      REQUIRE(co_await catalog.nodes(soon()));
      co_await changes_after(catalog, position);
    }
    CHECK(place.rows_changed() == before + 10);
    CHECK(place.server.query("SELECT n_tup_upd FROM pg_stat_user_tables"
                             " WHERE relname = 'fleet_nodes'") == "11");
  });
}

TEST_CASE("an epoch is not behind the server's clock, and grows over a removal") {
  at_postgres([](PostgresPlace& place, Catalog& catalog) -> awaitable<void> {
    co_await add_rows(catalog, "a");
    auto session = co_await joined(catalog, "n1");
    auto now = std::stoull(
        place.server.query("SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint"));
    auto first = co_await claimed(catalog, session, "a");
    CHECK(first.epoch.counter >= now);
    // A clock that was ahead when the row was granted.
    place.server.query("UPDATE fleet_catalog SET epoch_counter = epoch_counter + 3600000000");
    auto ahead = first;
    ahead.epoch.counter += 3600000000;
    REQUIRE(co_await catalog.release(ahead, plainly, soon()));
    auto second = co_await claimed(catalog, session, "a");
    CHECK(second.epoch.counter == ahead.epoch.counter + 1);
    Keys keys{"a"};
    CHECK((co_await removed(catalog, keys)) == 1);
    CHECK((co_await catalog.write(second, RowState::ready, std::nullopt, soon())).error().code ==
          Errc::lease_lost);
    co_await add_rows(catalog, "a");
    CHECK((co_await claimed(catalog, session, "a")).epoch > second.epoch);
  });
}

TEST_CASE("rows of a life that is over are freed, whoever ended it, some at a time") {
  at_postgres([](PostgresPlace& place, Catalog& catalog) -> awaitable<void> {
    Keys keys;
    for (int i = 0; i < 250; ++i) keys.push_back(fmt::format("row{:03}", i));
    co_await add_all(catalog, keys);
    auto old = co_await joined(catalog, "n1");
    auto claim = co_await claimed(catalog, old, "row000");
    place.server.query("UPDATE fleet_catalog SET owner_id = '" + old + "', state = 'ready'");
    CHECK((co_await catalog.claimable(10, soon()))->empty());
    // As if its lease had ended an hour ago: no other clock matters.
    place.server.query("UPDATE fleet_nodes SET lease_expires = lease_expires - interval '1 hour'");
    auto young = co_await joined(catalog, "n2");
    auto taken = co_await claimed(catalog, young, "row000");
    CHECK(taken.epoch > claim.epoch);
    auto beaten = co_await catalog.beat(old, "{}", soon());
    REQUIRE(!beaten);
    CHECK(beaten.error().code == Errc::lease_lost);
    auto free = [&] {
      return std::stoi(
          place.server.query("SELECT count(*) FROM fleet_catalog WHERE owner_id IS NULL"));
    };
    auto offered = [](Catalog& c) -> awaitable<bool> {
      auto rows = co_await c.claimable(10, soon());
      REQUIRE(rows);
      co_return rows->size() == 10;
    };
    co_await eventually(30s, "its rows are offered", offered, catalog);
    CHECK(free() == 100);
    REQUIRE(co_await catalog.claimable(10, soon()));
    CHECK(free() == 200);
    REQUIRE(co_await catalog.claimable(10, soon()));
    CHECK(free() == 249);
    // A person has deleted a node.
    place.server.query("DELETE FROM fleet_nodes");
    auto all_free = [](Catalog& c, auto& count) -> awaitable<bool> {
      REQUIRE(co_await c.claimable(10, soon()));
      co_return count() == 250;
    };
    co_await eventually(30s, "the last one is free", all_free, catalog, free);
  });
}

TEST_CASE("a heartbeat that is under way keeps the rows of its node") {
  at_postgres([](PostgresPlace& place, Catalog& catalog) -> awaitable<void> {
    co_await add_rows(catalog, "a");
    auto owner = co_await joined(catalog, "n1"), other = co_await joined(catalog, "n2");
    auto claim = co_await claimed(catalog, owner, "a");
    place.server.query(
        "UPDATE fleet_nodes SET lease_expires = now() - interval '1 s'"
        " WHERE session = '" +
        owner + "'");
    // The heartbeat came in time, and has not committed yet.
    auto beating = place.server.connect();
    beating.query(
        "BEGIN; UPDATE fleet_nodes SET lease_expires = now() + interval '1 hour'"
        " WHERE session = '" +
        owner + "'");
    std::vector<Result<Claim>> claims;
    TaskGroup group(co_await asio::this_coro::executor);
    group.start("claim", claim_into(catalog, other, "a", claims));
    co_await eventually(30s, "the claim waits for the heartbeat",
                        [&] { return waiting_for_locks(place.server) == "1"; });
    beating.query("COMMIT");
    co_await group.join();
    REQUIRE(claims.size() == 1);
    REQUIRE(!claims.front());
    CHECK(claims.front().error().code == Errc::held_elsewhere);
    CHECK(co_await catalog.write(claim, RowState::ready, std::nullopt, soon()));
  });
}

TEST_CASE("a call whose answer was lost is repeated, and has one effect") {
  PostgresPlace place;
  FaultyLink link(place.server.port());
  auto url = fmt::format("postgres://warren@127.0.0.1:{}/warren", link.port());
  run([](PostgresPlace& there, FaultyLink& between, std::string through) -> awaitable<void> {
    auto executor = co_await asio::this_coro::executor;
    auto opened = co_await PostgresCatalog::open(executor, through, "fleet", soon(), 1);
    REQUIRE(opened);
    auto& catalog = **opened;
    auto lose_next = [&] { between.cut_after(Direction::to_client, 0); };
    auto first = co_await joined(catalog, "n1"), second = co_await joined(catalog, "n2");
    // Each runs once before, since the first answer on a connection is that it was prepared.
    co_await add_rows(catalog, "z");
    lose_next();
    co_await add_rows(catalog, "a", "b", "c");

    co_await claimed(catalog, first, "z");
    lose_next();
    auto claim = co_await claimed(catalog, first, "a");
    auto rows = co_await changes_after(catalog, "");
    CHECK(std::ranges::find(rows.rows, "a", &Row::key)->epoch == claim.epoch);

    auto warm = co_await claimed(catalog, first, "b");
    Release failed{.error = "broken", .wait = 1h};
    REQUIRE(co_await catalog.release(warm, failed, soon()));
    auto other = co_await claimed(catalog, first, "c");
    lose_next();
    REQUIRE(co_await catalog.release(other, failed, soon()));
    CHECK(there.server.query("SELECT attempts FROM fleet_rows WHERE key = 'c'") == "1");

    auto z = co_await claimed(catalog, first, "z");
    REQUIRE(co_await catalog.hand_over(z, second, soon()));
    lose_next();
    auto handed = co_await catalog.hand_over(claim, second, soon());
    REQUIRE(handed);
    CHECK(handed->session == second);
    CHECK(handed->epoch > claim.epoch);
    CHECK(co_await catalog.write(*handed, RowState::draining, std::nullopt, soon()));
    CHECK((co_await catalog.write(claim, RowState::ready, std::nullopt, soon())).error().code ==
          Errc::lease_lost);

    Keys one{"b"}, two{"a", "c"};
    CHECK((co_await removed(catalog, one)) == 1);
    lose_next();
    CHECK((co_await removed(catalog, two)) == 2);
    auto counters = between.counters();
    CHECK(counters.accepted >= 6);  // each loss cost a connection
  }(place, link, url));
}

TEST_CASE("calls go on where they were when the server is killed under them and comes back") {
  at_postgres([](PostgresPlace& place, Catalog& catalog) -> awaitable<void> {
    auto& server = place.server;
    co_await add_rows(catalog, "a");
    auto session = co_await joined(catalog, "n1");
    auto position = (co_await changes_after(catalog, "")).position;
    auto lock = server.connect();
    lock.query("BEGIN; LOCK TABLE fleet_catalog");
    std::vector<Result<Claim>> claims;
    Changes found;
    auto wait = [](Catalog& reader, std::string from, Changes& out) -> Async<> {
      out = co_await changes_after(reader, std::move(from), 60s);
      co_return ok;
    };
    TaskGroup group(co_await asio::this_coro::executor);
    group.start("claim", claim_into(catalog, session, "a", claims));
    group.start("reader", wait(catalog, position, found));
    co_await eventually(30s, "both wait", [&] { return waiting_for_locks(server) == "2"; });
    server.kill();
    server.restart();
    co_await group.join();
    REQUIRE(claims.size() == 1);
    REQUIRE(claims.front());
    CHECK(keys_of(found.rows) == Keys{"a"});
    CHECK(found.rows.front().owner == session);
    CHECK_FALSE(found.is_everything);
    CHECK(co_await catalog.beat(session, "{}", soon()));
  });
}

TEST_CASE("a paused server ends calls at their deadline, and a dead one is unavailable") {
  at_postgres([](PostgresPlace& place, Catalog& catalog) -> awaitable<void> {
    co_await add_rows(catalog, "a");
    auto session = co_await joined(catalog, "n1");
    REQUIRE(co_await catalog.beat(session, "{}", soon()));
    auto code = [](const auto& result) {
      return result ? std::string("none") : std::string(name(result.error().code));
    };
    place.pause();
    auto start = Clock::now();
    auto claim = co_await catalog.claim(session, "a", Clock::now() + 200ms);
    CHECK(code(claim) == "unknown_outcome");  // it may still be granted
    auto beat = co_await catalog.beat(session, "{}", Clock::now() + 200ms);
    CHECK(code(beat) == "unknown_outcome");
    auto nodes = co_await catalog.nodes(Clock::now() + 200ms);
    CHECK(code(nodes) == "timeout");
    auto changes = co_await catalog.changes("", Clock::now() + 100ms, Clock::now() + 200ms);
    CHECK(code(changes) == "timeout");
    CHECK(Clock::now() - start < 30s);
    place.resume();
    CHECK(co_await catalog.beat(session, "{}", soon()));
    CHECK(co_await catalog.claim(session, "a", soon()));

    place.server.kill();
    claim = co_await catalog.claim(session, "a", Clock::now() + 200ms);
    CHECK(code(claim) == "unavailable");
    nodes = co_await catalog.nodes(Clock::now() + 200ms);
    CHECK(code(nodes) == "unavailable");
    auto late = co_await catalog.nodes(Clock::now() - 1ms);
    CHECK(code(late) == "timeout");
  });
}

TEST_CASE("heartbeats go on while every other connection waits for a lock") {
  at_postgres([](PostgresPlace& place, Catalog& catalog) -> awaitable<void> {
    Keys keys;
    for (int i = 0; i < 20; ++i) keys.push_back(fmt::format("row{}", i));
    co_await add_all(catalog, keys);
    auto session = co_await joined(catalog, "n1", 30s);
    auto lock = place.server.connect();
    lock.query("BEGIN; LOCK TABLE fleet_catalog");
    std::vector<Result<Claim>> claims;
    TaskGroup group(co_await asio::this_coro::executor);
    for (auto& key : keys) group.start("claim", claim_into(catalog, session, key, claims));
    co_await eventually(30s, "all connections wait", [&] {
      return waiting_for_locks(place.server) == std::to_string(PostgresCatalog::usual_connections);
    });
    for (int i = 0; i < 5; ++i) CHECK(co_await catalog.beat(session, "{}", soon()));
    CHECK(claims.empty());
    lock.query("COMMIT");
    co_await group.join();
    CHECK(claims.size() == keys.size());
    for (auto& claim : claims) CHECK(claim);
  });
}

TEST_CASE("of many who claim a row one gets it, and who loses says who has it") {
  at_postgres([](PostgresPlace& place, Catalog& catalog) -> awaitable<void> {
    co_await add_rows(catalog, "a");
    auto other = co_await place.open();
    REQUIRE(other);
    std::vector<Result<Claim>> claims;
    TaskGroup group(co_await asio::this_coro::executor);
    for (int i = 0; i < 40; ++i) {
      auto& from = i % 2 ? catalog : **other;
      auto session = co_await joined(from, fmt::format("n{}", i));
      group.start("claim", claim_into(from, session, "a", claims));
    }
    co_await group.join();
    CHECK(std::ranges::count_if(claims, [](auto& claim) { return claim.has_value(); }) == 1);
    for (auto& claim : claims)
      if (!claim) CHECK(claim.error().code == Errc::held_elsewhere);
  });
}

TEST_CASE("a password is in no error, wherever it came from") {
  PostgresServer server({.password = "hunter2", .fsync = false});
  run([](PostgresServer& there) -> awaitable<void> {
    auto executor = co_await asio::this_coro::executor;
    auto open = [](asio::any_io_executor on, std::string url) -> Async<Opened> {
      co_return co_await PostgresCatalog::open(on, std::move(url), "fleet", Clock::now() + 60s);
    };
    auto with = [&](std::string user) {
      return fmt::format("postgres://{}@127.0.0.1:{}/warren", user, there.port());
    };
    REQUIRE(co_await open(executor, with("warren:hunter2")));
    auto wrong = co_await open(executor, with("warren:hunter3"));
    REQUIRE(!wrong);
    CHECK(wrong.error().code == Errc::denied);
    CHECK(wrong.error().what.find("hunter3") == std::string::npos);
    auto missing = co_await open(executor, with("warren"));
    REQUIRE(!missing);
    CHECK_FALSE(may_retry(missing.error()));

    setenv("PGPASSWORD", "hunter2", 1);
    CHECK(co_await open(executor, with("warren")));
    unsetenv("PGPASSWORD");
    auto file = there.folder() / "passfile";
    std::ofstream(file) << "127.0.0.1:*:*:warren:hunter2\n";
    std::filesystem::permissions(file, std::filesystem::perms::owner_read);
    setenv("PGPASSFILE", file.c_str(), 1);
    CHECK(co_await open(executor, with("warren")));
    unsetenv("PGPASSFILE");

    auto elsewhere = with("warren:hunter2");
    elsewhere.replace(elsewhere.rfind("/warren"), 7, "/hunter2");
    auto no_database = co_await open(executor, elsewhere);
    REQUIRE(!no_database);
    CHECK(no_database.error().code == Errc::not_found);
    CHECK(no_database.error().what.find("hunter2") == std::string::npos);
    there.kill();
    auto dead = co_await PostgresCatalog::open(executor, with("warren:hunter2"), "fleet",
                                               Clock::now() + 1s);
    REQUIRE(!dead);
    CHECK(dead.error().code == Errc::unavailable);
    CHECK(dead.error().what.find("hunter2") == std::string::npos);
  }(server));
}

TEST_CASE("texts that SQL could misread are kept as they are") {
  at_postgres([](PostgresPlace& place, Catalog& catalog) -> awaitable<void> {
    std::string odd = "'\";\\{},NULL\n\t%$1 ü€𝄞";
    std::vector<Row> rows{{.key = R"(';\"{},NULL$1)", .spec = odd, .rank = -7},
                          {.key = "NULL", .spec = ""}};
    CHECK((co_await added(catalog, rows)) == 2);
    CHECK((co_await added(catalog, rows)) == 0);
    auto session = co_await joined(catalog, "'n1\\");
    auto claim = co_await claimed(catalog, session, rows.front().key);
    REQUIRE(co_await catalog.write(claim, RowState::ready, odd, soon()));
    auto all = co_await changes_after(catalog, "");
    auto found = std::ranges::find(all.rows, rows.front().key, &Row::key);
    REQUIRE(found != all.rows.end());
    CHECK(found->spec == odd);
    CHECK(found->note == odd);
    CHECK(found->rank == -7);
    CHECK(found->owner == session);
    CHECK(place.server.query("SELECT ready, state, owner_id = '''n1\\' || substr(owner_id, 5),"
                             " lease_expires > now() FROM fleet_rows WHERE key <> 'NULL'") ==
          "t|ready|t|t");
    // A key cut off at the NUL would name another row.
    auto cut = co_await catalog.claim(session, std::string("NULL\0x", 6), soon());
    REQUIRE(!cut);
    CHECK(cut.error().code == Errc::not_found);
    auto beaten = co_await catalog.beat(session + std::string("\0x", 2), "{}", soon());
    REQUIRE(!beaten);
    CHECK(beaten.error().code == Errc::lease_lost);
    Keys keys{std::string("NULL\0x", 6), rows.front().key, rows.front().key};
    CHECK((co_await removed(catalog, keys)) == 1);
  });
}

TEST_CASE("what is offered is found by an index, whatever else there is") {
  at_postgres([](PostgresPlace& place, Catalog& catalog) -> awaitable<void> {
    // Owned, waiting and removed rows, without statistics.
    place.server.query(
        "INSERT INTO fleet_catalog (key, spec, rank, owner_id, wait_until, removed)"
        " SELECT 'x' || i, '', i, CASE WHEN i % 3 = 0 THEN 'n1/0' END,"
        "  CASE WHEN i % 3 = 1 THEN now() + interval '1 day' END,"
        "  CASE WHEN i % 3 = 2 THEN now() END FROM generate_series(1, 50000) i;"
        "INSERT INTO fleet_nodes VALUES ('n1/0', '', '1 hour', now() + interval '1 hour')");
    std::vector<Row> rows{
        {.key = "low", .rank = -1}, {.key = "b", .rank = 5}, {.key = "a", .rank = 5}};
    CHECK((co_await added(catalog, rows)) == 3);
    auto offered = co_await catalog.claimable(10, soon());
    REQUIRE(offered);
    REQUIRE(offered->size() == 3);
    CHECK((*offered)[0].key == "a");
    CHECK((*offered)[1].key == "b");
    CHECK((*offered)[2].key == "low");
    auto rows_read = [](PostgresPlace& there) {
      there.rows_changed();  // sessions that read report how much
      return std::stoll(there.server.query(
          "SELECT sum(coalesce(idx_tup_fetch, 0) + seq_tup_read) FROM pg_stat_user_tables"));
    };
    auto before = rows_read(place);
    for (int i = 0; i < 10; ++i) REQUIRE(co_await catalog.claimable(10, soon()));
    CHECK(rows_read(place) - before < 1000);
  });
}
