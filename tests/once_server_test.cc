// Once on a real server: many processes, and what goes wrong with them, with the server, and beside
// them.
#include "primitives/once/scripts.h"
#include "proof/testkit/faulty_link.h"
#include "with_once.h"

using namespace warren;

namespace {

constexpr const char* thing = "k8s-pod:default:openhands-runtime-s1";
const std::string lock_key = std::string("openhands:lock:") + thing;
const std::string resource_key = std::string("openhands:resource:") + thing;
const std::string state_key = std::string("openhands:once:") + thing;

std::vector<redis::Settings> so_many(const RedisServer& server, std::size_t count) {
  return std::vector<redis::Settings>(count, settings_for(server));
}

std::int64_t ttl_ms(const RedisServer& server, const std::string& key) {
  return std::stoll(server.cli({"PTTL", key}));
}

}  // namespace

TEST_CASE("of thirty-two that ask at once in eight processes one creates, and all are given it") {
  RedisServer server;
  with_once(so_many(server, 8), once_terms(), [](OnceProcesses& processes) -> awaitable<void> {
    Workshop shop(processes[0].client->executor());
    std::vector<Wished> wishes(32);
    TaskGroup callers(processes[0].client->executor());
    for (std::size_t i = 0; i < wishes.size(); ++i)
      callers.start("caller", wish(*processes[i % 8].once, thing,
                                   shop.creator(fmt::format("pod {}", i % 8)), wishes[i]));
    co_await eventually(20s, "one is at work", Workshop::is_at_work, shop);
    shop.let_end();
    co_await callers.join();
    CHECK(shop.begun == 1);
    std::size_t attached = 0;
    for (auto& each : wishes) {
      CHECK(each.got().record.bytes == shop.made.at(0));
      CHECK(each.got().record.status == "created");
      CHECK(each.got().record.token == wishes[0].got().record.token);
      if (each.got().how == OnceHow::attached) ++attached;
    }
    CHECK(attached == 28);  // those who asked in the process of the creator share its work
    auto again = co_await processes[3].once->obtain(thing, shop.creator("?"), Clock::now() + 20s);
    REQUIRE(again);
    CHECK(again->how == OnceHow::attached);
    CHECK(shop.begun == 1);
  });
}

TEST_CASE(
    "a creator that dies is followed within its time, and the next one is told what it began") {
  RedisServer server;
  with_once(so_many(server, 2), once_terms(1s), [](OnceProcesses& processes) -> awaitable<void> {
    auto executor = processes[0].client->executor();
    Workshop first(executor), second(executor);
    Wished dead, alive;
    bool is_noted = false;
    auto noting = [](Workshop& shop, OnceClaim& claim, bool& noted) -> Async<OnceLeft> {
      auto told = co_await claim.note("uid 7");
      noted = told.has_value();
      co_return co_await shop.create(claim, "dead pod");
    };
    OnceWork begins = [&](OnceClaim& claim) { return noting(first, claim, is_noted); };
    TaskGroup callers(executor);
    callers.start("dead", wish(*processes[0].once, thing, begins, dead, 5s));
    auto has_noted = [](bool& noted) { return noted; };
    co_await eventually(20s, "the first one has noted what it is about to do", has_noted, is_noted);
    callers.start("alive", wish(*processes[1].once, thing, second.creator("pod"), alive));
    co_await processes[0].die();
    auto died = Clock::now();
    second.let_end();
    co_await eventually(20s, "the second one has it", Wished::is_over, alive);
    CHECK(alive.ended - died < 6s);  // one second, and what a busy machine takes
    CHECK(alive.got().how == OnceHow::done);
    REQUIRE(second.earlier);
    CHECK(second.earlier->status == "creating");
    CHECK(second.earlier->note == "uid 7");
    co_await callers.join();
    CHECK(first.cancelled == 1);  // by its own deadline, without a word from Redis
    CHECK(!dead.outcome->has_value());
  });
}

