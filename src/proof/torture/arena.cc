#include "proof/torture/arena.h"

#include <fmt/format.h>

#include "proof/testkit/run.h"
#include "proof/testkit/servers/redis_cluster.h"
#include "proof/testkit/servers/sentinel_trio.h"
#include "proof/torture/clocks.h"
#include "proof/torture/lease_worker.h"

namespace warren::torture {

namespace {

using Milliseconds = std::chrono::milliseconds;

redis::Address address_of(unsigned short port) { return {"127.0.0.1", port, ""}; }

// Faults that any server may have.
class Faults {
 public:
  explicit Faults(const ArenaOptions& options) : clocks(options.clock_shim), ttl_(options.ttl) {}

  // A fraction of the ttl, up to twice as long, so that everything with that ttl has expired.
  Clock::duration some_time(Random& random) const {
    static const std::vector<double> parts{0.1, 0.5, 0.99, 1.01, 2};
    return std::chrono::duration_cast<Clock::duration>(ttl_ * random.one_of(parts));
  }
  Fault pause(RedisServer& server, Random& random) const {
    server.pause();
    return {"server paused", some_time(random), [&] { server.resume(); }};
  }
  // Other clients get BUSY, or wait.
  Fault long_script(RedisServer& server, Random& random) const {
    auto time = some_time(random);
    server.cli({"CONFIG", "SET", "busy-reply-threshold", random.below(2) ? "50" : "5000"});
    auto ms = std::chrono::duration_cast<Milliseconds>(time).count();
    // Does not wait for the answer; the script ends by itself.
    auto busy = server.try_cli({"EVAL",
                                fmt::format(R"(local function now()
            local t = redis.call('TIME') return t[1] * 1000 + t[2] / 1000 end
          local stop = now() + {} while now() < stop do end return 1)",
                                            ms),
                                "0"},
                               1ms);
    return {busy ? "short script" : "long script", time, [&] {
              wait_for(30s, "the script ends",
                       [&] { return server.try_cli({"PING"}).has_value(); });
            }};
  }
  Fault subscriptions_killed(RedisServer& server) const {
    server.cli({"CLIENT", "KILL", "TYPE", "pubsub"});
    return {"subscriptions killed", 0ms, [] {}};
  }
  Fault connections_killed(RedisServer& server) const {
    server.cli({"CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"});
    return {"connections killed", 0ms, [] {}};
  }
  Fault scripts_flushed(RedisServer& server) const {
    server.cli({"SCRIPT", "FLUSH"});
    return {"scripts flushed", 0ms, [] {}};
  }
  Fault clock_step(RedisServer& server, Random& random) const {
    static const std::vector<std::chrono::seconds> steps{1s, -1s, 30s, -30s, 3600s, -3600s};
    auto step = random.one_of(steps);
    clocks.set(server.pid(), step);
    return {.name = "clock stepped",
            .length = some_time(random),
            .end = [&] { clocks.set(server.pid(), 0s); },
            .is_lossy = true,
            .aftermath = std::chrono::abs(step)};
  }
  // By more than a lease allows for.
  Fault clock_drift(RedisServer& server, Random& random) const {
    clocks.set(server.pid(), 0s, random.below(2) ? 0.05 : -0.05);
    return {.name = "clock 5 % too fast or slow",
            .length = 2 * some_time(random),
            .end = [&] { clocks.set(server.pid(), 0s); },
            .is_lossy = true,
            .aftermath = some_time(random)};
  }
  Fault wrong_clock(RedisServer& server, Random& random) const {
    return random.below(3) == 0 ? clock_drift(server, random) : clock_step(server, random);
  }

  Clocks clocks;

 private:
  Milliseconds ttl_;
};

class SingleArena : public Arena {
 public:
  explicit SingleArena(const ArenaOptions& options)
      : faults_(options),
        server_({.appendonly = true,
                 .config = {"appendfsync always"},
                 .environment = faults_.clocks.environment()}) {
    for (std::size_t i = 0; i < options.workers; ++i)
      links_.push_back(std::make_unique<FaultyLink>(server_.port()));
  }
  std::string name() const override { return "one server"; }
  redis::Settings settings(std::size_t worker) const override {
    redis::Settings settings;
    settings.addresses = {address_of(links_[worker]->port())};
    return settings;
  }
  Fault begin_fault(Random& random) override {
    switch (random.below(faults_.clocks.can_lie() ? 12 : 11)) {
      case 0:
        return faults_.pause(server_, random);
      case 1:
        return faults_.long_script(server_, random);
      case 2:
        return faults_.subscriptions_killed(server_);
      case 3:
        return faults_.connections_killed(server_);
      case 4:
        return faults_.scripts_flushed(server_);
      case 5:
        server_.kill();
        return {"server killed", faults_.some_time(random), [&] { server_.restart(); }};
      case 6:
        if (had_wrong_clock_) return faults_.scripts_flushed(server_);
        has_lost_data_ = true;
        server_.cli({"FLUSHALL"});
        return {"data lost", 0ms, [] {}, true, true};
      case 11:
        if (has_lost_data_) return faults_.scripts_flushed(server_);
        had_wrong_clock_ = true;
        return faults_.wrong_clock(server_, random);
      default:
        return link_fault(*random.one_of(all_links()), faults_.some_time(random), random);
    }
  }
  void settle() override {
    for (auto& link : links_) link->heal();
    server_.cli({"PING"});
  }
  RedisServer& owner(const std::string&) override { return server_; }
  std::vector<RedisServer*> servers() override { return {&server_}; }

