#pragma once
// Simulated Redis servers, one primary and its replicas, and what happens to them.
//
//   World world(seed);
//   Servers servers(world, {.replicas = 2, .weather = storm});
//   Connection& alice = servers.connect();
//   alice.call({"SET", "k", "v"}, world.now() + 1s, [](auto reply) { … });
//   world.run_until(world.now() + 10s);
//
// Replication is asynchronous, so a failover loses what the replica did not have yet. A replaced
// primary may keep answering processes that have not heard of the failover, and loses all that when
// it becomes a replica. Wall clocks step, run at different speeds, and differ between servers.
// Servers refuse commands for a while, come back empty or with an old copy, and hand all their
// slots to another server, all at once or key by key.
//
// Every fault is recorded, so that the judge of a schedule excuses exactly what the fault can have
// caused, and can count the kinds of faults.
//
// Servers must outlive the run: actions in the world point at them and at their connections.
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

// The conditions, and how often they fail. Times are drawn evenly from 0 or `least` to `most`.
struct Weather {
  // One way through the network; occasionally much longer.
  Clock::duration delay_least = 20us, delay_most = 200us, slow_most = 100ms;
  double slow = 0.002;
  // Until a replica has the changes of its primary; occasionally much longer.
  Clock::duration lag_least = 50us, lag_most = 1ms, long_lag_most = 500ms;
  double long_lag = 0.01;
  Clock::duration reconnect_most = 50ms;  // before the next attempt
  Clock::duration news_most = 1s;         // until a process hears of a failover

  // Faults, per second of simulated time.
  double breaks = 0;  // of one socket of a process
  double pauses = 0;  // of a process
  double failovers = 0;
  double restarts = 0;     // of a server
  double stops = 0;        // pauses of a server
  double clock_steps = 0;  // of a server
  double cut_offs = 0;     // of a process
  double refusals = 0;     // periods of error replies from the primary
  double restores = 0;     // of the primary, from a copy made after the last one
  double moves = 0;        // of all slots; only in a cluster
  double half_moves = 0;   // the same, key by key

  // Their properties.
  Clock::duration pause_most = 2s;
  double stale = 0.5;               // chance that a replaced primary keeps answering …
  Clock::duration stale_most = 3s;  // … for at most this long
  Clock::duration down_most = 1s;   // of a restarting server
  double loses_data = 0;            // chance that it comes back empty
  Clock::duration stop_most = 2s;
  Clock::duration step_most = 1s;  // forward or back
  Clock::duration skew_most = 0s;  // initial difference between the clocks of the servers
  double drift_most = 0;           // of a server's clock: how much faster or slower, as a fraction
  Clock::duration cut_most = 1s;
  Clock::duration refusal_most = 300ms;
  Clock::duration half_moved_most = 300ms;
  std::vector<FaultKind> refusal_kinds = {};  // one of these each time; empty: any
  double bandwidth = 0;  // of a socket in each direction, in bytes per second; 0: unlimited
};

class Servers {
 public:
  struct Options {
    int replicas = 0;
    Weather weather{};
    bool is_cluster = false;
    std::vector<int> slots = {};  // the slots that CLUSTER NODES names while they move
  };
  Servers(World& world, Options options);
  Servers(const Servers&) = delete;
  Servers& operator=(const Servers&) = delete;

  // For a new process. Its sockets connect when they are first used, the one for data now.
  Connection& connect();

  // Starts or stops faults, at the rates of the weather. Existing faults end by themselves.
  void begin_faults();
  void end_faults() { has_faults_ = false; }

