// Leases on a real server: who gets them, who waits, and what a holder knows when things break.
#include <boost/asio/post.hpp>
#include <cstdlib>
#include <iterator>
#include <sstream>

#include "primitives/lease/scripts.h"
#include "proof/testkit/faulty_link.h"
#include "proof/testkit/heartbeat.h"
#include "proof/testkit/victim.h"
#include "with_sessions.h"

using namespace warren;
using redis::Command;

namespace {

// The two ways in which a lease is kept: by the session, and by a ttl of its own.
const std::vector<LeaseTerms> both_ways{{"{t}:job", "alice"}, {"{t}:job", "alice", 2s}};

Async<Lease> acquire(LeaseSession& session, LeaseTerms terms) {
  return session.acquire(std::move(terms), Clock::now() + 20s);
}

std::vector<redis::Settings> two(const RedisServer& server) {
  return {settings_for(server), settings_for(server)};
}

// As somebody who may be forbidden things, beside those who may do everything.
redis::Settings as_alice(const RedisServer& server) {
  auto settings = settings_for(server);
  settings.credentials = {"alice", "secret"};
  return settings;
}

// Whether who waits for the end of a lease that cannot be renewed is told before what is to happen a
// moment after the deadline. A busy machine is late with both, and has them in this order.
awaitable<bool> is_told_in_time(Lease& lease) {
  auto executor = co_await asio::this_coro::executor;
  auto wait = [](Lease& l, bool& told) -> awaitable<void> {
    co_await l.ended();
    told = true;
  };
  bool is_told = false;
  TaskGroup tasks(executor);
  tasks.start("waits for the end", wait(lease, is_told));
  for (auto deadline = Clock::time_point::min(); !is_told && deadline < lease.deadline();) {
    deadline = lease.deadline();  // a last renewal may have been under way
    co_await sleep_until(deadline + 20ms);
    for (int i = 0; i < 20; ++i) co_await asio::post(executor, asio::use_awaitable);
  }
  bool is_in_time = is_told;
  co_await tasks.join();
  co_return is_in_time;
}

}  // namespace

TEST_CASE("a lease is held by one holder at a time, and each grant has a higher token") {
  RedisServer server;
  for (auto terms : both_ways) {
    with_sessions(
        two(server), 5s,
        [](Sessions& holders, RedisServer& redis, LeaseTerms& t) -> awaitable<void> {
          auto lease = co_await holders[0]->try_acquire(t);
          REQUIRE_MESSAGE(lease, lease.error().what);
          CHECK(lease->is_held());
          CHECK(lease->deadline() > Clock::now());
          CHECK(redis.cli({"GET", t.key}) == "alice");
          auto refused = co_await holders[1]->try_acquire(t);
          REQUIRE(!refused);
          CHECK(refused.error().code == Errc::held_elsewhere);
          CHECK(refused.error().what.contains("alice"));
          auto first = lease->token();
          auto released = co_await lease->release();
          REQUIRE_MESSAGE(released, released.error().what);
          CHECK(redis.cli({"EXISTS", t.key}) == "0");
          auto second = co_await holders[1]->try_acquire(t);
          REQUIRE(second);
          CHECK(second->token() > first);
        },
        server, terms);
  }
}

TEST_CASE("who waits is handed the lease in the order of asking") {
  RedisServer server;
  for (auto terms : both_ways) {
    with_sessions(
        two(server), 5s,
        [](Sessions& holders, RedisServer& redis, LeaseTerms& t) -> awaitable<void> {
          auto held = co_await holders[0]->try_acquire(t);
          REQUIRE(held);
          auto wait_in_line = [](LeaseSession& session, LeaseTerms wanted,
                                 std::vector<std::string>& names) -> Async<> {
            auto name = wanted.value;
            auto lease = co_await acquire(session, std::move(wanted));
            REQUIRE_MESSAGE(lease, lease.error().what);
            names.push_back(name);
            co_return co_await lease->release();
          };
          std::vector<std::string> order;
          TaskGroup waiters(holders[0]->client().executor());
          for (std::string name : {"1", "2", "3", "4"}) {
            LeaseTerms wanted = t;
            wanted.value = name;
            waiters.start(name, wait_in_line(*holders[name[0] % 2], wanted, order));
            auto in_line = [](RedisServer& r, std::string& n) {
              return r.cli({"LLEN", "{t}:job:queue"}) == n;
            };
            co_await eventually(10s, "it is in line", in_line, redis, name);
          }
          auto released = co_await held->release();
          CHECK(released);
          co_await waiters.join();
          CHECK(order == std::vector<std::string>{"1", "2", "3", "4"});
          CHECK(redis.cli({"EXISTS", "{t}:job", "{t}:job:queue"}) == "0");
        },
        server, terms);
  }
}

