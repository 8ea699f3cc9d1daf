#include "services/session/record/telling.h"

#include <doctest/doctest.h>

#include <boost/json.hpp>

#include "base/error.h"

using namespace warren;
using namespace warren::session;

namespace {

const auto moment = WallClock::time_point(std::chrono::milliseconds(1703123456789));
const Actor actor{.name_space = "default", .replica_id = "12345-67890"};

}  // namespace

TEST_CASE("the metric line is one line: a word, and valid JSON") {
  auto line = metric_line("attach_success", "openhands-runtime-session-123", actor, moment);
  REQUIRE(line.starts_with("COORDINATION_METRIC: {"));
  CHECK(!line.contains('\n'));
  auto object = boost::json::parse(line.substr(line.find('{'))).as_object();
  CHECK(object.at("action") == "attach_success");
  CHECK(object.at("pod_name") == "openhands-runtime-session-123");
  CHECK(object.at("namespace") == "default");
  CHECK(object.at("replica_id") == "12345-67890");
  CHECK(line.contains("\"timestamp\":1703123456.789"));
  CHECK(object.at("timestamp").as_double() == doctest::Approx(1703123456.789));
}

TEST_CASE("a resource's value is what OpenHands reads: a status, and the pod or what went wrong") {
  OnceView view{.name = "k8s-pod:default:openhands-runtime-a", .status = "created", .bytes = ""};
  auto created = boost::json::parse(resource_json(view, actor, moment)).as_object();
  CHECK(created.at("status") == "created");
  CHECK(created.at("pod_name") == "openhands-runtime-a");
  CHECK(!created.contains("error"));
  Error error{Errc::refused, "its command ended"};
  view.status = "failed";
  view.error = &error;
  auto failed = boost::json::parse(resource_json(view, actor, moment)).as_object();
  CHECK(failed.at("error") == "its command ended");
  CHECK(!failed.contains("pod_name"));
}

TEST_CASE("the four counters that are promised count what they are called by") {
  Metrics metrics;
  std::vector<std::string> lines;
  Telling telling(metrics, actor, true, [&](const std::string& line) { lines.push_back(line); });
  telling.acquired_lock("a", 10ms);
  telling.created("a");
  telling.attached("a");
  telling.attached("a");
  auto text = metrics.exposition();
  CHECK(text.contains("openhands_coordination_lock_acquisitions_total 1"));
  CHECK(text.contains("openhands_coordination_pod_creations_total 1"));
  CHECK(text.contains("openhands_coordination_attach_successes_total 2"));
  CHECK(text.contains("openhands_redis_coordination_enabled 1"));
  REQUIRE(lines.size() == 3);
  CHECK(lines[0].contains("create_success"));
  CHECK(lines[2].contains("attach_success"));
}
