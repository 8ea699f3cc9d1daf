// What a node answers, over HTTP.
#include "net/http/admission.h"
#include "services/fleet/node/node.h"

namespace warren::fleet {

namespace {

int status_of(Errc code) {
  switch (code) {
    case Errc::invalid:
      return 400;
    case Errc::not_found:
      return 404;
    case Errc::denied:
      return 403;
    case Errc::overloaded:
      return 429;
    case Errc::timeout:
      return 504;
    case Errc::held_elsewhere:
    case Errc::lease_lost:
    case Errc::refused:
    case Errc::unavailable:
    case Errc::unknown_outcome:
    case Errc::cancelled:
      return 503;
    case Errc::protocol:
      return 502;
  }
  return 500;
}

}  // namespace

void FleetNode::put_error(HttpAnswer& answer, const Error& error) {
  answer.status = status_of(error.code);
  answer.type = "application/json";
  answer.body = error_json(error);
}

Result<> FleetNode::listen() {
  settings_.http.most_body = std::max(settings_.http.most_body, most_node_ask_bytes);
  auto handler = [this](const HttpRequest& request, HttpAnswer& answer) {
    return handle(request, answer);
  };
  auto server = HttpServer::listen(executor_, settings_.http, std::move(handler));
  if (!server) return std::unexpected(server.error());
  http_ = *std::move(server);
  if (settings_.endpoint.empty())
    settings_.endpoint = fmt::format("http://{}:{}", settings_.http.address, http_->port());
  measure();
  return ok;
}

HttpServer::Work FleetNode::handle(const HttpRequest& request, HttpAnswer& answer) {
  answer.type = "application/json";
  if (request.path == "/healthz") {
    answer.body = "{\"status\":\"ok\"}";
    return std::nullopt;
  }
  if (request.path == "/readyz") {
    bool is_ready = lease_->may_serve() && !is_draining_;
    answer.status = is_ready ? 200 : 503;
    answer.body = fmt::format("{{\"status\":\"{}\"}}", name(lease_->state()));
    return std::nullopt;
  }
  if (!settings_.token.empty() &&
      !same_secret(bearer_token(request.header("authorization")), settings_.token)) {
    answer.status = 401;
    answer.body = error_json({Errc::denied, "show the token of the fleet"});
    return std::nullopt;
  }
  if (request.path == "/metrics") {
    answer.type = "text/plain; version=0.0.4; charset=utf-8";
    answer.body = metrics_.exposition() + repo_metrics();
    return std::nullopt;
  }
  if (is_about_hand_over(request.path)) return handle_hand_over(request, answer);
  if (request.path == "/v1/search") {
    if (request.method == "POST") return answer_search(request, answer);
    answer.status = 405;
    answer.add("Allow", "POST");
    answer.body = error_json({Errc::invalid, "use POST"});
    return std::nullopt;
  }
  if (request.path == "/v1/warming" && request.method == "GET") {
    answer.body = warming_json();
    return std::nullopt;
  }
  bool is_look = request.path == "/v1/file" || request.path == "/v1/skipped";
  if (is_look && request.method == "GET") return look_into(request, answer);
  if (request.path == "/v1/look" && request.method == "POST") {
    answer_look(request, answer);
    return std::nullopt;
  }
  answer.status = 404;
  answer.body = error_json({Errc::not_found, "there is no such route"});
  return std::nullopt;
}

// A router heard of a push: these rows may have new commits.
void FleetNode::answer_look(const HttpRequest& request, HttpAnswer& answer) {
  auto rows = parse_rows(request.body);
  if (!rows) return put_error(answer, rows.error());
  for (const auto& key : *rows)
    if (auto owned = owned_.find(key); owned != owned_.end()) wake(*owned->second);
  answer.body = "{}";
}

std::string FleetNode::warming_json() const {
  std::vector<Missing> all;
  auto now = Clock::now();
  for (const auto& [key, owned] : owned_) {
    if (owned->is_ready) continue;
    Missing one{.repo = owned->repo, .reason = "warming"};
    one.phase = name(owned->warming->phase());
    one.progress = owned->warming->progress();
    one.eta = owned->warming->eta(now);
    all.push_back(std::move(one));
  }
  return missing_json(all);
}

}  // namespace warren::fleet