TEST_CASE("a grant that came before its waiter could hear of it is asked for") {
  RedisServer server;
  FaultyLink link(server.port());
  with_sessions(
      {settings_for(server), settings_for(link.port())}, 60s,
      [](Sessions& holders, FaultyLink& way, RedisServer& redis) -> awaitable<void> {
        LeaseTerms terms{"{t}:job", "alice"}, other{"{t}:other", "bob"};
        auto held = co_await holders[0]->try_acquire(terms);
        REQUIRE(held);
        auto first = co_await holders[1]->try_acquire(other);  // so that it has a session
        REQUIRE(first);
        way.delay(Direction::to_client, 1s);  // and a subscription stands a second later
        auto wait_in_line = [](LeaseSession& session, LeaseTerms wanted) -> Async<> {
          auto lease = co_await acquire(session, std::move(wanted));
          REQUIRE_MESSAGE(lease, lease.error().what);
          co_return ok;
        };
        TaskGroup waiters(holders[0]->client().executor());
        waiters.start("waiter", wait_in_line(*holders[1], terms));
        auto in_line = [](RedisServer& r) { return r.cli({"LLEN", "{t}:job:queue"}) == "1"; };
        co_await eventually(10s, "it is in line", in_line, redis);
        auto released = co_await held->release();
        CHECK(released);
        co_await waiters.join();  // long before it would look by itself: after a ttl, 60 s
      },
      link, server);
}

TEST_CASE("a holder that is cut off knows that its lease is over before anybody else has it") {
  RedisServer server;
  for (auto terms : both_ways) {
    FaultyLink link(server.port());
    with_sessions(
        {settings_for(link.port()), settings_for(server)}, 1s,
        [](Sessions& holders, FaultyLink& way, LeaseTerms& t) -> awaitable<void> {
          auto lease = co_await holders[0]->try_acquire(t);
          REQUIRE(lease);
          auto first = lease->deadline();
          auto renewed = [](Lease& l, Clock::time_point& at) { return l.deadline() > at + 1s; };
          co_await eventually(10s, "it was renewed", renewed, *lease, first);
          CHECK(is_ours(*lease));
          way.half_open();
          auto began = Clock::now();
          auto next = co_await acquire(*holders[1], t);
          REQUIRE_MESSAGE(next, next.error().what);
          CHECK(lease->state() == LeaseState::ended);
          CHECK(lease->why().code == Errc::lease_lost);
          CHECK(Clock::now() - began < 5s);
          CHECK(next->token() > lease->token());
          way.heal();
        },
        link, terms);
    server.cli({"FLUSHALL"});
  }
}

TEST_CASE("a write under a token that is no longer the newest is refused, and ends the lease") {
  RedisServer server;
  for (auto terms : both_ways) {
    with_sessions(
        two(server), 2s,
        [](Sessions& holders, RedisServer& redis, LeaseTerms& t) -> awaitable<void> {
          auto old = co_await holders[0]->try_acquire(t);
          REQUIRE(old);
          auto first = co_await old->guarded(Command("SET", "{t}:state", "alice's"));
          REQUIRE_MESSAGE(first, first.error().what);
          CHECK(first->text == "OK");
          redis.cli({"DEL", t.key});  // as if it had expired while alice slept
          auto next = co_await holders[1]->try_acquire(t);
          REQUIRE(next);
          auto late = co_await old->guarded(Command("SET", "{t}:state", "too late"));
          REQUIRE(!late);
          CHECK(late.error().code == Errc::lease_lost);
          CHECK(old->state() == LeaseState::ended);
          CHECK(redis.cli({"GET", "{t}:state"}) == "alice's");
          auto second = co_await next->guarded(Command("SET", "{t}:state", "bob's"));
          CHECK(second);

          // A resource with a fence of its own.
          auto& client = holders[0]->client();
          auto fenced = co_await run_guarded(client, "{r}:fence", next->token(),
                                             Command("INCR", "{r}:count"));
          REQUIRE(fenced);
          CHECK(fenced->number == 1);
          fenced =
              co_await run_guarded(client, "{r}:fence", old->token(), Command("INCR", "{r}:count"));
          REQUIRE(!fenced);
          CHECK(fenced.error().code == Errc::lease_lost);
        },
        server, terms);
    server.cli({"FLUSHALL"});
  }
}

TEST_CASE("a write under a token that a failover lost leaves the lease to its holder") {
  RedisServer server;
  for (auto terms : both_ways) {
    with_sessions(
        two(server), 3s,
        [](Sessions& holders, RedisServer& redis, LeaseTerms& t) -> awaitable<void> {
          auto lease = co_await holders[0]->try_acquire(t);
          REQUIRE(lease);
          // As a replica knows it that did not hear of the last token.
          auto fence = redis.cli({"GET", t.key + ":fence"});
          auto rest = fence.substr(fence.find(' ', fence.find(' ') + 1));
          redis.cli({"SET", t.key + ":fence", "0 1" + rest});
          auto token = lease->token();
          auto written = co_await lease->guarded(Command("SET", "{t}:state", "alice's"));
          CHECK(written);
          auto refused = co_await holders[1]->try_acquire(t);
          REQUIRE(!refused);
          CHECK(refused.error().code == Errc::held_elsewhere);
          auto released = co_await lease->release();
          CHECK(released);
          CHECK(redis.cli({"EXISTS", t.key}) == "0");
          auto next = co_await holders[1]->try_acquire(t);
          REQUIRE(next);
          CHECK(next->token() > token);
          CHECK(!redis.cli({"GET", t.key + ":fence"}).contains('*'));
        },
        server, terms);
  }
}

