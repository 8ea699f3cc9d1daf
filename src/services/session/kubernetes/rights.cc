#include "services/session/kubernetes/rights.h"

namespace warren::session {

namespace {

std::vector<kube::AccessQuestion> questions(const std::string& space, kube::Kind kind,
                                            std::vector<std::string> verbs,
                                            std::string subresource = "") {
  std::vector<kube::AccessQuestion> all;
  for (auto& verb : verbs) all.push_back({std::move(verb), {kind, space, "", subresource}});
  return all;
}

}  // namespace

std::vector<Feature> features_of(const KubernetesTerms& terms) {
  const auto& space = terms.options.name_space;
  Feature all{nullptr, "sandboxes", "", {}};
  for (auto kind : {kube::kinds::pods, kube::kinds::services, kube::kinds::claims})
    for (auto& question : questions(space, kind, {"create", "get", "list", "watch", "delete"}))
      all.needs.push_back(std::move(question));
  std::vector<Feature> features{
      std::move(all),
      {&Rights::secrets, "keys in Secrets",
       "session keys and environments stand in pods, and a pod that was sent before a pause may "
       "run "
       "for a moment after it",
       questions(space, kube::kinds::secrets, {"create", "get", "list", "watch", "delete"})},
      {&Rights::touches, "idle times", "sandboxes that nobody uses are not paused",
       questions(space, kube::kinds::services, {"patch"})},
      {&Rights::logs, "logs", "failures are told without what a sandbox wrote last",
       questions(space, kube::kinds::pods, {"get"}, "log")},
      {&Rights::events, "events", "what keeps a pod from starting is told by its status alone",
       questions(space, kube::kinds::events, {"list"})}};
  if (terms.routing != KubernetesTerms::Routing::none) {
    bool is_ingress = terms.routing == KubernetesTerms::Routing::ingress;
    features.push_back({&Rights::routes, "routes", "VS Code is reached through the proxy only",
                        questions(space, is_ingress ? kube::kinds::ingresses : kinds::routes,
                                  {"create", "get", "delete"})});
  }
  return features;
}

}  // namespace warren::session
