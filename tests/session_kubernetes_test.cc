// Sessions as pods: the driver, and the service as it is run, on a real API server with its collector of
// garbage. Pods run as processes of this machine (process_kubelet.h).
#include <doctest/doctest.h>

#include <boost/json.hpp>
#include <fstream>
#include <set>

#include "net/http/client.h"
#include "net/http/target.h"
#include "proof/testkit/servers/process_kubelet.h"
#include "proof/testkit/servers/redis_server.h"
#include "services/session/kubernetes/kubernetes_driver.h"
#include "services/session/names.h"
#include "tests/with_kube.h"

using namespace warren;
using namespace warren::session;
using kube::good;
using kube::soon;

namespace {

namespace fs = std::filesystem;

constexpr auto api_key = "the key of this test";

// That of OpenHands' document.
const std::string least_rules =
    R"({"apiGroups":[""],"resources":["pods","services","persistentvolumeclaims"],
        "verbs":["create","get","list","watch","delete"]},
       {"apiGroups":["networking.k8s.io"],"resources":["ingresses"],
        "verbs":["create","get","list","watch","delete"]})";
const std::string least_role = "[" + least_rules + "]";
// That of deploy/session/role.yaml.
const std::string whole_role = "[" + least_rules +
                               R"(,{"apiGroups":[""],"resources":["secrets"],
         "verbs":["create","get","list","watch","delete"]},
        {"apiGroups":[""],"resources":["services"],"verbs":["patch"]},
        {"apiGroups":[""],"resources":["pods/log"],"verbs":["get"]},
        {"apiGroups":[""],"resources":["events"],"verbs":["list"]}])";

SandboxSpec agent_spec(const std::string& session, std::vector<std::string> options = {}) {
  SandboxSpec spec{.session_id = session,
                   .name = name_of(session),
                   .runtime_id = runtime_id_of("default", session),
                   .image = "test"};
  spec.command = {"python3", (fs::path(WARREN_TESTS) / "session_agent.py").string()};
  for (auto& option : options) spec.command.push_back(std::move(option));
  spec.command.emplace_back("60000");
  spec.hash = hash_of(spec);
  return spec;
}

// A namespace in which a user has a role, and nodes.
struct Ground {
  explicit Ground(const asio::any_io_executor& on)
      : executor(on), admin(on, kube::access_of("admin")) {}

  awaitable<void> begin(std::string role) {
    kube::server().start_controllers();
    space = co_await kube::new_space(admin);
    co_await kube::allow(admin, space, "robot", std::move(role));
    kubelet = std::make_unique<ProcessKubelet>(kube::access_of("admin"), space);
  }
  KubernetesTerms terms() const {
    KubernetesTerms terms;
    terms.options.name_space = space;
    terms.grace = 2s;
    return terms;
  }
  kube::Place place(const kube::Kind& kind, std::string name = "") const {
    return {kind, space, std::move(name)};
  }
  awaitable<std::vector<kube::Object>> all(kube::Kind kind) {
    kube::Selection any;
    auto listed = co_await admin.list_all(place(kind), any, soon());
    co_return good(std::move(listed)).items;
  }
  awaitable<kube::Object> one(kube::Kind kind, std::string name) {
    auto read = co_await admin.get(place(kind, std::move(name)), soon());
    co_return good(std::move(read));
  }
  awaitable<bool> has(kube::Kind kind, std::string name) {
    auto read = co_await admin.get(place(kind, std::move(name)), soon());
    co_return read.has_value();
  }

  asio::any_io_executor executor;
  kube::Client admin;
  std::string space = {};
  std::unique_ptr<ProcessKubelet> kubelet = {};
};

// Every pod that there ever was in a namespace, and whether it was ever ready.
struct History {
  std::map<std::string, std::string> names = {};  // by UID
  std::set<std::string> ready = {}, gone = {};
};

awaitable<void> follow_pods(Ground& ground, History& history) {
  kube::Watcher pods(ground.admin, ground.place(kube::kinds::pods));
  pods.on_difference([&history](const kube::Difference& difference) {
    const auto& pod = difference.after ? *difference.after : *difference.before;
    std::string uid(kube::uid_of(pod));
    history.names[uid] = kube::name_of(pod);
    if (!difference.after) history.gone.insert(uid);
    for (const auto& condition : kube::items_at(pod, "/status/conditions"))
      if (kube::text_at(condition, "/type") == "Ready" &&
          kube::text_at(condition, "/status") == "True")
        history.ready.insert(uid);
  });
  co_await pods.run();
}

