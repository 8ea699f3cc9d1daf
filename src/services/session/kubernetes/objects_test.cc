#include "services/session/kubernetes/objects.h"

#include <doctest/doctest.h>

#include "base/base64.h"
#include "services/session/names.h"

using namespace warren;
using namespace warren::session;

namespace {

SandboxSpec spec_for(const std::string& session) {
  SandboxSpec spec{.session_id = session,
                   .name = name_of(session),
                   .runtime_id = runtime_id_of("default", session),
                   .image = "agent:1",
                   .command = {"agent", "--port", "60000"}};
  spec.environment = {{"LLM_KEY", "do not tell"}, {"odd name", "x"}};
  spec.key = "the session's key";
  spec.hash = "abc";
  return spec;
}

const Stamp stamp{.turn = 3,
                  .generation = 2,
                  .restarts = 1,
                  .created_at = WallClock::from_time_t(1'700'000'000),
                  .token = "12345678"};

kube::Object with_uid(kube::Object object, const char* uid) {
  object.as_object()["metadata"].as_object()["uid"] = uid;
  return object;
}

}  // namespace

TEST_CASE("a session has the objects that OpenHands gives it, by the same names") {
  auto spec = spec_for("session-123");
  auto anchor = with_uid(anchor_object(spec, stamp), "u-1");
  CHECK(kube::name_of(anchor) == "openhands-runtime-session-123-svc");
  CHECK(kube::text_at(anchor, "/spec/selector/app") == "openhands-runtime");
  CHECK(kube::number_at(anchor, "/spec/ports/0/port", 0) == 8080);
  KubernetesTerms terms;
  auto pod = pod_object(spec, anchor, terms);
  REQUIRE(pod);
  CHECK(kube::name_of(*pod) == "openhands-runtime-session-123");
  CHECK(label_of(*pod, "app") == "openhands-runtime");
  CHECK(label_of(*pod, "session") == "session-123");
  CHECK(kube::text_at(*pod, "/spec/restartPolicy") == "Never");
  CHECK(kube::text_at(*pod, "/spec/containers/0/command/0") == "agent");
  CHECK(kube::text_at(*pod, "/spec/volumes/0/persistentVolumeClaim/claimName") ==
        "openhands-runtime-session-123-pvc");
  CHECK(kube::name_of(code_object(spec, anchor)) == "openhands-runtime-session-123-svc-code");
  auto ingress = ingress_object(spec, anchor, terms);
  CHECK(kube::name_of(ingress) == "openhands-runtime-session-123-ingress-code");
  CHECK(kube::text_at(ingress, "/spec/rules/0/host") == "session-123.localhost");
  CHECK(kube::name_of(claim_object(spec, stamp, terms)) == "openhands-runtime-session-123-pvc");
  terms.gateway = "shared";
  auto route = route_object(spec, anchor, terms);
  CHECK(kube::text_at(route, "/spec/parentRefs/0/name") == "shared");
  CHECK(kube::text_at(route, "/spec/hostnames/0") == "session-123.localhost");
}

TEST_CASE("names stay legal for every kind, whatever a session is called") {
  for (const auto& session : {std::string("A/../Ü"), std::string(200, 'x'), std::string("a--b"),
                              std::string("agent-server-8f14e45f-ceea-467f-9575-25b5cb6f0b7a")}) {
    auto spec = spec_for(session);
    for (const auto& name : {anchor_name(spec.name), code_name(spec.name), mark_name(spec.name)})
      CHECK_MESSAGE(name.size() <= 63, name);
    CHECK(session_label(spec).size() <= 63);
    auto anchor = with_uid(anchor_object(spec, stamp), "u");
    CHECK(annotation_of(anchor, "session-id") == session);
    CHECK(spec_of(anchor)->session_id == session);
  }
}

TEST_CASE("what belongs to an incarnation says so by the UID of its anchor") {
  auto spec = spec_for("a");
  auto anchor = with_uid(anchor_object(spec, stamp), "u-1");
  KubernetesTerms terms;
  auto pod = pod_object(spec, anchor, terms);
  REQUIRE(pod);
  for (const auto& object : {*pod, code_object(spec, anchor), ingress_object(spec, anchor, terms),
                             route_object(spec, anchor, terms)}) {
    CHECK(anchor_of(object) == "u-1");
    CHECK(kube::text_at(object, "/metadata/ownerReferences/0/uid") == "u-1");
  }
  // Files outlive it.
  CHECK(anchor_of(claim_object(spec, stamp, terms)).empty());
  CHECK(kube::items_at(claim_object(spec, stamp, terms), "/metadata/ownerReferences").empty());
  // A Service sends nothing to a pod of another incarnation.
  CHECK(kube::text_at(anchor, "/spec/selector/warren~1incarnation") == "12345678");
  CHECK(label_of(*pod, "warren~1incarnation") == "12345678");
}

TEST_CASE("stamps and specs are read as they were written") {
  auto spec = spec_for("a");
  auto anchor = anchor_object(spec, stamp);
  CHECK(stamp_of(anchor) == stamp);
  auto read = spec_of(anchor);
  REQUIRE(read);
  CHECK(read->environment == spec.environment);
  CHECK(read->key == spec.key);
  CHECK(read->command == spec.command);
  auto stopped = stamp;
  stopped.is_stop = true;
  CHECK(stamp_of(mark_object(spec, stopped)) == stopped);
  kube::Object foreign = json::object{{"metadata", json::object{{"name", "x"}}}};
  CHECK(!stamp_of(foreign));
  CHECK(!spec_of(foreign));
}

TEST_CASE("where a Secret may be made, keys and environment stand there alone") {
  auto spec = spec_for("a");
  auto secretive = stamp;
  secretive.secret = "openhands-runtime-a-12345678";
  auto anchor = with_uid(anchor_object(spec, secretive), "u-1");
  KubernetesTerms terms;
  auto pod = pod_object(spec, anchor, terms);
  REQUIRE(pod);
  auto claim = claim_object(spec, secretive, terms);
  for (const auto& object : {anchor, *pod, claim}) {
    auto text = json::serialize(object);
    CHECK(!text.contains("do not tell"));
    CHECK(!text.contains("the session's key"));
  }
  // The claim outlives the Secret and must not keep it.
  CHECK(stamp_of(claim)->secret.empty());
  bool refers = false;
  for (const auto& variable : kube::items_at(*pod, "/spec/containers/0/env"))
    if (kube::text_at(variable, "/name") == "LLM_KEY") {
      CHECK(kube::text_at(variable, "/valueFrom/secretKeyRef/name") == secretive.secret);
      CHECK(kube::text_at(variable, "/value").empty());
      // It is not optional: without it the container does not start.
      CHECK(!kube::flag_at(variable, "/valueFrom/secretKeyRef/optional"));
      refers = true;
    }
  CHECK(refers);
  auto secret = secret_object(spec, secretive);
  CHECK(kube::name_of(secret) == secretive.secret);
  CHECK(kube::text_at(secret, "/stringData/LLM_KEY") == "do not tell");
  CHECK(kube::text_at(secret, "/stringData/SESSION_API_KEY") == spec.key);
  // As a server gives it back.
  std::string whole(kube::text_at(secret, "/stringData/warren-spec"));
  kube::Object served = json::object{{"data", json::object{{"warren-spec", to_base64(whole)}}}};
  auto read = spec_of_secret(served);
  REQUIRE(read);
  CHECK(read->key == spec.key);
  CHECK(read->environment == spec.environment);
}

TEST_CASE("a request does not change who its sandbox is") {
  auto spec = spec_for("a");
  spec.environment["SESSION_ID"] = "another";
  spec.environment["OH_SESSION_API_KEYS_0"] = "mine";
  auto pod = pod_object(spec, with_uid(anchor_object(spec, stamp), "u"), {});
  REQUIRE(pod);
  for (const auto& variable : kube::items_at(*pod, "/spec/containers/0/env")) {
    auto name = kube::text_at(variable, "/name");
    if (name == "SESSION_ID") CHECK(kube::text_at(variable, "/value") == "a");
    if (name == "OH_SESSION_API_KEYS_0") CHECK(kube::text_at(variable, "/value") == spec.key);
  }
}

TEST_CASE("a template is laid over the pod, and does not change whose it is") {
  auto spec = spec_for("a");
  KubernetesTerms terms;
  terms.pod_template = json::parse(R"({
    "metadata": {"name": "mine", "labels": {"team": "blue", "session": "other"},
                 "ownerReferences": []},
    "spec": {"priorityClassName": "low", "enableServiceLinks": null,
             "containers": [{"name": "runtime", "env": [{"name": "EXTRA", "value": "1"}],
                             "resources": {"limits": {"cpu": "2"}},
                             "volumeMounts": [{"name": "cache", "mountPath": "/cache"}]},
                            {"name": "sidecar", "image": "side:1"}],
             "volumes": [{"name": "cache", "emptyDir": {}}]}})");
  auto pod = pod_object(spec, with_uid(anchor_object(spec, stamp), "u-1"), terms);
  REQUIRE(pod);
  CHECK(kube::name_of(*pod) == spec.name);
  CHECK(label_of(*pod, "team") == "blue");
  CHECK(label_of(*pod, "session") == "a");
  CHECK(kube::text_at(*pod, "/metadata/ownerReferences/0/uid") == "u-1");
  CHECK(kube::text_at(*pod, "/spec/priorityClassName") == "low");
  CHECK(!pod->at("spec").as_object().contains("enableServiceLinks"));
  CHECK(kube::items_at(*pod, "/spec/containers").size() == 2);
  CHECK(kube::text_at(*pod, "/spec/containers/0/image") == "agent:1");
  CHECK(kube::text_at(*pod, "/spec/containers/0/resources/limits/cpu") == "2");
  CHECK(kube::text_at(*pod, "/spec/containers/0/resources/limits/memory") == "2Gi");
  CHECK(kube::items_at(*pod, "/spec/containers/0/volumeMounts").size() == 2);
  CHECK(kube::items_at(*pod, "/spec/volumes").size() == 2);
  CHECK(kube::items_at(*pod, "/spec/containers/0/env").size() > 5);
  terms.pod_template = json::array{};
  CHECK(!pod_object(spec, anchor_object(spec, stamp), terms));
}

