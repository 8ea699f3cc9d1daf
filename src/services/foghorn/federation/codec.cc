#include "services/foghorn/federation/codec.h"

#include <cmath>

#include "federation.pb.h"
#include "services/foghorn/balance/choose.h"
#include "services/foghorn/state/entities.h"

namespace warren::federation {

namespace pb = foghorn_federation;

namespace {

constexpr std::size_t most_text = 2048;
constexpr std::size_t most_in_batch = 10'000;
constexpr std::size_t most_roles = 64;

// --- out -----------------------------------------------------------------------------------------

template <class From, class To>
void put_place(const From& from, To& to) {
  if (!balance::is_place(from.geo_lat, from.geo_lon)) return;
  to.set_geo_lat(from.geo_lat);
  to.set_geo_lon(from.geo_lon);
}

struct PayloadWriter {
  pb::PeerMessage& to;

  void operator()(const Hello& hello) const {
    auto& out = *to.mutable_hello();
    out.set_protocol_version(hello.version);
    out.set_instance_id(hello.instance_id);
    out.set_epoch(hello.token.epoch);
    out.set_counter(hello.token.counter);
    out.set_address(hello.address);
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
  void operator()(const Flawed& flawed) const { std::visit(*this, flawed.item); }
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
  void id(const char* what, const std::string& value) {
    auto checked = foghorn::check_id(what, value);
    if (!checked) wrong(checked.error().what);
  }
  void optional_id(const char* what, const std::string& value) {
    if (!value.empty()) id(what, value);
  }
  void text(const char* what, const std::string& value) {
    if (value.size() > most_text) wrong(fmt::format("{}: longer than {}", what, most_text));
    for (unsigned char c : value)
      if (c < 0x20 || c == 0x7f) wrong(fmt::format("{}: a control character", what));
  }
  void amount(const char* what, double value) {
    if (!std::isfinite(value) || value < 0) wrong(fmt::format("{}: {}", what, value));
  }
  void most(const char* what, std::size_t count, std::size_t limit) {
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
  Result<> result() const {
    if (is_good_) return ok;
    return fail(Errc::invalid, "{}", what_);
  }

  // --- what both ends ask of a thing ---------------------------------------------------------
  void operator()(const EdgeTelemetry& edge) {
    id("node_id", edge.node_id);
    text("base_url", edge.base_url);
    optional_id("tenant_id", edge.tenant_id);
    amount("bw_available", edge.bw_available);
    amount("bw_limit", edge.bw_limit);
    amount("cpu_percent", edge.cpu_percent);
    amount("ram_used", edge.ram_used);
    amount("ram_max", edge.ram_max);
  }
  void operator()(const AdEdge& edge) {
    id("node_id", edge.node_id);
    text("base_url", edge.base_url);
    text("dtsc_url", edge.dtsc_url);
    text("buffer_state", edge.buffer_state);
    amount("bw_available", edge.bw_available);
    amount("cpu_percent", edge.cpu_percent);
  }
  void operator()(const StreamAd& ad) {
    id("internal_name", ad.internal_name);
    optional_id("tenant_id", ad.tenant_id);
    optional_id("playback_id", ad.playback_id);
    optional_id("origin_cluster_id", ad.origin_cluster_id);
    most("edges", ad.edges.size(), most_holders);
    for (const auto& edge : ad.edges) (*this)(edge);
  }
  void operator()(const StreamLive& live) {
    id("internal_name", live.internal_name);
    optional_id("tenant_id", live.tenant_id);
    id("cluster_id", live.cluster_id);
  }
  void operator()(const Replication& replication) {
    id("stream_name", replication.stream_name);
    optional_id("tenant_id", replication.tenant_id);
    optional_id("node_id", replication.node_id);
    id("cluster_id", replication.cluster_id);
    text("base_url", replication.base_url);
    text("dtsc_url", replication.dtsc_url);
  }
  void operator()(const RemoteArtifact& artifact) {
    id("artifact_hash", artifact.artifact_hash);
    text("artifact_type", artifact.artifact_type);
    optional_id("tenant_id", artifact.tenant_id);
    id("node_id", artifact.node_id);
    text("base_url", artifact.base_url);
  }

 private:
  bool is_good_ = true;
  std::string what_;
};

// Reads one message. What is wrong with one thing costs that thing; what is wrong with the frame
// itself costs the frame.
class Reader {
 public:
  explicit Reader(Frame& to) : to_(to) {}
  Check frame;

  void read(const pb::PeerMessage& message, bool is_inner = false);

 private:
  // Flawed items are still counted, so that digests agree.
  template <class T>
  void add_item(Check& check, T item) {
    check(item);
    if (check.is_good()) {
      to_.payloads.emplace_back(std::move(item));
    } else {
      note(check);
      to_.payloads.emplace_back(Flawed{std::move(item)});
    }
  }
  void note(const Check& check) {
    if (to_.flaw.empty()) to_.flaw = check.what();
  }
  void read(const pb::EdgeTelemetry& from);
  void read(const pb::ClusterEdgeSummary& from);
  void read(const pb::StreamAdvertisement& from);
  void read(const pb::ArtifactAdvertisement& from);
  void read(const pb::PeerHeartbeat& from);
  void read(const pb::ReplicationEvent& from);
  void read(const pb::StreamLifecycleEvent& from);
  void read(const pb::Goodbye& from);

  Frame& to_;
};

void Reader::read(const pb::EdgeTelemetry& from) {
  Check check;
  EdgeTelemetry edge;
  edge.node_id = from.node_id();
  edge.base_url = from.base_url();
  edge.tenant_id = from.tenant_id();
  edge.bw_available = from.bw_available();
  edge.bw_limit = from.bw_limit();
  edge.viewer_count = from.viewer_count();
  edge.cpu_percent = from.cpu_percent();
  edge.ram_used = from.ram_used();
  edge.ram_max = from.ram_max();
  check.place(from, edge);
  check(edge);
  if (!check.is_good()) return note(check);
  to_.payloads.emplace_back(std::move(edge));
}

void Reader::read(const pb::ClusterEdgeSummary& from) {
  EdgeSummary summary;
  frame.most("edges", std::size_t(from.edges_size()), most_summary_edges);
  for (const auto& each : from.edges()) {
    Check check;
    EdgeSummary::Edge edge;
    edge.now.node_id = each.node_id();
    edge.now.base_url = each.base_url();
    edge.now.tenant_id = each.tenant_id();
    edge.now.bw_available = each.bw_available_avg();
    edge.now.bw_limit = each.bw_limit();
    edge.now.viewer_count = each.total_viewers();
    edge.now.cpu_percent = each.cpu_percent_avg();
    edge.now.ram_used = each.ram_used();
    edge.now.ram_max = each.ram_max();
    check.place(each, edge.now);
    check(edge.now);
    check.most("roles", std::size_t(each.roles_size()), most_roles);
    for (const auto& role : each.roles()) check.text("role", role);
    if (!check.is_good()) {
      note(check);
      continue;
    }
    edge.roles.assign(each.roles().begin(), each.roles().end());
    summary.edges.push_back(std::move(edge));
  }
  to_.payloads.emplace_back(std::move(summary));
}

void Reader::read(const pb::StreamAdvertisement& from) {
  Check check;
  StreamAd ad;
  ad.internal_name = from.internal_name();
  ad.tenant_id = from.tenant_id();
  ad.playback_id = from.playback_id();
  ad.origin_cluster_id = from.origin_cluster_id();
  ad.is_live = from.is_live();
  for (const auto& each : from.edges()) {
    AdEdge edge;
    edge.node_id = each.node_id();
    edge.base_url = each.base_url();
    edge.dtsc_url = each.dtsc_url();
    edge.is_origin = each.is_origin();
    edge.buffer_state = each.buffer_state();
    edge.bw_available = each.bw_available();
    edge.cpu_percent = each.cpu_percent();
    edge.viewer_count = each.viewer_count();
    check.place(each, edge);
    ad.edges.push_back(std::move(edge));
  }
  add_item(check, std::move(ad));
}

void Reader::read(const pb::ArtifactAdvertisement& from) {
  frame.most("artifacts", std::size_t(from.artifacts_size()), most_in_batch);
  if (!frame.is_good()) return;
  for (const auto& each : from.artifacts()) {
    Check check;
    RemoteArtifact artifact;
    artifact.artifact_hash = each.artifact_hash();
    artifact.artifact_type = each.artifact_type();
    artifact.tenant_id = each.tenant_id();
    artifact.node_id = each.node_id();
    artifact.base_url = each.base_url();
    artifact.size_bytes = each.size_bytes();
    artifact.available = !each.withdrawn();
    check.place(each, artifact);
    add_item(check, std::move(artifact));
  }
}

void Reader::read(const pb::PeerHeartbeat& from) {
  Check check;
  PeerHeartbeat heartbeat;
  heartbeat.protocol_version = from.protocol_version();
  heartbeat.stream_count = from.stream_count();
  heartbeat.edge_count = from.edge_count();
  heartbeat.uptime_seconds = from.uptime_seconds();
  heartbeat.total_bw_available = from.total_bw_available();
  check.amount("total_bw_available", heartbeat.total_bw_available);
  check.most("capabilities", std::size_t(from.capabilities_size()), 64);
  for (const auto& each : from.capabilities()) check.text("capability", each);
  heartbeat.public_url = from.public_url();
  check.text("public_url", heartbeat.public_url);
  if (!check.is_good()) return note(check);
  heartbeat.capabilities.assign(from.capabilities().begin(), from.capabilities().end());
  to_.payloads.emplace_back(std::move(heartbeat));
}

void Reader::read(const pb::ReplicationEvent& from) {
  Check check;
  add_item(check,
           Replication{from.stream_name(), from.tenant_id(), from.node_id(), from.cluster_id(),
                       from.base_url(), from.dtsc_url(), from.available()});
}

void Reader::read(const pb::StreamLifecycleEvent& from) {
  Check check;
  add_item(check,
           StreamLive{from.internal_name(), from.tenant_id(), from.cluster_id(), from.is_live()});
}

void Reader::read(const pb::Goodbye& from) {
  frame.text("reason", from.reason());
  frame.text("leader_address", from.leader_address());
  to_.payloads.emplace_back(Goodbye{from.reason(), from.leader_address()});
}

void Reader::read(const pb::PeerMessage& message, bool is_inner) {
  switch (message.payload_case()) {
    case pb::PeerMessage::kEdgeTelemetry:
      return read(message.edge_telemetry());
    case pb::PeerMessage::kReplicationEvent:
      return read(message.replication_event());
    case pb::PeerMessage::kClusterEdgeSummary:
      return read(message.cluster_edge_summary());
    case pb::PeerMessage::kStreamLifecycleEvent:
      return read(message.stream_lifecycle_event());
    case pb::PeerMessage::kStreamAdvertisement:
      return read(message.stream_advertisement());
    case pb::PeerMessage::kArtifactAdvertisement:
      return read(message.artifact_advertisement());
    case pb::PeerMessage::kPeerHeartbeat:
      return read(message.peer_heartbeat());
    case pb::PeerMessage::kGoodbye:
      return read(message.goodbye());
    case pb::PeerMessage::kHello: {
      const auto& from = message.hello();
      frame.text("instance_id", from.instance_id());
      frame.text("address", from.address());
      to_.payloads.emplace_back(Hello{from.protocol_version(),
                                      from.instance_id(),
                                      {from.epoch(), from.counter()},
                                      from.address()});
      return;
    }
    case pb::PeerMessage::kBatch:
      if (is_inner) return frame.wrong("a batch in a batch");
      frame.most("batch", std::size_t(message.batch().messages_size()), most_in_batch);
      for (const auto& each : message.batch().messages()) {
        if (!each.cluster_id().empty() && each.cluster_id() != message.cluster_id())
          frame.wrong("a batch of two clusters");
        if (!frame.is_good()) return;
        read(each, true);
      }
      return;
    case pb::PeerMessage::kDigest:
      to_.payloads.emplace_back(Digest{message.digest().count(), message.digest().sum()});
      return;
    case pb::PeerMessage::kResyncRequest:
      to_.payloads.emplace_back(ResyncRequest{});
      return;
    case pb::PeerMessage::kResyncBegin:
      to_.payloads.emplace_back(ResyncBegin{});
      return;
    case pb::PeerMessage::kResyncEnd:
      to_.payloads.emplace_back(ResyncEnd{});
      return;
    case pb::PeerMessage::kCapacitySummary:  // nobody needs it yet
    case pb::PeerMessage::PAYLOAD_NOT_SET:   // something newer than this
      return;
  }
}

}  // namespace

pb::PeerMessage to_wire(const Frame& frame) {
  pb::PeerMessage message;
  message.set_cluster_id(frame.cluster_id);
  if (frame.payloads.size() == 1) {
    std::visit(PayloadWriter{message}, frame.payloads.front());
    return message;
  }
  for (const auto& payload : frame.payloads)
    std::visit(PayloadWriter{*message.mutable_batch()->add_messages()}, payload);
  return message;
}

Result<Frame> from_wire(const pb::PeerMessage& message) {
  Frame frame;
  frame.cluster_id = message.cluster_id();
  Reader reader(frame);
  reader.frame.id("cluster_id", frame.cluster_id);
  if (reader.frame.is_good()) reader.read(message);
  auto read = reader.frame.result();
  if (!read) return std::unexpected(read.error());
  return frame;
}

Result<> check(const EdgeSummary::Edge& edge) {
  Check check;
  check(edge.now);
  check.most("roles", edge.roles.size(), most_roles);
  for (const auto& role : edge.roles) check.text("role", role);
  return check.result();
}

Result<> check(const AdEdge& edge) {
  Check check;
  check(edge);
  return check.result();
}

Result<> check(const Item& item) {
  Check check;
  std::visit([&](const auto& each) { check(each); }, item);
  return check.result();
}

Result<> check(const StreamCandidate& candidate) {
  Check check;
  check(candidate.edge);
  check.text("dtsc_url", candidate.dtsc_url);
  check.text("buffer_state", candidate.buffer_state);
  return check.result();
}

Result<> check(const PullAnswer& answer) {
  Check check;
  check.text("reason", answer.reason);
  check.text("dtsc_url", answer.dtsc_url);
  check.text("base_url", answer.base_url);
  check.optional_id("source_node_id", answer.source_node);
  return check.result();
}

Result<> check_text(const char* what, const std::string& value) {
  Check check;
  check.text(what, value);
  return check.result();
}

}  // namespace warren::federation
