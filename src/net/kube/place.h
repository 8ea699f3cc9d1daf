#pragma once
// Where an object is: its kind, namespace and name, as the path of a request.
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"

namespace warren::kube {

struct Kind {
  std::string_view group;  // empty for the core group
  std::string_view version;
  std::string_view plural;
  bool is_namespaced = true;
};

namespace kinds {
inline constexpr Kind pods{"", "v1", "pods"};
inline constexpr Kind services{"", "v1", "services"};
inline constexpr Kind claims{"", "v1", "persistentvolumeclaims"};
inline constexpr Kind secrets{"", "v1", "secrets"};
inline constexpr Kind config_maps{"", "v1", "configmaps"};
inline constexpr Kind events{"", "v1", "events"};
inline constexpr Kind namespaces{"", "v1", "namespaces", false};
inline constexpr Kind stateful_sets{"apps", "v1", "statefulsets"};
inline constexpr Kind ingresses{"networking.k8s.io", "v1", "ingresses"};
inline constexpr Kind leases{"coordination.k8s.io", "v1", "leases"};
inline constexpr Kind access_reviews{"authorization.k8s.io", "v1", "selfsubjectaccessreviews",
                                     false};
}  // namespace kinds

struct Place {
  Kind kind;
  std::string space = {};        // the namespace; empty for all of them
  std::string name = {};         // empty for all
  std::string subresource = {};  // scale, status, log, …
};

using QueryWords = std::vector<std::pair<std::string_view, std::string>>;

// Errc::invalid: a name that would lead the path elsewhere. Words without a value are left out.
Result<std::string> target_of(const Place& place, const QueryWords& query = {});
std::string text_of(const Place& place);  // for people: statefulsets/fleet in search

}  // namespace warren::kube
