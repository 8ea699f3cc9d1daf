#pragma once
// Questions that every server must answer: which channels have listeners, and which keys exist.
// Without a cluster that is one server.
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
// Visits every matching key in portions, some perhaps twice. It takes longer the more keys the
// servers have. If that exceeds the deadline, returns Errc::timeout, and only some keys were
// visited.
Async<> scan_every_server(redis::Client& client, std::string pattern, Clock::time_point deadline,
                          const std::function<void(const std::string& key)>& visit);

// How many clients listen to each of these channels. Pattern subscriptions do not count.
using Listeners = std::map<std::string, std::size_t>;
Async<Listeners> listeners_of(redis::Client& client, std::vector<std::string> channels);
// The same for channels that match the pattern and have listeners.
Async<Listeners> listeners(redis::Client& client, std::string pattern);

// Instances that have a lock but no entry: those of a program that keeps no list, or whose entry
// was lost. Finding them requires a scan of all keys. Those not found in time are left out.
awaitable<std::vector<ListedInstance>> unlisted_instances(
    redis::Client& client, Registry& registry, const std::vector<ListedInstance>& listed);

}  // namespace warren::cli
