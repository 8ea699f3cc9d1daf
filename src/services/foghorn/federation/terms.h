#pragma once
// Who the other clusters are, and how often they are talked to.
#include <chrono>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/error.h"
#include "net/rpc/terms.h"

namespace warren::federation {

using namespace std::chrono_literals;

struct PeerTerms {
  std::string cluster;
  std::vector<std::string> addresses = {};  // host:port; of any instances of that cluster
  std::set<std::string> tenants = {};       // whose streams both may know; none: all of them
  std::string token = {};                   // what both know; empty: that of all
};

// FOGHORN_PEERS: "b=host:port,c=host:port|host2:port"; "b=" is a peer whose address is in Redis.
// FOGHORN_PEER_TENANTS: "b=acme|zoo". FOGHORN_PEER_TOKENS: "b=secret". Errc::invalid names the word
// that is wrong, never a token.
Result<std::vector<PeerTerms>> parse_peers(std::string_view peers, std::string_view tenants,
                                           std::string_view tokens = {});

// host:port, as gRPC understands it.
bool is_address(std::string_view address);

struct FederationTerms {
  std::vector<PeerTerms> peers = {};
  std::string address = {};     // host:port under which other clusters reach this instance
  std::string public_url = {};  // https://play.a.example: where viewers of this cluster are sent
  std::string token = {};  // FOGHORN_PEER_TOKEN: what peers prove that they know; empty: nothing
  // FOGHORN_BEARER_PEERS: clusters that are shown the token itself, unproven, since they are of
  // another kind or older and cannot prove anything.
  std::set<std::string> bearer_peers = {};
  rpc::TlsFiles tls = {};
  std::string registry = {};  // host:port of a BootstrapService; empty: there is none

  std::chrono::milliseconds leader_ttl = 15s;
  std::chrono::milliseconds settle = 200ms;  // changes of a stream within it go together
  std::chrono::milliseconds telemetry_interval = 5s;
  std::chrono::milliseconds digest_interval = 5s;
  std::chrono::milliseconds heartbeat_interval = 10s;  // three are missed, and the peer is dead
  std::chrono::milliseconds summary_interval = 15s;
  std::chrono::milliseconds artifact_interval = 30s;
  std::chrono::milliseconds reload_interval = 10s;  // of a follower, from Redis
  std::chrono::milliseconds address_interval = 8s;
  std::chrono::milliseconds longest_backoff = 10s;
  std::chrono::milliseconds larger_dials_after = 2s;  // without a channel; the smaller id at once
  std::chrono::milliseconds registry_interval = 30s;
  std::size_t mailbox_frames = 256;  // per peer

  // What this cluster and ours know. None: it cannot be one of ours.
  std::optional<std::string> token_of(const std::string& cluster) const;
};

}  // namespace warren::federation