 private:
  // Never both in one round: a server that has lost its data and whose clock goes back repeats
  // tokens, as docs/guarantees.md says.
  bool has_lost_data_ = false, had_wrong_clock_ = false;
  std::vector<FaultyLink*> all_links() {
    std::vector<FaultyLink*> all;
    for (auto& link : links_) all.push_back(link.get());
    return all;
  }
  Faults faults_;
  RedisServer server_;
  std::vector<std::unique_ptr<FaultyLink>> links_;
};

class SentinelArena : public Arena {
 public:
  explicit SentinelArena(const ArenaOptions& options)
      : ttl_(options.ttl),
        faults_(options),
        trio_({.down_after = 500ms,
               .failover_timeout = 2000ms,
               // A primary without replicas should not take writes.
               .servers = {.users = {std::string("watcher on >watcher ~* &* +@all")},
                           .appendonly = true,
                           .config = {"min-replicas-to-write 1", "min-replicas-max-lag 2"},
                           .environment = faults_.clocks.environment()},
               .sentinels = {.config = {"sentinel auth-user warren watcher",
                                        "sentinel auth-pass warren watcher"},
                             .environment = faults_.clocks.environment()}}) {}
  std::string name() const override { return "primary, two replicas, three sentinels"; }
  bool is_replicated() const override { return true; }
  redis::Settings settings(std::size_t) const override {
    redis::Settings settings;
    settings.mode = redis::Mode::sentinel;
    settings.master_name = SentinelTrio::name;
    settings.addresses.clear();
    for (auto* sentinel : const_cast<SentinelTrio&>(trio_).sentinels())
      settings.addresses.push_back(address_of(sentinel->port()));
    return settings;
  }
  Fault begin_fault(Random& random) override {
    auto& primary = trio_.primary();
    auto& replica = *random.one_of(trio_.replicas());
    auto& sentinel = *random.one_of(trio_.sentinels());
    switch (random.below(faults_.clocks.can_lie() ? 14 : 12)) {
      case 8:
        return sentinels_killed();
      case 9:
        return failover_with_loss(primary);
      case 10:
        return hidden_from_sentinels(primary);
      case 11:
        sentinel.pause();
        return {"sentinel paused", faults_.some_time(random), [&] { sentinel.resume(); }};
      case 12:
        // It distrusts its own observations for half a minute; the two others continue.
        faults_.clocks.set(sentinel.pid(), 60s);
        return {"sentinel's clock stepped", faults_.some_time(random), [] {}};
      case 0:
        primary.kill();
        return {"primary killed", 2500ms, [&] { primary.restart(); }, true};
      case 1:
        primary.pause();
        return {"primary paused, replaced, resumed", 2500ms, [&] { primary.resume(); }, true};
      case 2:
        replica.kill();
        return {"replica killed", faults_.some_time(random), [&] { replica.restart(); }};
      case 3:
        sentinel.kill();
        return {"sentinel killed", faults_.some_time(random), [&] { sentinel.restart(); }};
      case 4:
        replica.pause();
        return {"replica paused", faults_.some_time(random), [&] { replica.resume(); }};
      case 5:
        return faults_.subscriptions_killed(primary);
      case 6:
        return faults_.connections_killed(primary);
      case 7:
        trio_.failover();
        return {"failover", 0ms, [] {}, true};
      default:
        return faults_.wrong_clock(random.below(2) ? primary : replica, random);
    }
  }
  void settle() override { trio_.wait_until_settled(); }
  RedisServer& owner(const std::string&) override { return trio_.primary(); }
  std::vector<RedisServer*> servers() override { return trio_.servers(); }