TEST_CASE("a command is run as it was asked for, a line by a shell, and none is the image's own") {
  auto spec = spec_for("a");
  auto anchor = with_uid(anchor_object(spec, stamp), "u");
  auto command = [&](const KubernetesTerms& terms) {
    auto pod = pod_object(spec, anchor, terms);
    REQUIRE(pod);
    return json::serialize(json::value(kube::items_at(*pod, "/spec/containers/0/command")));
  };
  CHECK(command({}) == R"(["agent","--port","60000"])");
  spec.command = {"agent --port {port}"};
  spec.is_shell = true;
  CHECK(command({}) == R"(["/bin/sh","-c","agent --port 60000"])");
  spec.command.clear();
  CHECK(command({}) == "[]");
  KubernetesTerms terms;
  terms.command = {"own", "words"};
  CHECK(command(terms) == R"(["own","words"])");
}

TEST_CASE("times are read as API servers write them") {
  auto time = WallClock::from_time_t(1'700'000'000);
  CHECK(parse_time("2023-11-14T22:13:20Z") == time);
  CHECK(parse_time("2023-11-14T22:13:20.250Z") == time + 250ms);
  CHECK(parse_time(iso8601(time)) == time);
  CHECK(!parse_time("2023-11-14"));
  CHECK(!parse_time(""));
}

TEST_CASE("an image is pulled as the request says, by default when the node does not have it") {
  auto spec = spec_for("a");
  auto anchor = with_uid(anchor_object(spec, stamp), "u-1");
  auto policy = [&] {
    auto pod = pod_object(spec, anchor, {});
    REQUIRE(pod);
    return std::string(kube::text_at(*pod, "/spec/containers/0/imagePullPolicy"));
  };
  CHECK(policy() == "IfNotPresent");
  spec.image_pull_policy = "Always";
  CHECK(policy() == "Always");
  // It is known to a replica that finishes what another one began.
  auto kept = spec_of(anchor_object(spec, stamp));
  REQUIRE(kept);
  CHECK(kept->image_pull_policy == "Always");
}
