// What nodes say of themselves, and operators of nodes.
#include "services/foghorn/state/core.h"
#include "services/foghorn/state/json_fields.h"

namespace warren::foghorn {

namespace {

template <class T>
void set_if_said(T& member, const std::optional<T>& said) {
  if (said) member = *said;
}

void set_if_said(double& member, const std::optional<double>& said) {
  if (said) member = tidy(*said);
}

void set_place(NodeState& node, const NodeReport& report) {
  if (!report.latitude || !report.longitude) return;
  if (*report.latitude == 0 && *report.longitude == 0) return;
  node.latitude = tidy(*report.latitude);
  node.longitude = tidy(*report.longitude);
}

}  // namespace

void set_said(NodeState& node, const NodeReport& report) {
  if (report.cpu_tenths) node.cpu = tidy(*report.cpu_tenths / 10);
  set_if_said(node.ram_max, report.ram_max);
  set_if_said(node.ram_current, report.ram_current);
  set_if_said(node.up_speed, report.up_speed);
  set_if_said(node.down_speed, report.down_speed);
  set_if_said(node.bw_limit, report.bw_limit);
  set_place(node, report);
  set_if_said(node.location, report.location);
  set_if_said(node.outputs, report.outputs);
  tidy(node.outputs);
  set_if_said(node.cap_ingest, report.cap_ingest);
  set_if_said(node.cap_edge, report.cap_edge);
  set_if_said(node.cap_storage, report.cap_storage);
  set_if_said(node.cap_processing, report.cap_processing);
  set_if_said(node.roles, report.roles);
  set_if_said(node.tags, report.tags);
  set_if_said(node.config_streams, report.config_streams);
  set_if_said(node.storage_capacity_bytes, report.storage_capacity_bytes);
  set_if_said(node.storage_used_bytes, report.storage_used_bytes);
  set_if_said(node.disk_total_bytes, report.disk_total_bytes);
  set_if_said(node.disk_used_bytes, report.disk_used_bytes);
  set_if_said(node.storage_local, report.storage_local);
  set_if_said(node.storage_bucket, report.storage_bucket);
  set_if_said(node.storage_prefix, report.storage_prefix);
  set_if_said(node.max_transcodes, report.max_transcodes);
  set_if_said(node.current_transcodes, report.current_transcodes);
  set_if_said(node.operational_mode, report.operational_mode);
  if (report.base_url && !report.base_url->empty()) node.base_url = *report.base_url;
  if (report.tenant_id && !report.tenant_id->empty()) node.tenant_id = *report.tenant_id;
}

namespace {

// Instances that do not hear of each other would count on from the same number, and one that never
// heard of the node would begin anew: the time tells which of them it turned to last.
std::uint64_t next_epoch(const NodeState& node) {
  using namespace std::chrono;
  auto now = duration_cast<milliseconds>(node.last_update.time_since_epoch()).count();
  return std::max(node.owner_epoch + 1, static_cast<std::uint64_t>(std::max<std::int64_t>(now, 1)));
}

}  // namespace

NodeRecord Cluster::Core::heard(const std::string& node) {
  NodeRecord record;
  if (const auto* known = model.node(node)) record = *known;
  // One that was silent is healthy again until it says otherwise.
  if (record.is_stale()) record.state.is_healthy = true;
  record.state.node_id = node;
  if (record.state.cluster_id.empty()) record.state.cluster_id = terms.cluster_id;
  record.state.is_stale = record.is_silent = false;
  record.state.last_heartbeat = WallClock::now();
  record.state.last_update = later_than(record.state.last_update);
  record.heard_at = Clock::now();
  return record;
}

Result<> Cluster::Core::hears() const {
  if (!problem) return ok;
  return std::unexpected(*problem);
}

Result<> Cluster::Core::loaded() const {
  if (!is_loaded())
    return fail(Errc::unavailable, "this instance does not have the state of the cluster yet");
  return hears();
}

Error Cluster::Core::no_node(const std::string& node) const {
  if (auto known = loaded(); !known) return known.error();
  return {Errc::not_found, fmt::format("there is no node {}", node)};
}

void Cluster::Core::touch(const std::string& node) {
  if (model.node(node)) put_own(heard(node));
}

void Cluster::Core::put_own(NodeRecord record) {
  if (!std::exchange(record.is_own, true)) {
    record.state.owner_epoch = next_epoch(record.state);
    record.lists_streams = false;
    // What Redis lost of it is ours to write from here on.
    if (!kept_.empty()) mark_carried(record.state.node_id);
  }
  if (!is_loaded()) {
    auto [word, is_first] = early_.try_emplace(record.state.node_id);
    // Redis has it, and it was read already.
    if (is_first && model.node(record.state.node_id)) word->second.is_known = true;
  }
  mark({Kind::node, record.state.node_id});
  model.put_node(std::move(record));
}

namespace {

// A node that names none of its capabilities leaves them to its reports.
NodeReport said_in(const Registration& registration) {
  NodeReport said;
  said.base_url = registration.base_url;
  said.tenant_id = registration.tenant_id;
  said.operational_mode = registration.requested_mode;
  if (!registration.roles.empty()) said.roles = registration.roles;
  if (!registration.tags.empty()) said.tags = registration.tags;
  if (registration.cap_ingest || registration.cap_edge || registration.cap_storage ||
      registration.cap_processing) {
    said.cap_ingest = registration.cap_ingest;
    said.cap_edge = registration.cap_edge;
    said.cap_storage = registration.cap_storage;
    said.cap_processing = registration.cap_processing;
  }
  return said;
}

}  // namespace

Result<> Cluster::register_node(const Registration& registration) {
  if (auto hears = core_->hears(); !hears) return hears;
  auto checked = check_registration(registration);
  if (checked) checked = core_->admit(registration.node_id);
  if (!checked) return checked;
  auto record = core_->heard(registration.node_id);
  auto said = said_in(registration);
  set_said(record.state, said);
  record.state.is_healthy = true;
  if (!registration.host.empty()) record.state.host = registration.host;
  core_->put_own(std::move(record));
  core_->note_early(registration.node_id, said, registration.host);
  core_->changed();
  return ok;
}

Result<> Cluster::report(const std::string& node, const NodeReport& report) {
  if (auto hears = core_->hears(); !hears) return hears;
  auto checked = check_id("node_id", node);
  if (checked) checked = check_report(report);
  const auto& limits = core_->terms.limits;
  if (checked && report.streams && report.streams->size() > limits.node_streams)
    checked = fail(Errc::invalid, "streams: {} are more than {}", report.streams->size(),
                   limits.node_streams);
  if (checked) checked = core_->admit(node);
  if (!checked) return checked;
  auto record = core_->heard(node);
  set_said(record.state, report);
  set_if_said(record.state.is_healthy, report.is_healthy);
  core_->put_own(std::move(record));
  core_->note_early(node, report, "");
  auto streams_left_out = report.streams ? core_->take_streams(node, *report.streams) : 0;
  auto left_out = report.artifacts ? core_->take_artifacts(node, *report.artifacts) : 0;
  core_->viewers.settle(Clock::now(), node);
  core_->changed();
  if (streams_left_out > 0)
    return fail(Errc::overloaded,
                "streams: {} of the {} that node {} lists are not taken, because the cluster may "
                "have {} at most; the rest of the report counts",
                streams_left_out, report.streams->size(), node, limits.streams);
  if (left_out == 0) return ok;
  bool is_cluster_full = core_->model.carried(node).artifacts.size() < limits.node_artifacts;
  return fail(Errc::overloaded,
              "artifacts: {} of the {} that node {} lists are not taken, because a {} may have {} "
              "at most; the rest of the report counts",
              left_out, report.artifacts->size(), node, is_cluster_full ? "cluster" : "node",
              is_cluster_full ? limits.artifacts : limits.node_artifacts);
}

Result<> Cluster::heartbeat(const std::string& node, bool is_healthy) {
  if (auto hears = core_->hears(); !hears) return hears;
  if (auto checked = check_id("node_id", node); !checked) return checked;
  // Before all is loaded anybody may be a node.
  if (!core_->model.node(node) && core_->is_loaded()) return std::unexpected(core_->no_node(node));
  if (auto admitted = core_->admit(node); !admitted) return admitted;
  auto record = core_->heard(node);
  record.state.is_healthy = is_healthy;
  core_->put_own(std::move(record));
  core_->changed();
  return ok;
}

Result<> Cluster::disconnect(const std::string& node) {
  if (auto hears = core_->hears(); !hears) return hears;
  const auto* known = core_->model.node(node);
  if (!known) return std::unexpected(core_->no_node(node));
  auto record = *known;
  if (!record.is_stale()) record.stale_since = Clock::now();
  record.state.is_healthy = false;
  record.state.is_stale = true;
  record.state.last_heartbeat = {};
  record.state.last_update = later_than(record.state.last_update);
  core_->put_own(std::move(record));
  core_->changed();
  return ok;
}

Result<> Cluster::connection_lost(const std::string& node) {
  const auto* known = core_->model.node(node);
  if (known && !known->is_own) return ok;
  return disconnect(node);
}

Result<> Cluster::set_mode(const std::string& node, balance::NodeMode mode, std::string set_by) {
  if (auto loaded = core_->loaded(); !loaded) return loaded;
  auto checked = check_id("node_id", node);
  if (!checked) return checked;
  if (set_by.size() > 256) return fail(Errc::invalid, "set_by: more than 256 characters");
  if (!core_->model.node(node)) return std::unexpected(core_->no_node(node));
  // Later than the one before, whatever the clocks say: it is the later word.
  auto set_at = WallClock::now();
  const auto& modes = core_->model.modes();
  if (auto before = modes.find(node); before != modes.end())
    set_at = std::max<WallTime>(set_at, before->second.set_at + 1ms);
  core_->model.put_mode({node, mode, std::move(set_by), set_at});
  core_->mark({Kind::mode, node});
  core_->changed();
  return ok;
}

Result<> Cluster::forget_node(const std::string& node) {
  if (auto loaded = core_->loaded(); !loaded) return loaded;
  bool has_mode = core_->model.modes().contains(node);
  if (!core_->model.node(node) && !has_mode) return std::unexpected(core_->no_node(node));
  core_->forget_node(node);
  if (has_mode) {
    core_->model.erase_mode(node);
    core_->mark({Kind::mode, node});
  }
  core_->changed();
  return ok;
}

void Cluster::Core::forget_node(const std::string& node) {
  auto carried = model.carried(node);  // a copy: it shrinks
  for (const auto& stream : carried.streams) drop_instance(stream, node);
  for (const auto& content_id : carried.artifacts) drop_copy(node, content_id);
  model.erase_node(node);
  viewers.forget(node);
  mark({Kind::node, node});
}

}  // namespace warren::foghorn
