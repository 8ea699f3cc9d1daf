#include "services/foghorn/federation/advertise.h"

#include <algorithm>
#include <boost/json/object.hpp>
#include <boost/json/parse.hpp>

#include "base/log.h"
#include "services/foghorn/balance/choose.h"
#include "services/foghorn/balance/view.h"
#include "services/foghorn/federation/codec.h"

namespace warren::federation {

namespace {

constexpr auto window = 30s;

bool serves(const balance::NodeFacts& node) {
  return node.is_healthy && !node.is_stale && node.mode == balance::NodeMode::normal;
}

}  // namespace

void Averages::add(Clock::time_point now, const std::string& node, Sample sample) {
  samples_[node].emplace_back(now, sample);
}

std::optional<Averages::Sample> Averages::of(Clock::time_point now, const std::string& node) const {
  auto at = samples_.find(node);
  if (at == samples_.end()) return {};
  Sample sum;
  double count = 0;
  for (const auto& [time, sample] : at->second) {
    if (time + window <= now) continue;
    sum.bw_available += sample.bw_available;
    sum.cpu_percent += sample.cpu_percent;
    ++count;
  }
  if (count == 0) return {};
  return Sample{sum.bw_available / count, sum.cpu_percent / count};
}

void Averages::prune(Clock::time_point now) {
  for (auto& [node, samples] : samples_)
    while (!samples.empty() && samples.front().first + window <= now) samples.pop_front();
  std::erase_if(samples_, [](const auto& each) { return each.second.empty(); });
}

std::string host_of(std::string_view url) {
  if (auto scheme = url.find("://"); scheme != url.npos) url.remove_prefix(scheme + 3);
  url = url.substr(0, url.find_first_of("/?#"));
  if (url.starts_with('[')) return std::string(url.substr(0, url.find(']') + 1));  // IPv6
  return std::string(url.substr(0, url.find(':')));
}

std::string dtsc_url(std::string_view outputs_json, std::string_view base_url,
                     std::string_view stream) {
  boost::system::error_code error;
  auto value = boost::json::parse({outputs_json.data(), outputs_json.size()}, error);
  if (error || !value.is_object()) return {};
  for (const auto& [protocol, url] : value.get_object()) {
    if (!url.is_string() || (protocol != "DTSC" && protocol != "dtsc")) continue;
    std::string text(url.get_string());
    // A template: HOST is the node's public host, $ the stream.
    if (auto host = text.find("HOST"); host != text.npos) text.replace(host, 4, host_of(base_url));
    text.resize(std::min(text.size(), text.find('$')));
    while (text.ends_with('/')) text.pop_back();
    return text + "/live+" + std::string(stream);
  }
  return {};
}

std::string tenant_of(const foghorn::ArtifactState& artifact) {
  const auto* said = artifact.others.if_contains("tenant_id");
  return said && said->is_string() ? std::string(said->get_string()) : std::string();
}

EdgeTelemetry telemetry_of(const balance::RoutingTable& table, std::uint32_t place) {
  const auto& node = *balance::node_at(table, place);
  const auto& penalty = balance::penalty_at(table, place);
  auto used = node.up_speed + double(penalty.bandwidth.load(std::memory_order_relaxed)) +
              double(penalty.peer_bandwidth.load(std::memory_order_relaxed));
  EdgeTelemetry edge;
  edge.node_id = node.id;
  edge.base_url = node.base_url;
  edge.tenant_id = node.tenant;
  edge.bw_available = std::max(0.0, node.bw_limit - used);
  edge.bw_limit = node.bw_limit;
  edge.cpu_percent = node.cpu_percent;
  edge.ram_used = node.ram_current;
  edge.ram_max = node.ram_max;
  edge.viewer_count = node.connections;
  edge.geo_lat = node.latitude;
  edge.geo_lon = node.longitude;
  return edge;
}

Advertiser::Advertiser(const foghorn::Cluster& cluster, const View& view,
                       const FederationTerms& terms, Clock::time_point now)
    : cluster_(cluster),
      view_(view),
      terms_(terms),
      began_(now),
      next_sample_(now),
      next_artifacts_(now) {}

std::shared_ptr<const Offer> Advertiser::make(Clock::time_point now) {
  auto offer = std::make_shared<Offer>();
  auto table = cluster_.table();
  add_edges(*offer, *table, now);
  add_streams(*offer, *table, now);
  if (now >= next_artifacts_) {
    next_artifacts_ = now + terms_.artifact_interval;
    list_artifacts(*table);
  }
  for (const auto& artifact : artifacts_) add(*offer, artifact);
  auto& heartbeat = offer->heartbeat;
  heartbeat.stream_count =
      std::uint64_t(std::count_if(offer->items.begin(), offer->items.end(), [](const auto& each) {
        return std::holds_alternative<StreamAd>(each.second.item);
      }));
  heartbeat.edge_count = offer->edges.size();
  for (const auto& edge : offer->edges) heartbeat.total_bw_available += edge.bw_available;
  heartbeat.uptime_seconds =
      std::uint64_t(std::chrono::duration_cast<std::chrono::seconds>(now - began_).count());
  heartbeat.capabilities = {"stream_ad", "artifact_ad", "delta", "digest"};
  heartbeat.public_url = terms_.public_url;
  return offer;
}

void Advertiser::add_edges(Offer& offer, const balance::RoutingTable& table,
                           Clock::time_point now) {
  bool samples = now >= next_sample_;
  if (samples) {
    next_sample_ = now + terms_.telemetry_interval;
    averages_.prune(now);
    std::erase_if(dtsc_, [&](const auto& each) { return !balance::place_of(table, each.first); });
  }
  for (std::uint32_t place = 0; place < balance::node_count(table); ++place) {
    const auto* node = balance::node_at(table, place);
    if (!node || !serves(*node)) continue;
    auto edge = telemetry_of(table, place);
    if (samples) averages_.add(now, node->id, {edge.bw_available, edge.cpu_percent});
    auto smooth = edge;
    if (auto average = averages_.of(now, node->id)) {
      smooth.bw_available = average->bw_available;
      smooth.cpu_percent = average->cpu_percent;
    }
    EdgeSummary::Edge summed{std::move(smooth), node->roles};
    if (!is_fit("edge " + node->id, check(summed))) continue;
    if (offer.edges.size() >= most_summary_edges) break;
    offer.summary.edges.push_back(std::move(summed));
    offer.edges.push_back(std::move(edge));
  }
}

// Templates are read when they change, not for every stream.
const std::string& Advertiser::dtsc_base(const balance::NodeFacts& node) {
  auto& known = dtsc_[node.id];
  auto outputs = node.outputs_json + "\n" + node.base_url;
  if (known.outputs != outputs) {
    known.url = dtsc_url(node.outputs_json, node.base_url, "");
    known.outputs = std::move(outputs);
  }
  return known.url;
}

void Advertiser::add_streams(Offer& offer, const balance::RoutingTable& table,
                             Clock::time_point now) {
  const auto& self = cluster_.terms().cluster_id;
  balance::each_stream(table, [&](const balance::StreamFacts& stream) {
    if (!stream.is_live || offer.items.size() + 2 > most_items) return;
    StreamAd ad{stream.name, stream.tenant, stream.playback_id, {}, true, {}};
    bool has_origin = false;
    for (const auto& holder : balance::holders(table, stream.name)) {
      const auto* node = balance::node_at(table, holder.node);
      if (!node || !serves(*node) || holder.holding.inputs == 0) continue;
      const auto& base = dtsc_base(*node);
      auto now_there = telemetry_of(table, holder.node);
      bool is_origin = !holder.holding.is_replicated;
      AdEdge edge{node->id,
                  node->base_url,
                  base.empty() ? "" : base + stream.name,
                  is_origin,
                  stream.buffer_state,
                  now_there.bw_available,
                  now_there.cpu_percent,
                  holder.holding.viewers,
                  node->latitude,
                  node->longitude};
      if (!is_fit("holder " + node->id + " " + stream.name, check(edge))) continue;
      has_origin = has_origin || is_origin;
      ad.edges.push_back(std::move(edge));
    }
    if (ad.edges.empty()) return;
    std::sort(ad.edges.begin(), ad.edges.end(),
              [](const AdEdge& a, const AdEdge& b) { return a.node_id < b.node_id; });
    if (ad.edges.size() > most_holders_told) {  // those that make it are the last to be left out
      std::sort(ad.edges.begin(), ad.edges.end(), [](const AdEdge& a, const AdEdge& b) {
        return std::tuple(!a.is_origin, a.node_id) < std::tuple(!b.is_origin, b.node_id);
      });
      ad.edges.resize(most_holders_told);
    }
    if (has_origin) {
      ad.origin_cluster_id = self;
      add(offer, StreamLive{stream.name, stream.tenant, self, true});
    } else {
      if (const auto* pulled = view_.pulled(now, stream.name))
        ad.origin_cluster_id = pulled->source_cluster;
      else if (const auto* live = view_.live_at(now, stream.name))
        ad.origin_cluster_id = *live;
      const auto& edge = ad.edges.front();
      add(offer, Replication{stream.name, stream.tenant, edge.node_id, self, edge.base_url,
                             edge.dtsc_url, true});
    }
    add(offer, std::move(ad));
  });
}

void Advertiser::add(Offer& offer, Item item) {
  if (offer.items.size() < most_items && is_fit(key_of(item), check(item)))
    offer.add(std::move(item));
}

// One odd name costs what has it, not the channel. Said once.
bool Advertiser::is_fit(const std::string& what, const Result<>& checked) {
  if (checked) return true;
  if (unfit_.size() >= 10'000) unfit_.clear();
  if (unfit_.insert(what).second)
    log::warn("federation.not_told", "what", what, "why", checked.error().what);
  return false;
}

void Advertiser::list_artifacts(const balance::RoutingTable& table) {
  artifacts_.clear();
  for (const auto& artifact : cluster_.artifacts()) {
    auto tenant = tenant_of(artifact);
    for (const auto& copy : artifact.copies) {
      auto place = balance::place_of(table, copy.node_id);
      const auto* node = place ? balance::node_at(table, *place) : nullptr;
      if (!node || !serves(*node)) continue;
      artifacts_.push_back({artifact.content_id, artifact.type, tenant, copy.node_id,
                            node->base_url, copy.size, node->latitude, node->longitude, true});
    }
  }
}

}  // namespace warren::federation
