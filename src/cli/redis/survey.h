#pragma once
// What the servers behind a client report about themselves.
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "redis/client.h"

namespace warren::cli {

using Node = redis::Topology::Node;

// Where the servers are: known at once for a single one, otherwise found through sentinels or the
// cluster.
Async<redis::Topology> find_servers(redis::Client& client, Clock::time_point deadline);

struct Server {
  redis::Address address;
  std::string role;                         // primary, replica
  std::map<std::string, std::string> info;  // the fields of INFO
  // The fields of CONFIG GET that we examine. nullopt if this user may not ask.
  std::optional<std::map<std::string, std::string>> config;
  // How far its clock is ahead of ours, and the possible error: half of the quickest round trip.
  Clock::duration ahead{}, ahead_error{};

  std::string text(const std::string& field) const;  // from INFO; "" if missing
  long long number(const std::string& field) const;  // 0 if missing
  long long replica_bytes_behind() const;            // for a primary: its slowest replica
  long long replica_seconds_behind() const;
};
Async<Server> examine(redis::Client& client, Node node, Clock::time_point deadline);

// "primary" or "replica", according to the server, or to the topology if the server refuses.
Async<std::string> role_of(redis::Conversation& server, const Node& node,
                           Clock::time_point deadline);

const char* name_of(redis::Mode mode);

// The harm done by a server that evicts keys, and how to fix it.
inline constexpr auto eviction_harm = "a full server may drop leases and their tokens";
inline constexpr auto eviction_mend =
    "redis-cli CONFIG SET maxmemory-policy noeviction, and the same in redis.conf";
// A warning about servers that evict keys when they are full. Returns "" if they refuse writes
// instead, have no limit, or do not tell this user.
awaitable<std::string> eviction_warning(redis::Client& client, Clock::time_point deadline);

// Asks all of them at once. The answers are in the order of the nodes.
template <class T, class... Args>
awaitable<std::vector<Result<T>>> ask_all(redis::Client& client, std::vector<Node> nodes,
                                          Async<T> (*ask)(redis::Client&, Node, Args...),
                                          Args... args) {
  std::vector<Result<T>> answers(nodes.size(), Result<T>(fail(Errc::cancelled, "not asked")));
  auto keep = [](Async<T> asking, Result<T>& answer) -> awaitable<void> {
    answer = co_await std::move(asking);
  };
  TaskGroup tasks(client.executor());
  for (std::size_t i = 0; i < nodes.size(); ++i)
    tasks.start("cli.ask", keep(ask(client, nodes[i], args...), answers[i]));
  co_await tasks.join();
  co_return answers;
}

}  // namespace warren::cli