TEST_CASE("who holds a lease below a token that was shown meanwhile is given a higher one") {
  RedisServer server;
  LeaseTerms terms{"{t}:job", "alice", 1s};
  with_sessions(
      two(server), 3s,
      [](Sessions& holders, LeaseTerms& t) -> awaitable<void> {
        auto lease = co_await holders[0]->try_acquire(t);
        REQUIRE(lease);
        FencingToken lost{lease->token().epoch, lease->token().counter + 1'000'000};
        auto written = co_await run_guarded(holders[1]->client(), "{t}:job:fence", lost,
                                            Command("SET", "{t}:state", "bob's"));
        CHECK(written);
        co_await eventually(10s, "the holder has a token above that one",
                            [&] { return lease->token() > lost; });
        CHECK(is_ours(*lease));
      },
      terms);
}

TEST_CASE("a write under a token that the own renewal has just replaced is sent again") {
  RedisServer server;
  FaultyLink link(server.port());
  with_sessions(
      {settings_for(link.port()), settings_for(server)}, 3s,
      [](Sessions& holders, FaultyLink& way, RedisServer& redis) -> awaitable<void> {
        LeaseTerms terms{"{t}:job", "alice", 3s};
        auto lease = co_await holders[0]->try_acquire(terms);
        REQUIRE_MESSAGE(lease, lease.error().what);
        auto old = lease->token();
        way.delay(Direction::to_client, 500ms);
        FencingToken lost{old.epoch, old.counter + 1'000'000};
        auto written = co_await run_guarded(holders[1]->client(), "{t}:job:fence", lost,
                                            Command("SET", "{t}:state", "bob's"));
        REQUIRE(written);
        auto before = redis.cli({"GET", "{t}:job:fence"});
        auto is_raised = [](RedisServer& r, std::string& fence) {
          return r.cli({"GET", "{t}:job:fence"}) != fence;
        };
        co_await eventually(10s, "a renewal has raised the token, and its answer is on its way",
                            is_raised, redis, before);
        auto guarded = co_await lease->guarded(Command("SET", "{t}:state", "alice's"));
        CHECK_MESSAGE(guarded, guarded.error().what);
        CHECK(lease->token() > lost);
        CHECK(redis.cli({"GET", "{t}:state"}) == "alice's");
      },
      link, server);
}

TEST_CASE("a plain SET NX PX of an older client is respected, and loses nothing to us") {
  RedisServer server;
  with_sessions(
      {settings_for(server)}, 2s,
      [](Sessions& holders, RedisServer& redis) -> awaitable<void> {
        LeaseTerms terms{"{c}:leader:role", "foghorn-1", 3s};
        redis.cli({"SET", terms.key, "older", "NX", "PX", "2000"});
        auto refused = co_await holders[0]->try_acquire(terms);
        REQUIRE(!refused);
        CHECK(refused.error().what.contains("older"));
        auto lease = co_await acquire(*holders[0], terms);  // at the end of those 2 s
        REQUIRE_MESSAGE(lease, lease.error().what);
        CHECK(redis.cli({"SET", terms.key, "older", "NX", "PX", "300"}) != "OK");
        CHECK(redis.cli({"GET", terms.key}) == "foghorn-1");

        // One that overwrites without asking has it: two holders would be worse.
        redis.cli({"SET", terms.key, "older", "PX", "60000"});
        auto over = [](Lease& l) { return l.state() == LeaseState::ended; };
        co_await eventually(10s, "we know that it is gone", over, *lease);
        CHECK(lease->why().code == Errc::lease_lost);
        auto released = co_await lease->release();
        CHECK(!released);
        CHECK(redis.cli({"GET", terms.key}) == "older");
      },
      server);
}

TEST_CASE("a value that changes is shown to others by the next renewal") {
  RedisServer server;
  with_sessions(
      {settings_for(server)}, 2s,
      [](Sessions& holders, RedisServer& redis) -> awaitable<void> {
        LeaseTerms terms{"holt:i1:lock", "orchestrator:1", 1500ms};
        auto lease = co_await holders[0]->try_acquire(terms);
        REQUIRE(lease);
        lease->show("orchestrator:2");
        auto shown = [](RedisServer& r) {
          return r.cli({"GET", "holt:i1:lock"}) == "orchestrator:2";
        };
        co_await eventually(10s, "the new value is there", shown, redis);
        CHECK(is_ours(*lease));
        auto released = co_await lease->release();
        CHECK(released);
        CHECK(redis.cli({"EXISTS", "holt:i1:lock"}) == "0");
      },
      server);
}