// Runs body(ground, driver, history) with a driver that follows what happens.
template <class Body>
void with_driver(std::string role, Body body) {
  testkit::run(
      [](std::string rules, Body work) -> awaitable<void> {
        Ground ground(co_await asio::this_coro::executor);
        co_await ground.begin(std::move(rules));
        auto driver = co_await KubernetesDriver::open(ground.executor, kube::access_of("robot"),
                                                      ground.terms(), soon());
        REQUIRE_MESSAGE(driver, driver.error().what);
        History history;
        auto inner = [](TaskGroup& tasks, Ground& on, KubernetesDriver& what, History& told,
                        Body& does) -> awaitable<bool> {
          tasks.start("test.driver", what.run());
          tasks.start("test.history", follow_pods(on, told));
          auto is_settled = [](KubernetesDriver& of) { return of.is_settled(); };
          co_await eventually(60s, "it has looked around", is_settled, what);
          co_await does(on, what, told);
          co_return true;
        };
        co_await with_group(inner, ground, **driver, history, work);
      }(std::move(role), body),
      300s);
}

awaitable<Sandbox> started(KubernetesDriver& driver, SandboxSpec spec) {
  auto sight = co_await driver.look(spec.name, soon());
  REQUIRE_MESSAGE(sight, sight.error().what);
  auto sandbox = co_await driver.start(std::move(spec), sight->basis, soon());
  REQUIRE_MESSAGE(sandbox, sandbox.error().what);
  co_return *sandbox;
}

awaitable<void> in_phase(KubernetesDriver& driver, std::string name, Phase phase) {
  auto is_so = [](KubernetesDriver& of, std::string& which, Phase& wanted) -> Result<> {
    const auto* sandbox = of.seen(which);
    if (!sandbox) return fail(Errc::not_found, "it is not there");
    if (sandbox->phase != wanted)
      return fail(Errc::invalid, "it is {}: {}", session::name(sandbox->phase), sandbox->reason);
    return ok;
  };
  co_await eventually(60s, "the sandbox is in that phase", is_so, driver, name, phase);
}

awaitable<std::string> asked(const Sandbox& sandbox, std::string method, std::string target,
                             std::string body = "") {
  HttpPool pool(co_await asio::this_coro::executor, {});
  const auto& at = sandbox.endpoints.at(Door::runtime);
  HttpUrl url{.host = at.host, .port = std::to_string(at.port), .path = ""};
  HttpAsk ask{std::move(method), std::move(target), "", std::move(body)};
  auto reply = co_await pool.ask(std::move(url), std::move(ask), soon());
  REQUIRE_MESSAGE(reply, reply.error().what);
  CHECK(reply->status == 200);
  co_return reply->body;
}

awaitable<bool> has_no(Ground& ground, kube::Kind& kind) {
  auto left = co_await ground.all(kind);
  co_return left.size() == 0;
}

// What remains of a stopped session: the mark alone.
awaitable<void> is_all_gone(Ground& ground, std::string name) {
  for (auto kind :
       {kube::kinds::pods, kube::kinds::claims, kube::kinds::ingresses, kube::kinds::secrets})
    co_await eventually(30s, "nothing of its kind is left", has_no, ground, kind);
  auto services = co_await ground.all(kube::kinds::services);
  REQUIRE(services.size() == 1);
  CHECK(kube::name_of(services[0]) == mark_name(name));
}

// What a creator that has died had sent, and what somebody on the way had held back.
awaitable<std::string> arrives_late(Ground& ground, kube::Kind kind, kube::Object object) {
  auto made = co_await ground.admin.create(ground.place(kind), std::move(object), soon());
  co_return std::string(kube::uid_of(good(std::move(made))));
}

awaitable<void> gone_in_time(Ground& ground, kube::Kind kind, std::string name, std::string uid) {
  auto is_gone = [](Ground& on, kube::Kind& what, std::string& which,
                    std::string& id) -> awaitable<bool> {
    auto read = co_await on.admin.get(on.place(what, which), soon());
    co_return !read || kube::uid_of(*read) != id;
  };
  co_await eventually(10s, "it is gone", is_gone, ground, kind, name, uid);
}

}  // namespace

