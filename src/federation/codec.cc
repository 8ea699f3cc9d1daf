#include "federation/codec.h"

#include <cmath>

#include "balance/choose.h"
#include "federation.pb.h"
#include "foghorn/entities.h"

namespace warren::federation {

namespace pb = foghorn_federation;

namespace {

constexpr std::size_t most_text = 2048;
constexpr int most_in_batch = 10'000;

// --- out -----------------------------------------------------------------------------------------

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

// --- in ------------------------------------------------------------------------------------------

// Remembers the first thing that is wrong.
class Check {
 public:
  std::string id(const char* what, const std::string& value) {
    auto checked = foghorn::check_id(what, value);
    if (!checked && is_good_) wrong(checked.error().what);
    return value;
  }
  std::string text(const char* what, const std::string& value) {
    if (value.size() > most_text) wrong(fmt::format("{}: longer than {}", what, most_text));
    for (unsigned char c : value)
      if (c < 0x20 || c == 0x7f) wrong(fmt::format("{}: a control character", what));
    return value;
  }
  std::string optional_id(const char* what, const std::string& value) {
    return value.empty() ? value : id(what, value);
  }
  double amount(const char* what, double value) {
    if (!std::isfinite(value) || value < 0) wrong(fmt::format("{}: {}", what, value));
    return value;
  }
  void most(const char* what, int count, int limit) {
    if (count > limit) wrong(fmt::format("{}: {} are more than {}", what, count, limit));
  }
  // A place that cannot be is an error; none at all is not.
  template <class From, class To>
  void place(const From& from, To& to) {
    if (!from.has_geo_lat() && !from.has_geo_lon()) return;
    if (from.geo_lat() == 0 && from.geo_lon() == 0) return;  // as older peers say "unknown"
    if (!balance::is_place(from.geo_lat(), from.geo_lon()))
      wrong(fmt::format("geo: {}, {}", from.geo_lat(), from.geo_lon()));
    to.geo_lat = from.geo_lat();
    to.geo_lon = from.geo_lon();
  }
  void wrong(std::string what) {
    if (is_good_) what_ = std::move(what);
    is_good_ = false;
  }
  bool is_good() const { return is_good_; }
  const std::string& what() const { return what_; }

