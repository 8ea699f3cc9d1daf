// Mirrors of one server: what goes wrong between them and it, and that they notice.
#include "proof/testkit/faulty_link.h"
#include "with_mirrors.h"

using namespace warren;

namespace {

// As write.lua does it, but tells nobody.
void write_unheard(RedisServer& server, const std::string& id, int value) {
  auto known = parse_tail(server.try_cli({"HGET", "{c1}:mirror:head", "tail"}).value_or(""));
  auto tail = known.value_or(Tail{});
  auto stamp = fmt::format("x:{}", server.cli({"INCR", "stamps"}));
  auto packed =
      fmt::format("={} {} nodes:{}{}", 6 + id.size(), std::to_string(value).size(), id, value);
  auto at =
      server.cli({"XADD", "{c1}:mirror:log", "0-*", "p", tail.at.stamp, "s", stamp, "b", packed});
  server.cli({"HSET", "{c1}:mirror:head", "tail", at + " " + stamp + " " + tail.born});
  server.cli({"SET", "{c1}:nodes:" + id, std::to_string(value)});
}

}  // namespace

TEST_CASE("what one instance puts, all see, and a deletion too") {
  RedisServer server;
  with_mirrors(
      {settings_for(server), settings_for(server)}, mirror_terms(),
      [](Instances& all, RedisServer& s) -> awaitable<void> {
        auto& alice = *all[0]->mirror;
        auto& bob = *all[1]->mirror;
        auto first = co_await put(alice, node_type, "edge-1", R"({"cpu":1})");
        auto applied = co_await alice.applied(first, Clock::now() + 10s);
        REQUIRE(applied);
        CHECK(seen(alice, node_type, "edge-1") == R"({"cpu":1})");
        co_await eventually_seen(bob, node_type, "edge-1", R"({"cpu":1})");
        CHECK(s.cli({"GET", "{c1}:nodes:edge-1"}) == R"({"cpu":1})");
        auto second = co_await put(bob, node_type, "edge-1", {});
        CHECK(second > first);
        co_await eventually_seen(alice, node_type, "edge-1", {});
        CHECK(s.cli({"EXISTS", "{c1}:nodes:edge-1"}) == "0");
        CHECK(bob.counters().catch_ups == 1);  // the one after the snapshot
        CHECK(bob.health() == MirrorHealth::current);
      },
      server);
}

TEST_CASE(
    "whoever follows snapshots sees the differences between them, and leaves when it closes") {
  RedisServer server;
  with_mirrors({settings_for(server), settings_for(server)}, mirror_terms(),
               [](Instances& all) -> awaitable<void> {
                 auto& bob = *all[1]->mirror;
                 auto seen_last = bob.read();
                 std::map<std::string, std::string> followed;
                 for (int i = 0; i < 20; ++i)
                   co_await put(*all[0]->mirror, node_type, std::to_string(i % 7),
                                std::to_string(i));
                 co_await put(*all[0]->mirror, node_type, "3", {});
                 co_await put(*all[0]->mirror, node_type, "end", "1");
                 while (!followed.contains("end")) {
                   co_await bob.changed(seen_last);
                   auto next = bob.read();
                   Table::each_change(seen_last->table(node_type), next->table(node_type),
                                      [&](const Entity* from, const Entity* to) {
                                        if (to)
                                          followed[std::string(to->id())] = to->value();
                                        else
                                          followed.erase(std::string(from->id()));
                                      });
                   seen_last = next;
                 }
                 CHECK(followed == std::map<std::string, std::string>{{"0", "14"},
                                                                      {"1", "15"},
                                                                      {"2", "16"},
                                                                      {"4", "18"},
                                                                      {"5", "19"},
                                                                      {"6", "13"},
                                                                      {"end", "1"}});
                 bool left = false;
                 auto wait = [](Mirror& mirror, std::shared_ptr<const Snapshot> last,
                                bool& done) -> awaitable<void> {
                   co_await mirror.changed(std::move(last));
                   done = true;
                 };
                 TaskGroup group(co_await asio::this_coro::executor);
                 group.start("waiting", wait(bob, seen_last, left));
                 co_await bob.close();
                 co_await group.join();
                 CHECK(left);
               });
}