TEST_CASE("with OpenHands' own role a session starts, rests with its files, and leaves nothing") {
  with_driver(
      least_role,
      [](Ground& ground, KubernetesDriver& driver, History& history) -> awaitable<void> {
        CHECK(!driver.rights().secrets);
        CHECK(!driver.rights().touches);
        CHECK(driver.rights().routes);
        auto spec = agent_spec("session-123");
        auto first = co_await started(driver, spec);
        CHECK(first.spec.key.size() == 64);
        co_await in_phase(driver, spec.name, Phase::running);
        auto running = *driver.seen(spec.name);
        co_await asked(running, "PUT", "/file?name=note", "kept");
        CHECK(co_await ground.has(kube::kinds::services, "openhands-runtime-session-123-svc"));
        CHECK(co_await ground.has(kube::kinds::services, "openhands-runtime-session-123-svc-code"));
        CHECK(co_await ground.has(kube::kinds::ingresses,
                                  "openhands-runtime-session-123-ingress-code"));
        auto claim = co_await ground.one(kube::kinds::claims, "openhands-runtime-session-123-pvc");

        auto paused = co_await driver.pause(spec.name, running.incarnation, soon());
        REQUIRE_MESSAGE(paused, paused.error().what);
        CHECK(driver.seen(spec.name)->phase == Phase::paused);
        CHECK(!co_await ground.has(kube::kinds::pods, spec.name));
        auto second = co_await started(driver, driver.seen(spec.name)->spec);
        CHECK(second.incarnation != running.incarnation);
        CHECK(second.spec.key == first.spec.key);
        co_await in_phase(driver, spec.name, Phase::running);
        auto kept = co_await asked(*driver.seen(spec.name), "GET", "/file?name=note");
        CHECK(kept == "kept");
        auto same = co_await ground.one(kube::kinds::claims, "openhands-runtime-session-123-pvc");
        CHECK(kube::uid_of(same) == kube::uid_of(claim));
        // An order for the life before does not end this one.
        auto late = co_await driver.pause(spec.name, running.incarnation, soon());
        REQUIRE(!late);
        CHECK(late.error().code == Errc::lease_lost);

        auto stopped = co_await driver.stop(spec.name, "", soon());
        REQUIRE_MESSAGE(stopped, stopped.error().what);
        CHECK(!driver.seen(spec.name));
        co_await is_all_gone(ground, spec.name);
        // It may be started again, with nothing of before.
        co_await started(driver, spec);
        co_await in_phase(driver, spec.name, Phase::running);
        auto fresh = co_await ground.one(kube::kinds::claims, "openhands-runtime-session-123-pvc");
        CHECK(kube::uid_of(fresh) != kube::uid_of(claim));
        CHECK(history.names.size() == 3);
      });
}

TEST_CASE("a role that lacks a rule is told at the start, with the rule, and nothing is served") {
  testkit::run(
      []() -> awaitable<void> {
        Ground ground(co_await asio::this_coro::executor);
        co_await ground.begin(
            R"([{"apiGroups":[""],"resources":["pods","services","persistentvolumeclaims"],
                 "verbs":["create","get","list","watch"]}])");
        auto driver = co_await KubernetesDriver::open(ground.executor, kube::access_of("robot"),
                                                      ground.terms(), soon());
        REQUIRE(!driver);
        CHECK(driver.error().code == Errc::denied);
        for (const auto* kind : {"pods", "services", "persistentvolumeclaims"})
          CHECK(driver.error().what.contains(fmt::format("delete {} in {}", kind, ground.space)));
        CHECK(!driver.error().what.contains("create"));
      }(),
      300s);
}

TEST_CASE("with a role that has all, keys are in Secrets, and use is written down") {
  with_driver(
      whole_role, [](Ground& ground, KubernetesDriver& driver, History&) -> awaitable<void> {
        CHECK(driver.rights().secrets);
        CHECK(driver.rights().touches);
        auto spec = agent_spec("a");
        spec.environment["LLM_KEY"] = "do not tell";
        auto first = co_await started(driver, spec);
        co_await in_phase(driver, spec.name, Phase::running);
        auto running = *driver.seen(spec.name);
        auto environment = co_await asked(running, "GET", "/env");
        CHECK(environment.contains("do not tell"));
        CHECK(environment.contains(first.spec.key));
        auto pod = json::serialize(co_await ground.one(kube::kinds::pods, spec.name));
        auto anchor =
            json::serialize(co_await ground.one(kube::kinds::services, anchor_name(spec.name)));
        for (const auto& text : {pod, anchor}) {
          CHECK(!text.contains("do not tell"));
          CHECK(!text.contains(first.spec.key));
        }
        // What one replica writes down, another reads.
        CHECK(co_await driver.touch(spec.name));
        auto touched = co_await ground.one(kube::kinds::services, anchor_name(spec.name));
        auto written = session::active_at(touched);
        REQUIRE(written);
        CHECK(driver.active_at(*driver.seen(spec.name)) >= *written);
        // Key and environment come back after a pause.
        REQUIRE(co_await driver.pause(spec.name, "", soon()));
        auto rests = co_await driver.look(spec.name, soon());
        REQUIRE((rests && rests->sandbox));
        CHECK(rests->sandbox->spec.key == first.spec.key);
        CHECK(rests->sandbox->spec.environment.at("LLM_KEY") == "do not tell");
        REQUIRE(co_await driver.stop(spec.name, "", soon()));
        // The Secret of the mark that a stop replaced is swept a minute later; that of the pod is gone.
        CHECK(!co_await ground.has(kube::kinds::pods, spec.name));
      });
}

