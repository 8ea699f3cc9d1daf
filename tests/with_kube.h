#pragma once
// One API server for all cases of a program, since it takes seconds to start; each case has a
// namespace of its own.
#include "net/kube/client.h"
#include "proof/testkit/run.h"
#include "proof/testkit/servers/kube_server.h"

namespace warren::kube {

inline KubeServer& server() {
  static KubeServer one;
  return one;
}

inline Access access_by(const std::string& kubeconfig) {
  auto access = parse_kubeconfig(kubeconfig, "/");
  REQUIRE_MESSAGE(access, access.error().what);
  return *std::move(access);
}
inline Access access_of(const std::string& user, unsigned short port = 0) {
  return access_by(server().kubeconfig(user, port));
}

inline Object object(std::string_view text) {
  auto parsed = parse_object(text);
  REQUIRE_MESSAGE(parsed, parsed.error().what);
  return *std::move(parsed);
}

inline Clock::time_point soon() { return Clock::now() + 60s; }

template <class T>
T good(Answer<T> answer) {
  REQUIRE_MESSAGE(answer, (answer ? "" : answer.error().what));
  return *std::move(answer);
}

// Makes it, and gives its name.
inline awaitable<std::string> new_space(Client& admin) {
  static int count = 0;
  auto name = fmt::format("case-{}", ++count);
  Place place{kinds::namespaces};
  auto space = object(
      fmt::format(R"({{"apiVersion":"v1","kind":"Namespace","metadata":{{"name":"{}"}}}})", name));
  auto made = co_await admin.create(std::move(place), std::move(space), soon());
  good(std::move(made));
  co_return name;
}

inline Object config_map(std::string_view name, std::string_view value = "one") {
  return object(fmt::format(
      R"({{"apiVersion":"v1","kind":"ConfigMap","metadata":{{"name":"{}","labels":{{"app":"test"}}}},
          "data":{{"key":"{}"}}}})",
      name, value));
}

inline Object stateful_set(std::string_view name, int replicas) {
  return object(fmt::format(
      R"({{"apiVersion":"apps/v1","kind":"StatefulSet","metadata":{{"name":"{0}"}},
          "spec":{{"replicas":{1},"serviceName":"{0}","selector":{{"matchLabels":{{"app":"{0}"}}}},
          "template":{{"metadata":{{"labels":{{"app":"{0}"}}}},
          "spec":{{"containers":[{{"name":"node","image":"warren"}}]}}}}}}}})",
      name, replicas));
}

// Whether the first of these rules holds for a user by now: the server hears of roles a moment later.
inline awaitable<bool> is_allowed(Client& admin, std::string& space, std::string& user,
                                  json::value& rules) {
  constexpr Kind reviews{"authorization.k8s.io", "v1", "subjectaccessreviews", false};
  const auto& rule = rules.at(0);
  std::string resource(rule.at("resources").at(0).as_string());
  auto slash = std::min(resource.size(), resource.find('/'));
  json::object what{{"namespace", space},
                    {"verb", rule.at("verbs").at(0)},
                    {"group", rule.at("apiGroups").at(0)},
                    {"resource", resource.substr(0, slash)}};
  if (slash < resource.size()) what["subresource"] = resource.substr(slash + 1);
  Object review =
      json::object{{"apiVersion", "authorization.k8s.io/v1"},
                   {"kind", "SubjectAccessReview"},
                   {"spec", json::object{{"user", user}, {"resourceAttributes", what}}}};
  Place place{reviews};
  auto answered = co_await admin.create(std::move(place), std::move(review), soon());
  co_return flag_at(good(std::move(answered)), "/status/allowed");
}

// Lets a user do these in a namespace.
inline awaitable<void> allow(Client& admin, std::string space, std::string user,
                             std::string rules) {
  constexpr Kind roles{"rbac.authorization.k8s.io", "v1", "roles"},
      bindings{"rbac.authorization.k8s.io", "v1", "rolebindings"};
  Place place{roles, space};
  auto role = object(fmt::format(
      R"({{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"Role","metadata":{{"name":"{}"}},
          "rules":{}}})",
      user, rules));
  auto made = co_await admin.create(std::move(place), std::move(role), soon());
  good(std::move(made));
  Place to{bindings, space};
  auto binding = object(fmt::format(
      R"({{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"RoleBinding",
          "metadata":{{"name":"{0}"}},"subjects":[{{"kind":"User","name":"{0}",
          "apiGroup":"rbac.authorization.k8s.io"}}],
          "roleRef":{{"kind":"Role","name":"{0}","apiGroup":"rbac.authorization.k8s.io"}}}})",
      user));
  auto bound = co_await admin.create(std::move(to), std::move(binding), soon());
  good(std::move(bound));
  auto parsed = json::parse(rules);
  co_await eventually(30s, "the role holds", is_allowed, admin, space, user, parsed);
}

}  // namespace warren::kube
