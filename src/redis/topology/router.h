#pragma once
// Decides which server a call goes to. One implementation per kind of topology.
#include <memory>
#include <optional>
#include <string>

#include "base/task.h"
#include "redis/client.h"
#include "redis/connection/link.h"
#include "redis/resp/refusal.h"

namespace warren::redis {

class Router {
 public:
  explicit Router(asio::any_io_executor executor) : changed_(executor) {}
  virtual ~Router() = default;
  virtual void submit(Call& call) = 0;
  // A private connection to the owner of a slot (CallOptions::any_node: to any server).
  virtual Async<std::unique_ptr<Conversation>> dial(int slot, Clock::time_point deadline) = 0;
  // The server that owns a slot now. Empty if there is one primary, or no map yet.
  virtual Address owner(int) const { return {}; }
  // Whether it is one of the servers, as far as we know. Only a cluster knows.
  virtual bool has(const Address&) const { return true; }
  // A server said, outside of a link, that it is no longer the right one for this.
  virtual void on_moved(const Error& error) = 0;
  // Empty when a server is connected.
  virtual std::optional<Error> problem() const = 0;
  virtual Topology topology() const = 0;
  virtual std::uint64_t epoch() const { return 0; }
  // How often the single address led to a replica and all connections were replaced.
  virtual std::uint64_t departures() const { return 0; }
  virtual bool has_primary() const { return true; }
  virtual void count(Client::Counters& counters) const = 0;

  // See Client.
  std::uint64_t changes() const { return changes_; }
  Event& changed() { return changed_; }

 protected:
  // There is a new connection, or a new epoch.
  void on_change() {
    ++changes_;
    changed_.notify();
  }

 private:
  std::uint64_t changes_ = 0;
  Event changed_;
};

// Calls that were refused for now and are submitted again a little later.
class Parking {
 public:
  Parking(asio::any_io_executor executor, const Settings& settings, Router& router)
      : executor_(executor), limit_(settings.max_calls), router_(router), arrived_(executor) {}
  // The call returns through submit(). If its deadline comes first, it ends as unavailable with the
  // reason.
  void park(Call& call, Error why);
  // Runs until cancelled, then completes every call with Errc::cancelled.
  awaitable<void> run();
  std::size_t size() const { return calls_.size(); }

 private:
  void submit_again();
  asio::any_io_executor executor_;
  std::size_t limit_;
  Router& router_;
  CallList calls_;
  bool stopped_ = false;
  Event arrived_;
};

// One primary: a single server, or the one that the sentinels name.
class PrimaryRouter : public Router, LinkOwner {
 public:
  PrimaryRouter(asio::any_io_executor executor, const Settings& settings, Connector& connector,
                TaskGroup& tasks);

  void submit(Call& call) override;
  Async<std::unique_ptr<Conversation>> dial(int slot, Clock::time_point deadline) override;
  // The sentinels will report it, and the shared connections notice by themselves.
  void on_moved(const Error&) override {}
  std::optional<Error> problem() const override;
  Topology topology() const override;
  void count(Client::Counters& counters) const override;

 protected:
  // Breaks connections to servers that are no longer the primary.
  void leave_all_but(const Address& primary);
  void leave_all(const std::string& why);
  // The server at the other end of the link says that it is no longer the primary.
  virtual void on_demoted(Link& link, const std::string& words) = 0;

 private:
  void on_refused(Link& link, Call& call, Reply error) override;
  void on_connected(Link&) override { on_change(); }

  const Settings& settings_;
  Connector& connector_;
  TaskGroup& tasks_;
  Parking parking_;
  Link data_;
  Link renewal_;
  bool renewal_runs_ = false;
};

std::unique_ptr<Router> make_single_router(asio::any_io_executor executor, const Dialer& dialer,
                                           TaskGroup& tasks);
std::unique_ptr<Router> make_sentinel_router(asio::any_io_executor executor, const Dialer& dialer,
                                             TaskGroup& tasks);
std::unique_ptr<Router> make_cluster_router(asio::any_io_executor executor, const Dialer& dialer,
                                            TaskGroup& tasks);

void count_link(const Link& link, Client::Counters& counters);

}  // namespace warren::redis
