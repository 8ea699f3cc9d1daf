// Leases on a real server: who gets them, who waits, and what a holder knows when things break.
#include "proof/testkit/faulty_link.h"
#include "with_sessions.h"

using namespace warren;
using redis::Command;

namespace {

// The two ways in which a lease is kept: by the session, and by a ttl of its own.
const std::vector<LeaseTerms> both_ways{{"{t}:job", "alice"}, {"{t}:job", "alice", 1s}};

Async<Lease> acquire(LeaseSession& session, LeaseTerms terms) {
  return session.acquire(std::move(terms), Clock::now() + 20s);
}

std::vector<redis::Settings> two(const RedisServer& server) {
  return {settings_for(server), settings_for(server)};
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
          CHECK(lease->is_held());
          way.half_open();
          auto began = Clock::now();
          auto next = co_await acquire(*holders[1], t);
          REQUIRE_MESSAGE(next, next.error().what);
          CHECK(lease->state() == LeaseState::ended);
          CHECK(lease->why().code == Errc::lease_lost);
          CHECK(Clock::now() - began < 3s);
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
        CHECK(lease->is_held());
      },
      terms);
}

TEST_CASE("a plain SET NX PX of an older client is respected, and loses nothing to us") {
  RedisServer server;
  with_sessions(
      {settings_for(server)}, 2s,
      [](Sessions& holders, RedisServer& redis) -> awaitable<void> {
        LeaseTerms terms{"{c}:leader:role", "foghorn-1", 1s};
        redis.cli({"SET", terms.key, "older", "NX", "PX", "300"});
        auto refused = co_await holders[0]->try_acquire(terms);
        REQUIRE(!refused);
        CHECK(refused.error().what.contains("older"));
        auto lease = co_await acquire(*holders[0], terms);  // at the end of those 300 ms
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
        LeaseTerms terms{"holt:i1:lock", "orchestrator:1", 300ms};
        auto lease = co_await holders[0]->try_acquire(terms);
        REQUIRE(lease);
        lease->show("orchestrator:2");
        auto shown = [](RedisServer& r) {
          return r.cli({"GET", "holt:i1:lock"}) == "orchestrator:2";
        };
        co_await eventually(10s, "the new value is there", shown, redis);
        CHECK(lease->is_held());
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
        CHECK(Clock::now() - began < 2s);
        redis.resume();

        auto next = co_await acquire(*holders[0], terms);
        REQUIRE_MESSAGE(next, next.error().what);
        auto quick = []() -> Async<> { co_return fail(Errc::not_found, "nothing to do"); };
        done = co_await while_held(*next, quick());
        REQUIRE(!done);
        CHECK(done.error().what == "nothing to do");
        CHECK(next->is_held());
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

TEST_CASE("a crashed waiter is passed over") {
  RedisServer server;
  FaultyLink link(server.port());
  with_sessions(
      {settings_for(server), settings_for(link.port())}, 500ms,
      [](Sessions& holders, FaultyLink& way, RedisServer& redis) -> awaitable<void> {
        LeaseTerms terms{"{t}:job", "alice"};
        auto held = co_await holders[0]->try_acquire(terms);
        REQUIRE(held);
        TaskGroup waiters(holders[0]->client().executor());
        auto wait_in_line = [](LeaseSession& session, LeaseTerms wanted) -> Async<> {
          auto lease = co_await session.acquire(std::move(wanted), Clock::now() + 3s);
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
  with_sessions(two(server), 60s, [](Sessions& holders) -> awaitable<void> {
    LeaseTerms terms{"{t}:job", "alice"};
    auto held = co_await holders[0]->try_acquire(terms);
    REQUIRE(held);
    co_await holders[0]->close();
    CHECK(held->state() == LeaseState::ended);
    auto next = co_await holders[1]->try_acquire(terms);
    CHECK(next);
  });
}
