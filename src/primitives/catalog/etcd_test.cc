#include "primitives/catalog/etcd.h"

#include <doctest/doctest.h>

#include <iterator>
#include <sstream>

#include "primitives/catalog/etcd/keys.h"
#include "proof/testkit/faulty_link.h"
#include "proof/testkit/run.h"
#include "proof/testkit/servers/etcd_server.h"

namespace warren {

namespace {

Clock::time_point soon() { return Clock::now() + 30s; }

awaitable<std::unique_ptr<Catalog>> open(const EtcdServer& server, std::string prefix = "test") {
  auto executor = co_await asio::this_coro::executor;
  auto catalog = co_await EtcdCatalog::open(executor, server.url(), std::move(prefix), soon());
  REQUIRE(catalog);
  co_return std::move(*catalog);
}

awaitable<NodeSession> join(Catalog& catalog, std::string name,
                            std::chrono::milliseconds ttl = 60s) {
  auto session = co_await catalog.join(std::move(name), "{}", ttl, soon());
  REQUIRE(session);
  co_return *session;
}

using Keys = std::vector<std::string>;

Keys words(const std::string& text) {
  std::istringstream in(text);
  return {std::istream_iterator<std::string>(in), {}};
}

awaitable<void> add(Catalog& catalog, Keys keys) {
  std::vector<Row> rows;
  for (auto& key : keys) rows.push_back({.key = key, .spec = "spec of " + key});
  auto added = co_await catalog.add(std::move(rows), soon());
  REQUIRE(added);
  REQUIRE(*added == keys.size());
}

awaitable<Claim> claim(Catalog& catalog, NodeSession session, std::string key) {
  auto claimed = co_await catalog.claim(std::move(session), std::move(key), soon());
  REQUIRE(claimed);
  co_return *claimed;
}

awaitable<Row> row(Catalog& catalog, std::string key) {
  auto all = co_await catalog.changes("", soon(), soon());
  REQUIRE(all);
  for (auto& each : all->rows)
    if (each.key == key) co_return each;
  fail_test("there is no row " + key);
}

awaitable<std::vector<std::string>> offered(Catalog& catalog, std::size_t most = 100) {
  auto rows = co_await catalog.claimable(most, soon());
  REQUIRE(rows);
  std::vector<std::string> keys;
  for (auto& each : *rows) keys.push_back(each.key);
  co_return keys;
}

// Runs calls for one row after the other, many at a time.
template <class Body, class... Args>
awaitable<void> for_each_row(int rows, Body body, Args&... args) {
  auto work = [](int& next, int last, Body each, Args&... with) -> awaitable<void> {
    while (next < last) {
      auto row = next++;
      co_await each(row, with...);
    }
  };
  int next = 0;
  TaskGroup tasks(co_await asio::this_coro::executor);
  for (int i = 0; i < 64; ++i) tasks.start("test.rows", work(next, rows, body, args...));
  co_await tasks.join();
}

std::string numbered(int row) { return fmt::format("r{:05}", row); }

// Of that many rows three are offered, one in ten waits, and the rest are owned.
awaitable<void> fill(Catalog& catalog, int rows) {
  std::vector<Row> all;
  for (int i = 0; i < rows; ++i) all.push_back({.key = numbered(i), .spec = "spec"});
  auto added = co_await catalog.add(std::move(all), Clock::now() + 100s);
  REQUIRE(added);
  auto session = co_await join(catalog, "owner", 600s);
  auto own = [](int row, Catalog& where, NodeSession& owner) -> awaitable<void> {
    auto held = co_await where.claim(owner, numbered(row), Clock::now() + 100s);
    REQUIRE(held);
    if (row % 10 != 0) co_return;
    Release how{.error = "planted", .wait = row % 20 == 0 ? 1h : 2h};
    auto released = co_await where.release(*held, how, Clock::now() + 100s);
    REQUIRE(released);
  };
  co_await for_each_row(rows - 3, own, catalog, session);
}

struct Traffic {
  std::size_t asked, answered;  // bytes
};

// The traffic of one look at what is claimable.
awaitable<Traffic> traffic_of_look(Catalog& catalog, FaultyLink& link) {
  constexpr std::size_t looks = 20;
  auto before = link.counters();
  for (std::size_t i = 0; i < looks; ++i) {
    auto three = co_await offered(catalog, 10);
    REQUIRE(three.size() == 3);
  }
  auto after = link.counters();
  co_return Traffic{(after.bytes_to_server - before.bytes_to_server) / looks,
                    (after.bytes_to_client - before.bytes_to_client) / looks};
}

}  // namespace

TEST_CASE("a row in etcd goes from free to claimed, ready, handed over and free again") {
  EtcdServer server;
  run([](EtcdServer& etcd) -> awaitable<void> {
    auto catalog = co_await open(etcd);
    auto alice = co_await join(*catalog, "alice");
    auto bob = co_await join(*catalog, "bob");
    co_await add(*catalog, words("a b"));
    CHECK(co_await offered(*catalog) == words("a b"));
    auto held = co_await claim(*catalog, alice, "a");
    CHECK(held.epoch.counter > 0);
    CHECK(co_await offered(*catalog) == words("b"));
    auto again = co_await claim(*catalog, alice, "a");
    CHECK(again.epoch == held.epoch);
    auto other = co_await catalog->claim(bob, "a", soon());
    REQUIRE(!other);
    CHECK(other.error().code == Errc::held_elsewhere);
    auto wrote = co_await catalog->write(held, RowState::ready, "note", soon());
    CHECK(wrote);
    auto ready = co_await row(*catalog, "a");
    CHECK(ready.state == RowState::ready);
    CHECK(ready.note == "note");
    CHECK(ready.owner == alice);
    CHECK(ready.epoch == held.epoch);
    auto handed = co_await catalog->hand_over(held, bob, soon());
    REQUIRE(handed);
    CHECK(handed->epoch > held.epoch);
    auto stale = co_await catalog->write(held, RowState::ready, "old", soon());
    REQUIRE(!stale);
    CHECK(stale.error().code == Errc::lease_lost);
    Release how{.note = "done"};
    auto released = co_await catalog->release(*handed, how, soon());
    CHECK(released);
    auto repeated = co_await catalog->release(*handed, how, soon());
    CHECK(repeated);
    CHECK(co_await offered(*catalog) == words("a b"));
    auto lost = co_await catalog->write(*handed, RowState::ready, {}, soon());
    REQUIRE(!lost);
    CHECK(lost.error().code == Errc::lease_lost);
    auto none = co_await catalog->claim(alice, "c", soon());
    REQUIRE(!none);
    CHECK(none.error().code == Errc::not_found);
    auto second = co_await claim(*catalog, alice, "b");
    auto nobody = co_await catalog->hand_over(second, "eve/0000000000000001", soon());
    REQUIRE(!nobody);
    CHECK(nobody.error().code == Errc::not_found);
    auto invalid = co_await catalog->write(held, RowState::free, {}, soon());
    REQUIRE(!invalid);
    CHECK(invalid.error().code == Errc::invalid);
  }(server));
}

TEST_CASE("a node that leaves or dies leaves its rows to others, who need not know of it") {
  EtcdServer server;
  run([](EtcdServer& etcd) -> awaitable<void> {
    auto catalog = co_await open(etcd);
    auto leaves = co_await join(*catalog, "leaves");
    auto dies = co_await join(*catalog, "dies", 6s);
    auto bob = co_await join(*catalog, "bob");
    Keys keys;
    for (int i = 100; i < 200; ++i) keys.push_back(std::to_string(i));
    co_await add(*catalog, keys);
    for (auto& key : keys) {
      auto beaten = co_await catalog->beat(dies, "{}", soon());
      REQUIRE(beaten);
      co_await claim(*catalog, key < "150" ? leaves : dies, key);
    }
    auto left = co_await catalog->leave(leaves, soon());
    REQUIRE(left);
    auto freed = co_await row(*catalog, "100");
    CHECK(freed.state == RowState::free);
    CHECK(freed.owner.empty());
    CHECK(freed.epoch.counter > 0);
    auto again = co_await catalog->leave(leaves, soon());
    CHECK(again);
    auto lost = co_await catalog->beat(leaves, "{}", soon());
    REQUIRE(!lost);
    CHECK(lost.error().code == Errc::lease_lost);
    auto by_the_dead = co_await catalog->claim(leaves, "100", soon());
    REQUIRE(!by_the_dead);
    CHECK(by_the_dead.error().code == Errc::lease_lost);
    // A row of the dying node is claimed before any process has freed it.
    auto is_claimed = [](Catalog& from, NodeSession& by) {
      return from.claim(by, "199", Clock::now() + 30s);
    };
    co_await eventually(30s, "a row of a dead node is claimed", is_claimed, *catalog, bob);
    auto all = co_await offered(*catalog, 1000);
    CHECK(all.size() == 99);
    CHECK((co_await row(*catalog, "199")).owner == bob);
    auto nodes = co_await catalog->nodes(soon());
    REQUIRE(nodes);
    REQUIRE(nodes->size() == 1);
    CHECK(nodes->front().session == bob);
    CHECK(nodes->front().ttl == 60s);
    CHECK(nodes->front().left > 0s);
    CHECK(nodes->front().left <= 60s);
    CHECK(etcd.ctl({"get", "test/life/", "--prefix", "--keys-only"}).contains("bob"));
    CHECK_FALSE(etcd.ctl({"get", "test/life/", "--prefix", "--keys-only"}).contains("dies"));
  }(server));
}

TEST_CASE("a row that failed waits by etcd's clock, and is offered again by rank") {
  EtcdServer server;
  run([](EtcdServer& etcd) -> awaitable<void> {
    auto catalog = co_await open(etcd);
    auto alice = co_await join(*catalog, "alice");
    co_await add(*catalog, words("a b c"));
    Release briefly{.error = "broken", .wait = 1s}, long_time{.error = "broken", .wait = 1h};
    auto a = co_await claim(*catalog, alice, "a"), b = co_await claim(*catalog, alice, "b");
    auto first = co_await catalog->release(a, briefly, soon());
    REQUIRE(first);
    auto second = co_await catalog->release(b, long_time, soon());
    REQUIRE(second);
    auto refused = co_await catalog->claim(alice, "b", soon());
    REQUIRE(!refused);
    CHECK(refused.error().code == Errc::held_elsewhere);
    auto waits = co_await row(*catalog, "b");
    CHECK(waits.state == RowState::failed);
    CHECK(waits.attempts == 1);
    CHECK(waits.error == "broken");
    CHECK(waits.wait > 59min);
    CHECK(waits.wait <= 1h);
    RowChange lower{.rank = -1};
    auto changed = co_await catalog->change("a", lower, soon());
    REQUIRE(changed);
    auto is_back = [](Catalog& from) -> awaitable<bool> {
      auto keys = co_await offered(from);
      co_return keys == words("c a");
    };
    co_await eventually(30s, "the wait is over", is_back, *catalog);
    CHECK((co_await row(*catalog, "a")).wait == 0s);
    RowChange higher{.rank = 1};
    auto moved = co_await catalog->change("a", higher, soon());
    REQUIRE(moved);
    CHECK(co_await offered(*catalog) == words("a c"));
    RowChange ends{.ends_wait = true};
    auto ended = co_await catalog->change("b", ends, soon());
    REQUIRE(ended);
    CHECK(co_await offered(*catalog) == words("a b c"));
    CHECK((co_await row(*catalog, "b")).attempts == 0);
    // Waits that are over leave nothing behind.
    CHECK(etcd.ctl({"get", "test/length/", "--prefix", "--keys-only"}).empty());
    CHECK(etcd.ctl({"get", "test/wait", "--prefix", "--keys-only"}).empty());
  }(server));
}

TEST_CASE("rows that wait cost those who ask nothing, however many they are") {
  EtcdServer server;
  run([](EtcdServer& etcd) -> awaitable<void> {
    auto catalog = co_await open(etcd);
    auto alice = co_await join(*catalog, "alice");
    Keys keys;
    for (int i = 100; i < 200; ++i) keys.push_back(std::to_string(i));
    co_await add(*catalog, keys);
    for (auto& key : keys) {
      Release how{.error = "broken", .wait = key < "190" ? 1h : 1s};
      auto held = co_await claim(*catalog, alice, key);
      auto done = co_await catalog->release(held, how, soon());
      REQUIRE(done);
    }
    auto are_back = [](Catalog& from) -> awaitable<bool> {
      auto back = co_await offered(from);
      co_return back.size() == 10 && back.front() == "190";
    };
    co_await eventually(30s, "the short waits are over", are_back, *catalog);
  }(server));
}

TEST_CASE("a node that is idle writes nothing, and one that has news writes once") {
  EtcdServer server;
  run([](EtcdServer& etcd) -> awaitable<void> {
    auto catalog = co_await open(etcd);
    auto alice = co_await join(*catalog, "alice");
    auto before = etcd.revision();
    for (int i = 0; i < 10; ++i) {
      auto kept = co_await catalog->beat(alice, "{}", soon());
      REQUIRE(kept);
    }
    CHECK(etcd.revision() == before);
    auto told = co_await catalog->beat(alice, "news", soon());
    REQUIRE(told);
    CHECK(etcd.revision() == before + 1);
    auto nodes = co_await catalog->nodes(soon());
    REQUIRE(nodes);
    CHECK(nodes->at(0).info == "news");
  }(server));
}

TEST_CASE("a beat makes a lease last one ttl from then on") {
  EtcdServer server;
  run([](EtcdServer& etcd) -> awaitable<void> {
    auto catalog = co_await open(etcd);
    auto beats = co_await join(*catalog, "beats", 3s);
    auto silent = co_await join(*catalog, "silent", 3s);
    auto only_one_lives = [](Catalog& from, NodeSession& living) -> Async<> {
      auto kept = co_await from.beat(living, "{}", soon());
      if (!kept) co_return kept;
      auto nodes = co_await from.nodes(soon());
      if (!nodes) co_return std::unexpected(nodes.error());
      if (nodes->size() == 1) co_return ok;
      co_return fail(Errc::refused, "{} nodes", nodes->size());
    };
    co_await eventually(60s, "the other one is dead", only_one_lives, *catalog, beats);
    auto dead = co_await catalog->beat(silent, "{}", soon());
    REQUIRE(!dead);
    CHECK(dead.error().code == Errc::lease_lost);
    auto kept = co_await catalog->beat(beats, "{}", soon());
    CHECK(kept);
  }(server));
}

TEST_CASE("etcd restarts while nodes beat: leases are extended and nothing is lost") {
  EtcdServer server;
  run([](EtcdServer& etcd) -> awaitable<void> {
    auto catalog = co_await open(etcd);
    auto alice = co_await join(*catalog, "alice", 5s);
    co_await add(*catalog, words("a"));
    auto held = co_await claim(*catalog, alice, "a");
    auto beat = [](Catalog& to, NodeSession& session) { return to.beat(session, "{}", soon()); };
    for (int i = 0; i < 3; ++i) {
      etcd.kill();
      etcd.restart();
      auto kept = co_await beat(*catalog, alice);
      REQUIRE(kept);
    }
    auto wrote = co_await catalog->write(held, RowState::ready, "still here", soon());
    CHECK(wrote);
    CHECK((co_await row(*catalog, "a")).note == "still here");
  }(server));
}

TEST_CASE("a call that is made while etcd is away is done when it is back") {
  EtcdServer server;
  run(
      [](EtcdServer& etcd) -> awaitable<void> {
        auto catalog = co_await open(etcd);
        auto alice = co_await join(*catalog, "alice");
        co_await add(*catalog, words("a"));
        etcd.kill();
        auto claims = [](Catalog& from, NodeSession by) -> awaitable<void> {
          auto claimed = co_await from.claim(by, "a", Clock::now() + 60s);
          CHECK(claimed);
        };
        auto both = [](TaskGroup& group, EtcdServer& killed, Catalog& from, NodeSession& by,
                       decltype(claims)& claim_a) -> Async<> {
          group.start("test.claim", claim_a(from, by));
          co_await sleep_for(200ms);  // so that it finds nothing a few times
          killed.restart();
          co_await group.join();
          co_return ok;
        };
        auto done = co_await with_group(both, etcd, *catalog, alice, claims);
        CHECK(done);
      }(server),
      120s);
}

TEST_CASE("a paused etcd ends calls at their deadline, with what is known of them") {
  EtcdServer server;
  run([](EtcdServer& etcd) -> awaitable<void> {
    auto catalog = co_await open(etcd);
    auto alice = co_await join(*catalog, "alice");
    co_await add(*catalog, words("a b"));
    auto held = co_await claim(*catalog, alice, "a");
    auto all = co_await catalog->changes("", soon(), soon());
    REQUIRE(all);
    etcd.pause();
    auto begin = Clock::now();
    auto nodes = co_await catalog->nodes(Clock::now() + 300ms);
    REQUIRE(!nodes);
    CHECK(nodes.error().code == Errc::timeout);
    auto wrote = co_await catalog->write(held, RowState::ready, {}, Clock::now() + 300ms);
    REQUIRE(!wrote);
    CHECK(wrote.error().code == Errc::unknown_outcome);
    auto beat = co_await catalog->beat(alice, "{}", Clock::now() + 300ms);
    REQUIRE(!beat);
    CHECK(beat.error().code == Errc::timeout);
    auto changes =
        co_await catalog->changes(all->position, Clock::now() + 100ms, Clock::now() + 300ms);
    REQUIRE(!changes);
    CHECK(changes.error().code == Errc::timeout);
    CHECK(Clock::now() - begin < 10s);
    etcd.resume();
    auto again = co_await catalog->write(held, RowState::ready, {}, soon());
    CHECK(again);
    etcd.kill();
    auto away = co_await catalog->nodes(Clock::now() + 300ms);
    REQUIRE(!away);
    CHECK(away.error().code == Errc::unavailable);
  }(server));
}

TEST_CASE(
    "changes are told since a position, deletes included, without waiting for what is there") {
  EtcdServer server;
  run([](EtcdServer& etcd) -> awaitable<void> {
    auto catalog = co_await open(etcd), writer = co_await open(etcd);
    auto everything = co_await catalog->changes("", Clock::now(), soon());
    REQUIRE(everything);
    CHECK(everything->is_everything);
    CHECK(everything->rows.empty());
    co_await add(*writer, words("a b"));
    auto added = co_await catalog->changes(everything->position, Clock::now(), soon());
    REQUIRE(added);
    CHECK_FALSE(added->is_everything);
    REQUIRE(added->rows.size() == 2);
    CHECK(added->rows[0].spec == "spec of a");
    auto removed = co_await writer->remove(words("a none a"), soon());
    REQUIRE(removed);
    CHECK(*removed == 1);
    auto gone = co_await catalog->changes(added->position, Clock::now(), soon());
    REQUIRE(gone);
    CHECK(gone->rows.empty());
    CHECK(gone->removed == Keys{"a"});
    // Nodes are not rows.
    co_await join(*writer, "alice");
    auto none = co_await catalog->changes(gone->position, Clock::now(), soon());
    REQUIRE(none);
    CHECK(none->rows.empty());
    CHECK(none->removed.empty());
    // A change that was reported once is reported again to a caller that asks from there, here and
    // elsewhere.
    auto again = co_await writer->changes(everything->position, Clock::now(), soon());
    REQUIRE(again);
    REQUIRE(again->rows.size() == 1);
    CHECK(again->rows[0].key == "b");
    CHECK(again->removed == Keys{"a"});
  }(server));
}

TEST_CASE("whoever waits for a change is told when it happens") {
  EtcdServer server;
  run([](EtcdServer& etcd) -> awaitable<void> {
    auto catalog = co_await open(etcd), writer = co_await open(etcd);
    auto everything = co_await catalog->changes("", Clock::now(), soon());
    REQUIRE(everything);
    auto waits = [](Catalog& from, std::string position, bool& is_told) -> awaitable<void> {
      auto told = co_await from.changes(position, Clock::now() + 50s, Clock::now() + 55s);
      REQUIRE(told);
      CHECK(told->rows.size() == 1);
      is_told = true;
    };
    auto both = [](TaskGroup& group, decltype(waits)& wait_for_it, Catalog& from, Catalog& to,
                   std::string& position) -> Async<> {
      bool is_told = false;
      group.start("test.wait", wait_for_it(from, position, is_told));
      co_await sleep_for(100ms);
      CHECK_FALSE(is_told);
      co_await add(to, words("a"));
      co_await group.join();
      CHECK(is_told);
      co_return ok;
    };
    auto begin = Clock::now();
    auto done = co_await with_group(both, waits, *catalog, *writer, everything->position);
    CHECK(done);
    CHECK(Clock::now() - begin < 30s);
  }(server));
}

TEST_CASE("a reader whose position was compacted, or is of another etcd, is told everything") {
  EtcdServer server, other;
  run([](EtcdServer& etcd, EtcdServer& elsewhere) -> awaitable<void> {
    auto catalog = co_await open(etcd);
    co_await add(*catalog, words("a b"));
    auto everything = co_await catalog->changes("", Clock::now(), soon());
    REQUIRE(everything);
    auto removed = co_await catalog->remove(words("a"), soon());
    REQUIRE(removed);
    co_await add(*catalog, words("c"));
    etcd.ctl({"compact", std::to_string(etcd.revision())});
    auto late = co_await open(etcd);
    auto told = co_await late->changes(everything->position, soon(), soon());
    REQUIRE(told);
    CHECK(told->is_everything);
    REQUIRE(told->rows.size() == 2);
    CHECK(told->rows[0].key == "b");
    CHECK(told->rows[1].key == "c");
    auto stranger = co_await open(elsewhere);
    for (const std::string& position : {told->position, std::string("nonsense")}) {
      auto all = co_await stranger->changes(position, soon(), soon());
      REQUIRE(all);
      CHECK(all->is_everything);
      CHECK(all->rows.empty());
    }
    // As if etcd had been restored from an older copy: the position is of what it has forgotten.
    auto ahead = warren::etcd::parse_position(told->position);
    REQUIRE(ahead);
    ahead->revision += 1000;
    auto set_back = co_await late->changes(to_string(*ahead), soon(), soon());
    REQUIRE(set_back);
    CHECK(set_back->is_everything);
    CHECK(set_back->rows.size() == 2);
    // Changes in etcd outside the rows do not make a position old.
    auto idle = co_await late->changes(told->position, Clock::now(), soon());
    REQUIRE(idle);
    etcd.ctl({"put", "other", "1"});
    idle = co_await late->changes(idle->position, Clock::now(), soon());
    REQUIRE(idle);
    etcd.ctl({"compact", std::to_string(etcd.revision())});
    auto later = co_await open(etcd);
    auto still = co_await later->changes(idle->position, Clock::now(), soon());
    REQUIRE(still);
    CHECK_FALSE(still->is_everything);
  }(server, other));
}

TEST_CASE("a reader that waits goes on when etcd restarts") {
  EtcdServer server;
  run([](EtcdServer& etcd) -> awaitable<void> {
    auto catalog = co_await open(etcd);
    auto everything = co_await catalog->changes("", Clock::now(), soon());
    REQUIRE(everything);
    auto quiet = co_await catalog->changes(everything->position, Clock::now(), soon());
    REQUIRE(quiet);
    etcd.kill();
    etcd.restart();
    auto writer = co_await open(etcd);
    co_await add(*writer, words("a"));
    auto told = co_await catalog->changes(quiet->position, soon(), soon());
    REQUIRE(told);
    CHECK_FALSE(told->is_everything);
    CHECK(told->rows.size() == 1);
  }(server));
}

TEST_CASE("2,000 rows are added, listed and removed in pages, and large ones too") {
  EtcdServer server;
  run(
      [](EtcdServer& etcd) -> awaitable<void> {
        auto catalog = co_await open(etcd);
        std::vector<Row> rows;
        Keys keys;
        for (int i = 0; i < 2000; ++i) {
          keys.push_back(fmt::format("{:04}", i));
          rows.push_back({.key = keys.back(), .spec = "spec", .rank = i % 7});
        }
        for (int i = 0; i < 100; ++i) {
          keys.push_back(fmt::format("large-{}", i));
          rows.push_back(
              {.key = keys.back(), .spec = std::string(most_row_text, 'x'), .rank = 100});
        }
        auto added = co_await catalog->add(rows, soon());
        REQUIRE(added);
        CHECK(*added == 2100);
        auto again = co_await catalog->add(rows, soon());
        REQUIRE(again);
        CHECK(*again == 0);
        auto all = co_await catalog->changes("", soon(), soon());
        REQUIRE(all);
        CHECK(all->rows.size() == 2100);
        CHECK(all->rows[0].key == "0000");
        auto best = co_await catalog->claimable(200, soon());
        REQUIRE(best);
        REQUIRE(best->size() == 200);
        CHECK(best->at(0).key == "large-0");
        CHECK(best->at(99).spec.size() == most_row_text);
        CHECK(best->at(100).key == "0006");
        auto removed = co_await catalog->remove(keys, soon());
        REQUIRE(removed);
        CHECK(*removed == 2100);
        auto none = co_await catalog->changes("", soon(), soon());
        REQUIRE(none);
        CHECK(none->rows.empty());
        CHECK(etcd.ctl({"get", "test/free/", "--prefix", "--keys-only"}).empty());
      }(server),
      120s);
}

TEST_CASE("what is read to find three rows to claim does not grow with the rows beside them") {
  std::vector<Traffic> of;
  for (int rows : {2'000, 50'000}) {
    EtcdServer server;
    FaultyLink link(server.port());
    run(
        [](EtcdServer& etcd, FaultyLink& on, int count,
           std::vector<Traffic>& seen) -> awaitable<void> {
          auto near = co_await open(etcd);
          co_await fill(*near, count);
          auto executor = co_await asio::this_coro::executor;
          auto url = "etcd://127.0.0.1:" + std::to_string(on.port());
          auto far = co_await EtcdCatalog::open(executor, url, "test", soon());
          REQUIRE(far);
          auto traffic = co_await traffic_of_look(**far, on);
          seen.push_back(traffic);
        }(server, link, rows, of),
        200s);
    MESSAGE(rows, " rows: ", of.back().asked, " bytes asked, ", of.back().answered, " answered");
  }
  // A tenth more, for numbers with one more digit and gRPC's own traffic between calls.
  CHECK(of[1].asked <= of[0].asked * 11 / 10);
  CHECK(of[1].answered <= of[0].answered * 11 / 10);
}

TEST_CASE(
    "a row that was removed and added again has no epoch, and then one that was never before") {
  EtcdServer server;
  run([](EtcdServer& etcd) -> awaitable<void> {
    auto catalog = co_await open(etcd);
    auto alice = co_await join(*catalog, "alice");
    FencingToken newest;
    for (int i = 0; i < 5; ++i) {
      co_await add(*catalog, words("a"));
      CHECK((co_await row(*catalog, "a")).epoch == FencingToken{});
      auto held = co_await claim(*catalog, alice, "a");
      CHECK(held.epoch > newest);
      newest = held.epoch;
      auto removed = co_await catalog->remove(words("a"), soon());
      REQUIRE(removed);
      CHECK(*removed == 1);
      auto lost = co_await catalog->write(held, RowState::ready, {}, soon());
      REQUIRE(!lost);
      CHECK(lost.error().code == Errc::lease_lost);
    }
  }(server));
}

TEST_CASE("of many that claim one row, exactly one has it") {
  EtcdServer server;
  run([](EtcdServer& etcd) -> awaitable<void> {
    auto catalog = co_await open(etcd), other = co_await open(etcd);
    std::vector<NodeSession> nodes;
    for (int i = 0; i < 20; ++i) nodes.push_back(co_await join(*catalog, std::to_string(i)));
    co_await add(*catalog, words("a"));
    auto claims = [](Catalog& from, NodeSession by, int& won, int& refused) -> awaitable<void> {
      auto claimed = co_await from.claim(by, "a", soon());
      if (claimed)
        ++won;
      else if (claimed.error().code == Errc::held_elsewhere)
        ++refused;
    };
    int won = 0, refused = 0;
    auto all = [](TaskGroup& group, std::vector<NodeSession>& by, Catalog& one, Catalog& two,
                  decltype(claims)& start, int& winners, int& losers) -> Async<> {
      for (std::size_t i = 0; i < by.size(); ++i)
        group.start("test.claim", start(i % 2 ? one : two, by[i], winners, losers));
      co_await group.join();
      co_return ok;
    };
    auto done = co_await with_group(all, nodes, *catalog, *other, claims, won, refused);
    REQUIRE(done);
    CHECK(won == 1);
    CHECK(refused == 19);
  }(server));
}

TEST_CASE("a catalog goes on when the leader of three members is killed, or one is silent") {
  EtcdServer server({.members = 3});
  run(
      [](EtcdServer& etcd) -> awaitable<void> {
        auto catalog = co_await open(etcd);
        auto alice = co_await join(*catalog, "alice");
        co_await add(*catalog, words("a b"));
        auto first = co_await claim(*catalog, alice, "a");
        auto leader = etcd.leader();
        etcd.kill(leader);
        auto second = co_await claim(*catalog, alice, "b");
        CHECK(second.epoch > first.epoch);
        auto kept = co_await catalog->beat(alice, "{}", soon());
        CHECK(kept);
        etcd.restart(leader);
        etcd.pause(0);
        auto wrote = co_await catalog->write(first, RowState::ready, {}, soon());
        CHECK(wrote);
        etcd.resume(0);
      }(server),
      180s);
}

TEST_CASE("a catalog talks TLS to etcd, and catalogs of two prefixes know nothing of each other") {
  Certificates certificates;
  EtcdServer server({.tls = &certificates});
  run([](EtcdServer& etcd) -> awaitable<void> {
    auto one = co_await open(etcd, "one"), two = co_await open(etcd, "two/");
    co_await add(*one, words("a"));
    CHECK(co_await offered(*one) == words("a"));
    CHECK(co_await offered(*two) == words(""));
    CHECK(etcd.ctl({"get", "one/row/", "--prefix", "--keys-only"}).contains("one/row/a"));
  }(server));
}

TEST_CASE("an etcd that is not there, or a URL that is wrong, is told when it is opened") {
  unsigned short port = 0;
  {
    EtcdServer server;
    port = server.port();
  }
  run([](unsigned short nobody) -> awaitable<void> {
    auto executor = co_await asio::this_coro::executor;
    auto url = fmt::format("etcd://127.0.0.1:{}", nobody);
    auto away = co_await EtcdCatalog::open(executor, url, "test", Clock::now() + 300ms);
    REQUIRE(!away);
    CHECK(away.error().code == Errc::unavailable);
    auto wrong = co_await EtcdCatalog::open(executor, "http://a", "test", soon());
    REQUIRE(!wrong);
    CHECK(wrong.error().code == Errc::invalid);
  }(port));
}

}  // namespace warren
