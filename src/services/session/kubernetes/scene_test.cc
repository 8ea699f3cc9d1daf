// What a session is, from what a cluster has of it: no server takes part.
#include "services/session/kubernetes/scene.h"

#include <doctest/doctest.h>

#include "services/session/kubernetes/pod_state.h"
#include "services/session/names.h"

using namespace warren;
using namespace warren::session;

namespace {

using What = Chore::What;

const WallClock::time_point start = WallClock::from_time_t(1'700'000'000);
const KubernetesTerms terms;

SandboxSpec spec_for(const std::string& session) {
  return {.session_id = session,
          .name = name_of(session),
          .runtime_id = runtime_id_of("default", session),
          .image = "agent:1",
          .key = "key",
          .hash = "h"};
}

Stamp stamp_with(std::uint64_t turn, std::uint64_t generation, bool is_stop = false) {
  Stamp stamp{.turn = turn, .generation = generation, .created_at = start, .token = "t"};
  stamp.is_stop = is_stop;
  return stamp;
}

kube::ObjectRef served(kube::Object object, const std::string& uid,
                       WallClock::time_point made = start) {
  auto& metadata = object.as_object()["metadata"].as_object();
  metadata["uid"] = uid;
  metadata["creationTimestamp"] = iso8601(made);
  return std::make_shared<const kube::Object>(std::move(object));
}

kube::ObjectRef leaving(const kube::ObjectRef& object) {
  auto copy = *object;
  copy.as_object()["metadata"].as_object()["deletionTimestamp"] = iso8601(start);
  return std::make_shared<const kube::Object>(std::move(copy));
}

kube::ObjectRef anchor_with(std::uint64_t turn, std::uint64_t generation = 0,
                            const std::string& uid = "anchor") {
  return served(anchor_object(spec_for("a"), stamp_with(turn, generation)), uid);
}
kube::ObjectRef mark_with(std::uint64_t turn, std::uint64_t generation, bool is_stop) {
  return served(mark_object(spec_for("a"), stamp_with(turn, generation, is_stop)), "mark");
}
kube::ObjectRef claim_with(std::uint64_t generation = 0) {
  return served(claim_object(spec_for("a"), stamp_with(0, generation), terms), "claim");
}
kube::ObjectRef pod_of(const kube::ObjectRef& anchor, const char* status = "{}",
                       const char* uid = "pod") {
  auto pod = pod_object(spec_for("a"), *anchor, terms);
  REQUIRE(pod);
  pod->as_object()["status"] = json::parse(status);
  return served(*std::move(pod), uid);
}

constexpr const char* ready_status = R"({"phase":"Running","podIP":"10.0.0.7",
  "conditions":[{"type":"Ready","status":"True"}],
  "containerStatuses":[{"name":"runtime","ready":true,"restartCount":0,
                        "state":{"running":{"startedAt":"2023-11-14T22:14:00Z"}}}]})";

std::optional<Sandbox> seen(const Scene& scene, WallClock::time_point now = start + 1s) {
  return sandbox_of(scene, terms, now);
}

std::vector<What> chores(const Scene& scene, WallClock::time_point now = start + 1s) {
  std::vector<What> all;
  for (const auto& chore : chores_of(scene, terms, now)) all.push_back(chore.what);
  return all;
}

PodState state(const char* status, WallClock::time_point now = start + 1s) {
  return state_of_pod(*pod_of(anchor_with(0), status), terms, now);
}

}  // namespace

TEST_CASE(
    "an anchor alone is a session that starts, and its pod is to be made by whoever sees it") {
  Scene scene{.anchor = anchor_with(0)};
  auto sandbox = seen(scene);
  REQUIRE(sandbox);
  CHECK(sandbox->phase == Phase::starting);
  CHECK(sandbox->incarnation == "anchor");
  CHECK(sandbox->spec.session_id == "a");
  // Its creator is given time.
  CHECK(chores(scene).empty());
  CHECK(chores(scene, start + 4s) == std::vector{What::finish});
}

TEST_CASE("a session is as its pod is, and has the incarnation of that") {
  Scene scene{.anchor = anchor_with(0), .claim = claim_with()};
  scene.pod = pod_of(scene.anchor, ready_status);
  auto sandbox = seen(scene);
  REQUIRE(sandbox);
  CHECK(sandbox->phase == Phase::running);
  CHECK(sandbox->incarnation == "pod");
  CHECK(sandbox->endpoints.at(Door::runtime) == Endpoint{"10.0.0.7", 60000});
  CHECK(sandbox->endpoints.at(Door::work_2) == Endpoint{"10.0.0.7", 12001});
  CHECK(sandbox->started_at == start + 40s);
  CHECK(sandbox->created_at == start);
  CHECK(chores(scene).empty());
}