TEST_CASE("a batch is seen whole or not at all") {
  RedisServer server;
  with_mirrors({settings_for(server), settings_for(server)}, mirror_terms(),
               [](Instances& all) -> awaitable<void> {
                 auto& bob = *all[1]->mirror;
                 for (int i = 0; i < 200; ++i) {
                   Batch batch;
                   for (auto id : {"a", "b", "c"})
                     batch.push_back({stream_type, id, std::to_string(i)});
                   auto posted = all[0]->mirror->post(std::move(batch));
                   REQUIRE(posted);
                   if (i % 10 == 0) co_await sleep_for(1ms);  // so that they do not all go together
                   auto snapshot = bob.read();
                   const auto *a = snapshot->find(stream_type, "a"),
                              *c = snapshot->find(stream_type, "c");
                   REQUIRE((a == nullptr) == (c == nullptr));
                   if (a) CHECK(a->value() == c->value());
                 }
                 co_await eventually_seen(bob, stream_type, "b", "199");
                 std::size_t count = 0;
                 bob.read()->table(stream_type).each([&](const Entity&) { ++count; });
                 CHECK(count == 3);
               });
}

TEST_CASE("an instance that starts later has all of it, also what is written while it loads") {
  RedisServer server;
  with_mirrors(
      {settings_for(server)}, mirror_terms(),
      [](Instances& all, RedisServer& s) -> awaitable<void> {
        auto& alice = *all[0]->mirror;
        for (int i = 0; i < 5000; ++i) {
          Batch batch;
          batch.push_back({node_type, fmt::format("{:04}", i), "old"});
          REQUIRE(alice.post(std::move(batch)));
        }
        co_await put(alice, stream_type, "end", "1");
        s.cli({"HSET", "{c1}:nodes:odd", "not", "a string"});
        s.cli({"SET", "{c2}:nodes:other", "x"});
        auto late = co_await start_instance(settings_for(s), mirror_terms());
        for (int i = 0; i < 5000; i += 2) {
          Batch batch;
          batch.push_back({node_type, fmt::format("{:04}", i), "new"});
          REQUIRE(alice.post(std::move(batch)));
        }
        auto last = co_await put(alice, stream_type, "end", "2");
        auto applied = co_await late->mirror->applied(last, Clock::now() + 20s);
        CHECK(applied);
        int wrong = 0;
        for (int i = 0; i < 5000; ++i)
          wrong +=
              seen(*late->mirror, node_type, fmt::format("{:04}", i)) != (i % 2 ? "old" : "new");
        CHECK(wrong == 0);
        CHECK(late->mirror->read()->table(node_type).size() == 5000);
        co_await stop_instance(*late);
      },
      server);
}

TEST_CASE("a subscriber that was cut off catches up from the log, and goes on by push") {
  RedisServer server;
  auto terms = mirror_terms();
  terms.tail_check = 1h;
  with_mirrors(
      {settings_for(server), settings_for(server)}, terms,
      [](Instances& all, RedisServer& s) -> awaitable<void> {
        auto& alice = *all[0]->mirror;
        auto& bob = *all[1]->mirror;
        for (int round = 0; round < 5; ++round) {
          // Both happen before anybody can subscribe again.
          s.cli({"CLIENT", "KILL", "TYPE", "pubsub"});
          write_unheard(s, "missed", round);
          co_await eventually_seen(bob, node_type, "missed", std::to_string(round));
          co_await eventually_seen(alice, node_type, "missed", std::to_string(round));
          co_await put(alice, node_type, "pushed", std::to_string(round));
          co_await eventually_seen(bob, node_type, "pushed", std::to_string(round));
        }
        CHECK(bob.counters().snapshots == 1);
        CHECK(all[1]->rewrites.empty());
      },
      server);
}

TEST_CASE("a push that is lost without a trace is noticed by the look at the tail") {
  RedisServer server;
  with_mirrors(
      {settings_for(server), settings_for(server)}, mirror_terms(),
      [](Instances& all, RedisServer& s) -> awaitable<void> {
        write_unheard(s, "a", 1);
        auto written = Clock::now();
        co_await eventually_seen(*all[0]->mirror, node_type, "a", "1");
        co_await eventually_seen(*all[1]->mirror, node_type, "a", "1");
        CHECK(Clock::now() - written < 10s);
        CHECK(all[0]->mirror->read()->version() == Version{0, 1});
      },
      server);
}