TEST_CASE("work is cancelled when its lease is lost, and its result is returned when it is not") {
  RedisServer server;
  with_sessions(
      {settings_for(server)}, 1s,
      [](Sessions& holders, RedisServer& redis) -> awaitable<void> {
        LeaseTerms terms{"{t}:job", "alice", 500ms};
        auto lease = co_await holders[0]->try_acquire(terms);
        REQUIRE(lease);
        auto work = [](bool& cancelled) -> Async<> {
          co_await sleep_until(Clock::time_point::max());
          auto state = co_await asio::this_coro::cancellation_state;
          cancelled = is_cancelled(state);
          co_return ok;
        };
        bool cancelled = false;
        redis.pause();
        auto began = Clock::now();
        auto done = co_await while_held(*lease, work(cancelled));
        REQUIRE(!done);
        CHECK(done.error().code == Errc::lease_lost);
        CHECK(Clock::now() - began < 10s);
        redis.resume();

        auto next = co_await acquire(*holders[0], terms);
        REQUIRE_MESSAGE(next, next.error().what);
        auto quick = []() -> Async<> { co_return fail(Errc::not_found, "nothing to do"); };
        done = co_await while_held(*next, quick());
        REQUIRE(!done);
        CHECK(done.error().what == "nothing to do");
        CHECK(is_ours(*next));
      },
      server);
}

TEST_CASE("who leaves the line is not handed the lease, and holds nobody up") {
  RedisServer server;
  with_sessions(
      two(server), 5s,
      [](Sessions& holders, RedisServer& redis) -> awaitable<void> {
        LeaseTerms terms{"{t}:job", "alice"};
        auto held = co_await holders[0]->try_acquire(terms);
        REQUIRE(held);
        auto hasty = co_await holders[1]->acquire(terms, Clock::now() + 50ms);
        REQUIRE(!hasty);
        CHECK(hasty.error().code == Errc::timeout);
        auto gone = [](RedisServer& r) { return r.cli({"LLEN", "{t}:job:queue"}) == "0"; };
        co_await eventually(10s, "nobody is in line", gone, redis);
        auto released = co_await held->release();
        CHECK(released);
        auto next = co_await holders[1]->try_acquire(terms);
        CHECK(next);
      },
      server);
}

TEST_CASE("who was granted a lease, has not heard of it, and lost its session keeps its turn") {
  RedisServer server;
  with_sessions(
      two(server), 5s,
      [](Sessions& holders, RedisServer& redis) -> awaitable<void> {
        auto& client = holders[0]->client();
        // As a machine asks: attempt, session, and the session that it asked under before.
        auto ask = [](redis::Client& by, std::string what, std::string attempt, std::string session,
                      std::string before) -> Async<redis::Reply> {
          std::vector<std::string> keys{"{t}:job", "{t}:job:fence", "{t}:job:queue"};
          std::vector<std::string> args{std::move(what),
                                        std::move(attempt),
                                        "v",
                                        "0",
                                        std::move(session),
                                        "1",
                                        "86400000",
                                        "grants",
                                        "v",
                                        std::move(before)};
          auto reply = co_await by.run(scripts::lease, std::move(keys), std::move(args));
          co_return reply;
        };
        for (const char* session : {"s:a", "s:b1", "s:b2", "s:c"})
          redis.cli({"SET", session, "x", "PX", "60000"});
        auto a = co_await ask(client, "acquire", "a/1", "s:a", "-");
        REQUIRE(a);
        CHECK(a->items[0].number == 1);
        for (const char* who : {"b", "c"}) {
          auto waits = co_await ask(client, "acquire", fmt::format("{}/1", who),
                                    who == std::string("b") ? "s:b1" : "s:c", "-");
          REQUIRE(waits);
          CHECK(waits->items[0].number == 0);
        }
        auto given_back = co_await ask(client, "release", "a/1", "s:a", "-");
        REQUIRE(given_back);
        // b has it now, and its session ends before it hears of that.
        redis.cli({"DEL", "s:b1"});
        auto again = co_await ask(client, "acquire", "b/1", "s:b2", "s:b1");
        REQUIRE(again);
        CHECK(again->items[0].number == 1);
        CHECK(redis.cli({"LLEN", "{t}:job:queue"}) == "1");  // c
      },
      server);
}

TEST_CASE("a crashed waiter is passed over") {
  RedisServer server;
  FaultyLink link(server.port());
  with_sessions(
      {settings_for(server), settings_for(link.port())}, 2s,
      [](Sessions& holders, FaultyLink& way, RedisServer& redis) -> awaitable<void> {
        LeaseTerms terms{"{t}:job", "alice"};
        auto held = co_await holders[0]->try_acquire(terms);
        REQUIRE(held);
        TaskGroup waiters(holders[0]->client().executor());
        auto wait_in_line = [](LeaseSession& session, LeaseTerms wanted) -> Async<> {
          auto lease = co_await session.acquire(std::move(wanted), Clock::now() + 8s);
          co_return ok;
        };
        waiters.start("waiter", wait_in_line(*holders[1], terms));
        auto in_line = [](RedisServer& r) { return r.cli({"LLEN", "{t}:job:queue"}) == "1"; };
        co_await eventually(10s, "it is in line", in_line, redis);
        way.half_open();
        auto dead = [](RedisServer& r) {
          return r.cli_words({"KEYS", "warren:session:*"}).size() == 1;
        };
        co_await eventually(10s, "its session is over", dead, redis);
        auto released = co_await held->release();
        CHECK(released);
        CHECK(redis.cli({"EXISTS", "{t}:job"}) == "0");
        way.heal();
        waiters.stop();
        co_await waiters.join();
      },
      link, server);
}

