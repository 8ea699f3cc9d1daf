#pragma once
// Simulated Redis servers, one primary and its replicas, and what happens to them.
//
//   World world(seed);
//   Servers servers(world, {.replicas = 2, .weather = storm});
//   Connection& alice = servers.connect();
//   alice.call({"SET", "k", "v"}, world.now() + 1s, [](auto reply) { … });
//   world.run_until(world.now() + 10s);
//
// Replication is asynchronous, so a failover loses what the replica did not have yet. A primary
// that was replaced may go on answering those who have not heard of it, and forgets all that when
// it becomes a replica. Wall clocks step, and differ between servers.
//
// Servers outlive the run: actions in the world point at them and at their connections.
#include <memory>
#include <vector>

#include "proof/sim/connection.h"
#include "proof/sim/model_redis.h"
#include "proof/sim/world.h"

namespace warren::sim {

// How things are, and how often they go wrong. Times are drawn evenly from 0 or least to most.
struct Weather {
  // One way through the network; once in a while much longer.
  Clock::duration delay_least = 20us, delay_most = 200us, slow_most = 100ms;
  double slow = 0.002;
  // Until a replica has the changes of its primary; once in a while much longer.
  Clock::duration lag_least = 50us, lag_most = 1ms, long_lag_most = 500ms;
  double long_lag = 0.01;
  Clock::duration reconnect_most = 50ms;  // before the next attempt
  Clock::duration news_most = 1s;         // until a process hears of a failover

  // Faults, per second of simulated time.
  double breaks = 0;  // of one socket of some process
  double pauses = 0;  // of some process
  double failovers = 0;
  double restarts = 0;     // of some server
  double stops = 0;        // pauses of some server
  double clock_steps = 0;  // of some server

  // What they are like.
  Clock::duration pause_most = 2s;
  double stale = 0.5;               // chance that a replaced primary goes on answering …
  Clock::duration stale_most = 3s;  // … for so long at most
  Clock::duration down_most = 1s;   // of a server that restarts
  double loses_data = 0;            // chance that it comes back empty
  Clock::duration stop_most = 2s;
  Clock::duration step_most = 1s;  // forward or back
  Clock::duration skew_most = 0s;  // between the clocks of the servers from the start
};

class Servers {
 public:
  struct Options {
    int replicas = 0;
    Weather weather{};
  };
  Servers(World& world, Options options);
  Servers(const Servers&) = delete;
  Servers& operator=(const Servers&) = delete;

  // For a new process. Its sockets are connected when they are first used, the one for data now.
  Connection& connect();

  // Faults begin, at the rates of the weather, and end; what went wrong before mends by itself.
  void begin_faults();
  void end_faults() { has_faults_ = false; }

  // Or one at a time. The first server is 0, and at first the primary.
  //
  // Promotes a replica with what it has. The old primary goes on answering for a while, or dies at
  // once when that is 0; later it follows the new one. Each is in the next epoch.
  void failover(int replica, Clock::duration old_answers_for);
  // Connections to it break. Without its data it comes back empty, and so do its replicas then.
  void restart(int server, Clock::duration down, bool keeps_data);
  // Answers nothing meanwhile, and then everything.
  void stop(int server, Clock::duration duration);
  void step_clock(int server, Clock::duration step);

  int primary() const { return primary_; }
  std::uint64_t epoch() const { return epoch_; }
  int size() const { return static_cast<int>(servers_.size()); }
  // In its own opinion, which is not that of others when it was replaced.
  bool acts_as_primary(int server) const { return at(server).is_primary; }
  // A replica that has the changes of the primary, all or the first few.
  bool is_following(int server) const { return at(server).is_following; }
  std::int64_t wall_us(int server) const;
  // Changes that it has of its primary, or has made.
  std::size_t offset(int server) const;
  // How many replicas of this server have so many of its changes.
  int replicas_with(int server, std::size_t offset) const;
  // With all that it has.
  ModelRedis& model(int server);

 private:
  friend class Connection;
  struct Wait {
    Connection::RequestPtr request;
    std::size_t way;
    std::size_t offset;
  };
  struct Server {
    ModelRedis model;
    std::int64_t clock_us = 0;  // ahead of the true time
    bool is_up = true, is_primary = false;
    std::uint64_t life = 1;  // grows when all connections to it break
    Clock::time_point stopped_until{};
    std::vector<Wait> waits;
    // Of a replica. It takes changes into its model when that is looked at, and not before.
    bool is_following = false, is_pulling = false;
    int source = 0;
    std::size_t offset = 0;
    std::uint32_t sync = 0;  // what was on its way before is void
  };

  Server& at(int server) { return servers_[static_cast<std::size_t>(server)]; }
  const Server& at(int server) const { return servers_[static_cast<std::size_t>(server)]; }
  bool is_stopped(int server) const { return world_.now() < at(server).stopped_until; }
  bool accepts(int server) const;
  Clock::duration delay();
  Clock::duration lag();

  void receive(const Connection::RequestPtr& request, std::size_t way);
  redis::Reply execute(int server, const std::shared_ptr<const Words>& words);
  redis::Reply role(int server) const;
  void answer(const Connection::RequestPtr& request, std::size_t way);
  void answer_waits(int server);

  void replicate(int replica);
  void on_pulled(int replica, std::uint32_t sync, std::size_t offset);
  void take_changes(Server& replica);
  void follow(int server);
  void demote(int server);
  void break_links(int server);

  using Fault = void (Servers::*)();
  void repeat(double per_second, Fault fault);
  void any_break();
  void any_pause();
  void any_failover();
  void any_restart();
  void any_stop();
  void any_clock_step();
  int any_server() { return static_cast<int>(world_.below(servers_.size())); }
  Connection* any_connection();

  World& world_;
  Weather weather_;
  Clock::time_point begin_;
  std::vector<Server> servers_;
  std::vector<std::unique_ptr<Connection>> connections_;
  int primary_ = 0;
  std::uint64_t epoch_ = 1;
  bool has_faults_ = false;
};

}  // namespace warren::sim