TEST_CASE("a push that does not follow what is known is not applied; the log is read instead") {
  RedisServer server;
  auto terms = mirror_terms();
  terms.tail_check = 1h;
  with_mirrors(
      {settings_for(server)}, terms,
      [](Instances& all, RedisServer& s) -> awaitable<void> {
        auto& bob = *all[0]->mirror;
        s.cli({"XADD", "{c1}:mirror:log", "0-*", "p", "-", "s", "x:1", "b", "=7 1 nodes:a1"});
        s.cli({"XADD", "{c1}:mirror:log", "0-*", "p", "x:1", "s", "x:2", "b", "=7 1 nodes:b1"});
        s.cli({"HSET", "{c1}:mirror:head", "tail", "0-2 x:2"});
        s.cli({"SPUBLISH", "foghorn:{c1}:state_updates:log", "0-2 x:1 x:2 =7 1 nodes:b1"});
        co_await eventually_seen(bob, node_type, "b", "1");
        CHECK(seen(bob, node_type, "a") == "1");
        CHECK(bob.counters().catch_ups == 2);
        // Neither is one that nobody can read.
        s.cli({"SPUBLISH", "foghorn:{c1}:state_updates:log", "nonsense"});
        s.cli({"PUBLISH", "foghorn:{c1}:state_updates", R"({"type":7})"});
        co_await eventually(
            20s, "both are counted", [](Mirror& m) { return m.counters().malformed == 2; }, bob);
      },
      server);
}

TEST_CASE("when the log was trimmed past a reader, it reads everything again") {
  RedisServer server;
  FaultyLink link(server.port());
  auto terms = mirror_terms();
  terms.log_entries = 10;
  auto settings = settings_for(link.port());
  settings.connect_timeout = 300ms;
  with_mirrors(
      {settings_for(server), settings}, terms,
      [](Instances& all, FaultyLink& l) -> awaitable<void> {
        auto& alice = *all[0]->mirror;
        auto& bob = *all[1]->mirror;
        co_await put(alice, node_type, "stays", "1");
        co_await put(alice, node_type, "goes", "1");
        co_await eventually_seen(bob, node_type, "goes", "1");
        l.cut();
        co_await put(alice, node_type, "goes", {});
        for (int i = 0; i < 500; ++i) co_await put(alice, node_type, "n", std::to_string(i));
        CHECK(seen(bob, node_type, "goes") == "1");
        l.heal();
        co_await eventually_seen(bob, node_type, "n", "499");
        CHECK(seen(bob, node_type, "goes") == std::nullopt);
        CHECK(seen(bob, node_type, "stays") == "1");
        CHECK(bob.counters().snapshots == 2);
        // Nothing was lost, but it cannot be known: the log no longer tells.
        REQUIRE(all[1]->rewrites.size() == 1);
        CHECK(!all[1]->rewrites[0].certain);
      },
      link);
}

