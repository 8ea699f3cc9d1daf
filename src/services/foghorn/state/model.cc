#include "services/foghorn/state/model.h"

#include <algorithm>
#include <boost/json/serialize.hpp>

#include "services/foghorn/state/viewers.h"

namespace warren::foghorn {

namespace {

template <class Map>
auto* find_in(Map& map, std::string_view id) {
  auto found = map.find(id);
  return found == map.end() ? nullptr : &found->second;
}

// The address in a URL, if it has one: https://[::1]:8080/x -> ::1
std::string_view host_of(std::string_view url) {
  if (auto scheme = url.find("://"); scheme != url.npos) url.remove_prefix(scheme + 3);
  url = url.substr(0, url.find_first_of("/?#"));
  if (url.starts_with('[')) return url.substr(1, url.find(']') - 1);
  return url.substr(0, url.find(':'));
}

balance::NodeFacts facts_of(const NodeRecord& record, balance::NodeMode mode,
                            std::uint64_t connections) {
  const auto& node = record.state;
  balance::NodeFacts facts;
  facts.id = node.node_id;
  facts.base_url = node.base_url;
  facts.tenant = node.tenant_id;
  facts.cluster = node.cluster_id;
  facts.is_healthy = node.is_healthy;
  facts.is_stale = record.is_stale();
  facts.mode = mode;
  facts.latitude = node.latitude.value_or(balance::unknown_place);
  facts.longitude = node.longitude.value_or(balance::unknown_place);
  facts.host = balance::binary_host(node.host);
  if (facts.host == balance::BinaryHost{})
    facts.host = balance::binary_host(host_of(node.base_url));
  facts.cpu_percent = node.cpu;
  facts.ram_current = node.ram_current;
  facts.ram_max = node.ram_max;
  facts.up_speed = node.up_speed;
  facts.down_speed = node.down_speed;
  facts.bw_limit = node.bw_limit;
  facts.cap_ingest = node.cap_ingest;
  facts.cap_edge = node.cap_edge;
  facts.cap_storage = node.cap_storage;
  facts.cap_processing = node.cap_processing;
  facts.roles = node.roles;
  facts.tags = node.tags;
  facts.config_streams = node.config_streams;
  if (!node.outputs.empty()) facts.outputs_json = boost::json::serialize(node.outputs);
  facts.connections = connections;
  return facts;
}

std::uint64_t not_negative(std::int64_t number) {
  return number < 0 ? 0 : static_cast<std::uint64_t>(number);
}

void clamp_add(std::int64_t& sum, std::int64_t value) {
  if (__builtin_add_overflow(sum, value, &sum)) sum = std::numeric_limits<std::int64_t>::max();
}

}  // namespace

Model::Model(balance::Weights weights) { builder_.set_weights(weights); }

const NodeRecord* Model::node(std::string_view id) const { return find_in(nodes_, id); }
const StreamRecord* Model::stream(std::string_view name) const { return find_in(streams_, name); }
const ArtifactState* Model::artifact(std::string_view id) const { return find_in(artifacts_, id); }

const StreamInstanceState* Model::instance(std::string_view stream, std::string_view node) const {
  const auto* record = find_in(streams_, stream);
  return record ? find_in(record->instances, node) : nullptr;
}

const Carried& Model::carried(std::string_view node) const {
  static const Carried nothing;
  const auto* found = find_in(carried_, node);
  return found ? *found : nothing;
}

Carried& Model::carried_to_change(std::string_view node) {
  if (auto* found = find_in(carried_, node)) return *found;
  return carried_.emplace(node, Carried{}).first->second;
}

balance::NodeMode Model::mode(const NodeRecord& node) const {
  if (const auto* set = find_in(modes_, node.state.node_id)) return set->mode;
  return parse_node_mode(node.state.operational_mode).value_or(balance::NodeMode::normal);
}

void Model::changed(std::string_view node) {
  ++revision_;
  if (!stale_facts_.contains(node)) stale_facts_.emplace(node);
}

void Model::put_node(NodeRecord record) {
  auto id = record.state.node_id;
  bool is_new = !nodes_.contains(id);
  nodes_.insert_or_assign(id, std::move(record));
  changed(id);
  if (is_new) restore(id);
}

// The table forgot what a node carried when the node went.
void Model::restore(std::string_view node) {
  const auto& all = carried(node);
  for (const auto& stream : all.streams)
    if (const auto* known = instance(stream, node)) refresh_holding(stream, *known);
  for (const auto& content_id : all.artifacts)
    if (const auto* known = artifact(content_id)) refresh_artifact(*known);
}

void Model::erase_node(std::string_view id) {
  auto found = nodes_.find(id);
  if (found == nodes_.end()) return;
  builder_.erase_node(id);
  if (auto waiting = stale_facts_.find(id); waiting != stale_facts_.end())
    stale_facts_.erase(waiting);
  nodes_.erase(found);
  if (auto all = carried_.find(id);
      all != carried_.end() && all->second.streams.empty() && all->second.artifacts.empty())
    carried_.erase(all);
  ++revision_;
}

void Model::put_stream(StreamState state, Clock::time_point now) {
  auto& record = streams_[state.internal_name];
  record.state = std::move(state);
  record.is_known = true;
  record.changed_at = now;
  refresh_stream(record);
  ++revision_;
}

void Model::refresh_stream(const StreamRecord& stream) {
  const auto& state = stream.state;
  builder_.put_stream({.name = state.internal_name,
                       .playback_id = state.playback_id,
                       .tenant = state.tenant_id,
                       .origin_node = state.node_id,
                       .is_live = state.status == "live",
                       .buffer_state = state.buffer_state});
}

void Model::drop_if_empty(std::string_view stream) {
  auto found = streams_.find(stream);
  if (found == streams_.end() || found->second.is_known || !found->second.instances.empty()) return;
  streams_.erase(found);
}

void Model::erase_stream(std::string_view name) {
  auto* record = find_in(streams_, name);
  if (!record || !record->is_known) return;
  record->is_known = false;
  record->state = {};
  left_.remove(name);
  builder_.erase_stream(name);
  for (const auto& [node, instance] : record->instances) refresh_holding(name, instance);
  drop_if_empty(name);
  ++revision_;
}

void Model::refresh_holding(std::string_view stream, const StreamInstanceState& instance) {
  auto bounded = [](std::int64_t number) {
    return static_cast<std::uint32_t>(std::clamp<std::int64_t>(number, 0, 0xffffffff));
  };
  builder_.put_holding(stream, instance.node_id,
                       {.inputs = bounded(instance.inputs),
                        .is_replicated = instance.replicated,
                        .viewers = bounded(instance.viewers),
                        .bytes_up = not_negative(instance.bytes_up),
                        .bytes_down = not_negative(instance.bytes_down)});
}

void Model::put_instance(StreamInstanceState instance) {
  auto& of_stream = streams_[instance.internal_name].instances;
  auto& carried = carried_to_change(instance.node_id);
  auto [at, is_new] = of_stream.try_emplace(instance.node_id);
  auto before = is_new ? 0 : not_negative(at->second.total_connections);
  if (is_new) carried.streams.insert(instance.internal_name);
  if (is_new) left_.remove(instance.internal_name);
  if (instance.status == "offline")
    carried.ended.insert(instance.internal_name);
  else
    carried.ended.erase(instance.internal_name);
  carried.connections += not_negative(instance.total_connections) - before;
  at->second = std::move(instance);
  refresh_holding(at->second.internal_name, at->second);
  bool is_same = !is_new && not_negative(at->second.total_connections) == before;
  if (!is_same && nodes_.contains(at->first)) changed(at->first);
  ++revision_;
}

void Model::erase_instance(std::string_view stream, std::string_view node) {
  auto* record = find_in(streams_, stream);
  if (!record) return;
  auto found = record->instances.find(node);
  if (found == record->instances.end()) return;
  auto& carried = carried_to_change(node);
  carried.connections -= not_negative(found->second.total_connections);
  for (auto* names : {&carried.streams, &carried.ended})
    if (auto name = names->find(stream); name != names->end()) names->erase(name);
  builder_.erase_holding(stream, node);
  if (nodes_.contains(node)) changed(node);
  auto carrier = record->instances.extract(found).key();
  if (record->is_known && record->instances.empty())
    left_.add(carrier, record->state.internal_name);
  drop_if_empty(stream);
  ++revision_;
}

void Model::put_artifact(ArtifactState artifact) {
  erase_artifact(artifact.content_id);
  for (const auto& copy : artifact.copies)
    carried_to_change(copy.node_id).artifacts.insert(artifact.content_id);
  auto id = artifact.content_id;
  auto& kept = artifacts_[id] = std::move(artifact);
  refresh_artifact(kept);
  ++revision_;
}

void Model::refresh_artifact(const ArtifactState& artifact) {
  std::vector<std::string> holders;
  for (const auto& copy : artifact.copies) holders.push_back(copy.node_id);
  builder_.put_artifact(artifact.content_id, std::move(holders));
}

void Model::erase_artifact(std::string_view content_id) {
  auto found = artifacts_.find(content_id);
  if (found == artifacts_.end()) return;
  for (const auto& copy : found->second.copies)
    carried_to_change(copy.node_id).artifacts.erase(found->first);
  builder_.put_artifact(content_id, {});
  artifacts_.erase(found);
  ++revision_;
}

void Model::put_mode(NodeModeState mode) {
  auto id = mode.node_id;
  modes_.insert_or_assign(id, std::move(mode));
  if (nodes_.contains(id)) changed(id);
  ++revision_;
}

void Model::erase_mode(std::string_view node) {
  auto found = modes_.find(node);
  if (found == modes_.end()) return;
  modes_.erase(found);
  if (nodes_.contains(node)) changed(node);
  ++revision_;
}

std::vector<std::string> Model::without_node() const {
  std::vector<std::string> names;
  for (const auto& [id, all] : carried_)
    if (!nodes_.contains(id) && (!all.streams.empty() || !all.artifacts.empty()))
      names.push_back(id);
  return names;
}

StreamState Model::summed(const StreamRecord& stream) const {
  auto state = stream.state;
  state.viewers = state.total_connections = state.inputs = state.bytes_up = state.bytes_down = 0;
  for (const auto& [node, instance] : stream.instances) {
    clamp_add(state.viewers, instance.viewers);
    clamp_add(state.total_connections, instance.total_connections);
    clamp_add(state.inputs, instance.inputs);
    clamp_add(state.bytes_up, instance.bytes_up);
    clamp_add(state.bytes_down, instance.bytes_down);
  }
  return state;
}

std::uint64_t Model::average_viewer() const {
  double up_speed = 0;
  std::uint64_t connections = 0;
  for (const auto& [id, record] : nodes_) {
    if (!record.is_active()) continue;
    up_speed += record.state.up_speed;
    connections += carried(id).connections;
  }
  return up_speed > 0 && connections > 0 ? viewer_estimate(up_speed, connections) : 0;
}

std::shared_ptr<const balance::RoutingTable> Model::publish() {
  for (const auto& id : stale_facts_)
    if (const auto* record = node(id))
      builder_.put_node(facts_of(*record, mode(*record), carried(id).connections));
  stale_facts_.clear();
  return builder_.publish();
}

bool says_the_same(const StreamInstanceState& a, const StreamInstanceState& b) {
  return a.node_id == b.node_id && a.tenant_id == b.tenant_id && a.status == b.status &&
         a.buffer_state == b.buffer_state && a.last_track_list == b.last_track_list &&
         a.viewers == b.viewers && a.bytes_up == b.bytes_up && a.bytes_down == b.bytes_down &&
         a.total_connections == b.total_connections && a.inputs == b.inputs &&
         a.replicated == b.replicated && a.raw_details == b.raw_details && a.others == b.others;
}

bool says_the_same(const StreamState& a, const StreamState& b) {
  return a.stream_name == b.stream_name && a.internal_name == b.internal_name &&
         a.playback_id == b.playback_id && a.node_id == b.node_id && a.tenant_id == b.tenant_id &&
         a.status == b.status && a.buffer_state == b.buffer_state && a.tracks == b.tracks &&
         a.issues == b.issues && a.has_issues == b.has_issues && a.started_at == b.started_at &&
         a.raw_details == b.raw_details && a.last_track_list == b.last_track_list &&
         a.others == b.others;
}

}  // namespace warren::foghorn