TEST_CASE(
    "what a creator brings that was cut off for too long is refused, and it is given the other") {
  RedisServer server;
  FaultyLink link(server.port());
  auto terms = once_terms(500ms);
  terms.without_redis = OnceWithoutRedis::optimistic;  // else its work would have been cancelled
  terms.patience = 20s;
  with_once(
      {settings_for(link.port()), settings_for(server)}, terms,
      [](OnceProcesses& processes, FaultyLink& way) -> awaitable<void> {
        auto executor = processes[0].client->executor();
        Workshop first(executor), second(executor);
        Wished late, winner;
        TaskGroup callers(executor);
        callers.start("late", wish(*processes[0].once, thing, first.creator("late"), late));
        co_await eventually(20s, "it is at work", Workshop::is_at_work, first);
        way.half_open();
        second.let_end();
        callers.start("next", wish(*processes[1].once, thing, second.creator("next"), winner));
        co_await eventually(20s, "the next one has it", Wished::is_over, winner);
        first.let_end();
        auto both = [](Workshop& shop) { return !shop.made.empty(); };
        co_await eventually(20s, "the late one has made one, too", both, first);
        way.heal();
        co_await eventually(30s, "the late one is told", Wished::is_over, late);
        co_await callers.join();
        CHECK(late.got().how == OnceHow::attached);
        CHECK(late.got().record.bytes == "next");
        CHECK(late.got().record.token == winner.got().record.token);
      },
      link);
}

TEST_CASE("work ends by itself when Redis cannot be asked whether it still may") {
  RedisServer server;
  with_once(
      so_many(server, 1), once_terms(500ms),
      [](OnceProcesses& processes, RedisServer& redis) -> awaitable<void> {
        Workshop shop(processes[0].client->executor());
        Wished wished;
        TaskGroup callers(processes[0].client->executor());
        callers.start("caller", wish(*processes[0].once, thing, shop.creator("pod"), wished, 3s));
        co_await eventually(20s, "it is at work", Workshop::is_at_work, shop);
        redis.pause();
        auto is_cancelled = [](Workshop& s) { return s.cancelled == 1; };
        co_await eventually(20s, "its work is cancelled", is_cancelled, shop);
        co_await callers.join();
        CHECK(wished.error().code == Errc::unavailable);
        redis.resume();
        Workshop next(processes[0].client->executor());
        next.let_end();
        auto made =
            co_await processes[0].once->obtain(thing, next.creator("pod 2"), Clock::now() + 30s);
        REQUIRE_MESSAGE(made, made.error().what);
        CHECK(made->record.bytes == "pod 2");
      },
      server);
}

TEST_CASE("a failure is told to all with its code, and nobody tries again before its time") {
  RedisServer server;
  auto terms = once_terms();
  terms.retry_after = 700ms;
  with_once(so_many(server, 2), terms, [](OnceProcesses& processes) -> awaitable<void> {
    auto deadline = Clock::now() + 30s;
    auto failed =
        co_await processes[0].once->obtain(thing, fails(Errc::denied, "no quota"), deadline);
    REQUIRE(!failed);
    CHECK(failed.error().code == Errc::denied);
    auto at = Clock::now();
    auto seen = co_await processes[1].once->get(thing, deadline);
    REQUIRE(seen);
    CHECK(seen->status == "failed");
    Workshop shop(processes[1].client->executor());
    shop.let_end();
    for (;;) {
      auto told = co_await processes[1].once->obtain(thing, shop.creator("pod"), deadline);
      if (told) break;
      CHECK(told.error().code == Errc::denied);
      CHECK(told.error().what == "no quota");
      CHECK(shop.begun == 0);
      co_await sleep_for(10ms);
    }
    CHECK(Clock::now() - at >= 600ms);
    CHECK(shop.begun == 1);
    REQUIRE(shop.earlier);  // the failed one may have left something
    CHECK(shop.earlier->status == "creating");
  });
}

