#pragma once
// Nodes as pods of a StatefulSet.
//
//   each look     GET  statefulsets/NAME/scale, from the server itself
//   more          PATCH statefulsets/NAME/scale, with the version that was read
//   fewer         the node of the highest pod drains; when it has no rows, the same PATCH
//
// The name of a node is that of its pod (--name $(POD_NAME)). Kubernetes ends a pod with SIGTERM, which
// drains too; but within a time that somebody else chose, and it takes no node back when more are
// wanted again.
#include "net/kube/client.h"
#include "services/fleet/autoscale/autoscaler.h"
#include "services/fleet/autoscale/drains.h"

namespace warren::fleet {

struct KubernetesTerms {
  std::string space, stateful_set;
  std::chrono::milliseconds drain_within = 60s;
};

class KubernetesDriver : public ScaleDriver {
 public:
  // Both outlive it.
  KubernetesDriver(kube::Client& client, Catalog& catalog, KubernetesTerms terms);

  // Errc::denied names the rules that a role lacks. Errc::not_found: there is no such StatefulSet.
  Async<> check(Clock::time_point deadline);
  // One step. Somebody else who scales it at the same time is no error: it is looked at again. Errors:
  // denied, not_found, refused (by a quota or an admission), unavailable; of the catalog.
  Async<> set(ScaleWish wish) override;

 private:
  Async<> scale(kube::Object read, std::size_t replicas, const ScaleWish& wish);

  kube::Client& client_;
  Drains drains_;
  KubernetesTerms terms_;
  kube::Place place_;
};

}  // namespace warren::fleet