TEST_CASE("a pod that a dead creator had sent, and that arrives after a stop, is never ready") {
  auto body = [](Ground& ground, KubernetesDriver& driver, History& history) -> awaitable<void> {
    auto spec = agent_spec("late");
    auto before = co_await driver.look(spec.name, soon());
    auto first = co_await started(driver, spec);
    auto anchor = co_await ground.one(kube::kinds::services, anchor_name(spec.name));
    auto pod = pod_object(first.spec, anchor, driver.terms());
    REQUIRE(pod);
    co_await in_phase(driver, spec.name, Phase::running);
    REQUIRE(co_await driver.stop(spec.name, "", soon()));
    auto uid = co_await arrives_late(ground, kube::kinds::pods, *pod);
    co_await gone_in_time(ground, kube::kinds::pods, spec.name, uid);
    auto is_heard = [&history, &uid] { return history.gone.contains(uid); };
    co_await eventually(30s, "its end is heard of", is_heard);
    CHECK(!history.ready.contains(uid));
    CHECK(history.ready.size() == 1);
    // So is what comes before a pod: no session returns by it.
    auto no_claim = kube::kinds::claims;
    co_await eventually(30s, "the claim is gone", has_no, ground, no_claim);
    Stamp stamp{.turn = 0, .generation = 0, .token = "late"};
    auto late_anchor = anchor_object(first.spec, stamp);
    auto anchor_uid = co_await arrives_late(ground, kube::kinds::services, std::move(late_anchor));
    auto claim = claim_object(first.spec, stamp, driver.terms());
    auto claim_uid = co_await arrives_late(ground, kube::kinds::claims, std::move(claim));
    co_await gone_in_time(ground, kube::kinds::services, anchor_name(spec.name), anchor_uid);
    co_await gone_in_time(ground, kube::kinds::claims, claim_name(spec.name), claim_uid);
    auto sight = co_await driver.look(spec.name, soon());
    REQUIRE(sight);
    CHECK(!sight->sandbox);
    // A start that was based on what was before the stop is refused.
    auto overtaken = co_await driver.start(spec, before->basis, soon());
    REQUIRE(!overtaken);
    CHECK(overtaken.error().code == Errc::lease_lost);
    CHECK(!co_await ground.has(kube::kinds::pods, spec.name));
  };
  SUBCASE("with OpenHands' own role") { with_driver(least_role, body); }
  SUBCASE("with the whole role") { with_driver(whole_role, body); }
}

TEST_CASE(
    "a pod that was sent before a pause and arrives after it never starts: its Secret is gone") {
  with_driver(whole_role,
              [](Ground& ground, KubernetesDriver& driver, History& history) -> awaitable<void> {
                auto spec = agent_spec("rests");
                auto first = co_await started(driver, spec);
                auto anchor = co_await ground.one(kube::kinds::services, anchor_name(spec.name));
                auto pod = pod_object(first.spec, anchor, driver.terms());
                REQUIRE(pod);
                co_await in_phase(driver, spec.name, Phase::running);
                REQUIRE(co_await driver.pause(spec.name, "", soon()));
                auto uid = co_await arrives_late(ground, kube::kinds::pods, *pod);
                co_await gone_in_time(ground, kube::kinds::pods, spec.name, uid);
                auto is_heard = [&history, &uid] { return history.gone.contains(uid); };
                co_await eventually(30s, "its end is heard of", is_heard);
                CHECK(!history.ready.contains(uid));
                co_await in_phase(driver, spec.name, Phase::paused);
                // The files wait for the next start.
                co_await started(driver, driver.seen(spec.name)->spec);
                co_await in_phase(driver, spec.name, Phase::running);
              });
}

TEST_CASE("of two replicas that start one session one does, and there is one pod for ever") {
  with_driver(least_role,
              [](Ground& ground, KubernetesDriver& driver, History& history) -> awaitable<void> {
                auto spec = agent_spec("one");
                auto other = co_await KubernetesDriver::open(
                    ground.executor, kube::access_of("robot"), ground.terms(), soon());
                REQUIRE(other);
                auto sight = co_await driver.look(spec.name, soon());
                REQUIRE(sight);
                struct Count {
                  int started = 0, held = 0, over = 0;
                } count;
                auto start = [](KubernetesDriver& of, SandboxSpec what, std::string basis,
                                Count& into) -> awaitable<void> {
                  auto sandbox = co_await of.start(std::move(what), std::move(basis), soon());
                  if (sandbox) ++into.started;
                  if (!sandbox && sandbox.error().code == Errc::held_elsewhere) ++into.held;
                  ++into.over;
                };
                auto all = [](TaskGroup& tasks, KubernetesDriver& a, KubernetesDriver& b,
                              SandboxSpec& what, std::string& basis, Count& into,
                              decltype(start)& does) -> awaitable<bool> {
                  for (int i = 0; i < 4; ++i)
                    for (auto* by : {&a, &b})
                      tasks.start("test.start", does(*by, what, basis, into));
                  auto is_over = [](Count& now) { return now.over == 8; };
                  co_await eventually(90s, "all have an answer", is_over, into);
                  co_return true;
                };
                co_await with_group(all, driver, **other, spec, sight->basis, count, start);
                CHECK(count.started == 1);
                CHECK(count.held == 7);
                co_await in_phase(driver, spec.name, Phase::running);
                CHECK(history.names.size() == 1);
              });
}

