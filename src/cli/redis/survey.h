#pragma once
// What the servers behind a client say about themselves.
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "redis/client.h"

namespace warren::cli {

using Node = redis::Topology::Node;

// Where the servers are: known at once for a single one, else by asking sentinels or cluster.
Async<redis::Topology> find_servers(redis::Client& client, Clock::time_point deadline);

struct Server {
  redis::Address address;
  std::string role;                         // primary, replica
  std::map<std::string, std::string> info;  // INFO
  // Of CONFIG GET, what we look at. Nothing when this user may not ask.
  std::optional<std::map<std::string, std::string>> config;
  // How far its clock is ahead of ours, and how wrong that may be: half the quickest round trip.
  Clock::duration ahead{}, ahead_error{};

  std::string text(const std::string& field) const;  // of INFO; empty when there is none
  long long number(const std::string& field) const;  // 0 when there is none
  long long replica_bytes_behind() const;            // of a primary: the last of its replicas
  long long replica_seconds_behind() const;
};
Async<Server> examine(redis::Client& client, Node node, Clock::time_point deadline);

// primary or replica, as the server says, or as the topology does when it will not.
Async<std::string> role_of(redis::Conversation& server, const Node& node,
                           Clock::time_point deadline);

const char* name_of(redis::Mode mode);

// What a server that drops keys costs us, and how to mend it.
inline constexpr auto eviction_harm = "a full server may drop leases and their tokens";
inline constexpr auto eviction_mend =
    "redis-cli CONFIG SET maxmemory-policy noeviction, and the same in redis.conf";
// A warning about the servers that drop keys when they are full. Empty when they refuse writes
// instead, have no limit, or tell this user nothing.
awaitable<std::string> eviction_warning(redis::Client& client, Clock::time_point deadline);

// Asks all of them at once; the answers are in the order of the nodes.
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
