#include "services/fleet/router/table.h"

#include <algorithm>
#include <set>

namespace warren::fleet {

namespace {

// A different number for each repository, so that equal nodes share them evenly.
std::uint64_t chance_of(std::string_view repo, std::uint64_t seed) {
  auto mixed = std::hash<std::string_view>{}(repo) + seed * 0x9e3779b97f4a7c15u;
  mixed = (mixed ^ (mixed >> 30)) * 0xbf58476d1ce4e5b9u;
  mixed = (mixed ^ (mixed >> 27)) * 0x94d049bb133111ebu;
  return mixed ^ (mixed >> 31);
}

}  // namespace

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

void Table::add_choices(const Repo& repo, std::string_view zone,
                        const std::vector<NodeSession>& avoided, const NodeLoads& loads,
                        std::vector<Choice>& choices) const {
  for (const auto& [number, slot] : repo.slots) {
    // One that is being handed over answers until it has been.
    if (slot.row.state != RowState::ready && slot.row.state != RowState::draining) continue;
    auto node = nodes_.find(slot.row.owner);
    if (node == nodes_.end()) continue;
    const auto& info = node->second.info;
    auto ours = loads.outstanding.find(slot.row.owner);
    auto running = ours == loads.outstanding.end() ? 0 : ours->second;
    bool is_avoided = std::ranges::find(avoided, slot.row.owner) != avoided.end();
    choices.push_back(
        {&slot, std::max(running, info.running), {is_avoided, !zone.empty() && info.zone != zone}});
  }
}

const Table::Slot* Table::best_of(std::vector<Choice>& choices, std::uint64_t chance) {
  if (choices.empty()) return nullptr;
  auto nearest = std::ranges::min_element(choices, {}, &Choice::far)->far;
  std::erase_if(choices, [&](const Choice& one) { return one.far != nearest; });
  if (choices.size() == 1) return choices[0].slot;
  auto count = choices.size();
  auto first = chance % count;
  auto second = (first + 1 + (chance >> 32) % (count - 1)) % count;
  return choices[choices[second].running < choices[first].running ? second : first].slot;
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
    // Until the new owner writes its own note, the phase is that of the previous owner.
    bool is_told = slot.note.phase < Phase::indexing;
    missing.phase = fleet::name(is_told ? slot.note.phase : Phase::waiting);
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
                        const std::vector<NodeSession>& avoided, const NodeLoads& loads) const {
  Plan plan;
  std::map<NodeSession, Route> routes;
  std::vector<Choice> choices;
  auto add = [&](const std::string& name, const Repo& repo) {
    choices.clear();
    add_choices(repo, zone, avoided, loads, choices);
    bool has_other = choices.size() > 1;
    const auto* slot = best_of(choices, has_other ? chance_of(name, loads.seed) : 0);
    if (!slot) {
      plan.missing.push_back(why_missing(name, repo));
      return;
    }
    auto& route = routes[slot->row.owner];
    route.rows.push_back({slot->row.key, slot->row.epoch});
    route.repos.push_back(name);
    route.has_other = route.has_other && has_other;
    plan.has_choices = plan.has_choices || has_other;
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
