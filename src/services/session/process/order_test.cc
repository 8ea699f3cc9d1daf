#include "services/session/process/order.h"

#include <doctest/doctest.h>

#include "services/session/process/images.h"
#include "services/session/process/yard.h"

using namespace warren;
using namespace warren::session;

namespace {

SandboxSpec spec_of(std::vector<std::string> command, bool is_shell = false) {
  return {.session_id = "s",
          .name = "openhands-runtime-s",
          .runtime_id = std::string(32, 'a'),
          .image = "image",
          .command = std::move(command),
          .is_shell = is_shell,
          .key = "secret"};
}

const std::map<Door, Endpoint> ports{{Door::runtime, {"127.0.0.1", 20001}},
                                     {Door::vscode, {"127.0.0.1", 20002}},
                                     {Door::work_1, {"127.0.0.1", 20003}},
                                     {Door::work_2, {"127.0.0.1", 20004}}};

}  // namespace

TEST_CASE("an order says all that a shim needs, and comes back as it was") {
  Order order{.spec = spec_of({"a", "b c"}), .generation = 7, .incarnation = "life"};
  order.spec.environment = {{"A", "1"}, {"B", "x=y\n"}};
  order.spec.run_as_user = 10001;
  order.terms.root = "/yard";
  order.terms.shown = {"/opt/tools"};
  auto read = order_from(to_json(order));
  REQUIRE(read);
  CHECK(read->spec.command == order.spec.command);
  CHECK(read->spec.environment == order.spec.environment);
  CHECK(read->spec.run_as_user == 10001);
  CHECK(!read->spec.run_as_group);
  CHECK(read->generation == 7);
  CHECK(read->terms.shown == order.terms.shown);
  CHECK(read->terms.last_port == order.terms.last_port);
  CHECK(!order_from("{}"));
  CHECK(!order_from("no json"));
}

TEST_CASE("the ports that a program for a pod names become those of the sandbox") {
  auto words = words_of(spec_of({"agent", "--port", "60000", "--also={port}", "600000"}), ports);
  CHECK(words == std::vector<std::string>{"agent", "--port", "20001", "--also=20001", "600000"});
  auto line = words_of(spec_of({"agent --port 60000 -v {vscode_port} x60000 12000"}, true), ports);
  REQUIRE(line.size() == 3);
  CHECK(line[2] == "agent --port 20001 -v 20002 x60000 20003");
}

TEST_CASE(
    "the environment of a sandbox is a closed list, and a request does not change who it is") {
  setenv("REDIS_PASSWORD", "do not tell", 1);
  Order order{.spec = spec_of({"a"}), .incarnation = "life"};
  order.spec.environment = {
      {"MINE", "yes"}, {"SESSION_API_KEY", "stolen"}, {"WORKER_1", "12000"}, {"BAD=NAME", "x"}};
  auto all = environment_of(order, ports);
  CHECK(all.at("MINE") == "yes");
  CHECK(all.at("SESSION_API_KEY") == "secret");
  CHECK(all.at("OH_SESSION_API_KEYS_0") == "secret");
  CHECK(all.at("WORKER_1") == "20003");
  CHECK(!all.contains("REDIS_PASSWORD"));
  CHECK(!all.contains("BAD=NAME"));
  CHECK(all.size() == 17);
}

TEST_CASE("an error of a shim keeps what a caller goes by") {
  CHECK(answer_from(answer_json(std::nullopt)));
  for (auto code : {Errc::held_elsewhere, Errc::lease_lost, Errc::invalid, Errc::overloaded}) {
    auto told = answer_from(answer_json(Error{code, "why"}));
    REQUIRE(!told);
    CHECK(told.error().code == code);
    CHECK(told.error().what == "why");
  }
  auto silent = answer_from("");
  REQUIRE(!silent);
  CHECK(silent.error().code == Errc::unknown_outcome);
}

TEST_CASE("a state comes back as it was written, and what is no state is refused") {
  ShimState state{.incarnation = "life",
                  .phase = Phase::paused,
                  .exit_code = 3,
                  .restarts = 2,
                  .pid = 4,
                  .began = 5,
                  .endpoints = ports};
  auto read = state_from(to_json(state));
  REQUIRE(read);
  CHECK(read->phase == Phase::paused);
  CHECK(read->exit_code == 3);
  CHECK(read->restarts == 2);
  CHECK(read->began == 5);
  CHECK(read->endpoints == ports);
  CHECK(!state_from("[]"));
  CHECK(!state_from(R"({"incarnation":"x","phase":"dancing"})"));
}

TEST_CASE("an image is a command of this machine, and an unknown one is refused") {
  auto images = Images::parse(R"({"agent:1": {"command": ["agent", "{port}"]}, "any:2": {}})");
  REQUIRE(images);
  auto spec = spec_of({"own"});
  spec.image = "agent:1";
  REQUIRE(images->apply(spec));
  CHECK(spec.command == std::vector<std::string>{"agent", "{port}"});
  spec = spec_of({"own"});
  spec.image = "any:2";
  REQUIRE(images->apply(spec));
  CHECK(spec.command == std::vector<std::string>{"own"});
  spec.image = "other";
  CHECK(!images->apply(spec));
  CHECK(!images->has("other"));
  CHECK(Images().has("other"));
  CHECK(!Images::parse("[]"));
  CHECK(!Images::parse(R"({"a": {"command": 7}})"));
}
