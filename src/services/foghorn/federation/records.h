#pragma once
// What clusters tell each other, as plain values. Each has a form on the wire (codec.h) and one in
// Redis (record.h).
//
// Metrics in an advertisement are those of the moment it was made: fresh ones come as telemetry of
// the node, once for all of its streams.
#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/error.h"
#include "services/foghorn/balance/table.h"

namespace warren::federation {

// How busy one node of another cluster is.
struct EdgeTelemetry {
  std::string node_id, base_url;
  std::string tenant_id;  // of a dedicated node; empty: shared
  double bw_available = 0, bw_limit = 0, cpu_percent = 0, ram_used = 0, ram_max = 0;
  std::uint64_t viewer_count = 0;
  double geo_lat = balance::unknown_place, geo_lon = balance::unknown_place;
  bool operator==(const EdgeTelemetry&) const = default;
};

// All nodes of another cluster, smoothed over half a minute.
struct EdgeSummary {
  struct Edge {
    EdgeTelemetry now;  // bandwidth and CPU averaged
    std::vector<std::string> roles;
  };
  std::vector<Edge> edges;
};

// A node that has a stream.
struct AdEdge {
  std::string node_id, base_url;
  std::string dtsc_url;  // where the stream can be pulled from; empty: nowhere
  bool is_origin = false;
  std::string buffer_state;
  double bw_available = 0, cpu_percent = 0;
  std::uint64_t viewer_count = 0;
  double geo_lat = balance::unknown_place, geo_lon = balance::unknown_place;
};

// That a cluster has a stream. Not live: a withdrawal.
struct StreamAd {
  std::string internal_name, tenant_id, playback_id;
  std::string origin_cluster_id;  // where it is made; empty: not known
  bool is_live = false;
  std::vector<AdEdge> edges;
};

// That a stream is made in a cluster: nobody else may ingest it.
struct StreamLive {
  std::string internal_name, tenant_id, cluster_id;
  bool is_live = false;
};

// That a cluster has a copy of a stream which is made elsewhere: nobody pulls from there.
struct Replication {
  std::string stream_name, tenant_id, node_id, cluster_id, base_url, dtsc_url;
  bool available = false;
};

struct RemoteArtifact {
  std::string artifact_hash, artifact_type, tenant_id, node_id, base_url;
  std::uint64_t size_bytes = 0;
  double geo_lat = balance::unknown_place, geo_lon = balance::unknown_place;
  bool available = true;  // false: a withdrawal
};

struct PeerHeartbeat {
  std::uint32_t protocol_version = 1;
  std::uint64_t stream_count = 0, edge_count = 0, uptime_seconds = 0;
  double total_bw_available = 0;
  std::vector<std::string> capabilities;
  std::string public_url;  // where viewers of that cluster are sent; empty: to the edge itself
};

// A stream that is pulled from one cluster into another. Known on both sides.
struct ActiveReplication {
  std::string stream_name, source_node_id, source_cluster, dest_cluster, dest_node_id;
  std::string dtsc_url, base_url;
  std::string created_at;  // RFC 3339
};

}  // namespace warren::federation