TEST_CASE("what a creator that died has left half made is finished by whoever sees it") {
  with_driver(least_role,
              [](Ground& ground, KubernetesDriver& driver, History& history) -> awaitable<void> {
                auto spec = agent_spec("half");
                spec.key = new_session_key();
                Stamp stamp{.created_at = WallClock::now(), .token = "12345678"};
                co_await arrives_late(ground, kube::kinds::services, anchor_object(spec, stamp));
                co_await in_phase(driver, spec.name, Phase::running);
                CHECK(driver.seen(spec.name)->spec.key == spec.key);
                CHECK(co_await ground.has(kube::kinds::ingresses, ingress_name(spec.name)));
                CHECK(history.names.size() == 1);
              });
}

TEST_CASE("a pod that ends says why, and the next start replaces it, with its files") {
  with_driver(whole_role, [](Ground&, KubernetesDriver& driver, History&) -> awaitable<void> {
    auto spec = agent_spec("ends");
    auto first = co_await started(driver, spec);
    co_await in_phase(driver, spec.name, Phase::running);
    auto running = *driver.seen(spec.name);
    co_await asked(running, "PUT", "/file?name=note", "kept");
    co_await asked(running, "GET", "/exit?code=3");
    co_await in_phase(driver, spec.name, Phase::ended);
    CHECK(driver.seen(spec.name)->exit_code == 3);
    CHECK(driver.seen(spec.name)->reason.contains("exit code 3"));
    auto second = co_await started(driver, spec);
    CHECK(second.spec.key == first.spec.key);
    co_await in_phase(driver, spec.name, Phase::running);
    CHECK(driver.seen(spec.name)->incarnation != running.incarnation);
    CHECK(driver.seen(spec.name)->restarts == 1);
    auto kept = co_await asked(*driver.seen(spec.name), "GET", "/file?name=note");
    CHECK(kept == "kept");
  });
}

TEST_CASE("a pod that can never start is told early, and so is what the cluster refuses") {
  with_driver(
      least_role, [](Ground& ground, KubernetesDriver& driver, History&) -> awaitable<void> {
        auto spec = agent_spec("imageless");
        spec.image = "missing";
        co_await started(driver, spec);
        co_await in_phase(driver, spec.name, Phase::ended);
        CHECK(driver.seen(spec.name)->reason.contains("ImagePullBackOff"));
        // No room for another pod: a quota says so.
        kube::Kind quotas{"", "v1", "resourcequotas"};
        auto quota = kube::object(R"({"apiVersion":"v1","kind":"ResourceQuota",
      "metadata":{"name":"none"},"spec":{"hard":{"count/pods":"0"}}})");
        auto made = co_await ground.admin.create(ground.place(quotas), quota, soon());
        good(std::move(made));
        auto status =
            kube::object(R"({"status":{"hard":{"count/pods":"0"},"used":{"count/pods":"0"}}})");
        auto where = ground.place(quotas, "none");
        where.subresource = "status";
        auto counted = co_await ground.admin.patch(where, kube::PatchKind::merge, status, soon());
        good(std::move(counted));
        auto is_in_force = [](Ground& on) -> awaitable<bool> {
          auto probe = kube::object(R"({"apiVersion":"v1","kind":"Pod","metadata":{"name":"probe"},
        "spec":{"nodeName":"nowhere","containers":[{"name":"c","image":"i"}]}})");
          auto tried = co_await on.admin.create(on.place(kube::kinds::pods), probe, soon());
          if (!tried) co_return tried.error().reason == kube::Reason::forbidden;
          kube::RemoveTerms at_once{.uid = std::string(kube::uid_of(*tried))};
          at_once.grace = 0s;
          auto removed =
              co_await on.admin.remove(on.place(kube::kinds::pods, "probe"), at_once, soon());
          good(std::move(removed));
          co_return false;
        };
        co_await eventually(60s, "the quota is in force", is_in_force, ground);
        auto crowded = agent_spec("crowded");
        auto sight = co_await driver.look(crowded.name, soon());
        auto refused = co_await driver.start(crowded, sight->basis, soon());
        REQUIRE(!refused);
        CHECK(refused.error().code == Errc::refused);
        CHECK_MESSAGE(refused.error().what.contains("the cluster refuses the pod"),
                      refused.error().what);
        // Nothing of it is left.
        auto after = co_await driver.look(crowded.name, soon());
        REQUIRE(after);
        CHECK(!after->sandbox);
        // No image at all is a mistake of the request.
        auto nameless = agent_spec("nameless");
        nameless.image.clear();
        auto wrong = co_await driver.start(nameless, "0", soon());
        REQUIRE(!wrong);
        CHECK(wrong.error().code == Errc::invalid);
        CHECK(wrong.error().what.contains("runtime_container_image"));
      });
}

