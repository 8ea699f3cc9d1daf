#pragma once
// How a pod is, for whoever waits for it: from what Kubernetes says of it, and of nothing else.
#include <map>

#include "net/kube/object.h"
#include "services/session/kubernetes/objects.h"

namespace warren::session {

struct PodState {
  Phase phase = Phase::starting;
  std::string reason = {};  // why it ended, or what it waits for
  std::optional<int> exit_code = {};
  int restarts = 0;
  WallClock::time_point started_at = {};
  std::map<Door, Endpoint> endpoints = {};
  std::vector<ContainerState> containers = {};  // those of its initialisation first
};

// A pod that can never start has ended, though Kubernetes goes on trying: an image that there is not,
// a Secret that is missing for longer than it takes to appear, no node for longer than the terms say.
PodState state_of_pod(const kube::Object& pod, const KubernetesTerms& terms,
                      WallClock::time_point now);

// An object of the kind Event.
SandboxEvent event_of(const kube::Object& event);

// What stands in a pod that OpenHands itself has made: it becomes a sandbox like others. Of its hash
// nothing is known. None: it is of no session.
std::optional<SandboxSpec> spec_of_foreign_pod(const kube::Object& pod,
                                               std::string_view name_space);

}  // namespace warren::session
