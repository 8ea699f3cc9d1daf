#pragma once
// Resolves an address into socket addresses.
#include <boost/asio/generic/stream_protocol.hpp>
#include <vector>

#include "base/task.h"
#include "redis/settings.h"

namespace warren::redis {

using Endpoint = asio::generic::stream_protocol::endpoint;

// Returns at least one endpoint, in the order to try them. Leaves at once when it is cancelled,
// although the system's resolver cannot be interrupted. Errors: unavailable, overloaded.
Async<std::vector<Endpoint>> resolve(Address address);

std::string to_string(const Endpoint& endpoint);  // 127.0.0.1:6379, [::1]:6379, unix:///path

}  // namespace warren::redis
