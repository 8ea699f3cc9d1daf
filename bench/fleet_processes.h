#pragma once
// A real fleet to be measured: a Redis, nodes and a router as processes.
#include <list>
#include <map>
#include <string>
#include <vector>

#include "net/http/pool.h"
#include "primitives/lease/token.h"
#include "proof/testkit/servers/redis_server.h"
#include "services/fleet/wire/wire.h"

namespace warren::bench {

// The processor time of a process so far, over all its threads.
double cpu_seconds(pid_t process);
// A value from /proc/PID/status, in bytes: VmHWM, VmRSS.
std::uint64_t memory_of(pid_t process, const std::string& what);

// The folder of git repositories that scripts/corpus-repos cut from a package.
std::string cut_corpus(const std::string& package, int count);

class FleetProcesses {
 public:
  // Only repositories below `allowed` may be added.
  explicit FleetProcesses(std::string allowed) : allowed_(std::move(allowed)) {}

  // It has its own folder of mirrors.
  Process& start_node(const std::string& name);
  Process& node(const std::string& name) { return nodes_.at(name); }
  std::string log_of(const std::string& name) const;
  // Returns when it listens.
  void start_router();
  HttpUrl url() const;
  // Runs `warren fleet repo add` with these words to its end.
  void add(std::vector<std::string> words) const;
  // The router and the nodes together.
  double cpu_seconds();

  // Which node serves which repository, and under which epoch.
  struct Route {
    std::string repo;
    HttpUrl endpoint;
    fleet::AskedRow row;
  };
  // Waits until this many are served with an index and their symbols.
  awaitable<std::vector<Route>> routes_when_settled(std::size_t repos) const;

 private:
  Program program(std::vector<std::string> words, const std::string& name) const;

  TempFolder folder_;
  RedisServer redis_;
  std::string allowed_;
  std::map<std::string, Process> nodes_;
  std::optional<Process> router_;
};

// One connection to a server, which may answer in chunks, as zoekt does.
class Asker {
 public:
  Asker(const asio::any_io_executor& executor, HttpUrl to)
      : pool_(executor, {.most_connections = 1}), to_(std::move(to)) {}
  Async<HttpReply> ask(HttpAsk ask, Clock::time_point deadline) {
    return pool_.ask(to_, std::move(ask), deadline);
  }

 private:
  HttpPool pool_;
  HttpUrl to_;
};
// The reply. Fails the benchmark unless its status is 200.
awaitable<HttpReply> reply_of(Asker& server, HttpAsk ask);

}  // namespace warren::bench