 private:
  // Too few are left to agree on anything.
  Fault sentinels_killed() {
    for (auto i : {0U, 1U}) trio_.sentinel(i).kill();
    return {"most sentinels killed", ttl_, [&] {
              for (auto i : {0U, 1U}) trio_.sentinel(i).restart();
            }};
  }
  // They replace it, while clients can still reach it.
  Fault hidden_from_sentinels(RedisServer& primary) {
    primary.cli({"ACL", "SETUSER", "watcher", "off"});
    primary.cli({"CLIENT", "KILL", "USER", "watcher"});
    return {"primary hidden from the sentinels", 2500ms,
            [&] { primary.cli({"ACL", "SETUSER", "watcher", "on"}); }, true};
  }
  // The replicas follow no server for a while, then one of them has to take over.
  Fault failover_with_loss(RedisServer& primary) {
    primary.cli({"CONFIG", "SET", "min-replicas-to-write", "0"});  // until it starts again
    for (auto* replica : trio_.replicas()) replica->cli({"REPLICAOF", "127.0.0.1", "1"});
    std::this_thread::sleep_for(300ms);
    primary.kill();
    return {"failover that lost writes", 2500ms, [&] { primary.restart(); }, true};
  }

  Clock::duration ttl_;
  Faults faults_;
  SentinelTrio trio_;
};

class ClusterArena : public Arena {
 public:
  explicit ClusterArena(const ArenaOptions& options)
      : keys_(options.keys),
        faults_(options),
        cluster_({.node_timeout = 1000ms,
                  .nodes = {.appendonly = true, .environment = faults_.clocks.environment()}}) {}
  std::string name() const override { return "cluster of three shards"; }
  bool is_replicated() const override { return true; }
  redis::Settings settings(std::size_t) const override {
    redis::Settings settings;
    settings.mode = redis::Mode::cluster;
    settings.addresses.clear();
    for (auto* node : const_cast<RedisCluster&>(cluster_).nodes())
      settings.addresses.push_back(address_of(node->port()));
    return settings;
  }
  Fault begin_fault(Random& random) override {
    auto key = keys_.empty() ? lease_key(static_cast<history::LockId>(random.below(3)))
                             : random.one_of(keys_);
    auto& primary = owner(key);
    switch (random.below(faults_.clocks.can_lie() ? 8 : 7)) {
      case 0:
        primary.kill();
        return {"primary killed", 3500ms, [&] { primary.restart(); }, true};
      case 1:
        primary.pause();
        return {"primary paused, replaced, resumed", 3500ms, [&] { primary.resume(); }, true};
      case 2:
        return migration(key, primary, random);
      case 3:
        cluster_.failover(replica_of(primary));
        return {"failover", 0ms, [] {}, true};
      case 4:
        return faults_.subscriptions_killed(primary);
      case 5:
        return faults_.connections_killed(primary);
      case 6:
        // Without asking the primary or any other node.
        cluster_.failover(replica_of(primary), "TAKEOVER");
        return {"forced takeover", 0ms, [] {}, true};
      default:
        return faults_.wrong_clock(primary, random);
    }
  }
  void settle() override { cluster_.wait_until_settled(); }
  RedisServer& owner(const std::string& key) override { return cluster_.owner(cluster_.slot(key)); }
  std::vector<RedisServer*> servers() override { return cluster_.nodes(); }

 private:
  RedisServer& replica_of(RedisServer& primary) {
    auto line = primary.cli_words({"CLUSTER", "REPLICAS", cluster_.id(primary)}).at(0);
    for (auto* node : cluster_.nodes())
      if (line.starts_with(cluster_.id(*node))) return *node;
    return primary;
  }
  // Leaves a slot half moved for a while: some of its keys are here and some are there.
  Fault migration(const std::string& key, RedisServer& from, Random& random) {
    auto slot = cluster_.slot(key);
    std::vector<RedisServer*> others;
    for (auto* node : cluster_.nodes())
      if (node != &from && node->info("role") == "master") others.push_back(node);
    auto& to = *random.one_of(others);
    cluster_.begin_migration(slot, from, to);
    cluster_.move_keys(slot, from, to, random.below(3));
    return {"slot migrated", 200ms, [this, slot, &from, &to] {
              cluster_.move_keys(slot, from, to);
              cluster_.end_migration(slot, from, to);
            }};
  }

  std::vector<std::string> keys_;
  Faults faults_;
  RedisCluster cluster_;
};

}  // namespace

Fault link_fault(FaultyLink& link, Clock::duration length, Random& random) {
  auto name = "link delayed";
  switch (random.below(5)) {
    case 0:
      link.cut();
      name = "link cut";
      break;
    case 1:
      link.half_open();
      name = "link silent";
      break;
    case 2:
      link.drop(Direction::to_server);
      name = "requests dropped";
      break;
    case 3:
      link.drop(Direction::to_client);
      name = "replies dropped";
      break;
    default:
      link.delay(Direction::to_client, length / 4);
  }
  return {name, length, [&] { link.heal(); }};
}

std::unique_ptr<Arena> make_arena(ArenaKind kind, const ArenaOptions& options) {
  switch (kind) {
    case ArenaKind::single:
      return std::make_unique<SingleArena>(options);
    case ArenaKind::sentinel:
      return std::make_unique<SentinelArena>(options);
    case ArenaKind::cluster:
      return std::make_unique<ClusterArena>(options);
  }
  std::abort();
}

}  // namespace warren::torture
