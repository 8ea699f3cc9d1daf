// What the catalog says, for people and for other proxies.
#include <boost/json.hpp>
#include <set>

#include "services/fleet/router/router.h"

namespace warren::fleet {

namespace {

namespace json = boost::json;

json::object object_of(const Table::Slot& slot, const std::map<NodeSession, Table::Member>& nodes) {
  auto node = nodes.find(slot.row.owner);
  auto left = node == nodes.end() ? 0ms : node->second.node.left;
  return {{"owner_id", slot.row.owner},
          {"lease_left_ms", left.count()},
          {"epoch", to_string(slot.row.epoch)},
          {"state", name(slot.row.state)},
          {"phase", name(slot.note.phase)},
          {"ready", slot.row.state == RowState::ready},
          {"commit_hash", slot.note.commit_hash},
          {"last_indexed_at", slot.note.last_indexed_at},
          {"size_bytes", slot.note.size_bytes},
          {"memory_bytes", slot.note.memory_bytes},
          {"files", slot.note.files},
          {"skipped", slot.note.skipped},
          {"fetch_time_ms", slot.note.fetch_ms},
          {"index_time_ms", slot.note.index_ms},
          {"claim_latency_ms", slot.note.claim_ms},
          {"attempts", slot.row.attempts},
          {"wait_ms", slot.row.wait.count()},
          {"last_error", slot.row.error}};
}

json::object object_of(const std::string& name, const Table::Repo& repo,
                       const std::map<NodeSession, Table::Member>& nodes) {
  json::array slots;
  for (const auto& [number, slot] : repo.slots) {
    auto object = object_of(slot, nodes);
    object["slot"] = number;
    slots.push_back(std::move(object));
  }
  return {{"repo_id", name},
          {"id", repo_id_of(name)},
          {"url", repo.spec.url},
          {"moved_from", repo.spec.moved_from},
          {"refs", json::value_from(repo.spec.refs)},
          {"pinned", repo.spec.is_pinned},
          {"priority", repo.spec.priority},
          {"replicas", repo.spec.replicas},
          {"archived", repo.spec.is_archived},
          {"fork", repo.spec.is_fork},
          {"private", repo.spec.is_private},
          {"slots", std::move(slots)}};
}

json::object object_of(const NodeSession& session, const Table::Member& member) {
  const auto& info = member.info;
  return {{"session", session},
          {"name", node_name(session)},
          {"endpoint", info.endpoint},
          {"zone", info.zone},
          {"version", info.version},
          {"budget_bytes", info.budget_bytes},
          {"used_bytes", info.used_bytes},
          {"reserved_bytes", info.reserved_bytes},
          {"free_bytes", info.free_bytes()},
          {"repos", info.repos},
          {"running", info.running},
          {"draining", info.is_draining},
          {"lease_left_ms", member.node.left.count()}};
}

// The repositories that a request may see: those of `repos`, and of them that of `repo`.
class Seen {
 public:
  Seen(std::optional<std::vector<std::string>> allowed, std::optional<std::vector<std::string>> one)
      : allowed_(set_of(std::move(allowed))), one_(set_of(std::move(one))) {}
  bool contains(const std::string& name) const {
    return (!allowed_ || allowed_->contains(name)) && (!one_ || one_->contains(name));
  }

 private:
  using Set = std::optional<std::set<std::string>>;
  static Set set_of(std::optional<std::vector<std::string>> list) {
    if (!list) return std::nullopt;
    return std::set<std::string>(list->begin(), list->end());
  }
  Set allowed_, one_;
};

json::array repos_of(const Table& table, const Seen& seen) {
  json::array list;
  for (const auto& [name, repo] : table.repos())
    if (seen.contains(name)) {
      auto object = object_of(name, repo, table.nodes());
      auto leaving = table.leaving().find(name);
      if (leaving != table.leaving().end()) object["gone"] = leaving->second.gone.why;
      list.push_back(std::move(object));
    }
  return list;
}

json::array nodes_of(const Table& table) {
  json::array list;
  for (const auto& [session, member] : table.nodes()) list.push_back(object_of(session, member));
  return list;
}

// Where each is served best, and everywhere else where it is served.
json::array routes_of(const Table& table, const Seen& seen, const std::string& zone) {
  json::array list;
  for (const auto& route : table.plan({}, zone).routes)
    for (std::size_t i = 0; i < route.rows.size(); ++i) {
      const auto& name = route.repos[i];
      if (!seen.contains(name)) continue;
      json::array replicas;
      for (const auto& [number, slot] : table.repos().find(name)->second.slots) {
        auto node = table.nodes().find(slot.row.owner);
        bool is_served = slot.row.state == RowState::ready || slot.row.state == RowState::draining;
        if (!is_served || node == table.nodes().end()) continue;
        replicas.push_back(json::object{{"slot", number},
                                        {"key", slot.row.key},
                                        {"endpoint", node->second.info.endpoint},
                                        {"epoch", to_string(slot.row.epoch)},
                                        {"zone", node->second.info.zone},
                                        {"commit_hash", slot.note.commit_hash}});
      }
      list.push_back(json::object{{"repo", name},
                                  {"key", route.rows[i].key},
                                  {"endpoint", route.endpoint},
                                  {"epoch", to_string(route.rows[i].epoch)},
                                  {"replicas", std::move(replicas)}});
    }
  return list;
}

}  // namespace

void Router::put_listing(const HttpRequest& request, HttpAnswer& answer) const {
  auto allowed = list_of_query(request.query, "repos");
  auto one = list_of_query(request.query, "repo");
  if (!allowed || !one) return put_refusal(answer, (allowed ? one : allowed).error());
  if (!knows_rows_ || !knows_nodes_) return put_loading(answer);
  Seen seen(*std::move(allowed), *std::move(one));
  json::object object;
  if (request.path == "/v1/repos")
    object["repos"] = repos_of(table_, seen);
  else if (request.path == "/v1/nodes")
    object["nodes"] = nodes_of(table_);
  else
    object["routes"] = routes_of(table_, seen, settings_.zone);
  answer.body = json::serialize(object);
}

}  // namespace warren::fleet
