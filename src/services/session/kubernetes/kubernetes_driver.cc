#include "services/session/kubernetes/kubernetes_driver.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>

#include "base/log.h"
#include "base/uuid.h"
#include "net/kube/access.h"
#include "services/session/kubernetes/pod_state.h"
#include "services/session/names.h"

namespace warren::session {

namespace {

using kube::Object;
using kube::ObjectRef;
using kube::Reason;
using Routing = KubernetesTerms::Routing;

constexpr auto look_again = 200ms;
constexpr auto tidy_every = 1s;
constexpr auto tidy_time = 60s;
constexpr auto call_time = 20s;
constexpr auto late_grace = 1s;   // of a pod that nobody waits for
constexpr auto stray_grace = 5s;  // of one that runs
constexpr std::size_t most_in_work = 16;
constexpr std::size_t log_lines = 200;
constexpr std::size_t most_events = 10;
constexpr std::string_view pod_prefix = "openhands-runtime-";

std::string selection_of_all() { return fmt::format("app={}", app_label); }

std::string label_for(std::string_view name) {
  return std::string(name.starts_with(pod_prefix) ? name.substr(pod_prefix.size()) : name);
}

// The pod, existing or not, that something with our labels is about.
std::string pod_name_of(const Object& object) {
  auto label = label_of(object, "session");
  return label.empty() ? "" : std::string(pod_prefix).append(label);
}

bool stays(const Error& error) {
  return error.code == Errc::invalid || error.code == Errc::denied || error.code == Errc::refused;
}

std::string end_of(std::string text, std::size_t bytes) {
  return text.size() <= bytes ? text : text.substr(text.size() - bytes);
}

kube::Kind route_kind(const KubernetesTerms& terms) {
  return terms.routing == Routing::gateway ? kinds::routes : kube::kinds::ingresses;
}

bool is_foreign_pod(const ObjectRef& pod) { return pod && anchor_of(*pod).empty(); }

// What was sent, as the server has it: then an answer that was lost says nothing else.
bool is_same_sending(const Object& sent, const Object& there) {
  auto token = annotation_of(sent, "token");
  if (!token.empty()) return token == annotation_of(there, "token");
  return !anchor_of(sent).empty() && anchor_of(sent) == anchor_of(there);
}

}  // namespace

// ---- Beginning.

Async<std::unique_ptr<KubernetesDriver>> KubernetesDriver::open(asio::any_io_executor executor,
                                                                kube::Access access,
                                                                KubernetesTerms terms,
                                                                Clock::time_point deadline) {
  std::unique_ptr<KubernetesDriver> driver(
      new KubernetesDriver(executor, std::move(access), std::move(terms)));
  auto found = co_await driver->find_rights(deadline);
  if (!found) co_return std::unexpected(found.error());
  co_return std::move(driver);
}

KubernetesDriver::KubernetesDriver(const asio::any_io_executor& executor, kube::Access access,
                                   KubernetesTerms terms)
    : executor_(executor),
      terms_(std::move(terms)),
      client_(executor, std::move(access), {.per_second = 200, .burst = 400}),
      pods_(client_, place(kube::kinds::pods), {.labels = selection_of_all()}),
      services_(client_, place(kube::kinds::services), {.labels = selection_of_all()}),
      claims_(client_, place(kube::kinds::claims), {.labels = selection_of_all()}),
      secrets_(client_, place(kube::kinds::secrets), {.labels = selection_of_all()}),
      changed_(executor) {
  follow(pods_, Slot::pod);
  follow(services_, Slot::service);
  follow(claims_, Slot::claim);
  follow(secrets_, Slot::secret);
}

Async<> KubernetesDriver::find_rights(Clock::time_point deadline) {
  for (auto& feature : features_of(terms_)) {
    auto needs = std::move(feature.needs);
    auto missing = co_await kube::missing_rights(client_, std::move(needs), deadline);
    if (!missing) co_return std::unexpected(missing.error());
    if (missing->empty()) {
      if (feature.flag) rights_.*feature.flag = true;
      continue;
    }
    auto rules = fmt::format("{}", fmt::join(*missing, "; "));
    if (!feature.flag)
      co_return fail(Errc::denied, "we may not: {}: docs/session.md has the role that is needed",
                     rules);
    log::warn("session.right_missing", "for", feature.name, "rules", rules, "so",
              feature.otherwise);
  }
  co_return ok;
}

// ---- What is heard.

KubernetesDriver::Slot KubernetesDriver::slot_of(const kube::Kind& kind) {
  if (kind.plural == kube::kinds::pods.plural) return Slot::pod;
  if (kind.plural == kube::kinds::claims.plural) return Slot::claim;
  if (kind.plural == kube::kinds::secrets.plural) return Slot::secret;
  return Slot::service;
}

void KubernetesDriver::follow(kube::Watcher& watcher, Slot slot) {
  watcher.on_difference([this, slot](const kube::Difference& difference) {
    if (difference.after)
      put(difference.after, slot);
    else
      forget(*difference.before);
  });
}

void KubernetesDriver::put(const ObjectRef& object, Slot slot) {
  auto name = pod_name_of(*object);
  if (name.empty()) return;
  auto own = kube::name_of(*object);
  auto& scene = scenes_[name];
  ObjectRef* into = nullptr;
  switch (slot) {
    case Slot::pod:
      if (own == name) into = &scene.pod;
      break;
    case Slot::claim:
      if (own == claim_name(name)) into = &scene.claim;
      break;
    case Slot::secret:
      into = &scene.secrets[std::string(own)];
      break;
    case Slot::service:
      into = own == anchor_name(name) ? &scene.anchor
             : own == mark_name(name) ? &scene.mark
             : own == code_name(name) ? &scene.code
                                      : nullptr;
      break;
  }
  if (into) {
    // What is told of the one before may come after we have made the next.
    bool is_older = *into && kube::uid_of(**into) != kube::uid_of(*object) &&
                    made_at(*object) < made_at(**into);
    if (!is_older) *into = object;
  }
  note(name);
}

void KubernetesDriver::forget(const Object& object) {
  auto name = pod_name_of(object);
  auto found = scenes_.find(name);
  if (found == scenes_.end()) return;
  auto& scene = found->second;
  auto uid = kube::uid_of(object);
  for (auto* slot : {&scene.anchor, &scene.mark, &scene.pod, &scene.claim, &scene.code})
    if (*slot && kube::uid_of(**slot) == uid) slot->reset();
  std::erase_if(scene.secrets,
                [&](const auto& one) { return !one.second || kube::uid_of(*one.second) == uid; });
  note(name);
}

void KubernetesDriver::note(const std::string& name) {
  auto found = scenes_.find(name);
  if (found == scenes_.end()) return;
  auto now = WallClock::now();
  auto sandbox = sandbox_of(found->second, terms_, now);
  if (sandbox)
    seen_.insert_or_assign(name, *std::move(sandbox));
  else
    seen_.erase(name);
  if (!chores_of(found->second, terms_, now).empty()) untidy_.insert(name);
  if (found->second.is_empty()) {
    touched_.erase(name);
    scenes_.erase(found);
  }
  ++changes_;
  changed_.notify();
}

const Sandbox* KubernetesDriver::seen(const std::string& name) const {
  auto found = seen_.find(name);
  return found == seen_.end() ? nullptr : &found->second;
}

std::vector<const Sandbox*> KubernetesDriver::all_seen() const {
  std::vector<const Sandbox*> all;
  for (const auto& [name, sandbox] : seen_) all.push_back(&sandbox);
  return all;
}

awaitable<void> KubernetesDriver::changed(std::uint64_t since, Clock::time_point deadline) {
  while (changes_ == since && Clock::now() < deadline) {
    co_await changed_.wait(deadline);
    auto state = co_await asio::this_coro::cancellation_state;
    if (is_cancelled(state)) co_return;
  }
}

Result<> KubernetesDriver::confirm(const std::string& name, const std::string& incarnation,
                                   const Endpoint& at) {
  const auto* sandbox = seen(name);
  bool is_there = sandbox && sandbox->incarnation == incarnation && sandbox->lives();
  auto has_it = [&at](const auto& one) { return one.second == at; };
  if (is_there && std::ranges::any_of(sandbox->endpoints, has_it)) return ok;
  return fail(Errc::unavailable, "{} is not what it was", name);
}

awaitable<void> KubernetesDriver::run() {
  auto body = [](TaskGroup& tasks, KubernetesDriver& self) -> awaitable<Result<>> {
    self.tasks_ = &tasks;
    tasks.start("session.pods", self.pods_.run());
    tasks.start("session.services", self.services_.run());
    tasks.start("session.claims", self.claims_.run());
    if (self.rights_.secrets) tasks.start("session.secrets", self.secrets_.run());
    co_await self.settle();
    co_await self.tidy();
    co_return ok;
  };
  struct AtEnd {
    KubernetesDriver& self;
    ~AtEnd() { self.tasks_ = nullptr; }
  } at_end{*this};
  std::ignore = co_await with_group(body, *this);
}

awaitable<void> KubernetesDriver::settle() {
  auto is_complete = [](const KubernetesDriver& self) {
    return self.pods_.is_synced() && self.services_.is_synced() && self.claims_.is_synced() &&
           (!self.rights_.secrets || self.secrets_.is_synced());
  };
  while (!is_complete(*this)) co_await sleep_for(20ms);
  is_settled_ = true;
  ++changes_;
  changed_.notify();
}

// ---- What nobody asked for.

awaitable<void> KubernetesDriver::tidy() {
  auto all_at = Clock::now();
  for (;;) {
    if (Clock::now() >= all_at) {
      all_at = Clock::now() + tidy_every;
      auto now = WallClock::now();
      std::vector<std::string> waiting;
      for (const auto& [name, scene] : scenes_) {
        if (!chores_of(scene, terms_, now).empty()) untidy_.insert(name);
        // What it waits for may be in vain by now.
        auto sandbox = seen_.find(name);
        if (sandbox != seen_.end() && sandbox->second.phase == Phase::starting)
          waiting.push_back(name);
      }
      for (const auto& name : waiting) note(name);
    }
    auto names = std::exchange(untidy_, {});
    for (const auto& name : names) {
      if (in_work_.contains(name) || in_work_.size() >= most_in_work) {
        continue;  // it comes again with the next look at all
      }
      in_work_.insert(name);
      tasks_->start("session.tidy", tidy_one(name));
    }
    co_await changed_.wait(all_at);
    auto state = co_await asio::this_coro::cancellation_state;
    if (is_cancelled(state)) co_return;
  }
}

awaitable<void> KubernetesDriver::tidy_one(std::string name) {
  struct AtEnd {
    std::set<std::string>& in_work;
    const std::string& which;
    ~AtEnd() { in_work.erase(which); }
  } at_end{in_work_, name};
  auto found = scenes_.find(name);
  if (found == scenes_.end() || chores_of(found->second, terms_, WallClock::now()).empty())
    co_return;
  auto scene = co_await read(name, Clock::now() + call_time);
  if (!scene) {
    log::warn("session.tidy_failed", "pod", name, "why", scene.error().what);
    co_return;
  }
  auto chores = chores_of(*scene, terms_, WallClock::now());
  for (auto& chore : chores) {
    auto done = co_await carry_out(chore, name, *scene);
    if (!done) log::warn("session.tidy_failed", "pod", name, "why", done.error().what);
  }
}

Async<> KubernetesDriver::carry_out(Chore chore, std::string name, Scene scene) {
  using What = Chore::What;
  auto deadline = Clock::now() + tidy_time;
  switch (chore.what) {
    case What::finish:
      log::info("session.finishing", "pod", name);
      co_return co_await finish_for(std::move(scene), deadline);
    case What::remove_anchor:
      log::info("session.anchor_swept", "pod", name, "uid", chore.uid);
      co_return co_await remove(kube::kinds::services, *scene.anchor, deadline);
    case What::remove_pod: {
      log::warn("session.pod_swept", "pod", name, "uid", chore.uid);
      bool runs = kube::text_at(*scene.pod, "/status/phase") == "Running";
      std::optional<std::chrono::seconds> grace = runs ? stray_grace : late_grace;
      co_return co_await remove(kube::kinds::pods, *scene.pod, deadline, grace);
    }
    case What::remove_claim:
      log::info("session.claim_swept", "pod", name, "uid", chore.uid);
      co_return co_await remove(kube::kinds::claims, *scene.claim, deadline);
    case What::remove_mark:
      co_return co_await remove(kube::kinds::services, *scene.mark, deadline);
    case What::remove_code:
      co_return co_await remove(kube::kinds::services, *scene.code, deadline);
    case What::remove_secret:
      co_return co_await remove(kube::kinds::secrets, *scene.secrets.at(chore.name), deadline);
  }
  std::abort();
}

// For a creator that has died, or could not.
Async<> KubernetesDriver::finish_for(Scene scene, Clock::time_point deadline) {
  auto memory = memory_of(scene, terms_);
  if (!memory || !scene.anchor) co_return ok;
  auto name = memory->spec.name;
  const auto& secret = memory->stamp.secret;
  if (!secret.empty() && !scene.secrets.contains(secret)) {
    log::warn("session.incarnation_lost", "pod", name, "why", "somebody removed its Secret");
    co_return co_await undo(name, scene.anchor, deadline);
  }
  auto finished = co_await finish(scene.anchor, memory->spec, deadline);
  if (!finished && stays(finished.error())) {
    log::warn("session.incarnation_lost", "pod", name, "why", finished.error().what);
    auto undone = co_await undo(name, scene.anchor, deadline);
    if (!undone) co_return undone;
  }
  co_return finished;
}

// ---- What is asked.

kube::Place KubernetesDriver::place(const kube::Kind& kind, std::string name) const {
  return {kind, terms_.options.name_space, std::move(name)};
}

Async<ObjectRef> KubernetesDriver::find(kube::Kind kind, std::string name,
                                        Clock::time_point deadline) {
  auto where = place(kind, std::move(name));
  auto read = co_await client_.get(std::move(where), deadline);
  if (!read && read.error().reason == Reason::not_found) co_return ObjectRef();
  if (!read) co_return std::unexpected(read.error());
  co_return std::make_shared<const Object>(*std::move(read));
}

// The Services in one list: of the anchor and the mark no earlier one is taken for current.
Async<Scene> KubernetesDriver::read(std::string name, Clock::time_point deadline) {
  Scene scene;
  kube::Selection ours{.labels = fmt::format("app={},session={}", app_label, label_for(name))};
  auto services = co_await client_.list_all(place(kube::kinds::services), ours, deadline);
  if (!services) co_return std::unexpected(services.error());
  for (auto& item : services->items) {
    std::string own(kube::name_of(item));
    auto object = std::make_shared<const Object>(std::move(item));
    if (own == anchor_name(name))
      scene.anchor = std::move(object);
    else if (own == mark_name(name))
      scene.mark = std::move(object);
    else if (own == code_name(name))
      scene.code = std::move(object);
  }
  if (rights_.secrets) {
    auto secrets = co_await client_.list_all(place(kube::kinds::secrets), ours, deadline);
    if (!secrets) co_return std::unexpected(secrets.error());
    for (auto& item : secrets->items) {
      std::string own(kube::name_of(item));
      scene.secrets[own] = std::make_shared<const Object>(std::move(item));
    }
  }
  auto pod = co_await find(kube::kinds::pods, name, deadline);
  if (!pod) co_return std::unexpected(pod.error());
  scene.pod = *std::move(pod);
  auto claim = co_await find(kube::kinds::claims, claim_name(name), deadline);
  if (!claim) co_return std::unexpected(claim.error());
  scene.claim = *std::move(claim);
  co_return scene;
}

Async<ObjectRef> KubernetesDriver::make(kube::Kind kind, Object object,
                                        Clock::time_point deadline) {
  auto sent = object;
  auto made = co_await client_.create(place(kind), std::move(object), deadline);
  ObjectRef there;
  if (made) {
    there = std::make_shared<const Object>(*std::move(made));
  } else if (made.error().code == Errc::unknown_outcome) {
    std::string own(kube::name_of(sent));
    auto found = co_await find(kind, own, Clock::now() + call_time);
    if (!found) co_return std::unexpected(found.error());
    if (!*found || !is_same_sending(sent, **found)) co_return std::unexpected(made.error());
    there = *std::move(found);
  } else {
    co_return std::unexpected(made.error());
  }
  if (kind.plural != route_kind(terms_).plural) put(there, slot_of(kind));
  co_return there;
}

Async<> KubernetesDriver::remove(kube::Kind kind, const Object& object, Clock::time_point deadline,
                                 std::optional<std::chrono::seconds> grace) {
  auto where = place(kind, std::string(kube::name_of(object)));
  kube::RemoveTerms terms{.uid = std::string(kube::uid_of(object))};
  terms.grace = grace;
  // The watch may replace the object while this waits.
  // NOLINTNEXTLINE(performance-unnecessary-copy-initialization)
  auto kept = object;
  auto removed = co_await client_.remove(std::move(where), std::move(terms), deadline);
  // Another one has its name by now: the one that was meant is gone.
  bool is_gone = !removed && removed.error().reason == Reason::conflict;
  if (!removed && !is_gone) co_return std::unexpected(removed.error());
  if (is_gone || *removed) forget(kept);
  co_return ok;
}

Async<> KubernetesDriver::remove_named(kube::Kind kind, std::string name, std::string anchor,
                                       Clock::time_point deadline) {
  auto there = co_await find(kind, std::move(name), deadline);
  if (!there) co_return std::unexpected(there.error());
  if (!*there || anchor_of(**there) != anchor) co_return ok;
  bool is_anchor = anchor.empty() && stamp_of(**there);  // one of ours, made meanwhile
  if (is_anchor) co_return ok;
  co_return co_await remove(kind, **there, deadline);
}

awaitable<bool> KubernetesDriver::pause_briefly(Clock::time_point deadline) {
  co_await changed_.wait(std::min(deadline, Clock::now() + look_again));
  auto state = co_await asio::this_coro::cancellation_state;
  co_return !is_cancelled(state) && Clock::now() < deadline;
}

Async<> KubernetesDriver::until_pod_gone(std::string name, std::string uid,
                                         Clock::time_point deadline) {
  for (;;) {
    auto pod = co_await find(kube::kinds::pods, name, deadline);
    if (!pod) co_return std::unexpected(pod.error());
    if (!*pod || kube::uid_of(**pod) != uid) co_return ok;
    bool goes_on = co_await pause_briefly(deadline);
    if (!goes_on) co_return fail(Errc::timeout, "pod {} does not end in time", name);
  }
}

Async<Sight> KubernetesDriver::look(std::string name, Clock::time_point deadline) {
  auto scene = co_await read(std::move(name), deadline);
  if (!scene) co_return std::unexpected(scene.error());
  co_return Sight{.sandbox = sandbox_of(*scene, terms_, WallClock::now()),
                  .basis = std::to_string(generation_of(*scene))};
}

// ---- A start.

Async<Sandbox> KubernetesDriver::start(SandboxSpec spec, std::string basis,
                                       Clock::time_point deadline) {
  if (spec.image.empty()) spec.image = terms_.image;
  if (spec.image.empty())
    co_return fail(Errc::invalid,
                   "no image: name one in the request, or set runtime_container_image");
  auto name = spec.name;
  auto scene = co_await read(name, deadline);
  if (!scene) co_return std::unexpected(scene.error());
  if (std::to_string(generation_of(*scene)) != basis)
    co_return fail(Errc::lease_lost, "{} was stopped since it was asked for", name);
  auto there = sandbox_of(*scene, terms_, WallClock::now());
  if (there && there->lives()) co_return fail(Errc::held_elsewhere, "{} exists", name);
  auto memory = memory_of(*scene, terms_);
  // What ended by itself, and what is left of what was ended.
  auto cleared = co_await end_incarnation(*scene, name, deadline);
  if (!cleared) co_return std::unexpected(cleared.error());
  auto token = uuid4().substr(0, 8);
  Stamp stamp{.turn = turn_of(*scene), .generation = generation_of(*scene)};
  stamp.restarts = there ? there->restarts : 0;
  stamp.created_at = memory ? memory->stamp.created_at : WallClock::now();
  stamp.token = token;
  if (rights_.secrets) stamp.secret = secret_name(name, token);
  if (spec.key.empty() && memory) spec.key = memory->spec.key;
  if (spec.key.empty()) spec.key = new_session_key();
  auto anchor = co_await take_anchor(spec, stamp, deadline);
  if (!anchor) co_return std::unexpected(anchor.error());
  auto finished = co_await finish(*anchor, spec, deadline);
  bool is_over = !finished && finished.error().code == Errc::lease_lost;
  if (is_over) std::ignore = co_await remove(kube::kinds::services, **anchor, deadline);
  if (is_over) std::ignore = co_await remove_secret(stamp.secret, deadline);
  bool is_foreign = !finished && finished.error().code == Errc::held_elsewhere;
  if (is_foreign || (!finished && stays(finished.error()))) {
    auto undone = co_await undo(name, *anchor, deadline);
    if (!undone) log::warn("session.undo_failed", "pod", name, "why", undone.error().what);
  }
  if (!finished) co_return std::unexpected(finished.error());
  // Why it has ended, if it has, stands in it.
  const auto* made = seen(name);
  if (made && (made->lives() || made->phase == Phase::ended)) co_return *made;
  co_return fail(Errc::unavailable, "{} was ended as soon as it had begun", name);
}

Async<ObjectRef> KubernetesDriver::take_anchor(SandboxSpec spec, Stamp stamp,
                                               Clock::time_point deadline) {
  if (stamp.secret.empty()) co_return co_await make_anchor(std::move(spec), stamp, deadline);
  auto object = secret_object(spec, stamp);
  auto secret = co_await make(kube::kinds::secrets, std::move(object), deadline);
  if (!secret) co_return secret;
  auto anchor = co_await make_anchor(std::move(spec), stamp, deadline);
  // Of what may still arrive, a look later decides.
  bool is_refused = !anchor && anchor.error().code != Errc::unknown_outcome;
  if (is_refused) std::ignore = co_await remove_secret(stamp.secret, deadline);
  co_return anchor;
}

Async<> KubernetesDriver::remove_secret(std::string secret, Clock::time_point deadline) {
  if (secret.empty()) co_return ok;
  auto there = co_await find(kube::kinds::secrets, secret, deadline);
  if (!there) co_return std::unexpected(there.error());
  if (!*there) co_return ok;
  co_return co_await remove(kube::kinds::secrets, **there, deadline);
}

Async<ObjectRef> KubernetesDriver::make_anchor(SandboxSpec spec, Stamp stamp,
                                               Clock::time_point deadline) {
  for (int tries = 1;; ++tries) {
    auto object = anchor_object(spec, stamp);
    auto made = co_await make(kube::kinds::services, std::move(object), deadline);
    if (made || made.error().code != Errc::held_elsewhere || tries > 1) co_return made;
    // One that OpenHands left behind, when there is no pod any more.
    auto there = co_await find(kube::kinds::services, anchor_name(spec.name), deadline);
    if (!there) co_return there;
    bool is_ours = *there && stamp_of(**there);
    if (is_ours) co_return made;
    if (!*there) continue;
    auto removed = co_await remove(kube::kinds::services, **there, deadline);
    if (!removed) co_return std::unexpected(removed.error());
  }
}

// After it was made: whoever ends incarnations makes the mark before he looks for an anchor, and we the
// anchor before we look for a mark.
Async<> KubernetesDriver::check_anchor(SandboxSpec spec, ObjectRef anchor,
                                       Clock::time_point deadline) {
  Scene scene;
  auto there = co_await find(kube::kinds::services, anchor_name(spec.name), deadline);
  if (!there) co_return std::unexpected(there.error());
  auto mark = co_await find(kube::kinds::services, mark_name(spec.name), deadline);
  if (!mark) co_return std::unexpected(mark.error());
  scene.anchor = *there;
  scene.mark = *mark;
  if (scene.anchor && kube::uid_of(*scene.anchor) == kube::uid_of(*anchor) &&
      has_incarnation(scene))
    co_return ok;
  co_return fail(Errc::lease_lost, "{} was stopped or paused since it was asked for", spec.name);
}

Async<> KubernetesDriver::finish(ObjectRef anchor, SandboxSpec spec, Clock::time_point deadline) {
  auto stamp = stamp_of(*anchor).value_or(Stamp());
  auto holds = co_await check_anchor(spec, anchor, deadline);
  if (!holds) co_return holds;
  auto claim = co_await ensure_claim(spec, stamp, deadline);
  if (!claim) co_return claim;
  auto pod = co_await ensure_pod(spec, anchor, deadline);
  if (!pod) co_return pod;
  auto code = code_object(spec, *anchor);
  auto service = co_await ensure_owned(kube::kinds::services, std::move(code), deadline);
  if (!service) log::warn("session.code_failed", "pod", spec.name, "why", service.error().what);
  if (rights_.routes) {
    auto object = terms_.routing == Routing::gateway ? route_object(spec, *anchor, terms_)
                                                     : ingress_object(spec, *anchor, terms_);
    auto route = co_await ensure_owned(route_kind(terms_), std::move(object), deadline);
    if (!route) log::warn("session.route_failed", "pod", spec.name, "why", route.error().what);
  }
  auto still = co_await check_anchor(spec, anchor, deadline);
  if (!still && still.error().code == Errc::lease_lost) {
    // Whoever ended it may have looked for its pod before that was there.
    auto late = co_await find(kube::kinds::pods, spec.name, deadline);
    if (late && *late && anchor_of(**late) == kube::uid_of(*anchor))
      std::ignore = co_await remove(kube::kinds::pods, **late, deadline);
  }
  co_return still;
}

Async<> KubernetesDriver::ensure_claim(SandboxSpec spec, Stamp stamp, Clock::time_point deadline) {
  for (;;) {
    auto object = claim_object(spec, stamp, terms_);
    auto made = co_await make(kube::kinds::claims, std::move(object), deadline);
    if (made) co_return ok;
    if (made.error().code != Errc::held_elsewhere) {
      // A quota refuses what is there already, too.
      auto there = co_await find(kube::kinds::claims, claim_name(spec.name), deadline);
      bool is_denied = made.error().code == Errc::denied;
      if (is_denied && (!there || !*there))
        co_return fail(Errc::refused, "the cluster refuses the claim: {}", made.error().what);
      if (!there || !*there) co_return std::unexpected(made.error());
    }
    auto there = co_await find(kube::kinds::claims, claim_name(spec.name), deadline);
    if (!there) co_return std::unexpected(there.error());
    if (!*there) continue;
    auto theirs = stamp_of(**there);
    bool is_over = theirs && theirs->generation < stamp.generation;
    if (!kube::is_leaving(**there) && !is_over) co_return ok;
    if (!kube::is_leaving(**there)) {
      auto removed = co_await remove(kube::kinds::claims, **there, deadline);
      if (!removed) co_return removed;
    }
    // It stays until the last pod that had it is gone.
    bool goes_on = co_await pause_briefly(deadline);
    if (!goes_on)
      co_return fail(Errc::timeout, "the files that {} had before are still being removed",
                     spec.name);
  }
}

Async<> KubernetesDriver::ensure_pod(SandboxSpec spec, ObjectRef anchor,
                                     Clock::time_point deadline) {
  auto uid = std::string(kube::uid_of(*anchor));
  for (;;) {
    auto object = pod_object(spec, *anchor, terms_);
    if (!object) co_return std::unexpected(object.error());
    auto made = co_await make(kube::kinds::pods, *std::move(object), deadline);
    if (made) co_return ok;
    auto code = made.error().code;
    if (code == Errc::denied)
      co_return fail(Errc::refused, "the cluster refuses the pod: {}", made.error().what);
    if (code != Errc::held_elsewhere && code != Errc::unknown_outcome)
      co_return std::unexpected(made.error());
    auto there = co_await find(kube::kinds::pods, spec.name, deadline);
    if (!there) co_return std::unexpected(there.error());
    if (*there && anchor_of(**there) == uid) co_return ok;
    if (is_foreign_pod(*there) && !kube::is_leaving(**there))
      co_return fail(Errc::held_elsewhere, "a pod {} exists that is not ours", spec.name);
    if (*there && !kube::is_leaving(**there)) {
      auto removed = co_await remove(kube::kinds::pods, **there, deadline, late_grace);
      if (!removed) co_return removed;
    }
    bool goes_on = co_await pause_briefly(deadline);
    if (!goes_on)
      co_return fail(Errc::timeout, "the pod that {} had before does not end", spec.name);
    auto holds = co_await check_anchor(spec, anchor, deadline);
    if (!holds) co_return holds;
  }
}

Async<> KubernetesDriver::ensure_owned(kube::Kind kind, Object object, Clock::time_point deadline) {
  for (;;) {
    auto made = co_await make(kind, object, deadline);
    if (made) co_return ok;
    if (made.error().code != Errc::held_elsewhere) co_return std::unexpected(made.error());
    std::string own(kube::name_of(object));
    auto there = co_await find(kind, own, deadline);
    if (!there) co_return std::unexpected(there.error());
    if (*there && anchor_of(**there) == anchor_of(object)) co_return ok;
    if (*there && !kube::is_leaving(**there)) {
      auto removed = co_await remove(kind, **there, deadline);
      if (!removed) co_return removed;
      continue;
    }
    bool goes_on = co_await pause_briefly(deadline);
    if (!goes_on) co_return fail(Errc::timeout, "{} of before does not go", own);
  }
}

// An incarnation that can never be: with what it has made, and nothing that was there before.
Async<> KubernetesDriver::undo(std::string name, ObjectRef anchor, Clock::time_point deadline) {
  auto stamp = stamp_of(*anchor).value_or(Stamp());
  auto claim = co_await find(kube::kinds::claims, claim_name(name), deadline);
  if (claim && *claim) {
    auto theirs = stamp_of(**claim);
    if (theirs && theirs->token == stamp.token)
      std::ignore = co_await remove(kube::kinds::claims, **claim, deadline);
  }
  auto removed = co_await remove(kube::kinds::services, *anchor, deadline);
  if (!removed) co_return removed;
  co_return co_await remove_secret(stamp.secret, deadline);
}

// ---- An end.

// From here on what there is of the incarnation does not hold.
Async<> KubernetesDriver::mark(Scene scene, Memory memory, bool is_stop,
                               Clock::time_point deadline) {
  auto spec = memory.spec;
  auto stamp = memory.stamp;
  stamp.turn = turn_of(scene) + 1;
  stamp.generation = generation_of(scene) + (is_stop ? 1 : 0);
  stamp.is_stop = is_stop;
  stamp.token = uuid4().substr(0, 8);
  stamp.secret.clear();
  // A claim that OpenHands made is none that a watch tells of.
  stamp.has_foreign_files =
      !is_stop && !has_incarnation(scene) && !(scene.claim && stamp_of(*scene.claim));
  if (is_stop) {
    spec.environment.clear();
    spec.key.clear();
  } else if (rights_.secrets) {
    stamp.secret = secret_name(spec.name, stamp.token);
    auto object = secret_object(spec, stamp);
    auto secret = co_await make(kube::kinds::secrets, std::move(object), deadline);
    if (!secret) co_return std::unexpected(secret.error());
  }
  auto old = scene.mark;
  for (;;) {
    if (old) {
      auto removed = co_await remove(kube::kinds::services, *old, deadline);
      if (!removed) co_return removed;
    }
    auto object = mark_object(spec, stamp);
    auto made = co_await make(kube::kinds::services, std::move(object), deadline);
    if (made) co_return ok;
    if (made.error().code != Errc::held_elsewhere) co_return std::unexpected(made.error());
    auto there = co_await find(kube::kinds::services, mark_name(spec.name), deadline);
    if (!there) co_return std::unexpected(there.error());
    old = *there;
    auto theirs = old ? stamp_of(*old) : std::nullopt;
    bool says_so = theirs && theirs->turn >= stamp.turn && (theirs->is_stop || !is_stop);
    if (says_so) co_return ok;
    if (theirs) {
      stamp.turn = std::max(stamp.turn, theirs->turn + 1);
      stamp.generation = std::max(stamp.generation, theirs->generation + (is_stop ? 1 : 0));
    }
    if (Clock::now() >= deadline)
      co_return fail(Errc::timeout, "{} is ended by others again and again", spec.name);
  }
}

// Removes what there is of it, and returns when its pod is gone.
Async<> KubernetesDriver::end_incarnation(Scene scene, std::string name,
                                          Clock::time_point deadline) {
  auto anchor = scene.anchor ? std::string(kube::uid_of(*scene.anchor)) : std::string();
  bool is_foreign = is_foreign_pod(scene.pod);
  if (scene.anchor) {
    auto removed = co_await remove(kube::kinds::services, *scene.anchor, deadline);
    if (!removed) co_return removed;
  }
  if (scene.pod) {
    auto removed = co_await remove(kube::kinds::pods, *scene.pod, deadline);
    if (!removed) co_return removed;
  }
  if (scene.code) {
    auto removed = co_await remove(kube::kinds::services, *scene.code, deadline);
    if (!removed) co_return removed;
  }
  // Others may be about to begin, with a Secret of their own.
  auto stamp = scene.anchor ? stamp_of(*scene.anchor) : std::nullopt;
  if (stamp) {
    auto removed = co_await remove_secret(stamp->secret, deadline);
    if (!removed) co_return removed;
  }
  // What OpenHands made beside its pod has no labels, and no owner.
  const std::array services{anchor_name(name), code_name(name)};
  if (is_foreign)
    for (const auto& service : services) {
      auto removed = co_await remove_named(kube::kinds::services, service, "", deadline);
      if (!removed) co_return removed;
    }
  if (rights_.routes && (is_foreign || !anchor.empty())) {
    auto route = ingress_name(name);
    auto removed = co_await remove_named(route_kind(terms_), route, anchor, deadline);
    if (!removed) log::warn("session.route_stays", "pod", name, "why", removed.error().what);
  }
  if (!scene.pod) co_return ok;
  auto uid = std::string(kube::uid_of(*scene.pod));
  auto gone = co_await until_pod_gone(name, uid, deadline);
  if (gone) forget(*scene.pod);
  co_return gone;
}

Async<> KubernetesDriver::pause(std::string name, std::string incarnation,
                                Clock::time_point deadline) {
  auto scene = co_await read(name, deadline);
  if (!scene) co_return std::unexpected(scene.error());
  auto there = sandbox_of(*scene, terms_, WallClock::now());
  auto memory = memory_of(*scene, terms_);
  if (!there || !memory) co_return fail(Errc::not_found, "there is no sandbox {}", name);
  bool is_marked =
      there->phase == Phase::paused ||
      (there->phase == Phase::ending && !has_incarnation(*scene) && !is_foreign_pod(scene->pod));
  if (!is_marked) {
    if (!incarnation.empty() && incarnation != there->incarnation)
      co_return fail(Errc::lease_lost, "another incarnation of {} lives by now", name);
    auto marked = co_await mark(*scene, *std::move(memory), false, deadline);
    if (!marked) co_return marked;
    // A pod that was made meanwhile is in it, too.
    scene = co_await read(name, deadline);
    if (!scene) co_return std::unexpected(scene.error());
    if (has_incarnation(*scene)) co_return ok;
  }
  co_return co_await end_incarnation(*std::move(scene), name, deadline);
}

Async<> KubernetesDriver::stop(std::string name, std::string incarnation,
                               Clock::time_point deadline) {
  auto scene = co_await read(name, deadline);
  if (!scene) co_return std::unexpected(scene.error());
  auto there = sandbox_of(*scene, terms_, WallClock::now());
  if (there && !incarnation.empty() && incarnation != there->incarnation)
    co_return fail(Errc::lease_lost, "another incarnation of {} lives by now", name);
  auto memory = memory_of(*scene, terms_);
  if (!memory) {
    memory.emplace();
    memory->spec.name = name;
    memory->spec.session_id = label_for(name);
    memory->spec.runtime_id = runtime_id_of(terms_.options.name_space, memory->spec.session_id);
  }
  // Also where there is nothing yet: somebody may be about to make it.
  auto marked = co_await mark(*scene, *std::move(memory), true, deadline);
  if (!marked) co_return marked;
  scene = co_await read(name, deadline);
  if (!scene) co_return std::unexpected(scene.error());
  // Somebody has started it again by now; what is left of before is swept.
  if (has_incarnation(*scene)) co_return ok;
  if (scene->claim && !kube::is_leaving(*scene->claim)) {
    auto theirs = stamp_of(*scene->claim);
    bool is_later = theirs && theirs->generation >= generation_of(*scene);
    if (!is_later) {
      auto removed = co_await remove(kube::kinds::claims, *scene->claim, deadline);
      if (!removed) co_return removed;
    }
  }
  co_return co_await end_incarnation(*std::move(scene), name, deadline);
}

// ---- Use.

Async<> KubernetesDriver::touch(std::string name) {
  auto now = WallClock::now();
  auto& use = touched_[name];
  use.stamp = now;
  auto found = scenes_.find(name);
  if (!rights_.touches || found == scenes_.end() || !has_incarnation(found->second)) co_return ok;
  const auto& anchor = *found->second.anchor;
  if (use.written_in == kube::uid_of(anchor) && Clock::now() < use.write_again) co_return ok;
  use.written_in = kube::uid_of(anchor);
  use.write_again = Clock::now() + terms_.touch_every;
  Object change = json::object{
      {"metadata",
       json::object{{"uid", kube::uid_of(anchor)},
                    {"annotations", json::object{{"warren/active-at", iso8601(now)}}}}}};
  auto where = place(kube::kinds::services, anchor_name(name));
  auto done = co_await client_.patch(std::move(where), kube::PatchKind::merge, std::move(change),
                                     Clock::now() + call_time);
  bool is_gone = !done && (done.error().reason == Reason::not_found ||
                           done.error().reason == Reason::conflict);
  if (is_gone) co_return ok;
  if (!done) co_return std::unexpected(done.error());
  auto changed = std::make_shared<const Object>(*std::move(done));
  put(changed, Slot::service);
  co_return ok;
}

WallClock::time_point KubernetesDriver::active_at(const Sandbox& sandbox) const {
  auto found = scenes_.find(sandbox.spec.name);
  bool is_kept = found != scenes_.end() && has_incarnation(found->second) && rights_.touches;
  // Of what other replicas pass on we would know nothing: nobody is idle then.
  if (sandbox.lives() && !is_kept) return WallClock::now();
  auto latest = sandbox.started_at;
  if (is_kept)
    if (auto written = session::active_at(*found->second.anchor))
      latest = std::max(latest, *written);
  auto touched = touched_.find(sandbox.spec.name);
  return touched == touched_.end() ? latest : std::max(latest, touched->second.stamp);
}

// ---- Why.

Async<std::string> KubernetesDriver::log_tail(std::string name, std::size_t bytes) {
  if (rights_.logs) {
    auto pod = place(kube::kinds::pods, name);
    auto text = co_await client_.log(std::move(pod), log_lines, Clock::now() + call_time);
    if (text && !text->empty()) co_return end_of(*std::move(text), bytes);
  }
  auto reported = co_await events(std::move(name));
  if (!reported) co_return std::unexpected(reported.error());
  std::string lines;
  for (const auto& event : *reported) lines += fmt::format("{}: {}\n", event.reason, event.message);
  co_return end_of(std::move(lines), bytes);
}

Async<std::vector<SandboxEvent>> KubernetesDriver::events(std::string name) {
  std::vector<SandboxEvent> all;
  if (!rights_.events) co_return all;
  kube::Selection about{.fields = "involvedObject.name=" + name};
  auto where = place(kube::kinds::events);
  auto found =
      co_await client_.list_all(std::move(where), std::move(about), Clock::now() + call_time);
  if (!found) co_return std::unexpected(found.error());
  for (const auto& item : found->items) all.push_back(event_of(item));
  std::ranges::sort(all, {}, &SandboxEvent::last_at);
  if (all.size() > most_events) all.erase(all.begin(), all.end() - most_events);
  co_return all;
}

}  // namespace warren::session
