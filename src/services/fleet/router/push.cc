#include "services/fleet/router/push.h"

#include <algorithm>
#include <boost/json.hpp>

#include "base/hmac.h"
#include "net/http/admission.h"
#include "net/http/target.h"
#include "services/fleet/fetch/url.h"

namespace warren::fleet {

namespace {

namespace json = boost::json;

// What is compared is a name: a URL of a kind that nobody fetches from says it as well.
const UrlRules any_transport{.allows_http = true, .allows_git = true, .folders = {}};

void add_repo(std::vector<std::string>& repos, std::string name) {
  if (std::ranges::find(repos, name) == repos.end()) repos.push_back(std::move(name));
}

void add_url(std::vector<std::string>& repos, const json::value* url) {
  if (!url || !url->is_string()) return;
  auto remote = RemoteUrl::parse(std::string_view(url->get_string()), any_transport);
  if (remote) add_repo(repos, remote->url.repo_id());
}

const json::object* object_in(const json::object& parent, std::string_view name) {
  const auto* member = parent.if_contains(name);
  return member ? member->if_object() : nullptr;
}

// GitHub sends a form unless it is told to send JSON.
std::string json_of(const HttpRequest& request) {
  if (request.header("content-type").starts_with("application/x-www-form-urlencoded"))
    return query_value(request.body, "payload").value_or("");
  return std::string(request.body);
}

}  // namespace

bool is_signed(const HttpRequest& request, std::string_view secret) {
  if (secret.empty()) return false;
  constexpr std::string_view kind = "sha256=";
  for (const char* name : {"x-hub-signature-256", "x-hub-signature"}) {
    auto given = request.header(name);
    if (given.starts_with(kind))
      return same_secret(given.substr(kind.size()), hmac_sha256(secret, request.body));
  }
  if (auto given = request.header("x-gitea-signature"); !given.empty())
    return same_secret(given, hmac_sha256(secret, request.body));
  return same_secret(request.header("x-gitlab-token"), secret);
}

Result<std::vector<std::string>> pushed_repos(const HttpRequest& request) {
  boost::system::error_code error;
  auto value = json::parse(json_of(request), error);
  const auto* push = error ? nullptr : value.if_object();
  if (!push) return fail(Errc::invalid, "the body is not a JSON object");
  std::vector<std::string> repos;
  const auto* name = push->if_contains("repo");
  if (name && name->is_string()) add_repo(repos, std::string(name->get_string()));
  add_url(repos, push->if_contains("url"));
  for (const char* part : {"repository", "project"}) {
    const auto* repository = object_in(*push, part);
    if (!repository) continue;
    for (const char* url : {"clone_url", "ssh_url", "git_url", "html_url", "git_http_url",
                            "git_ssh_url", "http_url", "web_url", "url"})
      add_url(repos, repository->if_contains(url));
    const auto* links = object_in(*repository, "links");
    const auto* page = links ? object_in(*links, "html") : nullptr;
    if (page) add_url(repos, page->if_contains("href"));
  }
  if (repos.empty())
    return fail(
        Errc::invalid,
        "the body names no repository: say {{\"repo\": NAME}}, or send what GitHub, GitLab, "
        "Gitea or Bitbucket send");
  return repos;
}

}  // namespace warren::fleet