// Runs in a process of its own, which the next test case kills.
TEST_CASE("victim: holds a lease" * doctest::skip()) {
  auto settings = settings_for(static_cast<unsigned short>(std::stoi(std::getenv("WARREN_PORT"))));
  settings.client_name = "victim";
  with_sessions({settings}, 3s, [](Sessions& holders) -> awaitable<void> {
    LeaseTerms terms{"{t}:job", "victim"};
    if (std::getenv("WARREN_HAS_TTL")) terms.ttl = 3s;
    auto lease = co_await holders[0]->try_acquire(terms);
    REQUIRE_MESSAGE(lease, lease.error().what);
    co_await sleep_until(Clock::time_point::max());
  });
}

TEST_CASE(
    "a lease whose holder is killed is free one ttl later, and the first in line has it then") {
  RedisServer server;
  Heartbeat heartbeat;
  for (auto terms : both_ways) {
    std::vector<std::string> environment{fmt::format("WARREN_PORT={}", server.port())};
    if (terms.ttl) environment.emplace_back("WARREN_HAS_TTL=1");
    Victim victim("victim: holds a lease", environment);
    with_sessions(
        two(server), 3s,
        [](Sessions& waiters, RedisServer& redis, Victim& holder, LeaseTerms& t,
           Heartbeat& machine) -> awaitable<void> {
          auto is_held = [](RedisServer& r) { return r.cli({"EXISTS", "{t}:job"}) == "1"; };
          co_await eventually(30s, "it is held", is_held, redis);
          struct Turn {
            std::string value;
            Clock::time_point at;
          };
          auto wait_in_line = [](LeaseSession& session, LeaseTerms wanted,
                                 std::vector<Turn>& turns) -> Async<> {
            auto value = wanted.value;
            auto lease = co_await acquire(session, std::move(wanted));
            REQUIRE_MESSAGE(lease, lease.error().what);
            turns.push_back({value, Clock::now()});
            co_return co_await lease->release();
          };
          std::vector<Turn> turns;
          TaskGroup tasks(waiters[0]->client().executor());
          for (std::string number : {"1", "2"}) {
            LeaseTerms wanted = t;
            wanted.value = number;
            tasks.start(number, wait_in_line(*waiters[number == "2"], wanted, turns));
            auto in_line = [](RedisServer& r, std::string& n) {
              return r.cli({"LLEN", "{t}:job:queue"}) == n;
            };
            co_await eventually(10s, "it is in line", in_line, redis, number);
          }
          holder.process.kill();
          // Once its connections are closed, the server has read everything that the holder sent.
          auto is_gone = [](RedisServer& r) {
            return !r.cli({"CLIENT", "LIST"}).contains("name=victim ");
          };
          co_await eventually(10s, "its connections are closed", is_gone, redis);

          // The key that expires, because nothing renews it any more: the session, or the lease.
          std::istringstream fence(redis.cli({"GET", "{t}:job:fence"}));
          std::vector<std::string> words(std::istream_iterator<std::string>(fence), {});
          auto kept_by = words.at(3) == "-" ? t.key : words[3];
          auto before = Clock::now();
          auto rest = std::chrono::milliseconds(std::stoll(redis.cli({"PTTL", kept_by})));
          auto after = Clock::now();
          REQUIRE(rest > 0ms);
          CHECK(rest <= 3s);
          co_await tasks.join();
          CHECK(turns[0].value == "1");
          CHECK(turns[1].value == "2");
          CHECK(turns[0].at >= before + rest - 5ms);  // the server's clock is not ours
          // The promise, plus the lateness that this machine showed, for each of three wake-ups: the
          // waiter, the server, and the waiter again.
          auto late = turns[0].at - after - rest;
          MESSAGE("after ", late / 1us, " us; threads are woken up to ", machine.worst() / 1us,
                  " us late");
          CHECK(late <= 50ms + 3 * machine.worst());
        },
        server, victim, terms, heartbeat);
    server.cli({"FLUSHALL"});
  }
}

TEST_CASE("a replicated lease needs every replica; without one it is undone and says so") {
  RedisServer primary;
  RedisServer replica({.replica_of = &primary});
  wait_for(20s, "the replica is in sync",
           [&] { return replica.info("master_link_status") == "up"; });
  auto settings = settings_for(primary);
  settings.command_timeout = 1s;
  with_sessions(
      {settings}, 2s,
      [](Sessions& holders, RedisServer& redis, RedisServer& copy) -> awaitable<void> {
        LeaseTerms terms{"{t}:job", "alice", 1s, true};
        auto lease = co_await holders[0]->try_acquire(terms);
        REQUIRE_MESSAGE(lease, lease.error().what);
        CHECK(copy.cli({"GET", terms.key}) == "alice");
        auto released = co_await lease->release();
        CHECK(released);
        copy.pause();
        auto refused = co_await holders[0]->try_acquire(terms);
        REQUIRE(!refused);
        CHECK(refused.error().code == Errc::unavailable);
        CHECK(refused.error().what.contains("replicas"));
        auto undone = [](RedisServer& r) { return r.cli({"EXISTS", "{t}:job"}) == "0"; };
        co_await eventually(10s, "it is undone", undone, redis);
        copy.resume();
      },
      primary, replica);
}