TEST_CASE("a pause keeps the claim, and from its mark on the incarnation does not hold") {
  Scene scene{.anchor = anchor_with(4, 1), .mark = mark_with(5, 1, false), .claim = claim_with(1)};
  scene.pod = pod_of(scene.anchor, ready_status);
  CHECK(!has_incarnation(scene));
  CHECK(chores(scene) == std::vector{What::remove_anchor, What::remove_pod});
  scene.anchor = nullptr;
  scene.pod = leaving(scene.pod);
  CHECK(seen(scene)->phase == Phase::ending);
  scene.pod = nullptr;
  auto paused = seen(scene);
  REQUIRE(paused);
  CHECK(paused->phase == Phase::paused);
  CHECK(paused->spec.key == "key");
  CHECK(chores(scene).empty());
  CHECK(chores(scene, start + 24h * 30).empty());
  CHECK(generation_of(scene) == 1);
  // The next incarnation begins from that mark.
  scene.anchor = anchor_with(5, 1, "next");
  CHECK(has_incarnation(scene));
  CHECK(seen(scene)->incarnation == "next");
}

TEST_CASE("what was sent before a pause and arrives after it does not hold, and is removed") {
  Scene scene{.mark = mark_with(5, 1, false), .claim = claim_with(1)};
  auto before = anchor_with(4, 1, "before");
  SUBCASE("its pod") {
    scene.pod = pod_of(before, ready_status, "late");
    CHECK(seen(scene)->phase == Phase::paused);
    CHECK(chores(scene) == std::vector{What::remove_pod});
  }
  SUBCASE("its anchor") {
    scene.anchor = before;
    CHECK(seen(scene)->phase == Phase::paused);
    CHECK(chores(scene) == std::vector{What::remove_anchor});
  }
  SUBCASE("its pod, when the next incarnation is there already") {
    scene.anchor = anchor_with(5, 1, "next");
    scene.pod = pod_of(before, ready_status, "late");
    CHECK(!has_its_pod(scene));
    CHECK(seen(scene)->phase == Phase::starting);
    CHECK(chores(scene) == std::vector{What::remove_pod});
  }
}

TEST_CASE("after a stop there is no session, whatever of it is still there or arrives late") {
  Scene scene{.mark = mark_with(6, 2, true)};
  CHECK(!seen(scene));
  CHECK(generation_of(scene) == 2);
  scene.claim = claim_with(1);
  scene.anchor = anchor_with(5, 1);
  scene.pod = pod_of(scene.anchor, ready_status);
  CHECK(!seen(scene));
  CHECK(chores(scene) == std::vector{What::remove_anchor, What::remove_pod, What::remove_claim});
  // A start that was asked for after the stop has the generation of it.
  Scene next{.anchor = anchor_with(6, 2, "next"), .mark = mark_with(6, 2, true)};
  next.claim = claim_with(2);
  CHECK(seen(next)->phase == Phase::starting);
  CHECK(chores(next).empty());
}

TEST_CASE(
    "the mark of a stop goes after an hour, and leaves no claim behind that would look paused") {
  Scene scene{.mark = mark_with(6, 2, true)};
  CHECK(chores(scene, start + 59min).empty());
  CHECK(chores(scene, start + 61min) == std::vector{What::remove_mark});
  // A start after the stop had come as far as the claim.
  scene.claim = claim_with(2);
  CHECK(!seen(scene));
  CHECK(chores(scene, start + 59min).empty());
  CHECK(chores(scene, start + 61min) == std::vector{What::remove_claim});
  scene.claim = leaving(scene.claim);
  CHECK(chores(scene, start + 61min).empty());
}

TEST_CASE("a live pod is never swept, whatever is forgotten around it") {
  Scene scene{.anchor = anchor_with(3, 1), .claim = claim_with(1)};
  scene.pod = pod_of(scene.anchor, ready_status);
  for (const auto& mark : {kube::ObjectRef(), mark_with(3, 1, false), mark_with(2, 1, true)}) {
    scene.mark = mark;
    for (auto later : {1s, 3600s * 24})
      for (auto what : chores(scene, start + later)) {
        CHECK(what != What::remove_pod);
        CHECK(what != What::remove_anchor);
        CHECK(what != What::remove_claim);
      }
    CHECK(seen(scene)->phase == Phase::running);
  }
}

