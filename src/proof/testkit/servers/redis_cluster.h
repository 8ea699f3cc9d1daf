#pragma once
// A cluster of three primaries, each with a third of the slots and one replica.
#include <array>
#include <memory>
#include <string>
#include <vector>

#include "proof/testkit/servers/redis_server.h"

namespace warren::inline testkit {

struct ClusterOptions {
  std::chrono::milliseconds node_timeout = 1000ms;
  RedisOptions nodes = {};  // for each of the six
};

class RedisCluster {
 public:
  // Returns when the cluster is settled. A new primary refuses to serve for its first two seconds,
  // so this takes a little longer than that.
  explicit RedisCluster(ClusterOptions options = {});

  // 0, 1, 2 begin as the primaries; 3, 4, 5 as their replicas, in this order.
  RedisServer& node(std::size_t index) { return *nodes_.at(index); }
  std::vector<RedisServer*> nodes();
  const std::string& id(const RedisServer& node) const;

  int slot(const std::string& key);
  // Returns the primary of the slot; waits until it and all running nodes agree.
  RedisServer& owner(int slot);

  // Makes a replica the primary of its shard. The old primary, which must run, hands over to it.
  // With "FORCE" the old one is not asked, with "TAKEOVER" no node is. Returns when all running
  // nodes know it and the old primary follows.
  void failover(RedisServer& replica, const std::string& how = "");

  // A slot moves in three steps, and a test may look in between: after the first step the source
  // answers ASK for every key that it does not, or no longer, have.
  void begin_migration(int slot, RedisServer& from, RedisServer& to);
  // Moves up to `most` keys and returns how many it moved.
  std::size_t move_keys(int slot, RedisServer& from, RedisServer& to, std::size_t most = 1 << 20);
  // Returns when all running nodes know the new owner.
  void end_migration(int slot, RedisServer& from, RedisServer& to);
  void migrate_slot(int slot, RedisServer& from, RedisServer& to);

  // Waits until every node serves all slots, is connected with all others, and the replicas are in
  // sync. All nodes must be running.
  void wait_until_settled();

 private:
  Result<RedisServer*> agreed_owner(int slot);

  ClusterOptions options_;
  std::array<std::unique_ptr<RedisServer>, 6> nodes_;
  std::array<std::string, 6> ids_;
};

}  // namespace warren::inline testkit