TEST_CASE("a pod that OpenHands made is adopted, and paused, resumed and stopped like others") {
  with_driver(
      least_role,
      [](Ground& ground, KubernetesDriver& driver, History& history) -> awaitable<void> {
        auto spec = agent_spec("theirs");
        auto claim = kube::object(fmt::format(
            R"({{"apiVersion":"v1","kind":"PersistentVolumeClaim","metadata":{{"name":"{}-pvc"}},
             "spec":{{"accessModes":["ReadWriteOnce"],
                      "resources":{{"requests":{{"storage":"2Gi"}}}}}}}})",
            spec.name));
        co_await arrives_late(ground, kube::kinds::claims, std::move(claim));
        auto service = kube::object(fmt::format(
            R"({{"apiVersion":"v1","kind":"Service","metadata":{{"name":"{}-svc"}},
             "spec":{{"selector":{{"app":"openhands-runtime","session":"theirs"}},
                      "ports":[{{"port":8080,"targetPort":"http"}}]}}}})",
            spec.name));
        co_await arrives_late(ground, kube::kinds::services, std::move(service));
        auto pod = kube::object(fmt::format(
            R"({{"apiVersion":"v1","kind":"Pod","metadata":{{"name":"{0}",
             "labels":{{"app":"openhands-runtime","session":"theirs"}}}},
             "spec":{{"restartPolicy":"Never","containers":[{{"name":"runtime","image":"old",
               "command":["python3","{1}","8080"],
               "env":[{{"name":"SESSION_API_KEY","value":"their key"}}],
               "ports":[{{"containerPort":8080,"name":"http"}}],
               "readinessProbe":{{"httpGet":{{"path":"/alive","port":"http"}}}},
               "volumeMounts":[{{"name":"w","mountPath":"/workspace"}}]}}],
               "volumes":[{{"name":"w","persistentVolumeClaim":{{"claimName":"{0}-pvc"}}}}]}}}})",
            spec.name, spec.command[1]));
        auto uid = co_await arrives_late(ground, kube::kinds::pods, std::move(pod));
        co_await in_phase(driver, spec.name, Phase::running);
        auto adopted = *driver.seen(spec.name);
        CHECK(adopted.incarnation == uid);
        CHECK(adopted.spec.session_id == "theirs");
        CHECK(adopted.spec.key == "their key");
        co_await asked(adopted, "PUT", "/file?name=note", "kept");
        auto sight = co_await driver.look(spec.name, soon());
        auto again = co_await driver.start(spec, sight->basis, soon());
        REQUIRE(!again);
        CHECK(again.error().code == Errc::held_elsewhere);
        CHECK(history.names.size() == 1);

        auto paused = co_await driver.pause(spec.name, uid, soon());
        REQUIRE_MESSAGE(paused, paused.error().what);
        co_await in_phase(driver, spec.name, Phase::paused);
        auto resumed = driver.seen(spec.name)->spec;
        resumed.command.back() = "60000";  // where pods of ours listen
        co_await started(driver, resumed);
        co_await in_phase(driver, spec.name, Phase::running);
        auto kept = co_await asked(*driver.seen(spec.name), "GET", "/file?name=note");
        CHECK(kept == "kept");
        CHECK(driver.seen(spec.name)->spec.key == "their key");
        auto stopped = co_await driver.stop(spec.name, "", soon());
        REQUIRE_MESSAGE(stopped, stopped.error().what);
        co_await is_all_gone(ground, spec.name);
      });
}

