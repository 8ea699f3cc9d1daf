#pragma once
// The objects of a session in a cluster, as JSON. Opens no socket.
//
//   openhands-runtime-7-svc         the anchor: one for each incarnation, and whoever creates it has
//                                   decided that there is one. Owns what follows but the claim
//   openhands-runtime-7             the pod
//   openhands-runtime-7-<token>     a Secret with what the sandbox is to know, where we may make one; its
//                                   anchor names it
//   openhands-runtime-7-svc-code    VS Code, and the ingress or route to it: -ingress-code
//   openhands-runtime-7-pvc         the claim: the files, from the first start to the stop
//   openhands-runtime-7-mark        what the last incarnation ended with: a pause or a stop
//
// The anchor and the mark are Services, because the least role may make those; the mark is one
// without addresses. What has to be known of a sandbox stands in the annotations of either.
#include <optional>
#include <string>

#include "net/kube/object.h"
#include "services/session/drivers/driver.h"
#include "services/session/kubernetes/options.h"

namespace warren::session {

namespace json = boost::json;

inline constexpr std::string_view app_label = "openhands-runtime";

struct KubernetesTerms {
  KubernetesOptions options = {};
  std::string image = {};                 // of a request that names none
  std::string workspace = "/workspace";   // where the claim is
  std::vector<std::string> command = {};  // in place of each request's (CUSTOM_RUNTIME_COMMAND)
  json::value pod_template = {};          // laid over each pod; null: none
  enum class Routing { none, ingress, gateway } routing = Routing::ingress;
  std::string ingress_class = {};
  std::string gateway_space = {}, gateway = {};
  std::chrono::seconds grace = 10s;
  std::chrono::seconds ready_time = 300s;
  std::chrono::milliseconds touch_every = 30s;     // written down, at most so often
  std::chrono::milliseconds finish_after = 3s;     // what its creator has left half made
  std::chrono::milliseconds keep_marks = 1h;       // of sessions that were stopped
  std::chrono::milliseconds config_time = 10s;     // in which what a container needs has to appear
  std::chrono::milliseconds schedule_time = 120s;  // in which a node has to be found
};

// What stands on an anchor or a mark. Numbers only grow: `turn` with each end of an incarnation,
// `generation` with each stop.
struct Stamp {
  std::uint64_t turn = 0, generation = 0;
  int restarts = 0;
  WallClock::time_point created_at = {};
  std::string token = {};   // of the incarnation: its pod shows it, and its Services look for it
  std::string secret = {};  // its name; empty: all is in the annotations
  bool is_stop = false;     // of a mark
  bool has_foreign_files = false;  // of a mark: the claim is not one of ours

  bool operator==(const Stamp&) const = default;
};
// None: it is not ours.
std::optional<Stamp> stamp_of(const kube::Object& object);
// What was asked for, as far as it stands there: without environment and key where there is a Secret.
// None: it cannot be read.
std::optional<SandboxSpec> spec_of(const kube::Object& object);
// All of it, as the Secret has it.
std::optional<SandboxSpec> spec_of_secret(const kube::Object& secret);
std::optional<WallClock::time_point> active_at(const kube::Object& object);
std::optional<WallClock::time_point> parse_time(std::string_view text);  // RFC 3339
inline std::optional<WallClock::time_point> made_at(const kube::Object& object) {
  return parse_time(kube::text_at(object, "/metadata/creationTimestamp"));
}
std::string_view annotation_of(const kube::Object& object, std::string_view name);
std::string_view label_of(const kube::Object& object, std::string_view name);
// The UID of the anchor that a pod, a Service or a Secret belongs to; empty: of none of ours.
std::string_view anchor_of(const kube::Object& object);

std::string anchor_name(const std::string& name);
std::string code_name(const std::string& name);
std::string claim_name(const std::string& name);
std::string mark_name(const std::string& name);
std::string ingress_name(const std::string& name);
std::string secret_name(const std::string& name, std::string_view token);
// Of the pod that an object of such a kind and name belongs to; empty: of none.
std::string pod_of_service(std::string_view service);
std::string pod_of_claim(std::string_view claim);
std::string session_label(const SandboxSpec& spec);

kube::Object anchor_object(const SandboxSpec& spec, const Stamp& stamp);
kube::Object mark_object(const SandboxSpec& spec, const Stamp& stamp);
kube::Object claim_object(const SandboxSpec& spec, const Stamp& stamp,
                          const KubernetesTerms& terms);
// For the anchor or the mark with this stamp, which names it: it is made before that.
kube::Object secret_object(const SandboxSpec& spec, const Stamp& stamp);
// Errc::invalid: a quantity that cannot be multiplied, or a template that is no object.
Result<kube::Object> pod_object(const SandboxSpec& spec, const kube::Object& anchor,
                                const KubernetesTerms& terms);
kube::Object code_object(const SandboxSpec& spec, const kube::Object& anchor);
kube::Object ingress_object(const SandboxSpec& spec, const kube::Object& anchor,
                            const KubernetesTerms& terms);
kube::Object route_object(const SandboxSpec& spec, const kube::Object& anchor,
                          const KubernetesTerms& terms);

// Lays one over the other: members are merged, null removes one, and of lists whose items have names
// (containers, env, volumes; mounts by their path, ports by their number) items of one name are merged.
void lay_over(json::value& base, const json::value& over);

}  // namespace warren::session