TEST_CASE("with Redis away reads go on and age, writes wait, and all is well afterwards") {
  RedisServer server;
  FaultyLink link(server.port());
  auto settings = settings_for(link.port());
  settings.connect_timeout = 300ms;
  settings.backoff_most = 50ms;
  with_mirrors(
      {settings_for(server), settings}, mirror_terms(),
      [](Instances& all, FaultyLink& l, RedisServer& s) -> awaitable<void> {
        auto& alice = *all[0]->mirror;
        auto& bob = *all[1]->mirror;
        co_await put(bob, node_type, "a", "before");
        l.cut();
        co_await put(alice, node_type, "hers", "1");
        for (int i = 0; i < 20'000; ++i) {
          Batch batch;
          batch.push_back({node_type, std::to_string(i % 100), std::to_string(i)});
          REQUIRE(bob.post(std::move(batch)));
        }
        Batch late;
        late.push_back({node_type, "a", "meanwhile"});
        auto version = co_await bob.put(std::move(late), Clock::now() + 10ms);
        REQUIRE(!version);
        CHECK(version.error().code == Errc::timeout);
        CHECK(bob.waiting_changes() <= 202);  // one batch may be on its way
        CHECK(seen(bob, node_type, "a") == "before");
        co_await eventually(
            20s, "it shows", [](Mirror& m) { return m.health() == MirrorHealth::degraded; }, bob);
        CHECK(bob.read()->age(Clock::now()) > 2s);
        l.heal();
        co_await eventually_seen(alice, node_type, "a", "meanwhile");
        co_await eventually_seen(bob, node_type, "hers", "1");
        CHECK(s.cli({"GET", "{c1}:nodes:99"}) == "19999");
        co_await eventually(
            20s, "it is over",
            [](Mirror& m) {
              return m.health() == MirrorHealth::current && m.read()->age(Clock::now()) < 1s;
            },
            bob);
        CHECK(bob.counters().snapshots == 1);
        CHECK(bob.waiting_changes() == 0);
        CHECK(all[1]->rewrites.empty());
      },
      link, server);
}

TEST_CASE("a mirror into which nobody writes says as well that Redis is away") {
  RedisServer server;
  with_mirrors(
      {settings_for(server)}, mirror_terms(),
      [](Instances& all, RedisServer& redis) -> awaitable<void> {
        auto& alice = *all[0]->mirror;
        auto has = [](Mirror& m, MirrorHealth& health) { return m.health() == health; };
        auto degraded = MirrorHealth::degraded, current = MirrorHealth::current;
        redis.pause();
        co_await eventually(20s, "it shows", has, alice, degraded);
        redis.resume();
        co_await eventually(20s, "it is over", has, alice, current);
      },
      server);
}

TEST_CASE("when the data is gone, history was rewritten, and what is written next is seen") {
  for (std::string order : {"FLUSHALL", "restart"}) {
    CAPTURE(order);
    RedisServer server;
    with_mirrors(
        {settings_for(server), settings_for(server)}, mirror_terms(),
        [](Instances& all, RedisServer& s, std::string& how) -> awaitable<void> {
          auto& alice = *all[0]->mirror;
          auto& bob = *all[1]->mirror;
          co_await put(alice, node_type, "a", "1");
          auto last = co_await put(alice, node_type, "b", "1");
          co_await eventually_seen(bob, node_type, "b", "1");
          if (how == "restart")
            s.restart();
          else
            s.cli({how});
          for (auto& each : all) co_await eventually_seen(*each->mirror, node_type, "a", {});
          co_await put(bob, node_type, "c", "1");
          co_await eventually_seen(alice, node_type, "c", "1");
          CHECK(seen(alice, node_type, "b") == std::nullopt);
          for (auto& each : all) {
            REQUIRE(each->rewrites.size() == 1);
            CHECK(each->rewrites[0].certain);
            CHECK(each->rewrites[0].until == last);
            CHECK(each->rewrites[0].after == Version{});
          }
        },
        server, order);
  }
}

TEST_CASE("when only the log is deleted, everything is read again and nothing is lost") {
  RedisServer server;
  with_mirrors(
      {settings_for(server), settings_for(server)}, mirror_terms(),
      [](Instances& all, RedisServer& s) -> awaitable<void> {
        auto& alice = *all[0]->mirror;
        auto& bob = *all[1]->mirror;
        for (int i = 0; i < 10; ++i) co_await put(alice, node_type, "a", std::to_string(i));
        co_await eventually_seen(bob, node_type, "a", "9");
        s.cli({"DEL", "{c1}:mirror:log"});
        co_await put(alice, node_type, "a", "new");
        co_await put(alice, node_type, "b", "new");
        for (auto& each : all) {
          co_await eventually_seen(*each->mirror, node_type, "a", "new");
          co_await eventually_seen(*each->mirror, node_type, "b", "new");
        }
      },
      server);
}

