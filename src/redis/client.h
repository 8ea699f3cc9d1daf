#pragma once
// The Redis client: one shared connection per server, any number of callers.
//
//   auto client = Client::create(executor, settings);
//   auto reply = co_await client->command(Command("GET", "greeting"));
//   if (!reply) …                      // see Errc: what happened, and what is known about it
//   co_await client->close();          // ~Client ensures that this was done
//
// Single server, Sentinel and Cluster have the same interface. The commands of one caller are
// answered in order. Commands sent to the same server at the same time run in the order of
// submission, except those that are retried (on another server, or on a server that is still
// loading).
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
    std::string problem;   // why it is not connected, if known
    bool is_down = false;  // most sentinels consider this replica down
  };
  Mode mode = Mode::single;
  // The configuration epoch of Sentinel or of the cluster. It grows with every failover. 0 if
  // nothing manages the server.
  std::uint64_t epoch = 0;
  std::vector<Node> nodes;
};

class Client final : public Submitter {
 public:
  // Starts to connect and returns. Calls wait for the connection. Errc::invalid: bad certificates.
  static Result<std::unique_ptr<Client>> create(asio::any_io_executor executor, Settings settings);
  ~Client();
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  // An error reply becomes `refused`, `denied` or, if the condition is temporary, `unavailable`,
  // and quotes the server. A command that may have been sent but has no answer is
  // `unknown_outcome`; after any other error it did not run. Commands that would change or block
  // the shared connection are `invalid`.
  CommandOperation command(Command command, CallOptions options = {}) {
    return CommandOperation(*this, std::move(command), options);
  }
  // Waits for many commands at once. Not atomic; in a cluster they may even go to different
  // servers.
  BatchOperation batch(std::vector<Command> commands, CallOptions options = {}) {
    return BatchOperation(*this, std::move(commands), options);
  }
  // MULTI … EXEC in one write. The result is EXEC's array. All keys must be in one slot.
  Async<Reply> transaction(std::vector<Command> commands, CallOptions options = {});
  // Runs a script by its hash, or by its source if the server does not know the hash.
  Async<Reply> run(const Script& script, std::vector<std::string> keys,
                   std::vector<std::string> args, CallOptions options = {});
  // Like command(), but returns an awaitable that can be combined with && and ||.
  Async<Reply> ask(Command command, CallOptions options = {});

  // Writes, and reports how many replicas have the write: waits until `replicas` of them have it,
  // or until the deadline. Concurrent durable writes share one WAIT, on a separate connection.
  Async<Durable> durable(Command command, int replicas, CallOptions options = {});
  // A command that makes the server wait (BLPOP, XREAD BLOCK). It gets a connection of its own,
  // which is closed if the caller leaves early. Its deadline must be later than the command's own
  // timeout.
  Async<Reply> blocking(Command command, CallOptions options = {});
  // Opens a private connection for the caller, to the primary that owns the slot, or to any server.
  Async<std::unique_ptr<Conversation>> dial(int slot, Clock::time_point deadline);
  // Opens one to the given server, whatever its role.
  Async<std::unique_ptr<Conversation>> dial(Address address, Clock::time_point deadline);

  // The server to use for the slot now. Empty if there is one primary, or if the owner is unknown.
  Address owner(int slot) const;
  // Whether this server is one of ours, as far as we know. A node may leave a cluster and keep
  // running.
  bool has(const Address& server) const;
  // Reports that a server, on a private connection, said that it is no longer the right one.
  void on_moved(const Error& error);

  // Waits until a server is connected. Otherwise the error says why none is.
  Async<> ready(Clock::time_point deadline);
  Topology topology() const;
  // topology().epoch, at less cost.
  std::uint64_t epoch() const;
  // False while a single address leads to a replica, which accepts no writes.
  bool has_primary() const;
  // Grows whenever we leave the server behind a single address because it is no longer the primary.
  std::uint64_t departures() const;
  // Grows with every reconnection and every new epoch. Writes that a server acknowledged before may
  // have been lost since.
  std::uint64_t changes() const;
  // Returns when changes() exceeds `seen`, or when the caller is cancelled.
  awaitable<void> changed(std::uint64_t seen);
  const Settings& settings() const { return dialer_.settings(); }

  // Ends all connections. Calls that are still waiting get Errc::cancelled. Afterwards no call is
  // in progress, so the client may be destroyed.
  awaitable<void> close();

  void submit(Call& call) override;
  asio::any_io_executor executor() const override { return executor_; }

  struct Counters {
    PipelineCounters calls;
    std::uint64_t connects = 0, connect_failures = 0;
    std::size_t pending = 0;
  };
  Counters counters() const;
  // Keeps warren_redis_… up to date for as long as the caller keeps the returned pointer.
  [[nodiscard]] std::shared_ptr<void> publish(Metrics& metrics) const;

 private:
  Client(asio::any_io_executor executor, Dialer dialer);

  // A call that may need several attempts.
  struct Attempts {
    CallOptions options;
    int slot;
    Address server{};           // the last one asked, or the target of an ASK
    bool asks = false;          // the next attempt goes to `server`, with ASKING
    bool may_have_run = false;  // some attempt may have run
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
  // By server. A single primary, whichever server it is, is stored under the empty address.
  std::map<Address, std::unique_ptr<DurableLane>> durable_lanes_;
  std::vector<std::unique_ptr<Conversation>> idle_;  // for blocking commands; the oldest first
  std::size_t blocking_calls_ = 0, durable_calls_ = 0;
  Event call_ended_;
  Event closing_;
  bool closed_ = false;
};

}  // namespace warren::redis
