#pragma once
// What a role lets us do, found out at the start. Opens no socket.
//
// With what OpenHands' own role has (pods, services, claims and ingresses: create, get, list, watch,
// delete) everything works but what is named below; each of those is off where a verb is missing.
#include <string>
#include <vector>

#include "net/kube/client.h"
#include "services/session/kubernetes/objects.h"

namespace warren::session {

namespace kinds {
inline constexpr kube::Kind routes{"gateway.networking.k8s.io", "v1", "httproutes"};
}

struct Rights {
  bool secrets = false;  // keys and environments stand in Secrets; a late pod never starts
  bool touches = false;  // use is written down, so that sandboxes that nobody uses can be paused
  bool logs = false;     // the end of what a sandbox wrote is told with its failure
  bool events = false;   // so are the events of a pod that does not start
  bool routes = false;   // VS Code has an ingress, or a route
};

// A part of what we do, and the rules that it needs.
struct Feature {
  bool Rights::* flag;  // null: without it nothing works
  std::string_view name, otherwise;
  std::vector<kube::AccessQuestion> needs;
};
std::vector<Feature> features_of(const KubernetesTerms& terms);

}  // namespace warren::session