TEST_CASE("a writer of an older epoch is refused by the log, until it knows the newer one") {
  RedisServer server;
  auto terms = mirror_terms();
  terms.tail_check = 1h;
  with_mirrors(
      {settings_for(server)}, terms,
      [](Instances& all, RedisServer& s) -> awaitable<void> {
        auto& bob = *all[0]->mirror;
        co_await put(bob, node_type, "a", "1");
        // Somebody wrote in epoch 7, and bob did not hear of it.
        auto tail = parse_tail(s.cli_words({"HGET", "{c1}:mirror:head", "tail"}).at(0));
        auto stamp = tail.value_or(Tail{}).at.stamp;
        s.cli({"XADD", "{c1}:mirror:log", "7-*", "p", stamp, "s", "x:1", "b", "=7 1 nodes:a2"});
        s.cli({"HSET", "{c1}:mirror:head", "tail", "7-0 x:1"});
        auto version = co_await put(bob, node_type, "b", "1");
        CHECK(version == Version{7, 1});
        CHECK(bob.counters().write_retries > 0);
        CHECK(seen(bob, node_type, "a") == "2");
      },
      server);
}

TEST_CASE("a batch whose answer was lost is not written twice") {
  RedisServer server;
  FaultyLink link(server.port());
  auto settings = settings_for(link.port());
  settings.backoff_most = 50ms;
  with_mirrors(
      {settings_for(server), settings}, mirror_terms(),
      [](Instances& all, FaultyLink& l, RedisServer& s) -> awaitable<void> {
        auto& alice = *all[0]->mirror;
        auto& bob = *all[1]->mirror;
        for (int round = 0; round < 10; ++round) {
          co_await put(bob, node_type, "warm", std::to_string(round));
          auto length = s.cli({"XLEN", "{c1}:mirror:log"});
          l.drop(Direction::to_client);  // it arrives; its answer does not
          Batch batch;
          batch.push_back({node_type, "a", fmt::format("bob {}", round)});
          REQUIRE(bob.post(std::move(batch)));
          co_await eventually(
              20s, "it is written",
              [](RedisServer& r, std::string& n) {
                return r.cli({"XLEN", "{c1}:mirror:log"}) != n;
              },
              s, length);
          co_await put(alice, node_type, "a", "alice");
          l.heal();
          co_await put(bob, node_type, "after", std::to_string(round));
          CHECK(s.cli({"GET", "{c1}:nodes:a"}) == "alice");
          co_await eventually_seen(bob, node_type, "a", "alice");
        }
      },
      link, server);
}

TEST_CASE("older peers, who only SET and PUBLISH, are heard, and hear us") {
  RedisServer server;
  auto terms = mirror_terms();
  terms.compare_pause = 1h;
  with_mirrors(
      {settings_for(server)}, terms,
      [](Instances& all, RedisServer& s) -> awaitable<void> {
        auto& bob = *all[0]->mirror;
        s.cli({"SET", "{c1}:nodes:a:b", "theirs"});
        s.cli({"PUBLISH", "foghorn:{c1}:state_updates", R"({"type":"node","id":"a:b"})"});
        co_await eventually_seen(bob, node_type, "a:b", "theirs");
        co_await put(bob, node_type, "a:b", "ours");
        CHECK(seen(bob, node_type, "a:b") == "ours");
        // A race: theirs comes last, and its notification before our own push was handled.
        for (int i = 0; i < 100; ++i) {
          Batch batch;
          batch.push_back({node_type, "raced", fmt::format("ours {}", i)});
          REQUIRE(bob.post(std::move(batch)));
          s.cli({"SET", "{c1}:nodes:raced", fmt::format("theirs {}", i)});
          s.cli({"PUBLISH", "foghorn:{c1}:state_updates", R"({"type":"node","id":"raced"})"});
        }
        auto last = co_await put(bob, stream_type, "end", "1");
        auto applied = co_await bob.applied(last, Clock::now() + 10s);
        REQUIRE(applied);
        auto raced = s.cli({"GET", "{c1}:nodes:raced"});
        co_await eventually_seen(bob, node_type, "raced", raced);
        s.cli({"DEL", "{c1}:nodes:raced"});
        s.cli({"PUBLISH", "foghorn:{c1}:state_updates", R"({"id":"raced","type":"node"})"});
        co_await eventually_seen(bob, node_type, "raced", {});
        // What they know of ours is the notification.
        redis::Subscriber old(*all[0]->client);
        old.subscribe("foghorn:{c1}:state_updates");
        auto settled = co_await old.settled(Clock::now() + 10s);
        co_await put(bob, stream_type, "live", "1");
        auto heard = co_await old.next(Clock::now() + 10s);
        co_await old.close();
        REQUIRE(heard);
        CHECK(heard->payload == R"({"type":"stream","id":"live","via":"log"})");
      },
      server);
}

