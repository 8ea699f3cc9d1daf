// What nodes have stored.
#include <algorithm>

#include "services/foghorn/state/core.h"

namespace warren::foghorn {

namespace {

bool has_copy(const ArtifactState& artifact, const std::string& node,
              const ArtifactReport& report) {
  auto copy = std::ranges::lower_bound(artifact.copies, node, {}, &ArtifactCopy::node_id);
  return copy != artifact.copies.end() && copy->node_id == node && copy->path == report.path &&
         copy->size == report.size && (report.type.empty() || report.type == artifact.type);
}

}  // namespace

void Cluster::Core::set_copy(const std::string& node, const ArtifactReport& report) {
  const auto* known = model.artifact(report.content_id);
  if (known && has_copy(*known, node, report)) return;
  ArtifactState artifact;
  if (known) artifact = *known;
  artifact.content_id = report.content_id;
  if (!report.type.empty()) artifact.type = report.type;
  auto copy = std::ranges::lower_bound(artifact.copies, node, {}, &ArtifactCopy::node_id);
  bool is_there = copy != artifact.copies.end() && copy->node_id == node;
  if (!is_there) {
    copy = artifact.copies.insert(copy, {node, report.path, report.size, WallClock::now()});
  } else {
    copy->path = report.path;
    copy->size = report.size;
  }
  mark({Kind::artifact, artifact.content_id});
  model.put_artifact(std::move(artifact));
}

void Cluster::Core::drop_copy(const std::string& node, const std::string& content_id) {
  const auto* known = model.artifact(content_id);
  if (!known) return;
  auto artifact = *known;
  if (std::erase_if(artifact.copies, [&](const auto& copy) { return copy.node_id == node; }) == 0)
    return;
  mark({Kind::artifact, content_id});
  if (artifact.copies.empty())
    model.erase_artifact(content_id);
  else
    model.put_artifact(std::move(artifact));
}

std::size_t Cluster::Core::take_artifacts(const std::string& node,
                                          const std::vector<ArtifactReport>& artifacts) {
  auto before = model.carried(node).artifacts;  // a copy: some go
  std::set<std::string_view> named;
  for (const auto& artifact : artifacts) named.insert(artifact.content_id);
  // First, so that they make room.
  for (const auto& content_id : before)
    if (!named.contains(content_id)) drop_copy(node, content_id);
  std::size_t left_out = 0;
  for (const auto& artifact : artifacts)
    if (has_room(node, artifact.content_id))
      set_copy(node, artifact);
    else
      ++left_out;
  return left_out;
}

Result<> Cluster::add_artifact(const std::string& node, const ArtifactReport& artifact) {
  if (auto hears = core_->hears(); !hears) return hears;
  auto checked = check_id("node_id", node);
  if (checked) checked = check_artifact_report(artifact);
  if (!checked) return checked;
  if (!core_->model.node(node)) return std::unexpected(core_->no_node(node));
  if (auto room = core_->has_room(node, artifact.content_id); !room) return room;
  core_->touch(node);
  core_->set_copy(node, artifact);
  core_->changed();
  return ok;
}

Result<> Cluster::remove_artifact(const std::string& node, const std::string& content_id) {
  if (auto loaded = core_->loaded(); !loaded) return loaded;
  const auto& carried = core_->model.carried(node).artifacts;
  if (!carried.contains(content_id))
    return fail(Errc::not_found, "node {} has no {}", node, content_id);
  core_->touch(node);
  core_->drop_copy(node, content_id);
  core_->changed();
  return ok;
}

}  // namespace warren::foghorn
