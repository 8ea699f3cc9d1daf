#pragma once
// All that a cluster has of one session, and what follows from it. Opens no socket.
//
//      POST anchor ──▶ POST claim ──▶ POST pod ──▶ Ready        who creates the anchor has decided
//
//   pause: POST mark (turn + 1)                     then the anchor and the pod are removed
//   stop:  POST mark (turn + 1, generation + 1)     and with them the claim
//
// An anchor holds while no mark has a later turn than its own. So a mark ends an incarnation at one
// moment, and for ever: an anchor, a pod or a claim that somebody sent before and that arrives after it
// does not hold, whoever made it and however late, and is removed. A pod holds with its anchor alone: it
// names the anchor's UID, which nobody could know before the anchor was there.
//
//   anchor holds?   pod of it?    mark        claim        the session
//   yes             no            any         any          starting: its pod is to be made
//   yes             yes           any         any          as its pod is
//   no              -             paused      there        paused
//   no              -             none        there        paused: somebody removed its mark
//   no              -             stopped     any          there is none
//   no              foreign       any         any          as its pod is: OpenHands made it
#include <vector>

#include "net/kube/cache.h"
#include "services/session/kubernetes/objects.h"

namespace warren::session {

struct Scene {
  kube::ObjectRef anchor = {}, mark = {}, pod = {}, claim = {}, code = {};
  std::map<std::string, kube::ObjectRef> secrets = {};  // by name

  bool is_empty() const { return !anchor && !mark && !pod && !claim && !code && secrets.empty(); }
};

// The anchor holds: see above. Of an anchor of ours alone.
bool has_incarnation(const Scene& scene);
// The pod of that incarnation.
bool has_its_pod(const Scene& scene);
// The latest of each that anything here has.
std::uint64_t turn_of(const Scene& scene);
std::uint64_t generation_of(const Scene& scene);
// What the session was last started with, and what is to be handed on from one of its lives to the
// next. None: there is none.
struct Memory {
  SandboxSpec spec;
  Stamp stamp;
};
std::optional<Memory> memory_of(const Scene& scene, const KubernetesTerms& terms);
std::optional<Sandbox> sandbox_of(const Scene& scene, const KubernetesTerms& terms,
                                  WallClock::time_point now);

// What is to be done so that a cluster has what the session needs, and nothing else: whoever sees it
// may do it, after a look at the cluster itself.
struct Chore {
  enum class What {
    remove_anchor,
    remove_pod,
    remove_claim,
    remove_mark,
    remove_code,
    remove_secret,
    finish
  } what;
  std::string name = {}, uid = {};

  bool operator==(const Chore&) const = default;
};
std::vector<Chore> chores_of(const Scene& scene, const KubernetesTerms& terms,
                             WallClock::time_point now);

}  // namespace warren::session