 private:
  bool is_good_ = true;
  std::string what_;
};

EdgeTelemetry telemetry_from(Check& check, const pb::EdgeTelemetry& from) {
  EdgeTelemetry edge;
  edge.node_id = check.id("node_id", from.node_id());
  edge.base_url = check.text("base_url", from.base_url());
  edge.tenant_id = check.optional_id("tenant_id", from.tenant_id());
  edge.bw_available = check.amount("bw_available", from.bw_available());
  edge.bw_limit = check.amount("bw_limit", from.bw_limit());
  edge.viewer_count = from.viewer_count();
  edge.cpu_percent = check.amount("cpu_percent", from.cpu_percent());
  edge.ram_used = check.amount("ram_used", from.ram_used());
  edge.ram_max = check.amount("ram_max", from.ram_max());
  check.place(from, edge);
  return edge;
}

EdgeSummary summary_from(Check& check, const pb::ClusterEdgeSummary& from) {
  EdgeSummary summary;
  check.most("edges", from.edges_size(), int(most_summary_edges));
  for (const auto& each : from.edges()) {
    EdgeSummary::Edge edge;
    edge.now.node_id = check.id("node_id", each.node_id());
    edge.now.base_url = check.text("base_url", each.base_url());
    edge.now.tenant_id = check.optional_id("tenant_id", each.tenant_id());
    edge.now.bw_available = check.amount("bw_available_avg", each.bw_available_avg());
    edge.now.bw_limit = check.amount("bw_limit", each.bw_limit());
    edge.now.viewer_count = each.total_viewers();
    edge.now.cpu_percent = check.amount("cpu_percent_avg", each.cpu_percent_avg());
    edge.now.ram_used = check.amount("ram_used", each.ram_used());
    edge.now.ram_max = check.amount("ram_max", each.ram_max());
    check.place(each, edge.now);
    check.most("roles", each.roles_size(), 64);
    for (const auto& role : each.roles()) edge.roles.push_back(check.text("role", role));
    summary.edges.push_back(std::move(edge));
    if (!check.is_good()) break;
  }
  return summary;
}

StreamAd ad_from(Check& check, const pb::StreamAdvertisement& from) {
  StreamAd ad;
  ad.internal_name = check.id("internal_name", from.internal_name());
  ad.tenant_id = check.optional_id("tenant_id", from.tenant_id());
  ad.playback_id = check.optional_id("playback_id", from.playback_id());
  ad.origin_cluster_id = check.optional_id("origin_cluster_id", from.origin_cluster_id());
  ad.is_live = from.is_live();
  check.most("edges", from.edges_size(), int(most_holders));
  for (const auto& each : from.edges()) {
    AdEdge edge;
    edge.node_id = check.id("node_id", each.node_id());
    edge.base_url = check.text("base_url", each.base_url());
    edge.dtsc_url = check.text("dtsc_url", each.dtsc_url());
    edge.is_origin = each.is_origin();
    edge.buffer_state = check.text("buffer_state", each.buffer_state());
    edge.bw_available = check.amount("bw_available", each.bw_available());
    edge.cpu_percent = check.amount("cpu_percent", each.cpu_percent());
    edge.viewer_count = each.viewer_count();
    check.place(each, edge);
    ad.edges.push_back(std::move(edge));
    if (!check.is_good()) break;
  }
  return ad;
}

void artifacts_from(Check& check, const pb::ArtifactAdvertisement& from, Frame& to) {
  check.most("artifacts", from.artifacts_size(), most_in_batch);
  for (const auto& each : from.artifacts()) {
    if (!check.is_good()) return;
    RemoteArtifact artifact;
    artifact.artifact_hash = check.id("artifact_hash", each.artifact_hash());
    artifact.artifact_type = check.text("artifact_type", each.artifact_type());
    artifact.tenant_id = check.optional_id("tenant_id", each.tenant_id());
    artifact.node_id = check.id("node_id", each.node_id());
    artifact.base_url = check.text("base_url", each.base_url());
    artifact.size_bytes = each.size_bytes();
    artifact.available = !each.withdrawn();
    check.place(each, artifact);
    to.payloads.emplace_back(std::move(artifact));
  }
}

PeerHeartbeat heartbeat_from(Check& check, const pb::PeerHeartbeat& from) {
  PeerHeartbeat heartbeat;
  heartbeat.protocol_version = from.protocol_version();
  heartbeat.stream_count = from.stream_count();
  heartbeat.edge_count = from.edge_count();
  heartbeat.uptime_seconds = from.uptime_seconds();
  heartbeat.total_bw_available = check.amount("total_bw_available", from.total_bw_available());
  check.most("capabilities", from.capabilities_size(), 64);
  for (const auto& each : from.capabilities())
    heartbeat.capabilities.push_back(check.text("capability", each));
  heartbeat.public_url = check.text("public_url", from.public_url());
  return heartbeat;
}

Replication replication_from(Check& check, const pb::ReplicationEvent& from) {
  return {check.id("stream_name", from.stream_name()),
          check.optional_id("tenant_id", from.tenant_id()),
          check.optional_id("node_id", from.node_id()),
          check.id("cluster_id", from.cluster_id()),
          check.text("base_url", from.base_url()),
          check.text("dtsc_url", from.dtsc_url()),
          from.available()};
}

void read(Check& check, const pb::PeerMessage& message, Frame& to, bool is_inner) {
  switch (message.payload_case()) {
    case pb::PeerMessage::kEdgeTelemetry:
      to.payloads.emplace_back(telemetry_from(check, message.edge_telemetry()));
      break;
    case pb::PeerMessage::kReplicationEvent:
      to.payloads.emplace_back(replication_from(check, message.replication_event()));
      break;
    case pb::PeerMessage::kClusterEdgeSummary:
      to.payloads.emplace_back(summary_from(check, message.cluster_edge_summary()));
      break;
    case pb::PeerMessage::kStreamLifecycleEvent: {
      const auto& from = message.stream_lifecycle_event();
      to.payloads.emplace_back(StreamLive{check.id("internal_name", from.internal_name()),
                                          check.optional_id("tenant_id", from.tenant_id()),
                                          check.id("cluster_id", from.cluster_id()),
                                          from.is_live()});
      break;
    }
    case pb::PeerMessage::kStreamAdvertisement:
      to.payloads.emplace_back(ad_from(check, message.stream_advertisement()));
      break;
    case pb::PeerMessage::kArtifactAdvertisement:
      artifacts_from(check, message.artifact_advertisement(), to);
      break;
    case pb::PeerMessage::kPeerHeartbeat:
      to.payloads.emplace_back(heartbeat_from(check, message.peer_heartbeat()));
      break;
    case pb::PeerMessage::kHello: {
      const auto& from = message.hello();
      to.payloads.emplace_back(Hello{from.protocol_version(),
                                     check.text("instance_id", from.instance_id()),
                                     {from.epoch(), from.counter()}});
      break;
    }
    case pb::PeerMessage::kBatch:
      if (is_inner) return check.wrong("a batch in a batch");
      check.most("batch", message.batch().messages_size(), most_in_batch);
      for (const auto& each : message.batch().messages()) {
        if (!each.cluster_id().empty() && each.cluster_id() != message.cluster_id())
          check.wrong("a batch of two clusters");
        if (!check.is_good()) return;
        read(check, each, to, true);
      }
      break;
    case pb::PeerMessage::kDigest:
      to.payloads.emplace_back(Digest{message.digest().count(), message.digest().sum()});
      break;
    case pb::PeerMessage::kResyncRequest:
      to.payloads.emplace_back(ResyncRequest{});
      break;
    case pb::PeerMessage::kResyncBegin:
      to.payloads.emplace_back(ResyncBegin{});
      break;
    case pb::PeerMessage::kResyncEnd:
      to.payloads.emplace_back(ResyncEnd{});
      break;
    case pb::PeerMessage::kGoodbye:
      to.payloads.emplace_back(
          Goodbye{check.text("reason", message.goodbye().reason()),
                  check.text("leader_address", message.goodbye().leader_address())});
      break;
    case pb::PeerMessage::kCapacitySummary:  // nobody needs it yet
    case pb::PeerMessage::PAYLOAD_NOT_SET:   // something newer than this
      break;
  }
}

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

Result<Frame> from_wire(const pb::PeerMessage& message) {
  Check check;
  Frame frame;
  frame.cluster_id = check.id("cluster_id", message.cluster_id());
  if (check.is_good()) read(check, message, frame, false);
  if (!check.is_good()) return fail(Errc::invalid, "{}", check.what());
  return frame;
}

}  // namespace warren::federation
