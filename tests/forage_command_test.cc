// `forage --watch` while Redis is away. It waits for a minute, so it has a program of its own.
#include <doctest/doctest.h>

#include "with_holt.h"

using namespace warren;
namespace fs = std::filesystem;

namespace {

// The tool works when the file `go` is there.
constexpr auto crew = R"(version: "1.0"
orchestrator: {bid_timeout: 300ms}
agents:
  Writer:
    command: [sh, -c, "touch began; while ! test -e go; do sleep 0.02; done; cat answer"]
    bidding_strategy: exclusive
    bids_on: {types: [GoalDefined]}
)";
constexpr auto terminal = R"({"artefact_type":"Page","structural_type":"Terminal","summary":"s"})";

}  // namespace

TEST_CASE(
    "forage --watch survives a restart of Redis, and ends when Redis stays away for a minute") {
  RedisServer server({.appendonly = true});
  Holt holt(server);
  auto here = holt.folder("here");
  write_file(here / "holt.yml", crew);
  write_file(here / "answer", terminal);
  holt.must(here, {"up", "--name", "demo"});
  auto start = [&] {
    auto forage = holt.start(here, {"forage", "--goal", "a page", "--watch"});
    wait_for(20s, "the tool runs", [&] { return fs::exists(here / "began"); });
    server.kill();
    wait_for(30s, "it says what it waits for",
             [&] { return forage->log_text().contains("note: Redis does not answer"); });
    return forage;
  };
  auto forage = start();
  server.restart();
  write_file(here / "go", "");
  CHECK(forage->wait(60s) == 0);
  CHECK_MESSAGE(forage->log_text().contains("Workflow completed"), forage->log_text());
  fs::remove(here / "go");
  fs::remove(here / "began");

  forage = start();
  CHECK(forage->wait(120s) == 3);
  auto said = forage->log_text();
  CHECK_MESSAGE(said.contains("Redis has not answered for 60 s"), said);
  CHECK_MESSAGE(said.contains("holt explain --name demo " + word_after(said, "Created goal: ")),
                said);
}