TEST_CASE("what older peers changed while nobody listened is found by comparing") {
  RedisServer server;
  auto terms = mirror_terms();
  terms.compare_pause = 1min;  // but after a gap it is done at once
  with_mirrors(
      {settings_for(server)}, terms,
      [](Instances& all, RedisServer& s) -> awaitable<void> {
        auto& bob = *all[0]->mirror;
        for (int i = 0; i < 2000; ++i) {
          Batch batch;
          batch.push_back({node_type, std::to_string(i), "1"});
          REQUIRE(bob.post(std::move(batch)));
        }
        co_await put(bob, stream_type, "end", "1");
        s.cli({"CLIENT", "KILL", "TYPE", "pubsub"});
        s.cli({"SET", "{c1}:nodes:1500", "2"});
        s.cli({"SET", "{c1}:nodes:new", "2"});
        s.cli({"DEL", "{c1}:nodes:700"});
        co_await eventually_seen(bob, node_type, "1500", "2");
        co_await eventually_seen(bob, node_type, "new", "2");
        co_await eventually_seen(bob, node_type, "700", {});
        CHECK(bob.counters().repairs >= 3);
        CHECK(bob.counters().snapshots == 1);
      },
      server);
}

TEST_CASE("what changed without any sign is found by the slow comparison") {
  RedisServer server;
  auto terms = mirror_terms();
  terms.compare_pause = 2ms;
  with_mirrors(
      {settings_for(server)}, terms,
      [](Instances& all, RedisServer& s) -> awaitable<void> {
        co_await put(*all[0]->mirror, node_type, "a", "1");
        s.cli({"SET", "{c1}:nodes:a", "silently"});
        co_await eventually_seen(*all[0]->mirror, node_type, "a", "silently");
      },
      server);
}

TEST_CASE("a merge decides what is kept of an entity, and does not disturb the comparison") {
  RedisServer server;
  auto terms = mirror_terms();
  terms.compare_pause = 1ms;
  terms.types[node_type].merge = [](std::optional<std::string_view> local,
                                    std::string_view incoming) {
    return std::string(incoming.empty() && local ? *local : incoming);  // empty never erases
  };
  with_mirrors(
      {settings_for(server), settings_for(server)}, terms,
      [](Instances& all, RedisServer& s) -> awaitable<void> {
        auto& bob = *all[1]->mirror;
        co_await put(*all[0]->mirror, node_type, "a", "tenant");
        co_await put(*all[0]->mirror, node_type, "a", "");
        auto last = co_await put(*all[0]->mirror, node_type, "b", "");
        auto applied = co_await bob.applied(last, Clock::now() + 10s);
        REQUIRE(applied);
        CHECK(seen(bob, node_type, "a") == "tenant");
        CHECK(seen(bob, node_type, "b") == "");
        CHECK(s.cli({"GET", "{c1}:nodes:a"}) == "");
        auto before = std::stoi(s.info("total_commands_processed"));
        co_await eventually(
            20s, "some rounds were compared",
            [](RedisServer& r, int& n) {
              return std::stoi(r.info("total_commands_processed")) > n + 50;
            },
            s, before);
        CHECK(bob.counters().repairs == 0);
        CHECK(seen(bob, node_type, "a") == "tenant");
      },
      server);
}

