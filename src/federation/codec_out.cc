#include "balance/choose.h"
#include "federation.pb.h"
#include "federation/codec.h"

namespace warren::federation {

namespace pb = foghorn_federation;

namespace {

template <class From, class To>
void put_place(const From& from, To& to) {
  if (!balance::is_place(from.geo_lat, from.geo_lon)) return;
  to.set_geo_lat(from.geo_lat);
  to.set_geo_lon(from.geo_lon);
}

struct Writer {
  pb::PeerMessage& to;

  void operator()(const Hello& hello) const {
    auto& out = *to.mutable_hello();
    out.set_protocol_version(hello.version);
    out.set_instance_id(hello.instance_id);
    out.set_epoch(hello.token.epoch);
    out.set_counter(hello.token.counter);
  }
  void operator()(const EdgeTelemetry& edge) const {
    auto& out = *to.mutable_edge_telemetry();
    out.set_node_id(edge.node_id);
    out.set_base_url(edge.base_url);
    out.set_tenant_id(edge.tenant_id);
    out.set_bw_available(edge.bw_available);
    out.set_bw_limit(edge.bw_limit);
    out.set_viewer_count(edge.viewer_count);
    out.set_cpu_percent(edge.cpu_percent);
    out.set_ram_used(edge.ram_used);
    out.set_ram_max(edge.ram_max);
    put_place(edge, out);
  }
  void operator()(const EdgeSummary& summary) const {
    for (const auto& edge : summary.edges) {
      auto& out = *to.mutable_cluster_edge_summary()->add_edges();
      out.set_node_id(edge.now.node_id);
      out.set_base_url(edge.now.base_url);
      out.set_tenant_id(edge.now.tenant_id);
      out.set_bw_available_avg(edge.now.bw_available);
      out.set_bw_limit(edge.now.bw_limit);
      out.set_cpu_percent_avg(edge.now.cpu_percent);
      out.set_ram_used(edge.now.ram_used);
      out.set_ram_max(edge.now.ram_max);
      out.set_total_viewers(edge.now.viewer_count);
      for (const auto& role : edge.roles) out.add_roles(role);
      put_place(edge.now, out);
    }
    to.mutable_cluster_edge_summary();  // also when there are none
  }
  void operator()(const StreamAd& ad) const {
    auto& out = *to.mutable_stream_advertisement();
    out.set_internal_name(ad.internal_name);
    out.set_tenant_id(ad.tenant_id);
    out.set_playback_id(ad.playback_id);
    out.set_origin_cluster_id(ad.origin_cluster_id);
    out.set_is_live(ad.is_live);
    for (const auto& from : ad.edges) {
      auto& edge = *out.add_edges();
      edge.set_node_id(from.node_id);
      edge.set_base_url(from.base_url);
      edge.set_dtsc_url(from.dtsc_url);
      edge.set_is_origin(from.is_origin);
      edge.set_bw_available(from.bw_available);
      edge.set_cpu_percent(from.cpu_percent);
      edge.set_viewer_count(from.viewer_count);
      edge.set_buffer_state(from.buffer_state);
      put_place(from, edge);
    }
  }
  void operator()(const StreamLive& live) const {
    auto& out = *to.mutable_stream_lifecycle_event();
    out.set_internal_name(live.internal_name);
    out.set_tenant_id(live.tenant_id);
    out.set_cluster_id(live.cluster_id);
    out.set_is_live(live.is_live);
  }
  void operator()(const Replication& replication) const {
    auto& out = *to.mutable_replication_event();
    out.set_stream_name(replication.stream_name);
    out.set_tenant_id(replication.tenant_id);
    out.set_node_id(replication.node_id);
    out.set_cluster_id(replication.cluster_id);
    out.set_base_url(replication.base_url);
    out.set_dtsc_url(replication.dtsc_url);
    out.set_available(replication.available);
  }
  void operator()(const RemoteArtifact& artifact) const {
    auto& out = *to.mutable_artifact_advertisement()->add_artifacts();
    out.set_artifact_hash(artifact.artifact_hash);
    out.set_artifact_type(artifact.artifact_type);
    out.set_tenant_id(artifact.tenant_id);
    out.set_node_id(artifact.node_id);
    out.set_base_url(artifact.base_url);
    out.set_size_bytes(artifact.size_bytes);
    out.set_withdrawn(!artifact.available);
    put_place(artifact, out);
  }
  void operator()(const PeerHeartbeat& heartbeat) const {
    auto& out = *to.mutable_peer_heartbeat();
    out.set_protocol_version(heartbeat.protocol_version);
    out.set_stream_count(heartbeat.stream_count);
    out.set_edge_count(heartbeat.edge_count);
    out.set_uptime_seconds(heartbeat.uptime_seconds);
    out.set_total_bw_available(heartbeat.total_bw_available);
    for (const auto& capability : heartbeat.capabilities) out.add_capabilities(capability);
    out.set_public_url(heartbeat.public_url);
  }
  void operator()(const Digest& digest) const {
    to.mutable_digest()->set_count(digest.count);
    to.mutable_digest()->set_sum(digest.sum);
  }
  void operator()(const ResyncRequest&) const { to.mutable_resync_request(); }
  void operator()(const ResyncBegin&) const { to.mutable_resync_begin(); }
  void operator()(const ResyncEnd&) const { to.mutable_resync_end(); }
  void operator()(const Goodbye& goodbye) const {
    to.mutable_goodbye()->set_reason(goodbye.reason);
    to.mutable_goodbye()->set_leader_address(goodbye.leader_address);
  }
};

}  // namespace

pb::PeerMessage to_wire(const Frame& frame) {
  pb::PeerMessage message;
  message.set_cluster_id(frame.cluster_id);
  if (frame.payloads.size() == 1) {
    std::visit(Writer{message}, frame.payloads.front());
    return message;
  }
  for (const auto& payload : frame.payloads)
    std::visit(Writer{*message.mutable_batch()->add_messages()}, payload);
  return message;
}

}  // namespace warren::federation
