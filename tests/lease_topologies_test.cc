// Leases over Sentinel and Cluster: what a change of primary does to holders, waiters and tokens.
#include "with_sessions.h"

using namespace warren;
using redis::Command;

namespace {

Async<Lease> acquire(LeaseSession& session, LeaseTerms terms) {
  return session.acquire(std::move(terms), Clock::now() + 40s);
}

bool is_held_in_epoch_after(Lease& lease, FencingToken& token) {
  return lease.is_held() && lease.token().epoch > token.epoch;
}

}  // namespace

TEST_CASE("a lease survives a failover that lost nothing, under a token of the new epoch") {
  for (auto ttl : {std::optional<std::chrono::milliseconds>(), std::optional(20'000ms)}) {
    SentinelTrio trio;
    with_sessions(
        {settings_for(trio), settings_for(trio)}, 20s,
        [](Sessions& holders, SentinelTrio& servers,
           std::optional<std::chrono::milliseconds>& own) -> awaitable<void> {
          LeaseTerms terms{"{t}:job", "alice", own};
          auto lease = co_await acquire(*holders[0], terms);
          REQUIRE_MESSAGE(lease, lease.error().what);
          auto before = lease->token();
          servers.failover();
          co_await eventually(40s, "it is held under the new primary", is_held_in_epoch_after,
                              *lease, before);
          auto refused = co_await holders[1]->try_acquire(terms);
          REQUIRE(!refused);
          CHECK(refused.error().code == Errc::held_elsewhere);
          auto written = co_await lease->guarded(Command("SET", "{t}:state", "x"));
          CHECK(written);
          auto released = co_await lease->release();
          CHECK(released);
          auto next = co_await holders[1]->try_acquire(terms);
          REQUIRE_MESSAGE(next, next.error().what);
          CHECK(next->token() > before);
        },
        trio, ttl);
  }
}

TEST_CASE("who waits in line over a failover is still handed the lease") {
  SentinelTrio trio;
  with_sessions(
      {settings_for(trio), settings_for(trio)}, 20s,
      [](Sessions& holders, SentinelTrio& servers) -> awaitable<void> {
        LeaseTerms terms{"{t}:job", "alice"};
        auto lease = co_await acquire(*holders[0], terms);
        REQUIRE_MESSAGE(lease, lease.error().what);
        auto before = lease->token();
        auto wait_in_line = [](LeaseSession& session, LeaseTerms wanted,
                               FencingToken& token) -> Async<> {
          auto next = co_await acquire(session, std::move(wanted));
          if (!next) co_return std::unexpected(next.error());
          token = next->token();
          co_return ok;
        };
        FencingToken after;
        TaskGroup waiters(holders[0]->client().executor());
        waiters.start("waiter", wait_in_line(*holders[1], terms, after));
        auto in_line = [](LeaseSession& session) {
          return session.machine().leases() == 1 &&
                 session.machine().state(1) == LeaseState::waiting;
        };
        co_await eventually(10s, "it is in line", in_line, *holders[1]);
        servers.failover();
        co_await eventually(40s, "it is held under the new primary", is_held_in_epoch_after, *lease,
                            before);
        auto released = co_await lease->release();
        CHECK(released);
        co_await waiters.join();
        CHECK(after > before);
      },
      trio);
}

TEST_CASE("leases of a cluster live in their own slots, and follow them") {
  RedisCluster cluster;
  with_sessions(
      {settings_for(cluster), settings_for(cluster)}, 20s,
      [](Sessions& holders, RedisCluster& nodes) -> awaitable<void> {
        std::vector<Lease> leases;
        for (auto key : {"{a}:job", "{b}:job", "plain"}) {
          LeaseTerms terms{key, "alice"};
          auto lease = co_await acquire(*holders[0], terms);
          REQUIRE_MESSAGE(lease, lease.error().what);
          CHECK(lease->token().epoch > 0);
          leases.push_back(std::move(*lease));
          auto refused = co_await holders[1]->try_acquire(terms);
          REQUIRE(!refused);
          CHECK(refused.error().code == Errc::held_elsewhere);
        }
        auto wait_in_line = [](LeaseSession& session, int& granted) -> Async<> {
          for (std::string key : {"{a}:job", "{b}:job", "plain"}) {
            LeaseTerms terms{key, "bob"};
            auto lease = co_await acquire(session, std::move(terms));
            if (!lease) co_return std::unexpected(lease.error());
            ++granted;
          }
          co_return ok;
        };
        int granted = 0;
        TaskGroup waiters(holders[0]->client().executor());
        waiters.start("waiter", wait_in_line(*holders[1], granted));
        int slot = redis::slot_of("{a}:job");
        auto& from = nodes.owner(slot);
        auto& to = &from == &nodes.owner(redis::slot_of("{b}:job"))
                       ? nodes.owner(redis::slot_of("plain"))
                       : nodes.owner(redis::slot_of("{b}:job"));
        nodes.migrate_slot(slot, from, to);
        for (auto& lease : leases) {
          auto released = co_await lease.release();
          CHECK_MESSAGE(released, released.error().what);
        }
        auto all = [](int& count) { return count == 3; };
        co_await eventually(40s, "all are handed over", all, granted);
        co_await waiters.join();
      },
      cluster);
}