TEST_CASE("every wait ends by its own deadline, and a server that stands still grants nothing") {
  RedisServer server;
  with_once(
      so_many(server, 2), once_terms(),
      [](OnceProcesses& processes, RedisServer& redis) -> awaitable<void> {
        auto executor = processes[0].client->executor();
        Workshop shop(executor);
        Wished creator;
        std::vector<Wished> waiters(10), lost(10);
        TaskGroup callers(executor);
        callers.start("creator", wish(*processes[0].once, thing, shop.creator("pod"), creator));
        co_await eventually(20s, "it is at work", Workshop::is_at_work, shop);
        auto began = Clock::now();
        for (std::size_t i = 0; i < waiters.size(); ++i)
          callers.start("waiter", wish(*processes[1].once, thing, shop.creator("?"), waiters[i],
                                       100ms * (i + 1)));
        for (auto& each : waiters) {
          co_await eventually(20s, "a waiter ends", Wished::is_over, each);
          CHECK(each.error().code == Errc::timeout);
        }
        CHECK(waiters.back().ended - began >= 1s);
        redis.pause();
        for (std::size_t i = 0; i < lost.size(); ++i)
          callers.start("lost", wish(*processes[1].once, fmt::format("other-{}", i),
                                     shop.creator("?"), lost[i], 300ms));
        for (auto& each : lost) {
          co_await eventually(20s, "a caller without Redis ends", Wished::is_over, each);
          bool is_said =
              each.error().code == Errc::timeout || each.error().code == Errc::unavailable;
          CHECK(is_said);
        }
        CHECK(shop.begun == 1);
        redis.resume();
        shop.let_end();
        co_await callers.join();
        CHECK(creator.got().record.bytes == "pod");
      },
      server);
}

TEST_CASE("an optimistic creation goes on without Redis, says so, and is recorded afterwards") {
  RedisServer server;
  auto terms = once_terms(1s);
  terms.without_redis = OnceWithoutRedis::optimistic;
  terms.patience = 300ms;
  with_once(
      so_many(server, 2), terms,
      [](OnceProcesses& processes, RedisServer& redis) -> awaitable<void> {
        Workshop shop(processes[0].client->executor());
        shop.let_end();
        redis.kill();
        auto made =
            co_await processes[0].once->obtain(thing, shop.creator("pod"), Clock::now() + 20s);
        REQUIRE_MESSAGE(made, made.error().what);
        CHECK(made->how == OnceHow::unconfirmed);
        CHECK(made->record.bytes == "pod");
        redis.restart();
        auto is_recorded = [](Once& once) -> awaitable<bool> {
          auto record = co_await once.get(thing, Clock::now() + 5s);
          co_return record && record->status == "created" && record->bytes == "pod";
        };
        co_await eventually(30s, "it is recorded", is_recorded, *processes[1].once);
        CHECK(shop.begun == 1);
      },
      server);
}

TEST_CASE("when Redis loses everything in the middle, work goes on and its result counts") {
  RedisServer server;
  with_once(
      so_many(server, 2), once_terms(1s),
      [](OnceProcesses& processes, RedisServer& redis) -> awaitable<void> {
        auto executor = processes[0].client->executor();
        Workshop shop(executor), other(executor);
        Wished first, second;
        TaskGroup callers(executor);
        callers.start("first", wish(*processes[0].once, thing, shop.creator("pod"), first));
        co_await eventually(20s, "it is at work", Workshop::is_at_work, shop);
        redis.cli({"FLUSHALL"});
        auto is_back = [](RedisServer& r) { return r.cli({"EXISTS", state_key}) == "1"; };
        co_await eventually(20s, "its next renewal brings the claim back", is_back, redis);
        callers.start("second", wish(*processes[1].once, thing, other.creator("?"), second));
        shop.let_end();
        co_await callers.join();
        CHECK(first.got().how == OnceHow::done);
        CHECK(second.got().record.bytes == "pod");
        CHECK(other.begun == 0);
      },
      server);
}