TEST_CASE("files without a mark are those of a paused session: nobody's files go by a mistake") {
  Scene scene{.claim = claim_with(1)};
  auto sandbox = seen(scene);
  REQUIRE(sandbox);
  CHECK(sandbox->phase == Phase::paused);
  CHECK(chores(scene, start + 24h * 365).empty());
  // Those of a claim that is going are none.
  scene.claim = leaving(scene.claim);
  CHECK(!seen(scene));
}

TEST_CASE("a pod that OpenHands made is the session's, with its own command, image and key") {
  kube::Object pod = json::parse(R"({"metadata":{"name":"openhands-runtime-7",
    "labels":{"app":"openhands-runtime","session":"7"}},
    "spec":{"containers":[{"name":"runtime","image":"old:1","command":["run","8080"],
      "env":[{"name":"SESSION_API_KEY","value":"theirs"}],
      "ports":[{"containerPort":8080,"name":"http"},{"containerPort":8081,"name":"vscode"}]}]},
    "status":{"phase":"Running","podIP":"10.0.0.9","conditions":[{"type":"Ready","status":"True"}]}})");
  Scene scene{.pod = served(pod, "theirs")};
  auto sandbox = seen(scene);
  REQUIRE(sandbox);
  CHECK(sandbox->phase == Phase::running);
  CHECK(sandbox->spec.session_id == "7");
  CHECK(sandbox->spec.image == "old:1");
  CHECK(sandbox->spec.key == "theirs");
  CHECK(sandbox->spec.hash.empty());
  CHECK(sandbox->endpoints.at(Door::runtime) == Endpoint{"10.0.0.9", 8080});
  CHECK(chores(scene, start + 24h).empty());
  // After a pause its claim, which has no labels, is not seen; the mark says that it is there.
  auto stamp = stamp_with(1, 0);
  stamp.has_foreign_files = true;
  Scene paused{.mark = served(mark_object(sandbox->spec, stamp), "mark")};
  CHECK(seen(paused)->phase == Phase::paused);
  CHECK(chores(paused, start + 24h).empty());
  // A pod of another name, or of no session, is not.
  pod.as_object()["metadata"].as_object()["name"] = "openhands-runtime-8";
  Scene other{.pod = served(pod, "other")};
  CHECK(!seen(other));
}

TEST_CASE(
    "a Secret stays for as long as something names it, and one of an ended incarnation does not") {
  auto spec = spec_for("a");
  auto stamp_of_secret = [](const char* name, std::uint64_t turn) {
    auto stamp = stamp_with(turn, 0);
    stamp.secret = name;
    return stamp;
  };
  Scene scene{.anchor = served(anchor_object(spec, stamp_of_secret("own", 3)), "anchor")};
  scene.pod = pod_of(scene.anchor);
  scene.secrets["own"] = served(secret_object(spec, stamp_of_secret("own", 3)), "s1");
  CHECK(chores(scene, start + 24h).empty());
  CHECK(seen(scene)->spec.key == "");  // as a server gives it, it is in base64
  // One that is made comes before what is to name it.
  scene.secrets["next"] = served(secret_object(spec, stamp_of_secret("next", 3)), "s2");
  CHECK(chores(scene).empty());
  CHECK(chores(scene, start + 61s) == std::vector{What::remove_secret});
  scene.secrets.erase("next");
  // From the mark on a late pod must not find it.
  scene.mark = served(mark_object(spec, stamp_of_secret("rest", 4)), "mark");
  scene.secrets["rest"] = served(secret_object(spec, stamp_of_secret("rest", 4)), "s3");
  CHECK(chores(scene) == std::vector{What::remove_anchor, What::remove_pod, What::remove_secret});
  CHECK(chores_of(scene, terms, start + 1s).back().name == "own");
  scene.anchor = scene.pod = nullptr;
  scene.secrets.erase("own");
  scene.claim = claim_with();
  CHECK(chores(scene, start + 24h).empty());
}

