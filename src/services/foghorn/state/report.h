#pragma once
// What a node says of itself, checked at the door: nothing of a report that is wrong gets in.
#include <map>
#include <string>
#include <vector>

#include "services/foghorn/state/entities.h"

namespace warren::foghorn {

struct StreamReport {
  std::int64_t total = 0, inputs = 0, bytes_up = 0, bytes_down = 0;
  std::optional<std::int64_t> viewers;  // not said: as counted from those who come and go
  bool replicated = false;
  std::string tenant_id, playback_id, status, buffer_state;  // empty: not said
};

struct ArtifactReport {
  std::string content_id, type, path;
  std::uint64_t size = 0;
};

// The node lifecycle update. What is not said is not changed: an absent member never erases.
struct NodeReport {
  std::optional<double> cpu_tenths;  // above 1000: its part of the score is 0
  std::optional<double> ram_max, ram_current, up_speed, down_speed, bw_limit;
  std::optional<double> latitude, longitude;  // 0, 0 means unset and is left out
  std::optional<std::string> location, base_url, tenant_id;
  std::optional<bool> is_healthy;
  std::optional<boost::json::object> outputs;
  std::optional<bool> cap_ingest, cap_edge, cap_storage, cap_processing;
  std::optional<std::vector<std::string>> roles, tags, config_streams;
  std::optional<std::uint64_t> storage_capacity_bytes, storage_used_bytes, disk_total_bytes,
      disk_used_bytes;
  std::optional<std::string> storage_local, storage_bucket, storage_prefix;
  std::optional<int> max_transcodes, current_transcodes;
  std::optional<std::string> operational_mode;  // informational
  // All streams of the node, by bare name: what it does not list it no longer carries.
  std::optional<std::map<std::string, StreamReport>> streams;
  std::optional<std::vector<ArtifactReport>> artifacts;  // likewise
};

// The later word on each member counts. Streams and artifacts are not among them.
void add(NodeReport& to, const NodeReport& said);

// The body of POST /v1/nodes/{id}/report. Errc::invalid names the member: "cpu_tenths: -1 is less
// than 0", "latitude: NaN". A node may use more memory, disk or storage than it has. At most 4 MiB,
// 10,000 streams and 100,000 artifacts.
Result<NodeReport> parse_report(std::string_view json);
inline constexpr std::size_t most_streams = 10'000, most_artifacts = 100'000;  // of one report
Result<StreamReport> parse_stream_report(std::string_view json);
Result<ArtifactReport> parse_artifact_report(std::string_view json);
// The same rules for a report that came another way, such as gRPC.
Result<> check_report(const NodeReport& report);
Result<> check_stream_report(std::string_view name, const StreamReport& stream);
Result<> check_artifact_report(const ArtifactReport& artifact);

// How a node introduces itself.
struct Registration {
  std::string node_id;
  std::string host;  // where the connection came from
  std::optional<std::string> base_url, tenant_id, requested_mode;
  std::vector<std::string> roles, tags;
  bool cap_ingest = false, cap_edge = false, cap_storage = false, cap_processing = false;
};
// The node id may be missing, where the address of the request has it.
Result<Registration> parse_registration(std::string_view json);
Result<> check_registration(const Registration& registration);

}  // namespace warren::foghorn