TEST_CASE("who is granted it after Redis lost everything wins, and the one before is given his") {
  RedisServer server;
  with_once(
      so_many(server, 2), once_terms(3s),
      [](OnceProcesses& processes, RedisServer& redis) -> awaitable<void> {
        auto executor = processes[0].client->executor();
        Workshop shop(executor), other(executor);
        Wished first, second;
        TaskGroup callers(executor);
        callers.start("first", wish(*processes[0].once, thing, shop.creator("old"), first));
        co_await eventually(20s, "it is at work", Workshop::is_at_work, shop);
        redis.cli({"FLUSHALL"});
        // A claim as another process would have it, newer than any of before.
        other.let_end();
        redis.cli({"HSET", state_key, "phase", "left", "epoch", "0", "counter", "9000000000000000",
                   "status", "created", "owner", "other/1", "record", "new", "ends",
                   "9000000000000"});
        co_await eventually(20s, "the first one is told", Wished::is_over, first);
        CHECK(first.got().how == OnceHow::attached);
        CHECK(first.got().record.bytes == "new");
        CHECK(shop.cancelled == 1);
        co_await callers.join();
      },
      server);
}

TEST_CASE("what others see is a lock, a text and their times, as they know them") {
  RedisServer server;
  with_once(
      so_many(server, 1), once_terms(3s),
      [](OnceProcesses& processes, RedisServer& redis) -> awaitable<void> {
        Workshop shop(processes[0].client->executor());
        Wished wished;
        TaskGroup callers(processes[0].client->executor());
        callers.start("caller", wish(*processes[0].once, thing, shop.creator("pod"), wished));
        co_await eventually(20s, "it is at work", Workshop::is_at_work, shop);
        CHECK(redis.cli({"GET", resource_key}) == R"({"status":"creating","bytes":""})");
        CHECK(ttl_ms(redis, resource_key) <= 600'000);
        CHECK(ttl_ms(redis, resource_key) > 500'000);
        CHECK(ttl_ms(redis, lock_key) <= 30'000);
        CHECK(ttl_ms(redis, lock_key) > 15'000);
        CHECK(redis.cli({"SET", lock_key, "1763200000", "NX", "EX", "30"}) != "OK");
        shop.let_end();
        co_await callers.join();
        CHECK(redis.cli({"GET", resource_key}) == R"({"status":"created","bytes":"pod"})");
        CHECK(ttl_ms(redis, resource_key) <= 3'600'000);
        CHECK(ttl_ms(redis, resource_key) > 3'500'000);
        CHECK(redis.cli({"EXISTS", lock_key}) == "0");
        auto forgotten =
            co_await processes[0].once->forget(wished.got().record, Clock::now() + 20s);
        REQUIRE(forgotten);
        CHECK(redis.cli({"EXISTS", resource_key}) == "0");
        auto failed = co_await processes[0].once->obtain(thing, fails(Errc::refused, "no image"),
                                                         Clock::now() + 20s);
        CHECK(!failed);
        CHECK(redis.cli({"GET", resource_key}) == R"({"status":"failed","bytes":""})");
        CHECK(ttl_ms(redis, resource_key) <= 300'000);
      },
      server);
}

TEST_CASE(
    "another program that knows only lock and resource is waited for, and takes nothing away") {
  RedisServer server;
  with_once(
      so_many(server, 2), once_terms(1s),
      [](OnceProcesses& processes, RedisServer& redis) -> awaitable<void> {
        auto executor = processes[0].client->executor();
        Workshop shop(executor);
        Wished wished;
        TaskGroup callers(executor);
        redis.cli({"SET", lock_key, "1763200000", "NX", "EX", "30"});
        callers.start("caller", wish(*processes[0].once, thing, shop.creator("pod"), wished));
        co_await sleep_for(300ms);
        CHECK(shop.begun == 0);
        // What it left, and its release, of which it tells nobody.
        redis.cli({"SET", resource_key, R"({"status":"created","pod_name":"p"})"});
        redis.cli({"DEL", lock_key});
        co_await eventually(20s, "it is our turn", Workshop::is_at_work, shop);
        REQUIRE(shop.earlier);
        CHECK(shop.earlier->foreign == R"({"status":"created","pod_name":"p"})");
        // It deletes both, as it does when it finds no pod.
        redis.cli({"DEL", lock_key, resource_key});
        auto are_back = [](RedisServer& r) {
          return r.cli({"EXISTS", lock_key, resource_key}) == "2";
        };
        co_await eventually(20s, "they are there again", are_back, redis);
        CHECK(redis.cli({"SET", lock_key, "1763200000", "NX", "EX", "30"}) != "OK");
        shop.let_end();
        co_await callers.join();
        redis.cli({"DEL", resource_key});
        auto there =
            co_await processes[1].once->obtain(thing, shop.creator("?"), Clock::now() + 20s);
        REQUIRE(there);
        CHECK(there->how == OnceHow::attached);
        CHECK(there->record.bytes == "pod");
        auto kept = co_await processes[1].once->refresh(there->record, Clock::now() + 20s);
        CHECK(kept);
        CHECK(redis.cli({"GET", resource_key}) == R"({"status":"created","bytes":"pod"})");
        CHECK(shop.begun == 1);
      },
      server);
}

TEST_CASE("a record goes from step to step, each from where it may begin") {
  RedisServer server;
  with_once(so_many(server, 2), once_terms(), [](OnceProcesses& processes) -> awaitable<void> {
    auto& one = *processes[0].once;
    auto& other = *processes[1].once;
    auto deadline = Clock::now() + 40s;
    OnceStep pausing{.status = "pausing", .from = {"created"}};
    auto none = co_await one.change(thing, pausing, leaves("paused", "x"), deadline);
    REQUIRE(!none);
    CHECK(none.error().code == Errc::not_found);
    auto made = co_await one.obtain(thing, leaves("created", "pod"), deadline);
    REQUIRE(made);
    std::vector<std::string> seen;
    auto watching =
        other.on_change([&](const OnceRecord& record) { seen.push_back(record.status); });
    auto paused = co_await one.change(thing, pausing, leaves("paused", "pod"), deadline);
    REQUIRE(paused);
    CHECK(paused->how == OnceHow::done);
    CHECK(paused->record.status == "paused");
    CHECK(paused->record.token > made->record.token);
    auto again = co_await other.change(thing, pausing, leaves("paused", "?"), deadline);
    REQUIRE(again);
    CHECK(again->how == OnceHow::attached);
    CHECK(again->record.status == "paused");
    OnceStep from_old{.status = "stopping", .version = made->record.token};
    auto stale = co_await other.change(thing, from_old, leaves("", ""), deadline);
    REQUIRE(stale);
    CHECK(stale->how == OnceHow::attached);
    OnceStep stopping{.status = "stopping"};
    auto failed = co_await other.change(thing, stopping, fails(Errc::timeout, "slow"), deadline);
    REQUIRE(!failed);
    CHECK(failed.error().code == Errc::timeout);
    auto still = co_await one.get(thing, deadline);
    REQUIRE(still);
    CHECK(still->status == "paused");
    CHECK(still->bytes == "pod");
    auto stopped = co_await other.change(thing, stopping, leaves("", ""), deadline);
    REQUIRE(stopped);
    CHECK(stopped->record.status.empty());
    auto gone = co_await one.get(thing, deadline);
    REQUIRE(!gone);
    CHECK(gone.error().code == Errc::not_found);
    auto has_seen = [](std::vector<std::string>& words) {
      return std::ranges::count(words, "pausing") == 1 &&
             std::ranges::count(words, "paused") >= 1 && !words.empty() && words.back().empty();
    };
    co_await eventually(20s, "who watches has seen it", has_seen, seen);
  });
}

TEST_CASE("a version is replaced, refreshed and forgotten only while it is the one") {
  RedisServer server;
  with_once(so_many(server, 2), once_terms(), [](OnceProcesses& processes) -> awaitable<void> {
    auto& one = *processes[0].once;
    auto deadline = Clock::now() + 40s;
    auto made = co_await one.obtain(thing, leaves("created", "1"), deadline);
    REQUIRE(made);
    auto old = made->record;
    OnceLeft left{.status = "created", .bytes = "2"};
    auto second = co_await processes[1].once->replace(old, left, deadline);
    REQUIRE(second);
    CHECK(second->bytes == "2");
    CHECK(second->token > old.token);
    auto refused = co_await one.replace(old, left, deadline);
    REQUIRE(!refused);
    CHECK(refused.error().code == Errc::lease_lost);
    auto not_kept = co_await one.refresh(old, deadline);
    REQUIRE(!not_kept);
    CHECK(not_kept.error().code == Errc::lease_lost);
    auto not_forgotten = co_await one.forget(old, deadline);
    REQUIRE(!not_forgotten);
    auto kept = co_await one.refresh(*second, deadline);
    CHECK(kept);
    auto forgotten = co_await one.forget(*second, deadline);
    CHECK(forgotten);
    // What is gone does not come back.
    auto late = co_await processes[1].once->refresh(*second, deadline);
    REQUIRE(!late);
    CHECK(late.error().code == Errc::lease_lost);
  });
}

TEST_CASE("a step may take over from who is alive: his work ends, and who waited for it is told") {
  RedisServer server;
  with_once(so_many(server, 3), once_terms(3s), [](OnceProcesses& processes) -> awaitable<void> {
    auto executor = processes[0].client->executor();
    Workshop shop(executor);
    Wished creator, waiter;
    TaskGroup callers(executor);
    callers.start("creator", wish(*processes[0].once, thing, shop.creator("pod"), creator));
    co_await eventually(20s, "it is at work", Workshop::is_at_work, shop);
    callers.start("waiter", wish(*processes[1].once, thing, shop.creator("?"), waiter));
    auto waits = [](Once& once) {
      return once.machine().flights() == 1 &&
             once.machine().state(1) == OnceMachine::State::waiting;
    };
    co_await eventually(20s, "another one waits", waits, *processes[1].once);
    OnceStep stopping{.status = "stopping", .takes_over = true};
    auto stopped =
        co_await processes[2].once->change(thing, stopping, leaves("", ""), Clock::now() + 20s);
    REQUIRE_MESSAGE(stopped, stopped.error().what);
    CHECK(stopped->how == OnceHow::done);
    co_await callers.join();
    CHECK(shop.cancelled == 1);
    CHECK(shop.begun == 1);  // nobody begins anew what was stopped
    CHECK(creator.error().code == Errc::refused);
    CHECK(waiter.error().code == Errc::refused);
    auto anew =
        co_await processes[1].once->obtain(thing, leaves("created", "pod 2"), Clock::now() + 20s);
    CHECK(anew);
  });
}

TEST_CASE("when the caller of a creator leaves, the work goes on for others, or ends by policy") {
  for (auto policy : {OnceAbandoned::goes_on, OnceAbandoned::is_ended}) {
    RedisServer server;
    auto terms = once_terms();
    terms.when_abandoned = policy;
    with_once(
        so_many(server, 2), terms,
        [](OnceProcesses& processes, OnceAbandoned& which) -> awaitable<void> {
          auto executor = processes[0].client->executor();
          Workshop shop(executor), next(executor);
          Wished leaves_early, stays;
          TaskGroup callers(executor);
          auto left = callers.start(
              "leaves", wish(*processes[0].once, thing, shop.creator("pod"), leaves_early));
          co_await eventually(20s, "it is at work", Workshop::is_at_work, shop);
          next.let_end();
          callers.start("stays", wish(*processes[1].once, thing, next.creator("2"), stays));
          callers.stop(left);
          if (which == OnceAbandoned::goes_on) shop.let_end();
          co_await eventually(20s, "the other one has it", Wished::is_over, stays);
          bool goes_on = which == OnceAbandoned::goes_on;
          CHECK(stays.got().record.bytes == (goes_on ? "pod" : "2"));
          CHECK(next.begun == (goes_on ? 0 : 1));
          CHECK(shop.cancelled == (goes_on ? 0 : 1));
          co_await callers.join();
        },
        policy);
  }
}

TEST_CASE("a record of a megabyte reaches all who wait, and a larger one is refused") {
  RedisServer server;
  with_once(so_many(server, 2), once_terms(), [](OnceProcesses& processes) -> awaitable<void> {
    auto executor = processes[0].client->executor();
    Workshop shop(executor);
    Wished creator, waiter;
    TaskGroup callers(executor);
    std::string large(most_once_record, '\n');
    callers.start("creator", wish(*processes[0].once, thing, shop.creator(large), creator));
    co_await eventually(20s, "it is at work", Workshop::is_at_work, shop);
    callers.start("waiter", wish(*processes[1].once, thing, shop.creator("?"), waiter));
    shop.let_end();
    co_await callers.join();
    CHECK(waiter.got().record.bytes == large);
    auto refused = co_await processes[0].once->obtain("other", leaves("created", large + "x"),
                                                      Clock::now() + 20s);
    REQUIRE(!refused);
    CHECK(refused.error().code == Errc::invalid);
  });
}

TEST_CASE("what somebody else wrote into the keys is an error, or overwritten, and no harm") {
  RedisServer server;
  with_once(
      so_many(server, 1), once_terms(),
      [](OnceProcesses& processes, RedisServer& redis) -> awaitable<void> {
        auto& once = *processes[0].once;
        redis.cli({"SET", state_key, "a string"});
        auto refused = co_await once.obtain(thing, leaves("created", "x"), Clock::now() + 20s);
        REQUIRE(!refused);
        CHECK(refused.error().code == Errc::refused);
        redis.cli({"DEL", state_key});
        redis.cli({"HSET", state_key, "phase", "nonsense", "until", "x", "epoch", "y"});
        auto strange = co_await once.obtain(thing, leaves("created", "x"), Clock::now() + 20s);
        REQUIRE(!strange);
        CHECK(strange.error().code == Errc::protocol);
        redis.cli({"DEL", state_key});
        redis.cli({"RPUSH", resource_key, "a", "list"});
        redis.cli({"PUBLISH", "openhands:once", "7:nonsense"});
        auto made = co_await once.obtain(thing, leaves("created", "x"), Clock::now() + 20s);
        CHECK_MESSAGE(made, made.error().what);
        CHECK(redis.cli({"TYPE", resource_key}) == "string");
      },
      server);
}

TEST_CASE("a request that arrives again after its step is over begins nothing") {
  RedisServer server;
  with_client(settings_for(server), [](redis::Client& client) -> awaitable<void> {
    // As a machine asks: in the mode `ensure` or `change`, under one attempt.
    auto ask = [](redis::Client& c, std::vector<std::string> what, std::string token,
                  std::vector<std::string> rest) -> Async<redis::Reply> {
      std::vector<std::string> keys{"{t}:state", "{t}:lock", "{t}:resource"};
      std::vector<std::string> args{what[0], "steps",          "t", what[1], "1",
                                    "1",     std::move(token), "",  "60000", "86400000"};
      args.insert(args.end(), rest.begin(), rest.end());
      auto reply = co_await c.run(scripts::once, std::move(keys), std::move(args));
      co_return reply;
    };
    struct Step {
      std::string mode, end;
    };
    const std::vector<Step> steps{{"ensure", "failed"}, {"ensure", "left"}, {"change", "back"}};
    for (const auto& [mode, end] : steps) {
      std::string attempt = "a/" + end;
      std::vector<std::string> take{"creating", "10000", "10000", mode, "", "0"};
      std::vector<std::string> take_as{"take", attempt}, settle_as{"settle", attempt};
      auto taken = co_await ask(client, take_as, "0", take);
      REQUIRE_MESSAGE(taken, taken.error().what);
      CHECK(taken->items[0].number == 1);
      auto token = taken->items[3].text;
      std::vector<std::string> settle{end, "created", "bytes", "internal it broke", "0", "60000"};
      auto settled = co_await ask(client, settle_as, token, settle);
      REQUIRE_MESSAGE(settled, settled.error().what);
      CHECK(settled->items[0].number == 1);
      auto late = co_await ask(client, take_as, "0", take);
      REQUIRE_MESSAGE(late, late.error().what);
      CHECK(late->items[0].number == 0);
      CHECK(late->items[3].text == token);
      CHECK(late->items[4].text == (end == "failed" ? "failed" : "left"));
    }
  });
}

TEST_CASE("a user who may use only its prefix can do all of it") {
  RedisServer server(
      {.users = {"limited on >secret ~openhands:* &openhands:* +@all -@dangerous -@admin"}});
  auto limited = settings_for(server);
  limited.credentials = {"limited", "secret"};
  with_once({limited, limited}, once_terms(), [](OnceProcesses& processes) -> awaitable<void> {
    auto executor = processes[0].client->executor();
    Workshop shop(executor);
    Wished creator, waiter;
    TaskGroup callers(executor);
    callers.start("creator", wish(*processes[0].once, thing, shop.creator("pod"), creator));
    co_await eventually(20s, "it is at work", Workshop::is_at_work, shop);
    callers.start("waiter", wish(*processes[1].once, thing, shop.creator("?"), waiter));
    shop.let_end();
    co_await callers.join();
    CHECK(waiter.got().record.bytes == "pod");
    auto forgotten = co_await processes[1].once->forget(waiter.got().record, Clock::now() + 20s);
    CHECK(forgotten);
  });
}

TEST_CASE("a server that is full lets work that was begun be renewed and recorded") {
  RedisServer server;
  with_once(
      so_many(server, 1), once_terms(500ms),
      [](OnceProcesses& processes, RedisServer& redis) -> awaitable<void> {
        Workshop shop(processes[0].client->executor());
        Wished wished;
        TaskGroup callers(processes[0].client->executor());
        callers.start("caller", wish(*processes[0].once, thing, shop.creator("pod"), wished));
        co_await eventually(20s, "it is at work", Workshop::is_at_work, shop);
        redis.cli({"CONFIG", "SET", "maxmemory", "1"});
        co_await sleep_for(1s);  // twice its time: only renewals can have kept it
        CHECK(shop.cancelled == 0);
        shop.let_end();
        co_await callers.join();
        CHECK(wished.got().how == OnceHow::done);
        redis.cli({"CONFIG", "SET", "maxmemory", "0"});
      },
      server);
}

TEST_CASE("what was begun when a process closes is free for the next one at once") {
  RedisServer server;
  with_once(so_many(server, 2), once_terms(10s), [](OnceProcesses& processes) -> awaitable<void> {
    auto executor = processes[0].client->executor();
    Workshop shop(executor), next(executor);
    Wished first, second;
    TaskGroup callers(executor);
    callers.start("first", wish(*processes[0].once, thing, shop.creator("1"), first));
    co_await eventually(20s, "it is at work", Workshop::is_at_work, shop);
    next.let_end();
    callers.start("second", wish(*processes[1].once, thing, next.creator("2"), second));
    auto closed = Clock::now();
    co_await processes[0].once->close();
    co_await callers.join();
    CHECK(first.error().code == Errc::cancelled);
    CHECK(second.got().record.bytes == "2");
    CHECK(second.ended - closed < 8s);  // not only when the first one counts as dead
  });
}
