#include "services/session/kubernetes/scene.h"

#include <algorithm>

#include "services/session/kubernetes/pod_state.h"

namespace warren::session {

namespace {

constexpr auto secret_age =
    60s;  // one that nothing names may be meant for what is about to be made

std::optional<Stamp> stamp_in(const kube::ObjectRef& object) {
  return object ? stamp_of(*object) : std::nullopt;
}

bool is_there(const kube::ObjectRef& object) { return object && !kube::is_leaving(*object); }

bool is_foreign(const kube::Object& pod) { return anchor_of(pod).empty(); }

Clock::duration age(const kube::Object& object, WallClock::time_point now) {
  auto made = made_at(object);
  return made ? std::chrono::duration_cast<Clock::duration>(now - *made) : Clock::duration::zero();
}

// With what its Secret adds.
std::optional<Memory> memory_in(const Scene& scene, const kube::ObjectRef& object) {
  auto stamp = stamp_in(object);
  if (!stamp) return std::nullopt;
  auto spec = spec_of(*object);
  auto secret = scene.secrets.find(stamp->secret);
  if (secret != scene.secrets.end())
    if (auto whole = spec_of_secret(*secret->second)) spec = std::move(whole);
  if (!spec) return std::nullopt;
  return Memory{*std::move(spec), *std::move(stamp)};
}

std::optional<Memory> memory_of_foreign(const Scene& scene, const KubernetesTerms& terms) {
  if (!scene.pod || !is_foreign(*scene.pod)) return std::nullopt;
  auto spec = spec_of_foreign_pod(*scene.pod, terms.options.name_space);
  if (!spec) return std::nullopt;
  Stamp stamp{.turn = turn_of(scene), .generation = generation_of(scene)};
  stamp.created_at = made_at(*scene.pod).value_or(WallClock::time_point());
  return Memory{*std::move(spec), std::move(stamp)};
}

Sandbox with_pod(Sandbox sandbox, const kube::Object& pod, const KubernetesTerms& terms,
                 WallClock::time_point now) {
  auto state = state_of_pod(pod, terms, now);
  sandbox.incarnation = kube::uid_of(pod);
  sandbox.phase = state.phase;
  sandbox.reason = std::move(state.reason);
  sandbox.exit_code = state.exit_code;
  sandbox.restarts += state.restarts;
  sandbox.endpoints = std::move(state.endpoints);
  sandbox.containers = std::move(state.containers);
  sandbox.started_at = state.started_at;
  return sandbox;
}

Sandbox sandbox_from(const Memory& memory) {
  return {.spec = memory.spec,
          .restarts = memory.stamp.restarts,
          .created_at = memory.stamp.created_at,
          .started_at = memory.stamp.created_at};
}

bool is_stopped(const Scene& scene) {
  auto mark = stamp_in(scene.mark);
  return mark && mark->is_stop;
}

}  // namespace

bool has_incarnation(const Scene& scene) {
  if (!is_there(scene.anchor)) return false;
  auto anchor = stamp_in(scene.anchor);
  auto mark = stamp_in(scene.mark);
  return anchor && (!mark || mark->turn <= anchor->turn);
}

bool has_its_pod(const Scene& scene) {
  return scene.pod && has_incarnation(scene) &&
         anchor_of(*scene.pod) == kube::uid_of(*scene.anchor);
}

std::uint64_t turn_of(const Scene& scene) {
  std::uint64_t turn = 0;
  for (const auto* object : {&scene.anchor, &scene.mark, &scene.claim})
    if (auto stamp = stamp_in(*object)) turn = std::max(turn, stamp->turn);
  return turn;
}

std::uint64_t generation_of(const Scene& scene) {
  std::uint64_t generation = 0;
  for (const auto* object : {&scene.anchor, &scene.mark, &scene.claim})
    if (auto stamp = stamp_in(*object)) generation = std::max(generation, stamp->generation);
  return generation;
}

std::optional<Memory> memory_of(const Scene& scene, const KubernetesTerms& terms) {
  if (has_incarnation(scene)) return memory_in(scene, scene.anchor);
  if (auto foreign = memory_of_foreign(scene, terms)) return foreign;
  if (is_stopped(scene)) return std::nullopt;
  if (auto paused = memory_in(scene, scene.mark)) return paused;
  return memory_in(scene, scene.claim);
}

std::optional<Sandbox> sandbox_of(const Scene& scene, const KubernetesTerms& terms,
                                  WallClock::time_point now) {
  auto memory = memory_of(scene, terms);
  if (!memory) return std::nullopt;
  auto sandbox = sandbox_from(*memory);
  if (has_incarnation(scene)) {
    if (has_its_pod(scene)) return with_pod(std::move(sandbox), *scene.pod, terms, now);
    sandbox.incarnation = kube::uid_of(*scene.anchor);
    sandbox.started_at = made_at(*scene.anchor).value_or(now);
    sandbox.reason = "its pod is being made";
    return sandbox;
  }
  if (scene.pod && is_foreign(*scene.pod))
    return with_pod(std::move(sandbox), *scene.pod, terms, now);
  auto mark = stamp_in(scene.mark);
  bool has_files = is_there(scene.claim) || (mark && mark->has_foreign_files);
  if (!has_files) return std::nullopt;
  sandbox.phase = scene.pod && kube::is_leaving(*scene.pod) ? Phase::ending : Phase::paused;
  const auto& since = scene.mark ? scene.mark : scene.claim;
  sandbox.incarnation = kube::uid_of(*since);
  sandbox.started_at = made_at(*since).value_or(now);
  sandbox.reason = "it was paused";
  return sandbox;
}

std::vector<Chore> chores_of(const Scene& scene, const KubernetesTerms& terms,
                             WallClock::time_point now) {
  using What = Chore::What;
  std::vector<Chore> chores;
  auto add = [&](What what, const kube::Object& object) {
    chores.push_back({what, std::string(kube::name_of(object)), std::string(kube::uid_of(object))});
  };
  bool lives = has_incarnation(scene);
  auto is_of_other = [&](const kube::Object& object) {
    auto owner = anchor_of(object);
    return !owner.empty() && !(lives && owner == kube::uid_of(*scene.anchor));
  };
  if (is_there(scene.anchor) && stamp_in(scene.anchor) && !lives)
    add(What::remove_anchor, *scene.anchor);
  if (is_there(scene.pod) && is_of_other(*scene.pod)) add(What::remove_pod, *scene.pod);
  if (is_there(scene.code) && is_of_other(*scene.code)) add(What::remove_code, *scene.code);
  auto mark = stamp_in(scene.mark);
  auto claim = stamp_in(scene.claim);
  bool is_over = mark && mark->is_stop && claim && claim->generation < mark->generation;
  if (is_there(scene.claim) && is_over) add(What::remove_claim, *scene.claim);
  bool is_old = mark && is_there(scene.mark) && age(*scene.mark, now) >= terms.keep_marks;
  // A claim that was made for a start which came to nothing would look like a paused session, once the
  // mark has gone.
  bool is_left = is_old && mark->is_stop && claim && !lives && !scene.pod;
  if (is_there(scene.claim) && is_left && !is_over) add(What::remove_claim, *scene.claim);
  bool has_files = lives || scene.claim || scene.pod || (mark && mark->has_foreign_files);
  bool is_needless = mark && (mark->is_stop ? lives || !scene.claim : !has_files);
  if (is_old && is_needless) add(What::remove_mark, *scene.mark);
  if (lives && !scene.pod && age(*scene.anchor, now) >= terms.finish_after)
    add(What::finish, *scene.anchor);
  for (const auto& [name, secret] : scene.secrets) {
    bool is_named =
        (lives && stamp_in(scene.anchor)->secret == name) || (mark && mark->secret == name);
    auto theirs = stamp_in(secret);
    // A pod of an incarnation that was ended must not find it.
    bool has_ended = mark && theirs && theirs->turn < mark->turn;
    bool is_useless = !is_named && (has_ended || age(*secret, now) >= secret_age);
    if (is_there(secret) && is_useless) add(What::remove_secret, *secret);
  }
  return chores;
}

}  // namespace warren::session
