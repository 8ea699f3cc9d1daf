#include "services/fleet/router/push.h"

#include <doctest/doctest.h>

#include "base/hmac.h"

using namespace warren;
using namespace warren::fleet;

namespace {

HttpRequest request(std::string_view body, HttpHeader header = {}, HttpHeader other = {}) {
  HttpRequest made{.method = "POST", .path = "/hooks/push", .query = {}, .body = body};
  made.headers[0] = header;
  made.headers[1] = other;
  made.header_count = 2;
  return made;
}

}  // namespace

TEST_CASE("a hook is taken from whoever knows the secret, in the way of each git host") {
  CHECK(hmac_sha256("Jefe", "what do ya want for nothing?") ==
        "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
  std::string body = "{}", mac = hmac_sha256("secret", body), named = "sha256=" + mac;
  CHECK(is_signed(request(body, {"X-Hub-Signature-256", named}), "secret"));
  CHECK(is_signed(request(body, {"X-Hub-Signature", named}), "secret"));
  CHECK(is_signed(request(body, {"X-Gitea-Signature", mac}), "secret"));
  CHECK(is_signed(request(body, {"X-Gitlab-Token", "secret"}), "secret"));

  CHECK_FALSE(is_signed(request(body), "secret"));
  CHECK_FALSE(is_signed(request("{ }", {"X-Hub-Signature-256", named}), "secret"));
  CHECK_FALSE(is_signed(request(body, {"X-Hub-Signature-256", named}), "another"));
  CHECK_FALSE(is_signed(request(body, {"X-Hub-Signature-256", mac}), "secret"));
  CHECK_FALSE(is_signed(request(body, {"X-Hub-Signature-256", "sha256="}), "secret"));
  CHECK_FALSE(is_signed(request(body, {"X-Hub-Signature", "sha1=" + mac}), "secret"));
  CHECK_FALSE(is_signed(request(body, {"X-Gitlab-Token", "Secret"}), "secret"));
  // A wrong signature is not made good by another header.
  CHECK_FALSE(is_signed(
      request(body, {"X-Hub-Signature-256", "sha256=00"}, {"X-Gitea-Signature", mac}), "secret"));
  // No secret is no key that everybody has.
  auto of_nothing = hmac_sha256("", body);
  CHECK_FALSE(is_signed(request(body, {"X-Gitea-Signature", of_nothing}), ""));
  CHECK_FALSE(is_signed(request(body, {"X-Gitlab-Token", ""}), ""));
}

TEST_CASE("the repository of a push is found by any URL that its host has for it") {
  auto name = [](std::string_view body) {
    auto repos = pushed_repos(request(body, {"Content-Type", "application/json"}));
    REQUIRE_MESSAGE(repos, body);
    return repos->front();
  };
  CHECK(name(R"({"repository":{"clone_url":"https://github.com/o/n.git"}})") == "github.com/o/n");
  CHECK(name(R"({"repository":{"ssh_url":"git@github.com:o/n.git"}})") == "github.com/o/n");
  CHECK(name(R"({"project":{"git_http_url":"http://git.example/g/s/n.git"}})") ==
        "git.example/g/s/n");
  CHECK(name(R"({"repository":{"links":{"html":{"href":"https://bitbucket.org/o/n"}}}})") ==
        "bitbucket.org/o/n");
  CHECK(name(R"({"url":"ssh://git@host:2222/o/n"})") == "host:2222/o/n");
  CHECK(name(R"({"repo":"any name"})") == "any name");

  auto form = pushed_repos(request("payload=%7B%22repo%22%3A%22o%2Fn%22%7D",
                                   {"Content-Type", "application/x-www-form-urlencoded"}));
  REQUIRE(form);
  CHECK(form->front() == "o/n");
}

TEST_CASE("a body that names no repository is refused, whatever it is") {
  for (std::string_view body :
       {"", "[]", "1", "{", "{}", R"({"repository":[]})", R"({"repository":{"clone_url":7}})",
        R"({"repo":7})", R"({"url":"file:///etc"})", R"({"url":"ext::sh -c id"})"}) {
    auto repos = pushed_repos(request(body));
    CAPTURE(body);
    REQUIRE(!repos);
    CHECK(repos.error().code == Errc::invalid);
  }
  CHECK(!pushed_repos(request(std::string(100'000, '['))));
}
