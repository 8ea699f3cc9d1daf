// Leases on a real server: who gets them, who waits, and what a holder knows when things break.
#include "testkit/faulty_link.h"
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
