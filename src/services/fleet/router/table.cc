#include "services/fleet/router/table.h"

#include <algorithm>
#include <set>
#include <tuple>

namespace warren::fleet {

bool Table::Repo::is_served() const {
  return std::ranges::any_of(
      slots, [](const auto& entry) { return entry.second.row.state == RowState::ready; });
}

void Table::on_changes(const Changes& changes) {
  ++version_;
  if (changes.is_everything) repos_.clear();
  if (changes.is_everything) leaving_.clear();
  for (const auto& key : changes.removed) remove(key);
  for (const auto& row : changes.rows) put(row);
}

void Table::on_nodes(const std::vector<Node>& nodes) {
  ++version_;
  nodes_.clear();
  for (const auto& node : nodes) {
    auto info = parse_info(node.info);
    if (info)
      nodes_.emplace(node.session, Member{node, *std::move(info)});
    else
      ++unreadable_;
  }
}

void Table::put(const Row& row) {
  if (auto repo = repo_of_gone(row.key)) {
    // None in the moment in which it is added.
    if (auto gone = parse_gone(row.note))
      leaving_[std::string(*repo)] = Leaving{*gone, row.wait + gone->left};
    return;
  }
  auto parts = parse_row_key(row.key);
  auto spec = parse_spec(row.spec);
  auto note = parse_note(row.note);
  if (!parts || !spec || !note) {
    ++unreadable_;
    return;
  }
  auto& repo = repos_[std::string(parts->repo)];
  repo.spec = *std::move(spec);
  repo.slots[parts->slot] = Slot{row, *std::move(note)};
}

void Table::remove(std::string_view key) {
  if (auto repo = repo_of_gone(key)) leaving_.erase(std::string(*repo));
  auto parts = parse_row_key(key);
  if (!parts) return;
  auto repo = repos_.find(parts->repo);
  if (repo == repos_.end()) return;
  repo->second.slots.erase(parts->slot);
  if (repo->second.slots.empty()) repos_.erase(repo);
}

const Table::Slot* Table::best_slot(const Repo& repo, std::string_view zone,
                                    const std::vector<NodeSession>& avoided, int& choices) const {
  using Cost = std::tuple<bool, bool, std::uint64_t>;
  const Slot* best = nullptr;
  Cost least;
  for (const auto& [number, slot] : repo.slots) {
    // One that is being handed over answers until it has been.
    if (slot.row.state != RowState::ready && slot.row.state != RowState::draining) continue;
    auto node = nodes_.find(slot.row.owner);
    if (node == nodes_.end()) continue;
    ++choices;
    const auto& info = node->second.info;
    bool is_avoided = std::ranges::find(avoided, slot.row.owner) != avoided.end();
    Cost cost{is_avoided, !zone.empty() && info.zone != zone, info.running};
    if (best && cost >= least) continue;
    best = &slot;
    least = cost;
  }
  return best;
}

Missing Table::why_missing(const std::string& name, const Repo& repo) const {
  // The slot that is nearest to being ready speaks for the others.
  const auto& slot = std::ranges::max_element(repo.slots, {}, [](const auto& entry) {
                       return std::pair(!entry.second.row.owner.empty(), entry.second.note.phase);
                     })->second;
  Missing missing;
  missing.repo = name;
  if (slot.row.owner.empty()) {
    missing.reason = "unclaimed";
    missing.detail = slot.row.error;
  } else if (!nodes_.contains(slot.row.owner)) {
    missing.reason = "unreachable";
    missing.detail = fmt::format("node {} is silent", node_name(slot.row.owner));
  } else {
    missing.reason = "warming";
    missing.phase = fleet::name(slot.note.phase);
  }
  return missing;
}

std::optional<std::vector<std::string>> Table::limits_of(const SearchAsk& ask) const {
  bool has_kind = ask.is_archived || ask.is_fork || ask.is_private;
  if (!ask.repos && !ask.repo_ids && !has_kind) return std::nullopt;
  std::set<std::string> names;
  if (ask.repos) names.insert(ask.repos->begin(), ask.repos->end());
  if (ask.repo_ids) {
    // A number that two share is nobody's: better none than one too many.
    std::map<std::uint32_t, std::vector<std::string_view>> known;
    for (auto id : *ask.repo_ids) known[id];
    for (const auto& [name, repo] : repos_)
      if (auto found = known.find(repo_id_of(name)); found != known.end())
        found->second.push_back(name);
    for (const auto& [id, sharing] : known)
      if (sharing.size() == 1) names.emplace(sharing[0]);
  }
  if (!ask.repos && !ask.repo_ids)
    for (const auto& [name, repo] : repos_) names.insert(name);
  auto is_other = [](std::optional<bool> wanted, bool is) { return wanted && *wanted != is; };
  std::erase_if(names, [&](const std::string& name) {
    auto repo = repos_.find(name);
    if (repo == repos_.end()) return false;  // it is told that nobody knows it
    const auto& spec = repo->second.spec;
    return is_other(ask.is_archived, spec.is_archived) || is_other(ask.is_fork, spec.is_fork) ||
           is_other(ask.is_private, spec.is_private);
  });
  return std::vector<std::string>(names.begin(), names.end());
}

Table::Plan Table::plan(const std::optional<std::vector<std::string>>& repos, std::string_view zone,
                        const std::vector<NodeSession>& avoided) const {
  Plan plan;
  std::map<NodeSession, Route> routes;
  auto add = [&](const std::string& name, const Repo& repo) {
    int choices = 0;
    const auto* slot = best_slot(repo, zone, avoided, choices);
    if (!slot) {
      plan.missing.push_back(why_missing(name, repo));
      return;
    }
    auto& route = routes[slot->row.owner];
    route.rows.push_back({slot->row.key, slot->row.epoch});
    route.repos.push_back(name);
    route.has_other = route.has_other && choices > 1;
  };
  if (repos) {
    for (const auto& name : *repos) {
      auto found = repos_.find(name);
      if (found == repos_.end())
        plan.missing.push_back({name, "unknown"});
      else
        add(name, found->second);
    }
  } else {
    for (const auto& [name, repo] : repos_) add(name, repo);
  }
  for (auto& [session, route] : routes) {
    route.session = session;
    route.endpoint = nodes_.at(session).info.endpoint;
    route.text = rows_text(route.rows);
    plan.routes.push_back(std::move(route));
  }
  return plan;
}

}  // namespace warren::fleet