namespace {

// Replicas of the service as they are run, on one Redis and one namespace.
class Replicas {
 public:
  Replicas(Ground& ground, int count) : space_(ground.space) {
    std::ofstream(folder_.path() / "kubeconfig") << kube::server().kubeconfig("robot");
    std::ofstream(folder_.path() / "config.toml")
        << "[sandbox.kubernetes]\nnamespace = \"" << space_ << "\"\n";
    for (int i = 0; i < count; ++i) ports_.emplace_back();
    for (int i = 0; i < count; ++i) start(i);
    for (int i = 0; i < count; ++i) await_ready(i);
  }
  void start(int i) {
    Program program{{WARREN_BINARY, "session", "serve", "--port", std::to_string(port(i)),
                     "--grace", "2s", "--openhands-config", folder_.path() / "config.toml"},
                    folder_.path() / fmt::format("replica-{}.log", i)};
    program.environment = {"RUNTIME=kubernetes",
                           "KUBECONFIG=" + (folder_.path() / "kubeconfig").string(),
                           fmt::format("REDIS_URL=redis://{}", redis_.address()),
                           fmt::format("SESSION_SERVICE_API_KEY={}", api_key)};
    processes_.erase(i);
    processes_.try_emplace(i, program);
  }
  void await_ready(int i) {
    wait_for(60s, "the replica is ready", [&]() -> Result<> {
      REQUIRE_MESSAGE(processes_.at(i).alive(), log(i));
      auto reply = ask_and_wait(i, "GET", "/readiness");
      if (reply.first != 200) return fail(Errc::unavailable, "{} {}", reply.first, reply.second);
      CHECK(reply.second.contains("\"driver\":\"kubernetes\""));
      return ok;
    });
  }
  unsigned short port(int i) const { return ports_[static_cast<std::size_t>(i)].number(); }
  std::string url(int i) const { return fmt::format("http://127.0.0.1:{}", port(i)); }
  Process& process(int i) { return processes_.at(i); }
  RedisServer& redis() { return redis_; }
  std::string log(int i) const { return processes_.at(i).log_text(); }
  const std::string& space() const { return space_; }

  awaitable<std::pair<int, std::string>> ask(int i, std::string method, std::string target,
                                             std::string body = "") {
    HttpPool pool(co_await asio::this_coro::executor, {});
    HttpAsk what{std::move(method), std::move(target), fmt::format("X-API-Key: {}\r\n", api_key),
                 std::move(body)};
    auto reply = co_await pool.ask(*parse_http_url(url(i)), std::move(what), Clock::now() + 150s);
    if (!reply) co_return std::pair(0, reply.error().what);
    co_return std::pair(reply->status, reply->body);
  }

 private:
  std::pair<int, std::string> ask_and_wait(int i, std::string method, std::string target) {
    std::pair<int, std::string> answer;
    auto all = [](Replicas& of, int which, std::string how, std::string what,
                  std::pair<int, std::string>& into) -> awaitable<void> {
      into = co_await of.ask(which, std::move(how), std::move(what));
    };
    testkit::run(all(*this, i, std::move(method), std::move(target), answer), 160s);
    return answer;
  }
  std::string space_;
  TempFolder folder_;
  RedisServer redis_;
  std::vector<Port> ports_;
  std::map<int, Process> processes_;
};

std::string start_body(const std::string& id) {
  auto spec = agent_spec(id);
  json::array command(spec.command.begin(), spec.command.end());
  return json::serialize(json::object{{"session_id", id},
                                      {"image", "test"},
                                      {"working_dir", "/workspace"},
                                      {"command", std::move(command)}});
}

// Runs body(ground, replicas, history) with so many.
template <class Body>
void with_replicas(int count, Body body) {
  Ground* kept = nullptr;
  asio::io_context io;
  Ground ground(io.get_executor());
  kept = &ground;
  // The namespace first: replicas are started from outside of a coroutine.
  auto begin = [](Ground& on) -> awaitable<void> { co_await on.begin(whole_role); };
  asio::co_spawn(io, begin(ground), [](std::exception_ptr thrown) {
    if (thrown) std::rethrow_exception(thrown);
  });
  while (ground.kubelet == nullptr && io.run_one() > 0) {
  }
  Replicas replicas(ground, count);
  testkit::run(
      [](Ground& before, Replicas& of, Body work) -> awaitable<void> {
        Ground on(co_await asio::this_coro::executor);
        on.space = before.space;
        History history;
        auto inner = [](TaskGroup& tasks, Ground& where, Replicas& all, History& told,
                        Body& does) -> awaitable<bool> {
          tasks.start("test.history", follow_pods(where, told));
          co_await does(where, all, told);
          co_return true;
        };
        co_await with_group(inner, on, of, history, work);
      }(*kept, replicas, body),
      280s);
}

std::string member(const std::string& body, const char* name) {
  auto object = json::parse(body).as_object();
  return object.contains(name) ? std::string(object.at(name).as_string()) : "";
}

awaitable<void> start_at(Replicas& replicas, int i, std::string id,
                         std::vector<std::pair<int, std::string>>& told) {
  auto answer = co_await replicas.ask(i, "POST", "/start", start_body(id));
  told.push_back(std::move(answer));
}

}  // namespace

