// Single files, from the memory of their owner.
#include "services/fleet/wire/files.h"

#include <algorithm>
#include <charconv>

#include "net/http/target.h"
#include "services/fleet/router/router.h"

namespace warren::fleet {

namespace {

constexpr auto look_time = 5s;
constexpr auto most_wait = 60'000ms;
// Text as JSON, twice where it is not UTF-8.
constexpr std::size_t most_look_bytes = 16 * most_file_bytes;

std::chrono::milliseconds wait_of(std::string_view query) {
  std::uint64_t wait = 0;
  if (auto text = query_value(query, "wait_ms"))
    std::from_chars(text->data(), text->data() + text->size(), wait);
  return std::chrono::milliseconds(std::min<std::uint64_t>(wait, most_wait.count()));
}

bool wants_text(const HttpRequest& request) {
  return request.header("accept").starts_with("text/plain");
}

// As it stands in the file, for whoever has no use for JSON.
void put_file_text(HttpAnswer& answer, const FileText& file) {
  answer.type = "text/plain; charset=utf-8";
  answer.add("X-Commit", file.commit);
  answer.add("X-Lines", fmt::format("{}-{}/{}", file.first_line, file.last_line, file.lines));
  answer.body = file.text;
}

}  // namespace

Result<std::string> Router::one_repo(const HttpRequest& request) const {
  auto named = list_of_query(request.query, "repo");
  if (!named) return std::unexpected(named.error());
  if (!*named || (*named)->size() != 1)
    return fail(Errc::invalid, "say of which repository: {}?repo=…", request.path);
  auto allowed = list_of_query(request.query, "repos");
  if (!allowed) return std::unexpected(allowed.error());
  auto repo = std::move((**named)[0]);
  // Who may not see it does not learn that it is there.
  bool is_allowed = !*allowed || std::ranges::find(**allowed, repo) != (*allowed)->end();
  if (!is_allowed || (knows_rows_ && !table_.repos().contains(repo)))
    return fail(Errc::not_found, "there is no repository {}", repo);
  return repo;
}

Async<HttpReply> Router::ask_owner(std::string repo, std::string target, Clock::time_point deadline,
                                   std::vector<Missing>& missing) {
  const std::vector<std::string> repos(1, repo);
  for (int attempt = 0; attempt < 2; ++attempt) {
    auto before = table_changes_;
    auto plan = table_.plan(repos, settings_.zone, suspects(), loads());
    missing = plan.missing;
    if (plan.routes.empty()) co_return fail(Errc::unavailable, "nobody serves {} just now", repo);
    const auto& route = plan.routes[0];
    auto url = parse_web_url(route.endpoint);
    if (!url) co_return std::unexpected(url.error());
    HttpAsk ask{"GET", target + "&" + to_query(route.rows[0])};
    ask.headers = node_headers();
    auto until = attempt == 0 && route.has_other
                     ? std::min(deadline, Clock::now() + settings_.hedge)
                     : deadline;
    auto reply = co_await pool_.ask(*std::move(url), std::move(ask), until, most_look_bytes);
    if (reply && reply->status != 421) co_return reply;
    if (reply) {
      missing.push_back({repo, "moved"});
    } else {
      missing.push_back({repo, "unreachable", {}, reply.error().what});
      suspects_[route.session] = Clock::now() + settings_.suspicion;
    }
    if (attempt == 0 && table_changes_ == before)
      co_await table_changed_.wait(std::min(deadline, Clock::now() + news_time));
  }
  co_return fail(Errc::unavailable, "nobody serves {} just now", repo);
}

awaitable<void> Router::answer_look(const HttpRequest& request, HttpAnswer& answer) {
  auto repo = one_repo(request);
  if (!repo) co_return put_refusal(answer, repo.error());
  bool is_file = request.path == "/v1/file";
  std::string target;
  if (is_file) {
    auto ask = parse_file_ask(request.query);
    if (!ask) co_return put_refusal(answer, ask.error());
    target = "/v1/file?" + to_query(*ask);
  } else {
    auto ask = parse_skipped_ask(request.query);
    if (!ask) co_return put_refusal(answer, ask.error());
    target = "/v1/skipped?" + to_query(*ask);
  }
  target += "&client=" + percent_encoded(request.client.to_string());
  SearchAsk whole;
  whole.repos.emplace(1, *repo);
  if (auto wait = wait_of(request.query); wait > 0ms)
    co_await wait_until_ready(whole, search::RepoFilter(), Clock::now() + wait);
  if (!knows_rows_ || !knows_nodes_) co_return put_loading(answer);
  std::vector<Missing> missing;
  auto reply = co_await ask_owner(*repo, std::move(target), Clock::now() + look_time, missing);
  if (!reply) {
    co_await learn_progress(missing, Clock::now() + look_time);
    co_return put_missing(answer, reply.error(), missing);
  }
  answer.status = reply->status;
  answer.body = std::move(reply->body);
  if (answer.status != 200 || !is_file || !wants_text(request)) co_return;
  auto file = parse_file_text(answer.body);
  if (!file) co_return put_refusal(answer, file.error());
  put_file_text(answer, *file);
}

}  // namespace warren::fleet
