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
// it becomes a replica. Wall clocks step, run at their own speed, and differ between servers. Servers
// refuse for a while, come back empty or with an old copy, and hand all their slots to another one,
// all at once or key by key.
// What happened is noted, so that whoever judges a schedule excuses what a fault can have done, and
// counts which ones there were.
//
// Servers outlive the run: actions in the world point at them and at their connections.
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "proof/sim/connection.h"
#include "proof/sim/faults.h"
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
  double cut_offs = 0;     // of some process
  double refusals = 0;     // spells of error replies of the primary
  double restores = 0;     // of the primary, from a copy that was made after the last one
  double moves = 0;        // of all slots: only in a cluster
  double half_moves = 0;   // the same, key by key

  // What they are like.
  Clock::duration pause_most = 2s;
  double stale = 0.5;               // chance that a replaced primary goes on answering …
  Clock::duration stale_most = 3s;  // … for so long at most
  Clock::duration down_most = 1s;   // of a server that restarts
  double loses_data = 0;            // chance that it comes back empty
  Clock::duration stop_most = 2s;
  Clock::duration step_most = 1s;  // forward or back
  Clock::duration skew_most = 0s;  // between the clocks of the servers from the start
  double drift_most = 0;           // of a server's clock: how much faster or slower, as a part of 1
  Clock::duration cut_most = 1s;
  Clock::duration refusal_most = 300ms;
  Clock::duration half_moved_most = 300ms;
  std::vector<FaultKind> refusal_kinds = {};  // one of these each time; empty: any
  double bandwidth = 0;  // of a socket in each direction, bytes a second; 0: no end
};

class Servers {
 public:
  struct Options {
    int replicas = 0;
    Weather weather{};
    bool is_cluster = false;
    std::vector<int> slots = {};  // those that CLUSTER NODES names while they move
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
  // Connections to it break; what it has, and its replicas then, is this.
  void restore(int server, Clock::duration down, ModelRedis copy);
  // Answers with errors for so long: one of out_of_memory … read_only. The first three let through
  // what real servers let through.
  void refuse(int server, FaultKind how, Clock::duration duration);
  // Another server has all slots from now on, with all that is in them, in the next epoch. The old
  // one tells who asks where to go.
  void move_slots(int to);
  // The same in the way of a real cluster, where nobody but the two knows of it before the end. In
  // between each key is at one of them: see model_slot.h.
  void begin_move(int to);
  void migrate(std::span<const std::string> keys);  // together
  void end_move();                                  // with what is left
  // All of it, in a time of about this length.
  void move_key_by_key(int to, Clock::duration time);
  bool is_moving() const { return move_.has_value(); }
  // It is up and follows the primary, whose slots do not move yet.
  bool can_move_to(int server) const;
  // Deletes a key, if it is there; or several at once, so that a failover loses all of that or nothing.
  bool evict(const std::string& key) { return evict(std::vector{key}); }
  bool evict(const std::vector<std::string>& keys);
  // Of the primary, and of the server that its slots move to; sorted.
  std::vector<std::string> keys() const;
  bool has(const std::string& key) const;

  // What has come so far, in order of its beginning; `until` may still grow.
  std::span<const Happened> happened() const { return happened_; }
  // Before a server loses what it has: because it follows another one, or comes back without it.
  std::function<void(const ModelRedis&)> on_forget;

  // Called when a server has done what a client asked.
  std::function<void(int server, const Words& words, const redis::Reply& reply)> on_executed;
  // Called for what it sends to subscribers then, whether there are any or not.
  std::function<void(const Words& words, const Message& message)> on_published;

  int primary() const { return primary_; }
  std::uint64_t epoch() const { return epoch_; }
  int size() const { return static_cast<int>(servers_.size()); }
  bool is_cluster() const { return is_cluster_; }
  // As clients are told.
  static redis::Address address_of(int server);
  static int server_at(const redis::Address& address);
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
    double drift = 0;           // and more so, by this part of the time
    bool is_up = true, is_primary = false;
    std::uint64_t life = 1;  // grows when all connections to it break
    Clock::time_point stopped_until{}, refuses_until{};
    FaultKind refusal{};
    std::size_t refusal_noted = 0;   // in happened_
    int moved_to = -1;               // who asks is sent there
    std::uint64_t config_epoch = 1;  // in which it got its slots
    std::vector<Wait> waits;
    // Names the data whose changes are counted; another one once that is lost. An offset in one
    // means nothing in another, as with the replication id of a real server.
    std::uint32_t data_id = 0;
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
  bool is_narrow() const { return weather_.bandwidth > 0; }
  Clock::duration transfer(std::size_t bytes);
  // Where the slots of this one went; itself if nowhere.
  int owner_after(int server) const;
  // Has slots, or some of their keys.
  bool serves(int server) const { return server == primary_ || (move_ && server == move_->to); }
  SlotState slots_of(int server) const;
  void on_learned(std::uint64_t epoch);
  Happened& note(FaultKind fault, Clock::duration duration = {});
  void note_clock(int server, std::int64_t before_us);
  std::optional<redis::Reply> refusal_of(int server, const Words& words, bool is_asking);
  std::optional<redis::Reply> redirection_of(int server, const Words& words, bool is_asking);
  Clock::duration delay();
  Clock::duration lag();

  void receive(const Connection::RequestPtr& request, std::size_t way);
  redis::Reply execute(int server, const std::shared_ptr<const Words>& words);
  redis::Reply role(int server) const;
  redis::Reply cluster_nodes(int server) const;
  void answer(const Connection::RequestPtr& request, std::size_t way);
  void answer_waits(int server);

  void replicate(int replica);
  void on_pulled(int replica, std::uint32_t sync, std::size_t offset);
  void take_changes(Server& replica);
  void lose_data(Server& server);
  void follow(int server);
  void demote(int server);
  void open_slots(int to);
  void hand_over();
  void go_on_moving(Clock::time_point end, Clock::duration pause);
  void break_links(int server);

  using Fault = void (Servers::*)();
  void repeat(double per_second, Fault fault);
  void any_break();
  void any_pause();
  void any_failover();
  void any_restart();
  void any_stop();
  void any_clock_step();
  void any_cut_off();
  void any_refusal();
  void any_restore();
  void any_move();
  void any_half_move();
  int any_server() { return static_cast<int>(world_.below(servers_.size())); }
  Connection* any_connection();

  World& world_;
  Weather weather_;
  Clock::time_point begin_;
  std::vector<Server> servers_;
  std::vector<std::unique_ptr<Connection>> connections_;
  int primary_ = 0;
  struct Move {
    int to;
    std::size_t noted;  // in happened_
  };
  std::optional<Move> move_;    // of the primary's slots
  std::int64_t latest_us_ = 0;  // that a clock showed before it went back
  std::uint64_t epoch_ = 1;
  std::uint32_t last_data_id_ = 0;
  bool is_cluster_ = false;
  std::vector<int> slots_;
  std::vector<Happened> happened_;
  std::vector<std::pair<std::uint64_t, std::size_t>> changes_of_epoch_;  // by which fault
  std::optional<std::size_t> stale_, narrow_;                            // as noted in happened_
  std::optional<ModelRedis> copy_;
  bool has_faults_ = false;
};

}  // namespace warren::sim