TEST_CASE("closing a session gives back what it holds at once") {
  RedisServer server;
  with_sessions(
      two(server), 60s,
      [](Sessions& holders, RedisServer& redis) -> awaitable<void> {
        LeaseTerms terms{"{t}:job", "alice"};
        auto held = co_await holders[0]->try_acquire(terms);
        REQUIRE(held);
        co_await holders[0]->close();
        CHECK(held->state() == LeaseState::ended);
        CHECK(redis.cli_words({"KEYS", "warren:session:*"}).empty());
        auto next = co_await holders[1]->try_acquire(terms);
        CHECK(next);
      },
      server);
}

TEST_CASE("a release that the server forbids says so, and the lease does not stay for ever") {
  RedisServer server({.users = {"alice on >secret ~* &* +@all"}});
  for (auto terms : both_ways) {
    server.cli({"ACL", "SETUSER", "alice", "allkeys"});
    with_sessions(
        {as_alice(server), settings_for(server)}, 2s,
        [](Sessions& holders, RedisServer& redis, LeaseTerms& t) -> awaitable<void> {
          auto lease = co_await holders[0]->try_acquire(t);
          REQUIRE_MESSAGE(lease, lease.error().what);
          LeaseTerms another{"{t}:another", "alice"};
          auto kept = co_await holders[0]->try_acquire(another);
          REQUIRE(kept);
          redis.cli({"ACL", "SETUSER", "alice", "resetkeys", "~warren:*", "~{t}:another*"});
          auto released = co_await lease->release();
          REQUIRE(!released);
          CHECK(released.error().code == Errc::denied);
          CHECK(released.error().what.contains("NOPERM"));
          // One ttl, as if its holder had died.
          auto began = Clock::now();
          auto next = co_await acquire(*holders[1], t);
          REQUIRE_MESSAGE(next, next.error().what);
          CHECK(Clock::now() - began < 8s);
          CHECK(kept->state() != LeaseState::ended);  // what else the session keeps is not touched
          auto used = co_await kept->release();
          CHECK_MESSAGE(used, used.error().what);
        },
        server, terms);
  }
}

TEST_CASE("a release that the server refuses for a time is tried again, and told until then") {
  RedisServer server;
  auto settings = settings_for(server);
  settings.command_timeout = 1s;
  with_sessions(
      {settings, settings_for(server)}, 60s,
      [](Sessions& holders, RedisServer& redis) -> awaitable<void> {
        LeaseTerms terms{"{t}:job", "alice"};
        auto lease = co_await holders[0]->try_acquire(terms);
        REQUIRE(lease);
        // A disk that cannot be written: MISCONF.
        auto in_the_way = redis.folder() / "dump.rdb";
        std::filesystem::create_directory(in_the_way);
        redis.cli({"CONFIG", "SET", "save", "3600 1"});
        redis.cli({"BGSAVE"});
        auto fails = [](RedisServer& r) { return r.info("rdb_last_bgsave_status") == "err"; };
        co_await eventually(20s, "it cannot be saved", fails, redis);
        auto released = co_await lease->release();
        REQUIRE(!released);
        CHECK_MESSAGE(released.error().what.contains("MISCONF"), released.error().what);
        std::filesystem::remove(in_the_way);
        redis.cli({"CONFIG", "SET", "save", ""});
        auto next = co_await holders[1]->acquire(terms, Clock::now() + 20s);
        CHECK_MESSAGE(next, next.error().what);  // long before the session would have ended
      },
      server);
}