TEST_CASE("one session asked for at two replicas at once has one pod in all that was ever seen") {
  with_replicas(2, [](Ground& ground, Replicas& replicas, History& history) -> awaitable<void> {
    std::vector<std::pair<int, std::string>> told;
    auto all = [](TaskGroup& tasks, Replicas& of,
                  std::vector<std::pair<int, std::string>>& into) -> awaitable<bool> {
      for (int i = 0; i < 8; ++i) tasks.start("test.start", start_at(of, i % 2, "Both", into));
      auto is_over = [&into] { return into.size() == 8; };
      co_await eventually(160s, "all have an answer", is_over);
      co_return true;
    };
    co_await with_group(all, replicas, told);
    std::set<std::string> keys;
    for (const auto& [status, body] : told) {
      REQUIRE_MESSAGE(status == 200, body << "\n" << replicas.log(0) << replicas.log(1));
      keys.insert(member(body, "session_api_key"));
      CHECK(member(body, "status") == "running");
    }
    CHECK(keys.size() == 1);
    CHECK(history.names.size() == 1);
    CHECK((replicas.log(0) + replicas.log(1)).contains("COORDINATION_METRIC"));

    // Redis forgets everything: whoever asks finds the same sandbox, and the record comes back.
    auto key = fmt::format("openhands:resource:k8s-pod:{}:{}", replicas.space(), name_of("Both"));
    CHECK(replicas.redis().cli({"GET", key}).contains("\"created\""));
    replicas.redis().cli({"FLUSHALL"});
    auto seen = co_await replicas.ask(1, "GET", "/sessions/Both");
    CHECK(member(seen.second, "status") == "running");
    std::vector<std::pair<int, std::string>> again;
    co_await start_at(replicas, 1, "Both", again);
    REQUIRE_MESSAGE(again[0].first == 200, again[0].second);
    CHECK(keys.contains(member(again[0].second, "session_api_key")));
    // A stop does not need the record, and finds none.
    replicas.redis().cli({"FLUSHALL"});
    auto runtime = member(again[0].second, "runtime_id");
    auto body = json::serialize(json::object{{"runtime_id", runtime}});
    auto resumed = co_await replicas.ask(0, "POST", "/pause", body);
    REQUIRE_MESSAGE(resumed.first == 200, resumed.second);
    CHECK(replicas.redis().cli({"GET", key}).contains("paused"));
    replicas.redis().cli({"FLUSHALL"});
    resumed = co_await replicas.ask(1, "POST", "/resume", body);
    REQUIRE_MESSAGE(resumed.first == 200, resumed.second << replicas.log(1));
    CHECK(member(resumed.second, "status") == "running");
    CHECK(history.names.size() == 2);
    auto stopped = co_await replicas.ask(0, "POST", "/stop", body);
    CHECK_MESSAGE(stopped.first == 200, stopped.second);
    auto none = co_await replicas.ask(1, "GET", "/sessions/Both");
    CHECK_MESSAGE(none.first == 404, none.second);
    CHECK(!co_await ground.has(kube::kinds::pods, name_of("Both")));
    CHECK(history.names.size() == 2);
  });
}

TEST_CASE("a replica that is killed while it creates costs nobody the session") {
  with_replicas(2, [](Ground& ground, Replicas& replicas, History& history) -> awaitable<void> {
    std::vector<std::pair<int, std::string>> told;
    auto all = [](TaskGroup& tasks, Ground& on, Replicas& of,
                  std::vector<std::pair<int, std::string>>& into) -> awaitable<bool> {
      std::vector<std::pair<int, std::string>> lost;
      tasks.start("test.first", start_at(of, 0, "killed", lost));
      auto has_begun = [](Ground& where) -> awaitable<bool> {
        co_return co_await where.has(kube::kinds::services, anchor_name(name_of("killed")));
      };
      co_await eventually(60s, "it has taken the anchor", has_begun, on);
      of.process(0).kill();
      co_await start_at(of, 1, "killed", into);
      co_return true;
    };
    co_await with_group(all, ground, replicas, told);
    REQUIRE(told.size() == 1);
    REQUIRE_MESSAGE(told[0].first == 200, told[0].second << replicas.log(1));
    CHECK(member(told[0].second, "status") == "running");
    CHECK(history.names.size() == 1);
    // A replica's end deletes nothing.
    replicas.process(1).terminate();
    CHECK(replicas.process(1).wait(40s) == 0);
    CHECK(co_await ground.has(kube::kinds::pods, name_of("killed")));
  });
}

TEST_CASE(
    "a client written from the description finds all of it in a cluster, through the proxy too") {
  with_replicas(2, [](Ground&, Replicas& replicas, History&) -> awaitable<void> {
    TempFolder folder;
    for (const auto* id : {"agent-server-8f14e45f-ceea-467f-9575-25b5cb6f0b7a", "../Ünicode/a b"}) {
      auto spec = agent_spec(id);
      json::array command(spec.command.begin(), spec.command.end());
      Program program{{"python3", fs::path(WARREN_TESTS) / "session_client.py", replicas.url(0),
                       api_key, id, json::serialize(command)},
                      folder.path() / "client.log"};
      Process client(program);
      auto has_ended = [&client] { return !client.alive(); };
      co_await eventually(150s, "the client has ended", has_ended);
      CHECK_MESSAGE(client.wait() == 0, client.log_text() << "\n" << replicas.log(0));
    }
  });
}
