// Leases over Sentinel and Cluster: what a change of primary does to holders, waiters and tokens.
#include <atomic>
#include <thread>

#include "primitives/lease/causes.h"
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

TEST_CASE("a replicated lease is not granted while a replica that the sentinels know is away") {
  SentinelTrio trio({.down_after = 60s});  // until then the sentinels do not consider it down
  with_sessions(
      {settings_for(trio)}, 20s,
      [](Sessions& holders, SentinelTrio& servers) -> awaitable<void> {
        LeaseTerms terms{"{t}:job", "alice", 5s, true};
        auto lease = co_await acquire(*holders[0], terms);
        REQUIRE_MESSAGE(lease, lease.error().what);
        auto released = co_await lease->release();
        CHECK(released);
        auto& primary = servers.primary();
        servers.replicas()[0]->kill();
        // The primary then knows of one alone.
        auto has_left = [](RedisServer& r) { return r.info("connected_slaves") == "1"; };
        co_await eventually(40s, "the replica has left", has_left, primary);
        auto refused = co_await holders[0]->try_acquire(terms);
        REQUIRE(!refused);
        CHECK(refused.error().code == Errc::unavailable);
        CHECK(refused.error().what.contains("replicas"));
      },
      trio);
}

TEST_CASE("a replicated lease does not wait for a replica that most sentinels consider down") {
  SentinelTrio trio;
  auto settings = settings_for(trio);
  settings.command_timeout = 1s;
  with_sessions(
      {settings}, 20s,
      [](Sessions& holders, SentinelTrio& servers) -> awaitable<void> {
        auto* away = servers.replicas()[0];
        away->kill();
        LeaseTerms terms{"{t}:job", "alice", 20s, true};
        auto is_granted = [](LeaseSession& session, LeaseTerms& wanted) -> Async<> {
          auto lease = co_await session.try_acquire(wanted);
          if (lease) co_return ok;
          co_return std::unexpected(lease.error());
        };
        co_await eventually(40s, "it is granted", is_granted, *holders[0], terms);
        // A single sentinel is not enough: it may be cut off from the others with the primary.
        servers.sentinel(0).kill();
        servers.sentinel(1).kill();
        auto is_refused = [](LeaseSession& session, LeaseTerms& wanted) -> Async<> {
          wanted.key += "'";
          auto lease = co_await session.try_acquire(wanted);
          if (!lease && lease.error().cause == lease::causes::not_replicated) co_return ok;
          co_return fail(Errc::not_found, "granted");
        };
        co_await eventually(40s, "others are refused", is_refused, *holders[0], terms);
        away->restart();
        auto follows = [](RedisServer& replica) {
          return replica.info("master_link_status") == "up";
        };
        co_await eventually(40s, "it follows again", follows, *away);
        auto again = co_await holders[0]->try_acquire(terms);
        CHECK_MESSAGE(again, again.error().what);
      },
      trio);
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
        // Also who leaves before it has heard that it is in line.
        for (auto patience : std::vector<Clock::duration>{300ms, 1ms, 1ms, 1ms, 2ms, 3ms}) {
          LeaseTerms wanted{"{a}:job", "hasty"};
          auto hasty = co_await holders[1]->acquire(wanted, Clock::now() + patience);
          REQUIRE(!hasty);
          CHECK(hasty.error().code == Errc::timeout);
        }
        auto nobody_waits = [](RedisServer& node) {
          return node.cli({"LLEN", "{a}:job:queue"}) == "0";
        };
        // Long before its place in the line would have ended by itself.
        co_await eventually(10s, "who left is not in line", nobody_waits,
                            nodes.owner(redis::slot_of("{a}:job")));
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

TEST_CASE("while a slot moves its leases are taken, kept, handed on and given back") {
  RedisCluster cluster;
  int slot = redis::slot_of("{a}");
  for (bool has_moved : {false, true}) {
    auto& from = cluster.owner(slot);
    auto& to = &from == &cluster.node(0) ? cluster.node(1) : cluster.node(0);
    struct Move {
      RedisCluster& cluster;
      int slot;
      RedisServer &from, &to;
      bool has_moved;
    } move{cluster, slot, from, to, has_moved};
    with_sessions(
        {settings_for(cluster), settings_for(cluster)}, 3s,
        [](Sessions& holders, Move& m) -> awaitable<void> {
          LeaseTerms by_ttl{"{a}:ttl", "alice", 2s}, by_session{"{a}:session", "alice"};
          auto first = co_await acquire(*holders[0], by_ttl);
          auto second = co_await acquire(*holders[0], by_session);
          REQUIRE_MESSAGE(first, first.error().what);
          REQUIRE_MESSAGE(second, second.error().what);
          LeaseTerms robbed_terms{"{a}:robbed", "alice", 2s}, older_terms{"{a}:older", "alice", 2s};
          auto robbed = co_await acquire(*holders[0], robbed_terms);
          REQUIRE_MESSAGE(robbed, robbed.error().what);
          m.from.cli({"SET", "{a}:older", "an older program", "PX", "60000"});
          auto before = first->token();
          m.cluster.begin_migration(m.slot, m.from, m.to);
          if (m.has_moved) m.cluster.move_keys(m.slot, m.from, m.to);

          // Taken: one that nobody has had, also by who waits; and only by one.
          auto began = Clock::now();
          LeaseTerms fresh_terms{"{a}:fresh", "alice", 2s}, waiting_terms{"{a}:waiting", "alice"};
          auto fresh = co_await holders[0]->try_acquire(fresh_terms);
          REQUIRE_MESSAGE(fresh, fresh.error().what);
          auto waiting = co_await acquire(*holders[0], waiting_terms);
          REQUIRE_MESSAGE(waiting, waiting.error().what);
          std::vector<LeaseTerms> all_terms{by_ttl, by_session, fresh_terms, waiting_terms};
          for (auto& terms : all_terms) {
            auto refused = co_await holders[1]->try_acquire(terms);
            REQUIRE(!refused);
            CHECK_MESSAGE(refused.error().code == Errc::held_elsewhere, refused.error().what);
          }
          CHECK(Clock::now() - began < 5s);

          // Not taken from who knows of no fence, nor kept from who was granted it since.
          auto older = co_await holders[0]->try_acquire(older_terms);
          REQUIRE(!older);
          CHECK_MESSAGE(older.error().what.contains("an older program"), older.error().what);
          if (!m.has_moved) {
            m.from.cli({"SET", "{a}:robbed:fence", "9 9 bob/1 - 1 9999999999999"});
            auto over = [](Lease& l) { return l.state() == LeaseState::ended; };
            co_await eventually(10s, "its holder knows", over, *robbed);
            CHECK(m.from.cli({"GET", "{a}:robbed:fence"}).contains("bob/1"));
          }

          // Kept: for longer than any of them would last by itself.
          auto all_are_renewed = [](std::vector<Lease*>& leases, Clock::time_point& at) {
            return std::ranges::all_of(leases, [&](Lease* l) { return l->deadline() > at; });
          };
          std::vector<Lease*> all{&*first, &*second, &*fresh, &*waiting};
          auto later = Clock::now() + 5s;
          co_await eventually(20s, "all are renewed", all_are_renewed, all, later);
          for (auto* lease : all) CHECK(is_ours(*lease));
          CHECK(first->token() == before);

          // Handed on.
          auto wait_in_line = [](LeaseSession& session, LeaseTerms wanted, int& count) -> Async<> {
            auto lease = co_await acquire(session, std::move(wanted));
            if (!lease) co_return std::unexpected(lease.error());
            ++count;
            co_return co_await lease->release();
          };
          int granted = 0;
          TaskGroup waiters(holders[0]->client().executor());
          for (auto& terms : all_terms)
            waiters.start("waiter", wait_in_line(*holders[1], terms, granted));
          began = Clock::now();
          for (auto* lease : all) {
            auto released = co_await lease->release();
            CHECK_MESSAGE(released, released.error().what);
          }
          co_await waiters.join();
          CHECK(granted == 4);
          CHECK(Clock::now() - began < 10s);
          // And given back.
          auto again = co_await holders[0]->try_acquire(by_ttl);
          REQUIRE_MESSAGE(again, again.error().what);
          CHECK(again->token() > before);
          while (m.cluster.move_keys(m.slot, m.from, m.to) > 0) {
          }
          m.cluster.end_migration(m.slot, m.from, m.to);
          CHECK(is_ours(*again));
          auto written = co_await again->guarded(Command("SET", "{a}:state", "x"));
          CHECK_MESSAGE(written, written.error().what);
        },
        move);
  }
}

TEST_CASE("a lease that was given back just before its slot began to move is free") {
  RedisCluster cluster;
  int slot = redis::slot_of("{a}");
  auto& from = cluster.owner(slot);
  struct Move {
    RedisCluster& cluster;
    int slot;
    RedisServer &from, &to;
  } move{cluster, slot, from, &from == &cluster.node(0) ? cluster.node(1) : cluster.node(0)};
  with_sessions(
      {settings_for(cluster), settings_for(cluster)}, 3s,
      [](Sessions& holders, Move& m) -> awaitable<void> {
        LeaseTerms long_terms{"{a}:job", "alice", 60s};
        auto first = co_await acquire(*holders[0], long_terms);
        REQUIRE_MESSAGE(first, first.error().what);
        auto before = first->token();
        auto released = co_await first->release();
        CHECK_MESSAGE(released, released.error().what);
        m.cluster.begin_migration(m.slot, m.from, m.to);
        auto next = co_await holders[1]->try_acquire(long_terms);
        REQUIRE_MESSAGE(next, next.error().what);
        CHECK(next->token() > before);
        while (m.cluster.move_keys(m.slot, m.from, m.to) > 0) {
        }
        m.cluster.end_migration(m.slot, m.from, m.to);
        CHECK(is_ours(*next));
      },
      move);
}

TEST_CASE("a slot that moves to and fro under load costs no lease, and gives none to two") {
  RedisCluster cluster;
  int slot = redis::slot_of("{a}");
  struct Load {
    std::atomic<bool> is_over = false;
    std::atomic<int> grants = 0;
    std::map<std::string, int> holders;
    int shared = 0, lost = 0;
    std::string problem;
  } load;
  // Beside the thread that holds the leases: it moves one key after the other.
  std::jthread mover([&] {
    for (int round = 0; round < 6; ++round) {
      wait_for(20s, "work goes on between two moves",
               [&, seen = load.grants.load()] { return load.grants > seen + 20; });
      auto& from = cluster.owner(slot);
      auto& to = &from == &cluster.node(0) ? cluster.node(1) : cluster.node(0);
      cluster.begin_migration(slot, from, to);
      while (cluster.move_keys(slot, from, to, 1) > 0) {
      }
      cluster.end_migration(slot, from, to);
    }
    load.is_over = true;
  });
  with_sessions(
      {settings_for(cluster), settings_for(cluster), settings_for(cluster)}, 3s,
      [](Sessions& holders, Load& all) -> awaitable<void> {
        auto work = [](LeaseSession& session, LeaseTerms terms, Load& l) -> Async<> {
          while (!l.is_over) {
            auto lease = co_await acquire(session, terms);
            if (!lease) {
              l.problem = lease.error().what;
              co_return std::unexpected(lease.error());
            }
            ++l.grants;
            if (++l.holders[terms.key] > 1) ++l.shared;
            co_await sleep_for(2ms);
            --l.holders[terms.key];
            if (lease->state() == LeaseState::ended) ++l.lost;
            auto released = co_await lease->release();
            if (!released) l.problem = released.error().what;
          }
          co_return ok;
        };
        TaskGroup workers(holders[0]->client().executor());
        for (std::size_t i = 0; i < 6; ++i) {
          LeaseTerms terms{fmt::format("{{a}}:{}", i % 2), fmt::format("worker {}", i)};
          if (i % 2 == 1) terms.ttl = 2s;
          workers.start("worker", work(*holders[i % 3], terms, all));
        }
        co_await workers.join();
      },
      load);
  CHECK(load.grants > 120);
  CHECK(load.shared == 0);
  CHECK(load.lost == 0);
  CHECK_MESSAGE(load.problem.empty(), load.problem);
}
