// Which peers a stream is shared with.
//
// A peer may be limited to some tenants, and chooses the tenant under which it advertises a stream.
// If that alone counted, a peer could advertise the name of any stream under a tenant that it
// shares, with better scores, and get the viewers. So what this cluster knows of the stream counts
// first, whatever the peer and the caller say. A media server that asks for a host names no tenant.
#include <algorithm>

#include "services/foghorn/balance/view.h"
#include "services/foghorn/federation/core.h"

namespace warren::federation {

Owner Federation::Core::owner_of(const balance::RoutingTable& table, const std::string& stream,
                                 const std::string& said) const {
  if (const auto* known = balance::find_stream(table, stream)) {
    if (!known->tenant.empty()) return known->tenant;
    // The node of a copy need not know the tenant: the cluster that makes the stream does.
    auto holders = balance::holders(table, stream);
    bool is_made_here = std::any_of(holders.begin(), holders.end(), [](const auto& each) {
      return each.holding.inputs > 0 && !each.holding.is_replicated;
    });
    if (is_made_here) return "";
  }
  if (!said.empty()) return said;
  return std::nullopt;
}

bool Federation::Core::shares(const std::string& cluster_id, const std::string& tenant) const {
  auto peer = peers_.find(cluster_id);
  if (peer == peers_.end()) return false;
  return peer->second.terms.tenants.empty() || peer->second.terms.tenants.contains(tenant);
}

bool Federation::Core::may_serve(const std::string& cluster_id, const Owner& owner) const {
  return owner ? shares(cluster_id, *owner) : peers_.contains(cluster_id);
}

// Likewise, when the peer says that the stream belongs to `said`. A peer without limits need not
// name a tenant, but must not name another.
bool Federation::Core::may_serve(const std::string& cluster_id, const Owner& owner,
                                 const std::string& said) const {
  auto peer = peers_.find(cluster_id);
  if (peer == peers_.end()) return false;
  bool is_same = !owner || said == *owner;
  const auto& tenants = peer->second.terms.tenants;
  if (tenants.empty()) return is_same || said.empty() || owner->empty();
  return is_same && tenants.contains(said);
}

}  // namespace warren::federation
