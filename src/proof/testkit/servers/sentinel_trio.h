#pragma once
// One primary, two replicas and three sentinels (quorum 2) that watch them.
//
// Ready within a third of a second: sentinels announce themselves every two seconds and look for
// replicas every ten, so these periods are shortened (SENTINEL DEBUG) while we wait, and then
// restored. What a test sees has the timing of production.
#include <array>
#include <memory>
#include <string>
#include <vector>

#include "proof/testkit/servers/redis_server.h"

namespace warren::inline testkit {

struct SentinelOptions {
  std::chrono::milliseconds down_after = 1000ms;
  // Within twice this time a sentinel starts no second failover of its own.
  std::chrono::milliseconds failover_timeout = 5000ms;
  RedisOptions servers = {};  // for each of the three data servers; tls also for the sentinels
  std::string sentinel_password = {};  // of the sentinels themselves
  RedisOptions sentinels = {};         // additional lines and variables for each sentinel
};

class SentinelTrio {
 public:
  static constexpr const char* name = "warren";  // of the primary, as the sentinels know it

  // Returns when it is settled, so a test may kill a primary at once.
  explicit SentinelTrio(SentinelOptions options = {});

  // Returns the server that all running sentinels name and that considers itself a primary; waits
  // until there is one.
  RedisServer& primary();
  // The other two, running or not.
  std::vector<RedisServer*> replicas();
  std::vector<RedisServer*> servers();
  RedisServer& sentinel(std::size_t index) { return *sentinels_.at(index); }
  std::vector<RedisServer*> sentinels();

  // Asks a sentinel for a failover without need. Returns the new primary once all running sentinels
  // name it.
  RedisServer& failover();
  // Waits until each sentinel knows two replicas in sync and the two other sentinels, and is
  // connected with all of them. All servers must be running.
  void wait_until_settled();

 private:
  Result<RedisServer*> agreed_primary();

  SentinelOptions options_;
  std::array<std::unique_ptr<RedisServer>, 3> servers_;
  std::array<std::unique_ptr<RedisServer>, 3> sentinels_;
};

}  // namespace warren::inline testkit