  // Or cause faults one at a time. The first server is 0, and is the primary at first.
  //
  // Promotes a replica with what it has. The old primary keeps answering for a while, or dies at
  // once if that is 0; later it follows the new one. Each failover starts the next epoch.
  void failover(int replica, Clock::duration old_answers_for);
  // Breaks the connections to it. Without its data it comes back empty, and then so do its
  // replicas.
  void restart(int server, Clock::duration down, bool keeps_data);
  // It answers nothing meanwhile, and then everything.
  void stop(int server, Clock::duration duration);
  void step_clock(int server, Clock::duration step);
  // Breaks the connections to it; afterwards it, and then its replicas, have this data.
  void restore(int server, Clock::duration down, ModelRedis copy);
  // It answers with errors for this long: one of out_of_memory … read_only. The first three allow
  // what real servers allow.
  void refuse(int server, FaultKind how, Clock::duration duration);
  // Gives all slots with their data to another server, in the next epoch. The old one tells clients
  // where to go.
  void move_slots(int to);
  // The same in the way of a real cluster, where only the two servers know of it before the end. In
  // between, each key is on one of them: see model_slot.h.
  void begin_move(int to);
  void migrate(std::span<const std::string> keys);  // in one command
  void end_move();                                  // with the rest of the keys
  // All of it, in about this time.
  void move_key_by_key(int to, Clock::duration time);
  bool is_moving() const { return move_.has_value(); }
  // True if it is up and follows the primary, and the primary's slots do not move yet.
  bool can_move_to(int server) const;
  // Deletes a key if it exists, or several at once, so that a failover loses all or nothing of
  // that.
  bool evict(const std::string& key) { return evict(std::vector{key}); }
  bool evict(const std::vector<std::string>& keys);
  // The keys of the primary, and of the server that its slots move to; sorted.
  std::vector<std::string> keys() const;
  bool has(const std::string& key) const;

  // The faults so far, in order of their beginning; `until` may still grow.
  std::span<const Happened> happened() const { return happened_; }
  // Called before a server loses its data, because it follows another one, or comes back without
  // it.
  std::function<void(const ModelRedis&)> on_forget;

  // Called when a server has executed a client's command.
  std::function<void(int server, const Words& words, const redis::Reply& reply)> on_executed;
  // Called for everything it publishes then, even without subscribers.
  std::function<void(const Words& words, const Message& message)> on_published;

  int primary() const { return primary_; }
  std::uint64_t epoch() const { return epoch_; }
  int size() const { return static_cast<int>(servers_.size()); }
  bool is_cluster() const { return is_cluster_; }
  // The address that clients get.
  static redis::Address address_of(int server);
  static int server_at(const redis::Address& address);
  // By its own opinion. If it has been replaced, the other servers disagree.
  bool acts_as_primary(int server) const { return at(server).is_primary; }
  // True for a replica that has the changes of the primary, all or the first few.
  bool is_following(int server) const { return at(server).is_following; }
  std::int64_t wall_us(int server) const;
  // The number of changes that it has of its primary, or has made.
  std::size_t offset(int server) const;
  // How many replicas of this server have that many of its changes.
  int replicas_with(int server, std::size_t offset) const;
  // With all its data.
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
    double drift = 0;           // grows by this fraction of the time
    bool is_up = true, is_primary = false;
    std::uint64_t life = 1;  // grows when all connections to it break
    Clock::time_point stopped_until{}, refuses_until{};
    FaultKind refusal{};
    std::size_t refusal_noted = 0;   // in happened_
    int moved_to = -1;               // where it redirects clients
    std::uint64_t config_epoch = 1;  // in which it got its slots
    std::vector<Wait> waits;
    // Identifies the data whose changes are counted; a new one after that is lost. An offset in one
    // means nothing in another, like the replication id of a real server.
    std::uint32_t data_id = 0;
    // For a replica. It applies changes to its model only when the model is looked at.
    bool is_following = false, is_pulling = false;
    int source = 0;
    std::size_t offset = 0;
    std::uint32_t sync = 0;  // what was under way before is void
  };

  Server& at(int server) { return servers_[static_cast<std::size_t>(server)]; }
  const Server& at(int server) const { return servers_[static_cast<std::size_t>(server)]; }
  bool is_stopped(int server) const { return world_.now() < at(server).stopped_until; }
  bool accepts(int server) const;
  bool is_narrow() const { return weather_.bandwidth > 0; }
  Clock::duration transfer(std::size_t bytes);
  // The server that has this one's slots now; itself if they did not move.
  int owner_after(int server) const;
  // True if it has slots, or some of their keys.
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
  std::int64_t latest_us_ = 0;  // the latest time that a clock showed before it went back
  std::uint64_t epoch_ = 1;
  std::uint32_t last_data_id_ = 0;
  bool is_cluster_ = false;
  std::vector<int> slots_;
  std::vector<Happened> happened_;
  std::vector<std::pair<std::uint64_t, std::size_t>> changes_of_epoch_;  // by which fault
  std::optional<std::size_t> stale_, narrow_;                            // indexes in happened_
  std::optional<ModelRedis> copy_;
  bool has_faults_ = false;
};

}  // namespace warren::sim