TEST_CASE("whoever waits when a mirror is closed is told") {
  RedisServer server;
  with_mirrors(
      {settings_for(server)}, mirror_terms(),
      [](Instances& all, RedisServer& s) -> awaitable<void> {
        auto& mirror = *all[0]->mirror;
        s.pause();
        std::vector<Errc> ends;
        auto wait = [](Mirror& m, std::vector<Errc>& out) -> awaitable<void> {
          Batch batch;
          batch.push_back({node_type, "a", "1"});
          auto written = co_await m.put(std::move(batch), Clock::now() + 20s);
          if (!written) out.push_back(written.error().code);
        };
        auto wait_applied = [](Mirror& m, std::vector<Errc>& out) -> awaitable<void> {
          auto applied = co_await m.applied({9, 9}, Clock::now() + 20s);
          if (!applied) out.push_back(applied.error().code);
        };
        TaskGroup group(all[0]->client->executor());
        group.start("put", wait(mirror, ends));
        group.start("applied", wait_applied(mirror, ends));
        auto waits = [](Mirror& m) { return m.waiting_changes() == 1; };
        co_await eventually(10s, "the put waits", waits, mirror);
        co_await mirror.close();
        co_await group.join();
        CHECK(ends == std::vector{Errc::cancelled, Errc::cancelled});
        s.resume();
      },
      server);
}

TEST_CASE("metrics say how a mirror is doing") {
  RedisServer server;
  with_mirrors(
      {settings_for(server), settings_for(server)}, mirror_terms(),
      [](Instances& all, RedisServer& s) -> awaitable<void> {
        Metrics metrics;
        auto published = all[1]->mirror->publish(metrics);
        co_await put(*all[0]->mirror, node_type, "a", "1");
        co_await eventually_seen(*all[1]->mirror, node_type, "a", "1");
        auto text = metrics.exposition();
        auto says = [&](std::string_view line) { return text.find(line) != text.npos; };
        CHECK(says("\nwarren_mirror_entries_total{from=\"push\"} 1\n"));
        CHECK(says("\nwarren_mirror_repairs_total{by=\"snapshot\"} 1\n"));
        CHECK(says("\nwarren_mirror_is_current 1\n"));
        CHECK(says("\nwarren_mirror_age_seconds 0."));
        s.pause();
        Batch batch;
        batch.push_back({node_type, "b", "1"});
        batch.push_back({node_type, "c", "1"});
        REQUIRE(all[1]->mirror->post(Batch{batch}));
        co_await eventually(
            20s, "it waits for Redis",
            [](Mirror& m) { return m.health() == MirrorHealth::degraded; }, *all[1]->mirror);
        REQUIRE(all[1]->mirror->post(std::move(batch)));
        text = metrics.exposition();
        CHECK(says("\nwarren_mirror_is_current 0\n"));
        CHECK(says("\nwarren_mirror_queued_changes 2\n"));
        s.resume();
      },
      server);
}

TEST_CASE("a queue that is full refuses, and what Redis may not write is refused for good") {
  RedisServer server({.users = {"alice on >secret ~{c1}:mirror:* &* +@all"}});
  auto settings = settings_for(server);
  settings.credentials = {"alice", "secret"};
  auto terms = mirror_terms();
  terms.queued_changes = 1;
  with_mirrors({settings}, terms, [](Instances& all) -> awaitable<void> {
    Batch two;
    two.push_back({node_type, "a", "1"});
    two.push_back({node_type, "b", "1"});
    auto full = all[0]->mirror->post(std::move(two));
    REQUIRE(!full);
    CHECK(full.error().code == Errc::overloaded);
    Batch one;
    one.push_back({node_type, "a", "1"});
    auto denied = co_await all[0]->mirror->put(std::move(one), Clock::now() + 10s);
    REQUIRE(!denied);
    CHECK(denied.error().code == Errc::denied);
  });
}

TEST_CASE("terms that cannot work are refused with the reason") {
  RedisServer server;
  with_client(settings_for(server), [](redis::Client& client) -> awaitable<void> {
    auto other_slot = mirror_terms();
    other_slot.channel = "foghorn:{c2}:state_updates";
    auto no_tag = mirror_terms();
    no_tag.prefix = "c1:";
    auto ambiguous = mirror_terms();
    ambiguous.types.push_back({"old node", "nodes:old:"});
    auto nothing = mirror_terms();
    nothing.types.clear();
    for (const auto& terms : {other_slot, no_tag, ambiguous, nothing}) {
      auto refused = Mirror::create(client, terms);
      REQUIRE(!refused);
      CHECK(refused.error().code == Errc::invalid);
    }
    co_return;
  });
}
