#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/parse.hpp>
#include <cmath>

#include "balance/choose.h"
#include "federation/record.h"

namespace warren::federation {

namespace json = boost::json;

namespace {

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
