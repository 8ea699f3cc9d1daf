#pragma once
// What a node says, as what it means. For .cc files: it needs the generated messages.
#include <string>

#include "helmsman.pb.h"
#include "services/foghorn/state/cluster.h"

namespace warren::helmsman {

foghorn::Registration registration_of(const foghorn_control::Register& message, std::string host);
Result<foghorn::NodeReport> report_of(const foghorn_control::NodeLifecycleUpdate& update);
// Makes a trigger of this node count. Errc::invalid: nothing was changed.
Result<> apply(foghorn::Cluster& cluster, const std::string& node,
               const foghorn_control::MistTrigger& trigger);
// The address in "ipv4:10.0.0.1:4711" and "ipv6:%5B::1%5D:4711"; empty when there is none.
std::string host_of_peer(std::string peer);
// The value of fwcid in the query of a URL.
std::string correlation_id(std::string_view url);

}  // namespace warren::helmsman