TEST_CASE("a pod that has ended says why, and with which exit code") {
  auto failed = state(R"({"phase":"Failed","containerStatuses":[{"name":"runtime",
    "state":{"terminated":{"exitCode":137,"reason":"OOMKilled"}}}]})");
  CHECK(failed.phase == Phase::ended);
  CHECK(failed.exit_code == 137);
  CHECK(failed.reason == "OOMKilled (exit code 137)");
  CHECK(failed.restarts == 1);
  auto evicted = state(R"({"phase":"Failed","reason":"Evicted","message":"low on memory"})");
  CHECK(evicted.reason == "Evicted: low on memory");
  CHECK(state(R"({"phase":"Succeeded"})").phase == Phase::ended);
}

TEST_CASE("a pod that can never start has ended, with what Kubernetes says of it") {
  auto waiting = [](const char* reason, WallClock::time_point now) {
    auto status = fmt::format(R"({{"phase":"Pending","containerStatuses":[{{"name":"runtime",
      "state":{{"waiting":{{"reason":"{}","message":"so"}}}}}}]}})",
                              reason);
    return state(status.c_str(), now);
  };
  for (const auto* reason : {"ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull"}) {
    CHECK(waiting(reason, start + 1s).phase == Phase::ended);
    CHECK(waiting(reason, start + 1s).reason == std::string(reason) + ": so");
  }
  CHECK(waiting("ErrImagePull", start + 1h).phase == Phase::starting);
  CHECK(waiting("ErrImagePull", start + 1h).reason == "ErrImagePull: so");
  CHECK(waiting("ContainerCreating", start + 1h).phase == Phase::starting);
  CHECK(waiting("ContainerCreating", start + 1h).reason.empty());
  // A Secret may appear a moment later.
  CHECK(waiting("CreateContainerConfigError", start + 1s).phase == Phase::starting);
  CHECK(waiting("CreateContainerConfigError", start + 11s).phase == Phase::ended);
  const char* unscheduled = R"({"phase":"Pending","conditions":[{"type":"PodScheduled",
    "status":"False","reason":"Unschedulable","message":"0/3 nodes are available"}]})";
  CHECK(state(unscheduled).phase == Phase::starting);
  CHECK(state(unscheduled).reason == "Unschedulable: 0/3 nodes are available");
  CHECK(state(unscheduled, start + 121s).phase == Phase::ended);
}

TEST_CASE("a session tells the states of its containers, and its events, as the cluster has them") {
  auto pod = state(R"({"phase":"Running","initContainerStatuses":[{"name":"first","ready":true,
    "state":{"terminated":{"exitCode":0,"reason":"Completed","finishedAt":"2023-11-14T22:14:00Z"}}}],
    "containerStatuses":[{"name":"runtime","ready":false,"restartCount":2,
    "state":{"waiting":{"reason":"CrashLoopBackOff","message":"back-off"}}}]})");
  REQUIRE(pod.containers.size() == 2);
  CHECK(pod.containers[0].name == "first");
  CHECK(pod.containers[0].is == ContainerState::Is::terminated);
  CHECK(pod.containers[0].is_ready);
  CHECK(pod.containers[1].is == ContainerState::Is::waiting);
  CHECK(pod.containers[1].reason == "CrashLoopBackOff");
  CHECK(pod.containers[1].message == "back-off");
  CHECK(pod.containers[1].restarts == 2);
  Scene scene{.anchor = anchor_with(0)};
  scene.pod = pod_of(scene.anchor, ready_status);
  auto sandbox = seen(scene);
  REQUIRE(sandbox);
  REQUIRE(sandbox->containers.size() == 1);
  CHECK(sandbox->containers[0].is == ContainerState::Is::running);
  auto event =
      event_of(json::parse(R"({"type":"Warning","reason":"Failed","message":"no such image",
    "count":3,"lastTimestamp":"2023-11-14T22:14:00Z"})"));
  CHECK(event.type == "Warning");
  CHECK(event.reason == "Failed");
  CHECK(event.count == 3);
  CHECK(event.last_at == "2023-11-14T22:14:00Z");
}

TEST_CASE("a pod that runs and is not ready starts, and one that is deleted ends") {
  CHECK(state(R"({"phase":"Running","conditions":[{"type":"Ready","status":"False"}]})").phase ==
        Phase::starting);
  auto anchor = anchor_with(0);
  CHECK(state_of_pod(*leaving(pod_of(anchor, ready_status)), terms, start).phase == Phase::ending);
}
