// What a router answers, over HTTP.
#include <charconv>
#include <set>

#include "net/http/admission.h"
#include "net/http/lines.h"
#include "net/http/target.h"
#include "services/fleet/router/repo_metrics.h"
#include "services/fleet/router/router.h"

namespace warren::fleet {

namespace {

Result<SearchAsk> ask_of_query(std::string_view query) {
  SearchAsk ask;
  auto number = [&](const char* name, std::uint64_t& into) {
    auto value = query_value(query, name);
    if (value) std::from_chars(value->data(), value->data() + value->size(), into);
  };
  auto repos = list_of_query(query, "repos");
  if (!repos) return std::unexpected(repos.error());
  ask.repos = *std::move(repos);
  if (auto text = query_value(query, "q")) ask.query = *std::move(text);
  if (ask.query.empty()) return fail(Errc::invalid, "say what to look for: /v1/search?q=…");
  std::uint64_t context = 0;
  number("limit", ask.files);
  number("context", context);
  ask.files = std::clamp<std::uint64_t>(ask.files, 1, 10'000);
  ask.context = static_cast<int>(std::min<std::uint64_t>(context, 50));
  if (auto cursor = query_value(query, "cursor")) ask.cursor = *std::move(cursor);
  return ask;
}

}  // namespace

Result<std::optional<std::vector<std::string>>> list_of_query(std::string_view query,
                                                              const char* name) {
  std::optional<std::vector<std::string>> list;
  for (auto& value : query_values(query, name)) {
    if (!value) return fail(Errc::invalid, "\"{}\" is not well encoded", name);
    if (!list) list.emplace();
    if (!value->empty()) list->push_back(*std::move(value));
  }
  return list;
}

Result<> Router::listen() {
  // What is too long is told so in JSON, unless it is far too long.
  settings_.http.most_body = std::max(settings_.http.most_body, 2 * most_ask_bytes);
  auto handler = [this](const HttpRequest& request, HttpAnswer& answer) {
    return handle(request, answer);
  };
  auto server = HttpServer::listen(executor_, settings_.http, std::move(handler));
  if (!server) return std::unexpected(server.error());
  http_ = *std::move(server);
  watch_scale();
  return ok;
}

HttpServer::Work Router::handle(const HttpRequest& request, HttpAnswer& answer) {
  answer.type = "application/json";
  auto refuse = [&](int status, Errc code, const char* what) {
    answer.status = status;
    answer.body = error_json({code, what});
    return HttpServer::Work();
  };
  if (request.path == "/healthz") {
    answer.body = "{\"status\":\"ok\"}";
    return std::nullopt;
  }
  if (request.path == "/readyz") {
    bool is_ready = knows_rows_ && knows_nodes_;
    answer.status = is_ready ? 200 : 503;
    answer.body = is_ready ? "{\"status\":\"ready\"}" : "{\"status\":\"loading\"}";
    return std::nullopt;
  }
  if (request.path == "/hooks/push") return handle_push(request, answer);  // it has its own secret
  if (!settings_.token.empty() &&
      !same_secret(bearer_token(request.header("authorization")), settings_.token))
    return refuse(401, Errc::denied, "show a token: Authorization: Bearer …");
  if (request.path == "/v1/search") return handle_search(request, answer);
  if (request.path.starts_with("/api/")) return handle_zoekt(request, answer);
  if (request.method != "GET" && request.method != "HEAD")
    return refuse(405, Errc::invalid, "use GET, or POST for /v1/search");
  if (request.path == "/v1/file" || request.path == "/v1/skipped")
    return answer_look(request, answer);
  if (request.path == "/v1/repos" || request.path == "/v1/nodes" || request.path == "/v1/routes") {
    put_listing(request, answer);
  } else if (request.path == "/v1/scale") {
    if (!knows_rows_ || !knows_nodes_ || scaler_.wanted().nodes == 0)
      put_loading(answer);
    else
      answer.body = scale_json();
  } else if (request.path == "/metrics") {
    answer.type = "text/plain; version=0.0.4; charset=utf-8";
    answer.body = metrics_.exposition() + repo_metrics(table_, settings_.repo_metrics);
  } else {
    return refuse(404, Errc::not_found, "there is no such route");
  }
  return std::nullopt;
}

HttpServer::Work Router::handle_search(const HttpRequest& request, HttpAnswer& answer) {
  bool is_get = request.method == "GET" || request.method == "HEAD";
  if (!is_get && request.method != "POST") {
    answer.status = 405;
    answer.add("Allow", "GET, HEAD, POST");
    answer.body = error_json({Errc::invalid, "use GET or POST"});
    return std::nullopt;
  }
  auto ask = is_get ? ask_of_query(request.query) : parse_ask(request.body);
  if (!ask) {
    put_refusal(answer, ask.error());
    return std::nullopt;
  }
  ask->rows.clear();
  ask->client = request.client.to_string();
  if (wants_lines(request)) return stream_search(request, *std::move(ask), answer);
  return answer_search(*std::move(ask), answer);
}

void Router::put_refusal(HttpAnswer& answer, const Error& error) {
  bool is_wrong = error.code == Errc::invalid;
  answer.status = is_wrong ? 400 : error.code == Errc::not_found ? 404 : 503;
  if (answer.status == 503) answer.add("Retry-After", "1");
  answer.type = "application/json";
  answer.body = error_json(error);
}

// It may be there in a moment.
void Router::put_missing(HttpAnswer& answer, const Error& error,
                         const std::vector<Missing>& missing) {
  auto wait = 1'000ms;
  for (const auto& one : missing)
    if (one.eta) wait = std::max(wait, *one.eta);
  answer.status = 503;
  answer.type = "application/json";
  answer.add("Retry-After", std::to_string((wait + 999ms) / 1s));
  answer.body = error_json(error, missing);
}

void Router::count_answer(const std::vector<Missing>& missing) {
  queries_.add();
  if (!missing.empty()) incomplete_.add();
}

// None of the repositories that were asked for by name was searched, and that will pass.
bool Router::is_all_missing(const SearchAsk& ask, const std::vector<Missing>& missing) {
  if (!ask.repos || ask.repos->empty()) return false;
  std::set<std::string_view> names(ask.repos->begin(), ask.repos->end());
  bool may_come = false;
  for (const auto& one : missing) {
    names.erase(one.repo);
    may_come = may_come || one.reason != "unknown";
  }
  return names.empty() && may_come;
}

awaitable<void> Router::answer_search(SearchAsk ask, HttpAnswer& answer) {
  auto begin = Clock::now();
  std::vector<Missing> missing;
  auto found = co_await search(ask, missing);
  if (!found) co_return put_refusal(answer, found.error());
  count_answer(missing);
  bool is_searched = found->why_incomplete == "time";  // in part
  if (!is_searched && is_all_missing(ask, missing))
    put_missing(answer, {Errc::unavailable, ""}, missing);
  answer.body = answer_json(*found, missing, Clock::now() - begin);
}

}  // namespace warren::fleet
