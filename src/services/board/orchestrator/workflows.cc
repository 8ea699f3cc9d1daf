#include "services/board/orchestrator/workflows.h"

#include "base/age.h"

namespace warren::orchestrator {

using namespace board;

namespace {

constexpr std::size_t most_nodes = 1'000'000;
constexpr std::size_t most_goals = 100'000;

}  // namespace

Async<std::string> goal_of(Board board, std::string artefact_id) {
  std::unordered_set<std::string> seen;
  while (seen.insert(artefact_id).second) {
    auto artefact = co_await board.artefact(artefact_id);
    if (!artefact && artefact.error().code == Errc::not_found && seen.size() > 1) break;
    if (!artefact) co_return std::unexpected(artefact.error());
    if (artefact->source_artefacts.empty()) break;
    artefact_id = artefact->source_artefacts[0];
  }
  co_return artefact_id;
}

Async<Standing> Workflows::standing(std::string artefact_id) {
  for (int attempt = 0; attempt < 2 && !nodes_.contains(artefact_id); ++attempt) {
    auto goal = co_await goal_of(board_, artefact_id);
    if (!goal) co_return std::unexpected(goal.error());
    ++reading_;
    auto done = co_await read(*goal);
    --reading_;
    if (!done) co_return std::unexpected(done.error());
    if (reading_ > 0) continue;
    for (const auto& [id, source] : std::exchange(heard_, {})) add(id, source);
  }
  auto node = nodes_.find(artefact_id);
  if (node == nodes_.end())
    co_return fail(Errc::not_found, "the workflow of artefact {} cannot be read", artefact_id);
  const auto& workflow = workflows_[node->second.goal];
  co_return Standing{node->second.goal, node->second.depth, workflow.artefacts, workflow.started_at,
                     false};
}

Async<> Workflows::read(std::string goal) {
  auto began = forgotten_;
  auto first = co_await board_.artefact(goal);
  auto started_at = start_of(goal, first ? first->created_at : UnixTime{});
  if (began != forgotten_) co_return ok;
  if (nodes_.try_emplace(goal, Node{goal, 0}).second) workflows_[goal] = {1, started_at};
  std::deque<std::string> below{goal};
  std::unordered_set<std::string> seen{goal};
  while (!below.empty()) {
    auto id = std::move(below.front());
    below.pop_front();
    auto children = co_await board_.children(id);
    if (!children) co_return std::unexpected(children.error());
    if (began != forgotten_) co_return ok;
    for (const auto& child : children->items) {
      if (child.source_artefacts.empty() || child.source_artefacts[0] != id) continue;
      add(child.id, id);
      if (seen.insert(child.id).second) below.push_back(child.id);
    }
  }
  co_return ok;
}

Clock::time_point Workflows::start_of(const std::string& goal, UnixTime stamp) {
  auto known = starts_.find(goal);
  if (known != starts_.end()) return known->second;
  auto start = Clock::now();
  if (stamp != UnixTime{}) start -= age_of(stamp);
  note_start(goal, start);
  return start;
}

void Workflows::note_start(const std::string& goal, Clock::time_point at) {
  if (!starts_.try_emplace(goal, at).second) return;
  goals_.push_back(goal);
  if (goals_.size() <= most_goals) return;
  starts_.erase(goals_.front());
  goals_.pop_front();
}

void Workflows::add(const std::string& id, const std::string& source) {
  auto parent = nodes_.find(source);
  if (parent == nodes_.end()) return;
  Node node{parent->second.goal, parent->second.depth + 1};
  auto& workflow = workflows_[node.goal];
  if (nodes_.try_emplace(id, std::move(node)).second) ++workflow.artefacts;
}

void Workflows::on_artefact(const Artefact& artefact) {
  if (artefact.source_artefacts.empty()) return note_start(artefact.id, Clock::now());
  if (nodes_.size() > most_nodes) forget();
  add(artefact.id, artefact.source_artefacts[0]);
  if (reading_ > 0) heard_.emplace_back(artefact.id, artefact.source_artefacts[0]);
}

void Workflows::forget() {
  nodes_.clear();
  workflows_.clear();
  ++forgotten_;
}

}  // namespace warren::orchestrator
