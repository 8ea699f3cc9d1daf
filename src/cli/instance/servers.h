#pragma once
// What is only known by asking every server: which channels have listeners, and which keys there
// are. Where there is no cluster that is the one server.
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "redis/client.h"
#include "services/instance/registry.h"

namespace warren::cli {

// The answers of all primaries, in any order.
Async<std::vector<redis::Reply>> ask_every_server(redis::Client& client,
                                                  std::vector<std::string> words);
// Every key that fits, some perhaps twice, in portions. Takes as long as the servers have keys;
// Errc::timeout when that is past the deadline, and then some were visited.
Async<> scan_every_server(redis::Client& client, std::string pattern, Clock::time_point deadline,
                          const std::function<void(const std::string& key)>& visit);

// How many listen to each of these channels; who subscribed to a pattern does not count.
using Listeners = std::map<std::string, std::size_t>;
Async<Listeners> listeners_of(redis::Client& client, std::vector<std::string> channels);
// The same for those that fit the pattern and have any listener.
Async<Listeners> listeners(redis::Client& client, std::string pattern);

// The instances that have a lock and no entry: of a program that keeps no list, or whose entry was
// lost. Finding them means to look at all keys; those that are not found in time are left out.
awaitable<std::vector<ListedInstance>> unlisted_instances(
    redis::Client& client, Registry& registry, const std::vector<ListedInstance>& listed);

}  // namespace warren::cli
