#pragma once
// The Redis client: one shared connection per server, any number of callers.
//
//   auto client = Client::create(executor, settings);
//   auto reply = co_await client->command(Command("GET", "greeting"));
//   if (!reply) …                      // see Errc: what happened, and what is known about it
//   co_await client->close();          // ~Client ensures that this was done
//
// Single server, Sentinel and Cluster look the same from here. Commands of one caller are answered
// in order; commands sent to the same server at the same time run in the order of submission,
// except for those that had to be tried again (another server, a server still loading).
//
// A client belongs to one thread: the one that runs its executor.
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/metrics.h"
#include "base/task.h"
#include "redis/connection/conversation.h"
#include "redis/connection/pipeline.h"
#include "redis/durable.h"
#include "redis/operation.h"
#include "redis/script.h"
#include "redis/settings.h"

namespace warren::redis {

class Router;

// What is known about the servers behind a client.
struct Topology {
  struct Node {
    Address address;
    bool is_primary = true;
    bool is_connected = false;
    std::string problem;   // why it is not connected, if that is known
    bool is_down = false;  // most sentinels consider this replica down
  };
  Mode mode = Mode::single;
  // Of the manager of the topology: Sentinel's or the cluster's configuration epoch. Grows with
  // every failover; 0 where nobody manages the server.
  std::uint64_t epoch = 0;
  std::vector<Node> nodes;
};

class Client final : public Submitter {
 public:
  // Starts to connect and returns; calls wait for the connection. Errc::invalid: certificates.
  static Result<std::unique_ptr<Client>> create(asio::any_io_executor executor, Settings settings);
  ~Client();
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  // An error reply is `refused`, `denied` or, if it passes by itself, `unavailable`, with the server's
  // own words. Whatever may have been sent and has no answer is `unknown_outcome`; with the other
  // errors it did not run. Commands that would change or block the shared connection are `invalid`.
  CommandOperation command(Command command, CallOptions options = {}) {
    return CommandOperation(*this, std::move(command), options);
  }
  // Not atomic, and in a cluster not even sent to one server: a way to wait for many at once.
  BatchOperation batch(std::vector<Command> commands, CallOptions options = {}) {
    return BatchOperation(*this, std::move(commands), options);
  }
  // MULTI … EXEC in one write; the result is EXEC's array. All keys are in one slot.
  Async<Reply> transaction(std::vector<Command> commands, CallOptions options = {});
  // A script by its hash, or by its source where the server does not have it.
  Async<Reply> run(const Script& script, std::vector<std::string> keys,
                   std::vector<std::string> args, CallOptions options = {});
  // As command, but an awaitable that can be combined with && and ||.
  Async<Reply> ask(Command command, CallOptions options = {});

  // A write, and the number of replicas that have it: waits for `replicas` of them until the
  // deadline. Concurrent durable writes share one WAIT, on a connection of their own.
  Async<Durable> durable(Command command, int replicas, CallOptions options = {});
  // A command that makes the server wait (BLPOP, XREAD BLOCK): on a connection of its own, which
  // is closed when the caller leaves early. Give it a deadline beyond the command's own.
  Async<Reply> blocking(Command command, CallOptions options = {});
  // A connection to itself, for what needs one: to the primary that owns the slot, or to any.
  Async<std::unique_ptr<Conversation>> dial(int slot, Clock::time_point deadline);
  // To a certain server, whatever its role.
  Async<std::unique_ptr<Conversation>> dial(Address address, Clock::time_point deadline);

  // The server that should be used now; empty where there is one, or none is known.
  Address owner(int slot) const;
  // Whether it is one of the servers, as far as is known: a node may leave a cluster and live on.
  bool has(const Address& server) const;
  // A server said, on a connection of one's own, that it is no longer the right one.
  void on_moved(const Error& error);

  // Waits until a server is connected: no error when one is. Otherwise why not.
  Async<> ready(Clock::time_point deadline);
  Topology topology() const;
  // That of topology(), cheaply.
  std::uint64_t epoch() const;
  // False while a single address leads to a replica, which takes no writes.
  bool has_primary() const;
  // Grows when the server behind a single address was left, since it was no longer the primary.
  std::uint64_t departures() const;
  // Grows when a connection was made anew or another epoch began: what a server acknowledged before
  // may be gone since.
  std::uint64_t changes() const;
  // Returns when there are more than `seen`, or when the caller is cancelled.
  awaitable<void> changed(std::uint64_t seen);
  const Settings& settings() const { return dialer_.settings(); }

  // Ends all connections; calls that are still waiting get Errc::cancelled. Afterwards no call is
  // under way, so the client may be destroyed.
  awaitable<void> close();

  void submit(Call& call) override;
  asio::any_io_executor executor() const override { return executor_; }

  struct Counters {
    PipelineCounters calls;
    std::uint64_t connects = 0, connect_failures = 0;
    std::size_t pending = 0;
  };
  Counters counters() const;
  // Keeps warren_redis_… up to date for as long as the caller keeps what is returned.
  [[nodiscard]] std::shared_ptr<void> publish(Metrics& metrics) const;

 private:
  Client(asio::any_io_executor executor, Dialer dialer);

  // A call that may need several attempts.
  struct Attempts {
    CallOptions options;
    int slot;
    Address server{};           // that was asked last, or is to be asked because of an ASK
    bool asks = false;          // the next attempt goes to `server`, with ASKING
    bool may_have_run = false;  // in one of the attempts
  };
  Result<Attempts> begin(const Command& command, CallOptions options) const;
  awaitable<bool> tries_again(Error& error, Attempts& attempts);
  Refusal to_follow(const Error& error) const;
  awaitable<void> closing();

  DurableLane& durable_lane(const Address& server);
  Async<Durable> write_asking(Command command, int replicas, Attempts attempts);
  Async<Reply> block(Command command, Attempts attempts);
  Async<Reply> block_once(Command command, Attempts& attempts);
  Async<std::unique_ptr<Conversation>> idle_or_dialled(int slot, Clock::time_point deadline);

  asio::any_io_executor executor_;
  Dialer dialer_;
  TaskGroup tasks_;
  std::unique_ptr<Router> router_;
  // By server; where there is one primary, whoever that is, under the empty address.
  std::map<Address, std::unique_ptr<DurableLane>> durable_lanes_;
  std::vector<std::unique_ptr<Conversation>> idle_;  // for blocking commands; the oldest first
  std::size_t blocking_calls_ = 0, durable_calls_ = 0;
  Event call_ended_;
  Event closing_;
  bool closed_ = false;
};

}  // namespace warren::redis
