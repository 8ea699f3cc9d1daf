#pragma once
// What instances of Foghorn share: nodes, streams, who carries them, and stored content.
//
// The JSON is that of existing deployments, so that both can read each other's Redis. Times are
// RFC 3339; a time that is not known is the year 1. Members that are empty are left out where they
// are marked so in docs/protocols/foghorn.md. Members that we do not know are kept in `others`
// and written back: a newer peer may need them.
#include <boost/json/object.hpp>
#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/error.h"
#include "services/foghorn/balance/table.h"

namespace warren::foghorn {

using WallTime = WallClock::time_point;  // the epoch: not known

// Now, but later than this: who has seen a word says a later one, whatever the clocks say.
WallTime later_than(WallTime seen);

struct StreamTrack {
  std::string track_id, codec, type;
  double bitrate = 0, fps = 0;
  int width = 0, height = 0, channels = 0, sample_rate = 0;
  bool operator==(const StreamTrack&) const = default;
};

// Of the whole cluster. What can be summed over instances is summed when read, never stored as
// truth: `viewers` and its siblings are for readers of Redis.
struct StreamState {
  std::string stream_name;    // as reported, maybe with a prefix such as live+
  std::string internal_name;  // bare; its key
  std::string playback_id;
  std::string node_id;  // the origin
  std::string tenant_id;
  std::string status;        // live, offline
  std::string buffer_state;  // FULL, EMPTY, DRY, RECOVER
  std::vector<StreamTrack> tracks;
  std::string issues;
  bool has_issues = false;
  WallTime started_at = {}, last_update = {};
  boost::json::object raw_details;
  std::int64_t viewers = 0;
  std::string last_track_list;
  std::int64_t total_connections = 0, inputs = 0, bytes_up = 0, bytes_down = 0;
  boost::json::object others;
};

// Of one stream on one node.
struct StreamInstanceState {
  std::string internal_name;
  std::string node_id, tenant_id, status, buffer_state, last_track_list;
  std::int64_t viewers = 0, bytes_up = 0, bytes_down = 0, total_connections = 0, inputs = 0;
  bool replicated = false;  // pulls it from another node
  WallTime last_update = {};
  boost::json::object raw_details;
  boost::json::object others;
};

struct NodeState {
  std::string node_id, base_url, tenant_id, cluster_id;
  bool is_healthy = false;
  bool is_stale = true;
  WallTime last_update = {}, last_heartbeat = {};
  std::string operational_mode;  // as the node says; what operators set is a record of its own
  std::optional<double> latitude, longitude;
  std::string location;
  boost::json::object outputs;  // protocol -> URL template
  double cpu = 0;               // percent
  double ram_max = 0, ram_current = 0, up_speed = 0, down_speed = 0, bw_limit = 0;
  bool cap_ingest = false, cap_edge = false, cap_storage = false, cap_processing = false;
  std::vector<std::string> roles;
  std::uint64_t storage_capacity_bytes = 0, storage_used_bytes = 0, disk_total_bytes = 0,
                disk_used_bytes = 0;
  std::string storage_local, storage_bucket, storage_prefix;
  int max_transcodes = 0, current_transcodes = 0;
  std::string gpu_vendor;
  int gpu_count = 0, gpu_mem_mb = 0;
  std::string gpu_cc;
  int port = 0, dtsc_port = 0;
  std::vector<std::string> tags, config_streams;
  // When it turned to the instance that it reports to, in milliseconds; grows with every turn. Of
  // two values that of the later turn counts, and of one turn the later one.
  std::uint64_t owner_epoch = 0;
  std::string host;  // its address as it registered, for the rule that nobody pulls from himself
  boost::json::object others;
};

struct ArtifactCopy {
  std::string node_id, path;
  std::uint64_t size = 0;
  WallTime cached_at = {};
  bool operator==(const ArtifactCopy&) const = default;
};
struct ArtifactState {
  std::string content_id, type;  // clip, dvr, vod
  std::vector<ArtifactCopy>
      copies;  // by node id; the first level of the JSON shows the preferred one
  boost::json::object others;
};

// What an operator said; it outlives the node's reports.
struct NodeModeState {
  std::string node_id;
  balance::NodeMode mode = balance::NodeMode::normal;
  std::string set_by;
  WallTime set_at = {};
};

// What redirects of one instance cost each node, in bytes a second, until their viewers are there.
struct PenaltyState {
  std::string instance_id;
  WallTime at = {};  // changes while the instance lives
  std::map<std::string, std::uint64_t> nodes;
  // Correlation ids of viewers who have just arrived and were sent by somebody else.
  std::vector<std::string> arrivals = {};
  bool is_empty() const { return nodes.empty() && arrivals.empty(); }
};

// Errc::invalid with the member and what is wrong with it. Bounded: 1 MiB, 64 levels.
Result<StreamState> parse_stream(std::string_view json);
Result<StreamInstanceState> parse_instance(std::string_view json);
Result<NodeState> parse_node(std::string_view json);
Result<ArtifactState> parse_artifact(std::string_view json);
Result<NodeModeState> parse_mode(std::string_view json);
Result<PenaltyState> parse_penalties(std::string_view json);
std::string to_json(const StreamState& stream);
std::string to_json(
    const StreamInstanceState& instance);  // {"internal_name","node_id","state":{…}}
std::string to_json(const NodeState& node);
std::string to_json(const ArtifactState& artifact);
std::string to_json(const NodeModeState& mode);
std::string to_json(const PenaltyState& penalties);

std::string_view name(balance::NodeMode mode);
std::optional<balance::NodeMode> parse_node_mode(std::string_view word);  // "" is normal

// live+demo, vod+demo, pull+…, dvr+…, processing+… -> demo
std::string_view bare_name(std::string_view stream);
// 1 to 128 characters without control characters, spaces, ':', '*', '?', '[', '{', '}', '/', '\\'.
Result<> check_id(std::string_view what, std::string_view id);

}  // namespace warren::foghorn
