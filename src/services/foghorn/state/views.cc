// What a cluster knows, as others want to see it.
#include "services/foghorn/state/core.h"

namespace warren::foghorn {

namespace {

NodeView view_of(const Model& model, const NodeRecord& record) {
  NodeView view{record.state, model.mode(record), record.is_active(), 0, 0};
  view.state.is_stale = record.is_stale();
  view.state.is_healthy = record.is_active();
  for (const auto& stream : model.carried(record.state.node_id).streams) {
    const auto* instance = model.instance(stream, record.state.node_id);
    ++view.streams;
    if (instance) view.viewers += instance->viewers;
  }
  return view;
}

StreamView view_of(const Model& model, const std::string& name, const StreamRecord& record) {
  StreamView view{model.summed(record), {}};
  view.state.internal_name = name;
  for (const auto& [node, instance] : record.instances) view.instances.push_back(instance);
  return view;
}

// Makes a view of each on the page.
template <class All, class View>
auto paged(const All& all, Page page, View view) {
  std::vector<decltype(view(*all.begin()))> views;
  auto left = std::min(page.limit, all.size() - std::min(all.size(), page.offset));
  if (left == 0) return views;
  views.reserve(left);
  for (auto next = std::next(all.begin(), static_cast<std::ptrdiff_t>(page.offset)); left > 0;
       ++next, --left)
    views.push_back(view(*next));
  return views;
}

// FNV-1a, with what was said before.
class Hash {
 public:
  void add(std::string_view text) {
    for (char c : text) step(static_cast<std::uint8_t>(c));
    step(0);
  }
  std::string text() const { return fmt::format("{:016x}", value_); }

 private:
  void step(std::uint8_t byte) { value_ = (value_ ^ byte) * 0x100000001b3; }
  std::uint64_t value_ = 0xcbf29ce484222325;
};

}  // namespace

std::optional<NodeView> Cluster::node(const std::string& id) const {
  const auto* record = core_->model.node(id);
  if (!record) return {};
  return view_of(core_->model, *record);
}

std::vector<NodeView> Cluster::nodes(Page page) const {
  return paged(core_->model.nodes(), page,
               [this](const auto& each) { return view_of(core_->model, each.second); });
}

std::vector<StreamInstanceState> Cluster::instances_on(const std::string& node) const {
  std::vector<StreamInstanceState> instances;
  for (const auto& stream : core_->model.carried(node).streams)
    if (const auto* instance = core_->model.instance(stream, node)) instances.push_back(*instance);
  return instances;
}

std::vector<std::string> Cluster::streams_on(const std::string& node) const {
  const auto& names = core_->model.carried(node).streams;
  return {names.begin(), names.end()};
}

std::optional<StreamView> Cluster::stream(const std::string& name) const {
  const auto* record = core_->model.stream(name);
  if (!record) return {};
  return view_of(core_->model, name, *record);
}

std::vector<StreamView> Cluster::streams(Page page) const {
  return paged(core_->model.streams(), page,
               [this](const auto& each) { return view_of(core_->model, each.first, each.second); });
}

std::optional<ArtifactState> Cluster::artifact(const std::string& content_id) const {
  const auto* known = core_->model.artifact(content_id);
  if (!known) return {};
  return *known;
}

std::vector<ArtifactState> Cluster::artifacts(Page page) const {
  return paged(core_->model.artifacts(), page, [](const auto& each) { return each.second; });
}

std::size_t Cluster::node_count() const { return core_->model.nodes().size(); }
std::size_t Cluster::stream_count() const { return core_->model.streams().size(); }
std::size_t Cluster::artifact_count() const { return core_->model.artifacts().size(); }

// Without what each instance has for itself (silence, penalties) and what follows from the rest
// (sums).
std::string Cluster::digest() const {
  Hash hash;
  const auto& model = core_->model;
  for (const auto& [id, record] : model.nodes()) hash.add(to_json(record.state));
  for (const auto& [name, record] : model.streams()) {
    auto state = record.state;
    state.viewers = state.total_connections = state.inputs = state.bytes_up = state.bytes_down = 0;
    hash.add(name);
    if (record.is_known) hash.add(to_json(state));
    for (const auto& [node, instance] : record.instances) hash.add(to_json(instance));
  }
  for (const auto& [id, artifact] : model.artifacts()) hash.add(to_json(artifact));
  for (const auto& [id, mode] : model.modes()) hash.add(to_json(mode));
  return hash.text();
}

std::uint64_t Cluster::revision() const { return core_->model.revision(); }

awaitable<void> Cluster::changed(std::uint64_t seen) {
  while (core_->model.revision() == seen) {
    co_await core_->published.wait();
    auto state = co_await asio::this_coro::cancellation_state;
    if (is_cancelled(state)) co_return;
  }
  core_->publish();  // whoever was woken looks at the table
}

std::shared_ptr<void> Cluster::publish(Metrics& metrics) const {
  struct Published {
    std::shared_ptr<void> mirror, own;
  };
  auto made = std::make_shared<Published>();
  if (core_->mirror) made->mirror = core_->mirror->publish(metrics);
  auto gauge = [&metrics, this](const char* name, const char* help) {
    return metrics.gauge(name, help, {{"cluster", core_->terms.cluster_id}});
  };
  auto nodes = gauge("warren_foghorn_nodes", "Nodes that are known.");
  auto active = gauge("warren_foghorn_active_nodes", "Nodes that are healthy and heard of.");
  auto streams = gauge("warren_foghorn_streams", "Streams that are known.");
  auto artifacts = gauge("warren_foghorn_artifacts", "Stored contents that are known.");
  auto viewers = gauge("warren_foghorn_viewers", "Viewers that were redirected, by what is kept.");
  auto waiting = gauge("warren_foghorn_waiting_changes", "Changes that are not in Redis yet.");
  auto skipped = metrics.counter("warren_foghorn_skipped_values_total",
                                 "Values in Redis that nobody can read.",
                                 {{"cluster", core_->terms.cluster_id}});
  made->own = metrics.on_collect([=, core = core_.get()]() mutable {
    double count = 0;
    for (const auto& [id, record] : core->model.nodes()) count += record.is_active() ? 1 : 0;
    active.set(count);
    nodes.set(static_cast<double>(core->model.nodes().size()));
    streams.set(static_cast<double>(core->model.streams().size()));
    artifacts.set(static_cast<double>(core->model.artifacts().size()));
    viewers.set(static_cast<double>(core->viewers.size()));
    waiting.set(static_cast<double>(core->journal.waiting()));
    skipped.raise_to(static_cast<double>(core->skipped));
  });
  return made;
}

}  // namespace warren::foghorn
