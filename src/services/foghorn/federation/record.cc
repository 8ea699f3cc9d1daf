#include "services/foghorn/federation/record.h"

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <cmath>

#include "services/foghorn/balance/choose.h"

namespace warren::federation {

namespace json = boost::json;

std::string_view folder(Kind kind) {
  switch (kind) {
    case Kind::remote_edges:
      return "remote_edges:";
    case Kind::remote_replications:
      return "remote_replications:";
    case Kind::active_replications:
      return "active_replications:";
    case Kind::edge_summary:
      return "edge_summary:";
    case Kind::stream_ad:
      return "stream_ad:";
    case Kind::playback_index:
      return "playback_index:";
    case Kind::peer_addresses:
      return "peer_addresses";
    case Kind::remote_live:
      return "remote_live:";
    case Kind::peer_heartbeat:
      return "peer_heartbeat:";
    case Kind::remote_artifacts:
      return "remote_artifacts:";
  }
  return "";
}

// Three to six of the intervals at which it is said again.
std::chrono::milliseconds ttl_of(Kind kind) {
  switch (kind) {
    case Kind::remote_edges:
    case Kind::playback_index:
    case Kind::peer_addresses:
    case Kind::remote_live:
    case Kind::peer_heartbeat:
      return 30s;
    case Kind::remote_replications:
    case Kind::active_replications:
      return 5min;
    case Kind::edge_summary:
      return 60s;
    case Kind::stream_ad:
      return 15s;
    case Kind::remote_artifacts:
      return 90s;
  }
  return 0s;
}

std::string key_of(const std::string& cluster, const Record& record) {
  return fmt::format("{{{}}}:{}{}", cluster, folder(record.kind), record.id);
}
std::string leader_key(const std::string& cluster) {
  return fmt::format("{{{}}}:leader:peer_manager", cluster);
}
std::string pull_lock_key(const std::string& cluster, const std::string& stream) {
  return fmt::format("{{{}}}:origin_pull_lock:{}", cluster, stream);
}
std::string federation_channel(const std::string& cluster) {
  return fmt::format("foghorn:{{{}}}:federation", cluster);
}

namespace {

std::int64_t unix_seconds(WallClock::time_point time) {
  return std::chrono::duration_cast<std::chrono::seconds>(time.time_since_epoch()).count();
}

// A place that is not known is left out, as 0, 0 is read as unknown by others.
void put_place(json::object& object, double latitude, double longitude) {
  if (!balance::is_place(latitude, longitude)) return;
  object["geo_lat"] = latitude;
  object["geo_lon"] = longitude;
}

json::object edge_json(const EdgeTelemetry& edge) {
  json::object object{{"node_id", edge.node_id},           {"base_url", edge.base_url},
                      {"bw_available", edge.bw_available}, {"bw_limit", edge.bw_limit},
                      {"viewer_count", edge.viewer_count}, {"cpu_percent", edge.cpu_percent},
                      {"ram_used", edge.ram_used},         {"ram_max", edge.ram_max}};
  if (!edge.tenant_id.empty()) object["tenant_id"] = edge.tenant_id;
  put_place(object, edge.geo_lat, edge.geo_lon);
  return object;
}

Record record(Kind kind, std::string id, json::object object, const Writing& by) {
  if (!by.epoch.empty()) object["epoch"] = by.epoch;
  return {kind, std::move(id), json::serialize(object)};
}

// --- reading -------------------------------------------------------------------------------------

std::string text(const json::object& object, std::string_view name) {
  const auto* value = object.if_contains(name);
  return value && value->is_string() ? std::string(value->get_string()) : std::string();
}
double number(const json::object& object, std::string_view name, double otherwise = 0) {
  const auto* value = object.if_contains(name);
  if (!value || !value->is_number()) return otherwise;
  auto read = value->to_number<double>();
  return std::isfinite(read) ? read : otherwise;
}
std::uint64_t count(const json::object& object, std::string_view name) {
  auto read = number(object, name);
  return read > 0 && read < 1e18 ? std::uint64_t(read) : 0;
}
bool flag(const json::object& object, std::string_view name) {
  const auto* value = object.if_contains(name);
  return value && value->is_bool() && value->get_bool();
}
std::vector<std::string> texts(const json::object& object, std::string_view name) {
  std::vector<std::string> all;
  const auto* value = object.if_contains(name);
  if (!value || !value->is_array()) return all;
  for (const auto& each : value->get_array())
    if (each.is_string()) all.emplace_back(each.get_string());
  return all;
}
template <class T>
void read_place(const json::object& object, T& to) {
  auto lat = number(object, "geo_lat", balance::unknown_place);
  auto lon = number(object, "geo_lon", balance::unknown_place);
  if (!balance::is_place(lat, lon)) return;
  to.geo_lat = lat;
  to.geo_lon = lon;
}

EdgeTelemetry edge_from(const json::object& object) {
  EdgeTelemetry edge;
  edge.node_id = text(object, "node_id");
  edge.base_url = text(object, "base_url");
  edge.tenant_id = text(object, "tenant_id");
  edge.bw_available = number(object, "bw_available");
  edge.bw_limit = number(object, "bw_limit");
  edge.viewer_count = count(object, "viewer_count");
  edge.cpu_percent = number(object, "cpu_percent");
  edge.ram_used = number(object, "ram_used");
  edge.ram_max = number(object, "ram_max");
  read_place(object, edge);
  return edge;
}

EdgeSummary summary_from(const json::object& object) {
  EdgeSummary summary;
  const auto* edges = object.if_contains("edges");
  if (!edges || !edges->is_array()) return summary;
  for (const auto& each : edges->get_array()) {
    if (!each.is_object()) continue;
    const auto& member = each.get_object();
    auto edge = edge_from(member);
    edge.bw_available = number(member, "bw_available_avg");
    edge.cpu_percent = number(member, "cpu_percent_avg");
    edge.viewer_count = count(member, "total_viewers");
    summary.edges.push_back({std::move(edge), texts(member, "roles")});
  }
  return summary;
}

StreamAd ad_from(const json::object& object) {
  StreamAd ad;
  ad.internal_name = text(object, "internal_name");
  ad.tenant_id = text(object, "tenant_id");
  ad.playback_id = text(object, "playback_id");
  ad.origin_cluster_id = text(object, "origin_cluster_id");
  ad.is_live = flag(object, "is_live");
  const auto* edges = object.if_contains("edges");
  if (!edges || !edges->is_array()) return ad;
  for (const auto& each : edges->get_array()) {
    if (!each.is_object()) continue;
    const auto& member = each.get_object();
    AdEdge edge;
    edge.node_id = text(member, "node_id");
    edge.base_url = text(member, "base_url");
    edge.dtsc_url = text(member, "dtsc_url");
    edge.is_origin = flag(member, "is_origin");
    edge.buffer_state = text(member, "buffer_state");
    edge.bw_available = number(member, "bw_available");
    edge.cpu_percent = number(member, "cpu_percent");
    edge.viewer_count = count(member, "viewer_count");
    read_place(member, edge);
    ad.edges.push_back(std::move(edge));
  }
  return ad;
}

ActiveReplication active_from(const json::object& object) {
  return {text(object, "stream_name"),    text(object, "source_node_id"),
          text(object, "source_cluster"), text(object, "dest_cluster"),
          text(object, "dest_node_id"),   text(object, "dtsc_url"),
          text(object, "base_url"),       text(object, "created_at")};
}

RemoteArtifact artifact_from(const json::object& object) {
  RemoteArtifact artifact;
  artifact.artifact_hash = text(object, "artifact_hash");
  artifact.artifact_type = text(object, "artifact_type");
  artifact.tenant_id = text(object, "tenant_id");
  artifact.node_id = text(object, "node_id");
  artifact.base_url = text(object, "base_url");
  artifact.size_bytes = count(object, "size_bytes");
  read_place(object, artifact);
  return artifact;
}

PeerHeartbeat heartbeat_from(const json::object& object) {
  PeerHeartbeat heartbeat;
  heartbeat.protocol_version = std::uint32_t(count(object, "protocol_version"));
  heartbeat.stream_count = count(object, "stream_count");
  heartbeat.edge_count = count(object, "edge_count");
  heartbeat.uptime_seconds = count(object, "uptime_seconds");
  heartbeat.total_bw_available = number(object, "total_bw_available");
  heartbeat.capabilities = texts(object, "capabilities");
  heartbeat.public_url = text(object, "public_url");
  return heartbeat;
}

Result<Known> known_from(const Record& record, const json::object& object) {
  auto peer = text(object, "peer_cluster");
  switch (record.kind) {
    case Kind::remote_edges:
      return Known{peer, edge_from(object)};
    case Kind::edge_summary:
      return Known{peer, summary_from(object)};
    case Kind::stream_ad:
      return Known{peer, ad_from(object)};
    case Kind::peer_heartbeat:
      return Known{peer, heartbeat_from(object)};
    case Kind::remote_artifacts:
      return Known{peer, artifact_from(object)};
    case Kind::remote_live: {
      StreamLive live{record.id, text(object, "tenant_id"), text(object, "cluster_id"), true};
      return Known{live.cluster_id, std::move(live)};
    }
    case Kind::remote_replications: {
      Replication replication{text(object, "stream_name"), text(object, "tenant_id"),
                              text(object, "node_id"),     text(object, "cluster_id"),
                              text(object, "base_url"),    text(object, "dtsc_url"),
                              flag(object, "available")};
      return Known{replication.cluster_id, std::move(replication)};
    }
    case Kind::active_replications:
      return Known{"", active_from(object)};
    case Kind::playback_index:
    case Kind::peer_addresses:
      break;
  }
  return fail(Errc::invalid, "{} is not an object of JSON", folder(record.kind));
}

}  // namespace

Record record_of(const Writing& by, const std::string& peer, const EdgeTelemetry& edge) {
  auto object = edge_json(edge);
  object["stream_name"] = "";  // readers of older peers expect it; a node has one value for all
  object["peer_cluster"] = peer;
  object["updated_at"] = unix_seconds(by.now);
  return record(Kind::remote_edges, peer + ":" + edge.node_id, std::move(object), by);
}

Record record_of(const Writing& by, const std::string& peer, const EdgeSummary& summary) {
  json::array edges;
  for (const auto& edge : summary.edges) {
    auto object = edge_json(edge.now);
    for (auto [from, to] : {std::pair("bw_available", "bw_available_avg"),
                            std::pair("cpu_percent", "cpu_percent_avg"),
                            std::pair("viewer_count", "total_viewers")}) {
      object[to] = object.at(from);
      object.erase(from);
    }
    json::array roles;
    for (const auto& role : edge.roles) roles.emplace_back(role);
    object["roles"] = std::move(roles);
    edges.push_back(std::move(object));
  }
  json::object object{
      {"edges", std::move(edges)}, {"timestamp", unix_seconds(by.now)}, {"peer_cluster", peer}};
  return record(Kind::edge_summary, peer, std::move(object), by);
}

Record record_of(const Writing& by, const std::string& peer, const StreamAd& ad) {
  auto id = peer + ":" + ad.internal_name;
  if (!ad.is_live) return {Kind::stream_ad, std::move(id), {}};
  json::array edges;
  for (const auto& edge : ad.edges) {
    json::object object{{"node_id", edge.node_id},           {"base_url", edge.base_url},
                        {"dtsc_url", edge.dtsc_url},         {"is_origin", edge.is_origin},
                        {"bw_available", edge.bw_available}, {"cpu_percent", edge.cpu_percent},
                        {"viewer_count", edge.viewer_count}, {"buffer_state", edge.buffer_state}};
    put_place(object, edge.geo_lat, edge.geo_lon);
    edges.push_back(std::move(object));
  }
  json::object object{{"internal_name", ad.internal_name},
                      {"tenant_id", ad.tenant_id},
                      {"origin_cluster_id", ad.origin_cluster_id},
                      {"is_live", true},
                      {"edges", std::move(edges)},
                      {"timestamp", unix_seconds(by.now)},
                      {"peer_cluster", peer}};
  if (!ad.playback_id.empty()) object["playback_id"] = ad.playback_id;
  return record(Kind::stream_ad, std::move(id), std::move(object), by);
}

Record playback_record(const StreamAd& ad) {
  return {Kind::playback_index, ad.playback_id, ad.is_live ? ad.internal_name : ""};
}

Record record_of(const Writing& by, const std::string& peer, const StreamLive& live) {
  if (!live.is_live) return {Kind::remote_live, live.internal_name, {}};
  json::object object{
      {"cluster_id", peer}, {"tenant_id", live.tenant_id}, {"updated_at", unix_seconds(by.now)}};
  return record(Kind::remote_live, live.internal_name, std::move(object), by);
}

Record record_of(const Writing& by, const std::string& peer, const Replication& replication) {
  auto id = replication.stream_name + ":" + peer;
  if (!replication.available) return {Kind::remote_replications, std::move(id), {}};
  json::object object{{"stream_name", replication.stream_name},
                      {"tenant_id", replication.tenant_id},
                      {"node_id", replication.node_id},
                      {"cluster_id", peer},
                      {"base_url", replication.base_url},
                      {"dtsc_url", replication.dtsc_url},
                      {"available", true},
                      {"updated_at", unix_seconds(by.now)}};
  return record(Kind::remote_replications, std::move(id), std::move(object), by);
}

Record record_of(const Writing& by, const std::string& peer, const RemoteArtifact& artifact) {
  auto id = fmt::format("{}:{}:{}", peer, artifact.artifact_hash, artifact.node_id);
  if (!artifact.available) return {Kind::remote_artifacts, std::move(id), {}};
  json::object object{{"artifact_hash", artifact.artifact_hash},
                      {"artifact_type", artifact.artifact_type},
                      {"tenant_id", artifact.tenant_id},
                      {"peer_cluster", peer},
                      {"node_id", artifact.node_id},
                      {"base_url", artifact.base_url},
                      {"size_bytes", artifact.size_bytes},
                      {"updated_at", unix_seconds(by.now)}};
  put_place(object, artifact.geo_lat, artifact.geo_lon);
  return record(Kind::remote_artifacts, std::move(id), std::move(object), by);
}

Record record_of(const Writing& by, const std::string& peer, const PeerHeartbeat& heartbeat) {
  json::array capabilities;
  for (const auto& each : heartbeat.capabilities) capabilities.emplace_back(each);
  json::object object{{"protocol_version", heartbeat.protocol_version},
                      {"stream_count", heartbeat.stream_count},
                      {"total_bw_available", heartbeat.total_bw_available},
                      {"edge_count", heartbeat.edge_count},
                      {"uptime_seconds", heartbeat.uptime_seconds},
                      {"capabilities", std::move(capabilities)},
                      {"received_at", unix_seconds(by.now)},
                      {"peer_cluster", peer}};
  if (!heartbeat.public_url.empty()) object["public_url"] = heartbeat.public_url;
  return record(Kind::peer_heartbeat, peer, std::move(object), by);
}

Record record_of(const Writing& by, const std::string& self, const ActiveReplication& pull) {
  // What we pull comes from one place; who pulls from us may be many.
  auto id =
      pull.dest_cluster == self ? pull.stream_name : pull.stream_name + ":" + pull.dest_cluster;
  json::object object{{"stream_name", pull.stream_name},
                      {"source_node_id", pull.source_node_id},
                      {"source_cluster", pull.source_cluster},
                      {"dest_cluster", pull.dest_cluster},
                      {"dest_node_id", pull.dest_node_id},
                      {"dtsc_url", pull.dtsc_url},
                      {"base_url", pull.base_url},
                      {"created_at", pull.created_at}};
  return record(Kind::active_replications, std::move(id), std::move(object), by);
}

Result<Known> parse_record(const Record& record) {
  if (record.kind == Kind::playback_index) return Known{"", record.value};
  boost::system::error_code error;
  auto value = json::parse(record.value, error);
  if (error || !value.is_object())
    return fail(Errc::invalid, "{}{} is not JSON", folder(record.kind), record.id);
  if (record.kind == Kind::peer_addresses) return Known{"", record.value};
  auto known = known_from(record, value.get_object());
  bool needs_peer = record.kind != Kind::active_replications;
  if (known && needs_peer && known->peer.empty())
    return fail(Errc::invalid, "{}{} does not say of which cluster it is", folder(record.kind),
                record.id);
  return known;
}

}  // namespace warren::federation
