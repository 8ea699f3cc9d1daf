#pragma once
// What goes over a PeerChannel, without the wire.
#include <optional>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "primitives/lease/token.h"
#include "services/foghorn/federation/records.h"

namespace warren::federation {

inline constexpr std::uint32_t protocol_version = 1;
// More is not told, and not heard.
inline constexpr std::size_t most_items = 100'000;         // of a cluster
inline constexpr std::size_t most_holders = 1'000;         // of one stream
inline constexpr std::size_t most_holders_told = 64;       // and those that make it come first
inline constexpr std::size_t most_summary_edges = 10'000;  // of a cluster

struct Hello {
  std::uint32_t version = protocol_version;
  std::string instance_id;
  FencingToken token;        // of who leads there: an older one does not replace a newer one
  std::string address = {};  // where that leader is reached; empty: not told
};
// Of all that is advertised at this point of the channel.
struct Digest {
  std::uint64_t count = 0, sum = 0;
  bool operator==(const Digest&) const = default;
};
struct ResyncRequest {};
struct ResyncBegin {};
struct ResyncEnd {};
struct Goodbye {
  std::string reason, leader_address;
};

// What is advertised until it is withdrawn, and counts in the digest.
using Item = std::variant<StreamAd, StreamLive, Replication, RemoteArtifact>;
// One that cannot be: it counts in the digest, and nowhere else.
struct Flawed {
  Item item;
};

using Payload = std::variant<Hello, EdgeTelemetry, EdgeSummary, StreamAd, StreamLive, Replication,
                             RemoteArtifact, Flawed, PeerHeartbeat, Digest, ResyncRequest,
                             ResyncBegin, ResyncEnd, Goodbye>;

// Every frame repeats who sends it.
struct Frame {
  std::string cluster_id;
  std::vector<Payload> payloads;
  std::string flaw = {};  // the first thing of it that cannot be
};

std::string key_of(const Item& item);
std::size_t text_size(const Item& item);  // of its names and addresses
// About as many bytes as it takes on the wire.
std::size_t size_of(const StreamAd& ad);
std::size_t size_of(const EdgeSummary::Edge& edge);
const std::string& tenant_of(const Item& item);
bool is_there(const Item& item);  // false: a withdrawal
Item withdrawal_of(const Item& item);
// The same on both sides, of all that does not change with every report.
std::uint64_t revision_of(const Item& item);

}  // namespace warren::federation
