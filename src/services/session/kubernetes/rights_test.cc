// The roles of deploy/session against what the driver asks for.
#include "services/session/kubernetes/rights.h"

#include <doctest/doctest.h>

#include <fstream>
#include <iterator>

#include "base/yaml.h"

using namespace warren;
using namespace warren::session;

namespace {

Yaml role_in(const std::string& file) {
  std::ifstream in(std::string(WARREN_DEPLOY) + "/session/" + file);
  std::string text(std::istreambuf_iterator<char>(in), {});
  auto role = parse_yaml(text);
  REQUIRE(role);
  return *std::move(role);
}

bool has(const Yaml& rule, std::string_view member, std::string_view text) {
  const auto* list = rule.find(member);
  if (!list) return false;
  return std::ranges::any_of(list->items, [&](const Yaml& item) { return item.text == text; });
}

bool allows(const Yaml& role, const kube::AccessQuestion& question) {
  std::string resource(question.place.kind.plural);
  if (!question.place.subresource.empty()) resource += "/" + question.place.subresource;
  const auto* rules = role.find("rules");
  REQUIRE(rules);
  return std::ranges::any_of(rules->items, [&](const Yaml& rule) {
    return has(rule, "apiGroups", question.place.kind.group) && has(rule, "resources", resource) &&
           has(rule, "verbs", question.verb);
  });
}

}  // namespace

TEST_CASE(
    "the whole role has all rules, and OpenHands' own has those without which nothing works") {
  auto whole = role_in("role.yaml"), least = role_in("role-least.yaml");
  for (auto routing : {KubernetesTerms::Routing::ingress, KubernetesTerms::Routing::gateway}) {
    KubernetesTerms terms;
    terms.routing = routing;
    for (const auto& feature : features_of(terms))
      for (const auto& question : feature.needs) {
        INFO(question.verb << " " << kube::text_of(question.place));
        CHECK(allows(whole, question));
        bool is_least = !feature.flag || (feature.flag == &Rights::routes &&
                                          routing == KubernetesTerms::Routing::ingress);
        CHECK(allows(least, question) == is_least);
      }
  }
}

TEST_CASE("every feature says what is so without it, and none is asked for that is not wanted") {
  KubernetesTerms terms;
  terms.routing = KubernetesTerms::Routing::none;
  for (const auto& feature : features_of(terms)) {
    CHECK(!feature.needs.empty());
    CHECK(feature.otherwise.empty() == (feature.flag == nullptr));
    CHECK(feature.flag != &Rights::routes);
  }
}