TEST_CASE("those who died in line do not stay there, nor does the line grow without end") {
  RedisServer server;
  std::vector<std::string> push{"RPUSH", "{t}:job:queue"};
  for (int i = 0; i < 1'000; ++i)
    push.push_back(fmt::format("dead/{} warren:session:dead/{} warren:grants:dead 0 dead", i, i));
  auto line_is_empty = [](RedisServer& r) { return r.cli({"LLEN", "{t}:job:queue"}) == "0"; };
  with_sessions(
      two(server), 5s,
      [](Sessions& holders, RedisServer& redis, std::vector<std::string>& dead,
         auto& is_empty) -> awaitable<void> {
        LeaseTerms terms{"{t}:job", "alice", 2s};
        auto lease = co_await holders[0]->try_acquire(terms);
        REQUIRE(lease);
        redis.cli(dead);
        // By the renewals of the holder alone.
        co_await eventually(40s, "the dead are gone", is_empty, redis);
        CHECK(is_ours(*lease));

        // Or by those who ask; also from behind somebody who lives.
        redis.cli({"RPUSH", "{t}:job:queue", "live/1 @9999999999999 c 0 live"});
        redis.cli(dead);
        auto few_are_left = [](RedisServer& r) {
          return std::stoi(r.cli({"LLEN", "{t}:job:queue"})) < 900;
        };
        co_await eventually(40s, "some of them are gone", few_are_left, redis);
      },
      server, push, line_is_empty);

  server.cli({"FLUSHALL"});
  push.resize(2);
  for (int i = 0; i < 10'000; ++i)
    push.push_back(fmt::format("live/{} @9999999999999 c 0 live", i));
  with_sessions(
      two(server), 5s,
      [](Sessions& holders, RedisServer& redis,
         std::vector<std::string>& alive) -> awaitable<void> {
        LeaseTerms terms{"{t}:job", "alice", 5s};
        auto lease = co_await holders[0]->try_acquire(terms);
        REQUIRE(lease);
        redis.cli(alive);
        auto refused = co_await acquire(*holders[1], terms);
        REQUIRE(!refused);
        CHECK(refused.error().code == Errc::overloaded);
        CHECK(redis.cli({"LLEN", "{t}:job:queue"}) == "10000");
      },
      server, push);
}

TEST_CASE("a fence remembers for a day after the last grant, renewal or guarded write") {
  RedisServer server;
  for (auto terms : both_ways) {
    with_sessions(
        two(server), 1s,
        [](Sessions& holders, RedisServer& redis, LeaseTerms& t) -> awaitable<void> {
          std::string fence = "{t}:job:fence";
          auto remembers_for_a_day = [](RedisServer& r, std::string& key) {
            auto rest = std::chrono::milliseconds(std::stoll(r.cli({"PTTL", key})));
            return rest > 24h - 1min && rest <= 24h;
          };
          auto lease = co_await holders[0]->try_acquire(t);
          REQUIRE(lease);
          CHECK(remembers_for_a_day(redis, fence));

          if (t.ttl) {
            redis.cli({"PEXPIRE", fence, "60000"});
            co_await eventually(10s, "a renewal has refreshed it", remembers_for_a_day, redis,
                                fence);
            auto own = co_await lease->release();  // so that nothing else refreshes it from here on
            CHECK(own);
            LeaseTerms again{t.key, t.value};
            lease = co_await holders[0]->try_acquire(again);
            REQUIRE(lease);
          }
          redis.cli({"PEXPIRE", fence, "60000"});
          auto equal = co_await lease->guarded(Command("SET", "{t}:state", "x"));
          REQUIRE(equal);
          CHECK(remembers_for_a_day(redis, fence));

          std::string resource = "{t}:resource:fence";
          FencingToken token = lease->token();
          for (int step = 0; step < 3; ++step) {
            token.counter += std::uint64_t(step % 2);  // the first, a higher one, an equal one
            auto written = co_await run_guarded(holders[1]->client(), resource, token,
                                                Command("SET", "{t}:resource", "x"));
            REQUIRE(written);
            CHECK(remembers_for_a_day(redis, resource));
            redis.cli({"PEXPIRE", resource, "60000"});
          }
        },
        server, terms);
    server.cli({"FLUSHALL"});
  }
}

TEST_CASE(
    "a fence is kept by the renewals of a lease that its session keeps, on a full server too") {
  RedisServer server;
  with_sessions(
      two(server), 5s,
      [](Sessions& holders, RedisServer& redis) -> awaitable<void> {
        // As a machine asks; the second time with a ttl of its own.
        auto ask = [](redis::Client& by, std::string what, std::string ttl) -> Async<redis::Reply> {
          std::vector<std::string> keys{"{t}:job", "{t}:job:fence", "{t}:job:queue"};
          std::vector<std::string> args{
              std::move(what), "a/1", "v", std::move(ttl), "s:a", "1", "86400000", "-", "v", "-"};
          auto reply = co_await by.run(scripts::lease, std::move(keys), std::move(args));
          co_return reply;
        };
        auto& client = holders[0]->client();
        redis.cli({"SET", "s:a", "x", "PX", "60000"});
        for (const char* ttl : {"0", "60000"}) {
          auto granted = co_await ask(client, "acquire", ttl);
          REQUIRE(granted);
          CHECK(granted->items[0].number == 1);
          redis.cli({"PEXPIRE", "{t}:job:fence", "60000"});
          redis.cli({"CONFIG", "SET", "maxmemory", "1"});
          auto renewed = co_await ask(client, "renew", ttl);
          redis.cli({"CONFIG", "SET", "maxmemory", "0"});
          REQUIRE_MESSAGE(renewed, renewed.error().what);
          CHECK(renewed->items[0].number == 1);
          CHECK(std::stoll(redis.cli({"PTTL", "{t}:job:fence"})) > 86'000'000);
          redis.cli({"DEL", "{t}:job", "{t}:job:fence"});
        }
      },
      server);
}

TEST_CASE("while a slot moves, nobody renews, hides or gives back what another has") {
  RedisServer server;
  with_sessions(
      two(server), 5s,
      [](Sessions& holders, RedisServer& redis) -> awaitable<void> {
        auto& client = holders[0]->client();
        std::string theirs = "1 5 b/1 - 7 99999999999999";
        redis.cli({"SET", "{t}:job", "b"});
        redis.cli({"SET", "{t}:job:fence", theirs});
        for (const char* what : {"renew", "release"}) {
          std::vector<std::string> lease{"{t}:job"}, fence{"{t}:job:fence"};
          std::vector<std::string> value{what, "a", "a", "60000"};
          std::vector<std::string> claim{what, "a/1", "a", "60000", "-", "1", "86400000"};
          auto shown = co_await client.run(scripts::show, lease, value);
          REQUIRE(shown);
          CHECK(shown->items[0].number == 0);
          CHECK(redis.cli({"GET", "{t}:job"}) == "b");
          auto claimed = co_await client.run(scripts::claim, fence, claim);
          REQUIRE(claimed);
          CHECK(claimed->items[0].number == 0);
          CHECK(redis.cli({"GET", "{t}:job:fence"}) == theirs);
        }
      },
      server);
}

TEST_CASE("who leaves the line under a new session leaves the place that the old one took") {
  RedisServer server;
  with_sessions(
      two(server), 5s,
      [](Sessions& holders, RedisServer& redis) -> awaitable<void> {
        auto& client = holders[0]->client();
        auto ask = [](redis::Client& by, std::string what, std::string session,
                      std::string before) -> Async<redis::Reply> {
          std::vector<std::string> keys{"{t}:job", "{t}:job:fence", "{t}:job:queue"};
          std::vector<std::string> args{
              std::move(what),  "b/1", "v", "0", std::move(session), "1", "86400000", "grants", "v",
              std::move(before)};
          auto reply = co_await by.run(scripts::lease, std::move(keys), std::move(args));
          co_return reply;
        };
        redis.cli({"SET", "{t}:job", "somebody", "PX", "60000"});
        redis.cli({"SET", "s:1", "x", "PX", "60000"});
        auto waits = co_await ask(client, "acquire", "s:1", "-");
        REQUIRE(waits);
        CHECK(redis.cli({"LLEN", "{t}:job:queue"}) == "1");
        auto left = co_await ask(client, "release", "s:2", "s:1");
        REQUIRE(left);
        CHECK(redis.cli({"LLEN", "{t}:job:queue"}) == "0");
      },
      server);
}

TEST_CASE("a fence compares the epoch first, then the counter") {
  RedisServer server;
  with_client(settings_for(server), [](redis::Client& client) -> awaitable<void> {
    auto write = [](redis::Client& c, FencingToken token) -> Async<redis::Reply> {
      co_return co_await run_guarded(c, "{r}:fence", token, Command("INCR", "{r}:count"));
    };
    struct Step {
      FencingToken token;
      bool is_accepted;
    };
    for (auto [token, is_accepted] : std::vector<Step>{{{1, 900}, true},
                                                       {{2, 500}, true},
                                                       {{1, 900}, false},
                                                       {{1, 901}, false},
                                                       {{2, 499}, false},
                                                       {{2, 500}, true},
                                                       {{3, 1}, true},
                                                       {{2, 1000}, false}}) {
      auto written = co_await write(client, token);
      CHECK_MESSAGE(written.has_value() == is_accepted, to_string(token));
      if (!written) CHECK(written.error().code == Errc::lease_lost);
    }
  });
}

TEST_CASE(
    "a lease whose key is deleted or overwritten is known to be lost within one session ttl") {
  RedisServer server;
  for (bool is_deleted : {true, false}) {
    with_sessions(
        two(server), 2s,
        [](Sessions& holders, RedisServer& redis, bool& by_deletion) -> awaitable<void> {
          LeaseTerms terms{"{t}:job", "alice"}, other{"{t}:other", "alice"};
          auto lease = co_await holders[0]->try_acquire(terms);
          auto kept = co_await holders[0]->try_acquire(other);
          REQUIRE(lease);
          REQUIRE(kept);
          if (by_deletion)
            redis.cli({"DEL", terms.key});
          else
            redis.cli({"SET", terms.key, "somebody else's"});
          auto over = [](Lease& l) { return l.state() == LeaseState::ended; };
          co_await eventually(4s, "its holder knows", over, *lease);  // 2 s, and a busy machine
          CHECK(lease->why().code == Errc::lease_lost);
          CHECK(is_ours(*kept));
        },
        server, is_deleted);
    server.cli({"FLUSHALL"});
  }
}

TEST_CASE("a lease is over at its deadline, whatever else the thread was busy with") {
  RedisServer server;
  for (auto terms : both_ways) {
    with_sessions(
        two(server), 500ms,
        [](Sessions& holders, RedisServer& redis, LeaseTerms& t) -> awaitable<void> {
          if (t.ttl) t.ttl = 500ms;
          auto lease = co_await acquire(*holders[0], t);
          REQUIRE_MESSAGE(lease, lease.error().what);
          std::this_thread::sleep_until(lease->deadline());  // nothing else runs meanwhile
          CHECK(lease->state() == LeaseState::ended);
          CHECK(lease->why().code == Errc::lease_lost);

          auto next = co_await acquire(*holders[1], t);
          REQUIRE_MESSAGE(next, next.error().what);
          redis.pause();
          bool is_told = co_await is_told_in_time(*next);
          redis.resume();
          CHECK(is_told);
        },
        server, terms);
    server.cli({"FLUSHALL"});
  }
}
