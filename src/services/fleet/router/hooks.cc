// Push hooks: the owners of a repository look for new commits at once instead of at their next poll.
//
// It is a hint, passed on to the nodes and kept nowhere: when it is lost, the poll finds the commit.
#include <boost/json.hpp>

#include "base/log.h"
#include "services/fleet/fetch/url.h"
#include "services/fleet/router/push.h"
#include "services/fleet/router/router.h"

namespace warren::fleet {

namespace {

constexpr auto hint_time = 5s;

// The rows of these repositories that somebody owns, by the endpoint of the owner.
std::map<std::string, std::vector<std::string>> rows_by_owner(
    const Table& table, const std::vector<std::string>& repos) {
  std::map<std::string, std::vector<std::string>> rows;
  for (const auto& name : repos) {
    auto repo = table.repos().find(name);
    if (repo == table.repos().end()) continue;
    for (const auto& [number, slot] : repo->second.slots) {
      auto node = table.nodes().find(slot.row.owner);
      if (node != table.nodes().end()) rows[node->second.info.endpoint].push_back(slot.row.key);
    }
  }
  return rows;
}

// A repository that moved has its old name here, and its host tells the new one.
void add_moved(const Table& table, std::vector<std::string>& repos) {
  UrlRules rules{.allows_http = true, .allows_git = true};
  auto told = repos;
  for (const auto& [name, repo] : table.repos()) {
    if (repo.spec.moved_from.empty()) continue;
    auto remote = RemoteUrl::parse(repo.spec.url, rules);
    if (remote && std::ranges::find(told, remote->url.repo_id()) != told.end())
      repos.push_back(name);
  }
}

}  // namespace

HttpServer::Work Router::handle_push(const HttpRequest& request, HttpAnswer& answer) {
  auto refuse = [&](int status, Errc code, std::string what) {
    answer.status = status;
    answer.body = error_json({code, std::move(what)});
    return HttpServer::Work();
  };
  if (request.method != "POST") return refuse(405, Errc::invalid, "use POST");
  if (settings_.hook_secret.empty())
    return refuse(404, Errc::not_found, "this router takes no hooks: FLEET_HOOK_SECRET is not set");
  if (!is_signed(request, settings_.hook_secret))
    return refuse(401, Errc::denied, "the signature is not that of the hook's secret");
  auto repos = pushed_repos(request);
  if (!repos) return refuse(400, repos.error().code, repos.error().what);
  add_moved(table_, *repos);
  std::erase_if(*repos, [&](const auto& name) { return !table_.repos().contains(name); });
  if (repos->empty())
    return refuse(404, Errc::not_found, "the fleet has no repository of that name or URL");
  return answer_push(*std::move(repos), answer);
}

awaitable<void> Router::answer_push(std::vector<std::string> repos, HttpAnswer& answer) {
  auto rows = rows_by_owner(table_, repos);
  std::uint64_t told = 0;
  for (auto& [endpoint, keys] : rows) {
    HttpAsk ask{"POST", "/v1/look", "Content-Type: application/json\r\n" + node_headers(),
                rows_json(keys)};
    auto url = parse_web_url(endpoint);
    if (!url) continue;
    auto reply = co_await pool_.ask(*std::move(url), std::move(ask), Clock::now() + hint_time);
    if (reply && reply->status == 200)
      ++told;
    else
      log::warn("fleet.hint_lost", "endpoint", endpoint, "why",
                reply ? std::to_string(reply->status) : reply.error().what);
  }
  log::info("fleet.pushed", "repo", repos.front(), "nodes", told);
  answer.body = boost::json::serialize(
      boost::json::object{{"repos", boost::json::value_from(repos)}, {"nodes", told}});
}

}  // namespace warren::fleet
