#include "services/fleet/autoscale/drains.h"

#include <algorithm>

#include "services/fleet/plan/drain_request.h"
#include "services/fleet/plan/records.h"

namespace warren::fleet {

namespace {

constexpr auto catalog_time = 20s;
constexpr std::string_view us = "autoscale";

}  // namespace

Async<> Drains::look() {
  auto nodes = co_await catalog_.nodes(Clock::now() + catalog_time);
  if (!nodes) co_return std::unexpected(nodes.error());
  auto now = Clock::now();
  auto changes = co_await catalog_.changes(position_, now, now + catalog_time);
  if (!changes) co_return std::unexpected(changes.error());
  nodes_ = *std::move(nodes);
  position_ = changes->position;
  if (changes->is_everything) owners_.clear(), wishes_.clear();
  for (const auto& key : changes->removed) owners_.erase(key), wishes_.erase(key);
  for (const auto& row : changes->rows) {
    if (auto session = session_of_drain(row.key))
      wishes_[row.key] = {std::string(*session), parse_drain(row.spec).by == us};
    else if (parse_row_key(row.key))
      owners_[row.key] = row.owner;
  }
  co_return ok;
}

PodNode Drains::state_of(const std::string& node) const {
  auto sessions = sessions_of(node);
  if (sessions.empty()) return PodNode::absent;
  // It says of itself that it drains when somebody else had it do so, too: by a signal.
  bool is_draining = std::ranges::any_of(nodes_, [&](const Node& one) {
    auto info = parse_info(one.info);
    return node_name(one.session) == node && info && info->is_draining;
  });
  bool is_ours = false;
  for (const auto& [key, wish] : wishes_)
    if (std::ranges::find(sessions, wish.session) != sessions.end()) {
      if (!wish.is_ours) return PodNode::drained_by_other;
      is_ours = true;
    }
  if (!is_ours) return is_draining ? PodNode::drained_by_other : PodNode::serving;
  // One that has not heard of it may still claim.
  bool has_rows = !is_draining || std::ranges::any_of(owners_, [&](const auto& row) {
    return std::ranges::find(sessions, row.second) != sessions.end();
  });
  return has_rows ? PodNode::draining : PodNode::drained;
}

Async<> Drains::ask(const std::string& node, std::chrono::milliseconds within) {
  std::vector<Row> rows;
  for (const auto& session : sessions_of(node))
    rows.push_back(row_of(session, {.within = within, .by = std::string(us)}));
  auto added = co_await catalog_.add(std::move(rows), Clock::now() + catalog_time);
  if (!added) co_return std::unexpected(added.error());
  co_return ok;
}

Async<> Drains::cancel(const std::string& node) {
  auto sessions = sessions_of(node);
  std::vector<std::string> keys;
  for (const auto& [key, wish] : wishes_)
    if (wish.is_ours && std::ranges::find(sessions, wish.session) != sessions.end())
      keys.push_back(key);
  auto removed = co_await catalog_.remove(std::move(keys), Clock::now() + catalog_time);
  if (!removed) co_return std::unexpected(removed.error());
  co_return ok;
}

std::vector<NodeSession> Drains::sessions_of(const std::string& node) const {
  std::vector<NodeSession> sessions;
  for (const auto& one : nodes_)
    if (node_name(one.session) == node) sessions.push_back(one.session);
  return sessions;
}

}  // namespace warren::fleet
