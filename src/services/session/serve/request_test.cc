#include "services/session/serve/request.h"

#include <doctest/doctest.h>

#include <boost/json.hpp>

#include "services/session/serve/answer.h"

using namespace warren;
using namespace warren::session;

TEST_CASE("each generation of clients is understood") {
  auto older = start_from(
      R"({"image":"i","command":["python","-m","server","60000"],"working_dir":"/openhands/code/",
          "environment":{"DEBUG":"1"},"session_id":"abc","resource_factor":1})",
      "default");
  REQUIRE(older);
  CHECK(older->command.size() == 4);
  CHECK(!older->is_shell);
  CHECK(older->name == "openhands-runtime-abc");
  CHECK(older->runtime_id.size() == 32);

  auto sdk = start_from(
      R"({"image":"i","command":"/exe --port 60000","working_dir":"/","session_id":"agent-server-1",
          "runtime_class":"sysbox-runc","run_as_user":10001,"fs_group":10001,
          "image_pull_policy":"IfNotPresent","environment":null})",
      "default");
  REQUIRE(sdk);
  CHECK(sdk->is_shell);
  CHECK(sdk->run_as_user == 10001);
  CHECK(sdk->image_pull_policy == "IfNotPresent");
  CHECK(!sdk->run_as_group);
}

TEST_CASE("a request that cannot be understood is refused, and the member is named") {
  auto why = [](std::string_view body) {
    auto spec = start_from(body, "default");
    REQUIRE(!spec);
    CHECK(spec.error().code == Errc::invalid);
    return spec.error().what;
  };
  CHECK(why("").contains("JSON"));
  CHECK(why("[]").contains("object"));
  CHECK(why("{}").contains("session_id"));
  CHECK(why(R"({"session_id":7})").contains("session_id"));
  CHECK(why(R"({"session_id":"a","command":[1]})").contains("command"));
  CHECK(why(R"({"session_id":"a","environment":[]})").contains("environment"));
  CHECK(why(R"({"session_id":"a","environment":{"A=B":"c"}})").contains("A=B"));
  CHECK(why(R"({"session_id":"a","resource_factor":0})").contains("resource_factor"));
  CHECK(why(R"({"session_id":"a","run_as_user":-1})").contains("run_as_user"));
  CHECK(why(R"({"session_id":"a","image_pull_policy":"always"})").contains("image_pull_policy"));
  CHECK(!runtime_id_from("{}"));
  CHECK(*runtime_id_from(R"({"runtime_id":"x"})") == "x");
}

TEST_CASE("a runtime object has what every generation of clients looks for") {
  SandboxSpec spec{.session_id = "s", .name = "n", .runtime_id = std::string(32, 'b'), .key = "k"};
  Sandbox sandbox{.spec = spec, .incarnation = "life", .phase = Phase::running};
  PublicUrl url{"http://host:1"};
  auto object = boost::json::parse(runtime_json(view_of(sandbox, true), url)).as_object();
  CHECK(object.at("runtime_id").as_string() == spec.runtime_id);
  CHECK(object.at("session_id") == "s");
  CHECK(object.at("url").as_string() == "http://host:1/" + spec.runtime_id + "/runtime");
  CHECK(object.at("session_api_key") == "k");
  CHECK(object.at("status") == "running");
  CHECK(object.at("pod_status") == "ready");
  CHECK(object.at("work_hosts").as_object().at("http://host:1/" + spec.runtime_id + "/work-1") ==
        12000);
  CHECK(object.at("restart_count") == 0);

  auto status = [&](Phase phase, bool is_reachable, int restarts = 0) {
    sandbox.phase = phase;
    sandbox.restarts = restarts;
    auto told = boost::json::parse(runtime_json(view_of(sandbox, is_reachable), url)).as_object();
    return std::string(told.at("status").as_string()) + "/" +
           std::string(told.at("pod_status").as_string());
  };
  CHECK(status(Phase::running, false) == "starting/pending");
  CHECK(status(Phase::starting, false) == "starting/pending");
  CHECK(status(Phase::paused, false) == "paused/not found");
  CHECK(status(Phase::ended, false) == "error/failed");
  CHECK(status(Phase::ended, false, 3) == "error/crashloopbackoff");
}

TEST_CASE(
    "a runtime object has the states of its containers and its events, in Kubernetes' words") {
  SandboxSpec spec{.session_id = "s", .name = "n", .runtime_id = std::string(32, 'b')};
  Sandbox sandbox{.spec = spec, .phase = Phase::ended, .reason = "it was killed"};
  ContainerState container{.name = "runtime", .is = ContainerState::Is::terminated};
  container.reason = "OOMKilled";
  container.exit_code = 137;
  container.restarts = 1;
  sandbox.containers.push_back(container);
  auto view = view_of(sandbox, false);
  PublicUrl url{"http://host:1"};
  auto object = boost::json::parse(runtime_json(view, url)).as_object();
  CHECK(boost::json::serialize(object.at("container_statuses")) ==
        R"([{"name":"runtime","ready":false,"restartCount":1,)"
        R"("state":{"terminated":{"reason":"OOMKilled","exitCode":137}}}])");
  CHECK(object.at("events").at(0).at("message") == "it was killed");
  SandboxEvent event{.type = "Warning", .reason = "Failed", .message = "no such image"};
  view.events.push_back(event);
  object = boost::json::parse(runtime_json(view, url)).as_object();
  CHECK(object.at("events").as_array().size() == 1);
  CHECK(object.at("events").at(0).at("reason") == "Failed");
}

TEST_CASE("an error is an object that each generation of clients finds its member in") {
  auto object =
      boost::json::parse(error_json("runtime_not_found", "Runtime not found")).as_object();
  CHECK(object.at("error") == "runtime_not_found");
  CHECK(object.at("detail") == "Runtime not found");
  CHECK(object.at("message") == "Runtime not found");
}
