// A Holt user's first week: what a person does and sees, day by day, with a crash, agents that are
// away, a tool that hangs and a question in it. Nothing is lost, nothing is done twice, and what the
// commands say is so.
#include <boost/json.hpp>
#include <map>

#include "with_client.h"
#include "with_holt.h"

using namespace warren;
namespace fs = std::filesystem;

namespace {

constexpr auto crew = R"(version: "1.0"
orchestrator: {bid_timeout: 500ms}
agents:
  Writer:
    command: [./agents/writer.sh]
    bidding_strategy: exclusive
    bids_on: {types: [GoalDefined]}
  Publisher:
    command: [./agents/publisher.sh]
    bidding_strategy: exclusive
    bids_on: {types: [Draft, Answer]}
)";

// Hangs, asks or writes, as the goal says. Each run leaves a line: whose, on which artefact.
constexpr auto writer = R"(#!/bin/sh
input=$(cat)
goal=${input#*\"payload\":\"}; goal=${goal%%\",\"source_artefacts\":*}
target=${input#*\"target_artefact\":\{\"id\":\"}; target=${target%%\"*}
echo "Writer $target" >>runs
case $goal in
  *slowly*) echo $$ >slow; while ! test -e awake; do sleep 0.02; done ;;
  *forever*) echo $$ >hung; sleep 1000 ;;
  *colour*)
    echo '{"artefact_type":"Colour","structural_type":"Question","artefact_payload":"which colour?","summary":"asks"}'
    exit ;;
esac
printf '{"artefact_type":"Draft","artefact_payload":"draft of %s","summary":"s"}\n' "$goal"
)";
constexpr auto publisher = R"(#!/bin/sh
input=$(cat)
text=${input#*\"payload\":\"}; text=${text%%\",\"source_artefacts\":*}
target=${input#*\"target_artefact\":\{\"id\":\"}; target=${target%%\"*}
echo "Publisher $target" >>runs
printf '{"artefact_type":"Page","structural_type":"Terminal","artefact_payload":"page: %s","summary":"s"}\n' "$text"
)";

void hire(const fs::path& folder) {
  write_file(folder / "holt.yml", crew);
  write_file(folder / "agents/writer.sh", writer);
  write_file(folder / "agents/publisher.sh", publisher);
  for (auto name : {"writer.sh", "publisher.sh"})
    fs::permissions(folder / "agents" / name, fs::perms::owner_all);
}

std::string goal_of(const std::string& said) { return word_after(said, "Created goal: "); }

void eventually_says(const Holt& holt, const fs::path& folder,
                     const std::vector<std::string>& words, const std::string& text) {
  wait_for(30s, fmt::format("{}: {}", fmt::join(words, " "), text), [&]() -> Result<> {
    auto done = holt.run(folder, words);
    if (done.said.contains(text)) return ok;
    return fail(Errc::not_found, "{}", done.said);
  });
}

std::size_t count_of(const std::string& text, const std::string& word) {
  std::size_t count = 0;
  for (auto at = text.find(word); at != text.npos; at = text.find(word, at + 1)) ++count;
  return count;
}

// How often each event is in what `watch --output jsonl` printed, by its name and its ids.
std::map<std::string, int> events_in(const std::string& text) {
  std::map<std::string, int> events;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with('{')) continue;
    auto event = boost::json::parse(line).as_object();
    const auto& data = event.at("data").as_object();
    std::string key(event.at("event").as_string());
    for (auto member : {"id", "artefact_id", "claim_id", "agent_name"})
      if (const auto* value = data.if_contains(member)) key += " " + boost::json::serialize(*value);
    ++events[key];
  }
  return events;
}

// Of these, the events that history has, too.
std::map<std::string, int> lasting(std::map<std::string, int> events) {
  std::erase_if(events, [](const auto& each) {
    const auto& key = each.first;
    return !key.starts_with("artefact_created ") && !key.starts_with("claim_created ") &&
           !key.starts_with("workflow_completed ");
  });
  return events;
}

// How often each tool ran on each artefact.
std::map<std::string, int> runs_in(const fs::path& folder) {
  std::map<std::string, int> runs;
  std::istringstream lines(text_of_file(folder / "runs"));
  for (std::string line; std::getline(lines, line);) ++runs[line];
  return runs;
}

}  // namespace

TEST_CASE("a Holt user's first week: nothing is lost, nothing is done twice, every word is true") {
  RedisServer server;
  Holt holt(server);
  auto here = holt.folder("project");
  auto say = [&](std::vector<std::string> words) { return holt.must(here, std::move(words)); };

  // Monday: agents, an instance, a goal.
  hire(here);
  CHECK(say({"lint"}).contains("2 roles, no mistakes"));
  auto up = say({"up"});
  CHECK(up.contains("Started instance: default-1"));
  CHECK(!up.contains("left here"));
  CHECK(say({"list"}).contains("2 agents"));
  auto watch = holt.start(here, {"watch"});
  wait_for(20s, "it watches", [&] {
    return server.cli_words({"PUBSUB", "NUMSUB", "holt:default-1:workflow_events"}).at(1) == "2";
  });
  auto monday = say({"forage", "--goal", "a page about monday", "--watch"});
  CHECK_MESSAGE(monday.contains("Workflow completed"), monday);
  wait_for(20s, "its end is seen",
           [&] { return watch->log_text().contains("Workflow completed"); });
  watch->terminate();
  CHECK(watch->wait(20s) == 0);
  auto seen = watch->log_text();
  CAPTURE(seen);
  std::size_t at = 0;  // each once, and one behind the other
  for (const auto& line :
       {"Artefact created: by=user, type=GoalDefined, id=" + goal_of(monday),
        std::string("Bid submitted: agent=Writer"), std::string("Claim granted: agent=Writer"),
        std::string("Artefact created: by=Writer, type=Draft"),
        std::string("Claim granted: agent=Publisher"),
        std::string("Workflow completed: Terminal artefact created (type=Page")}) {
    CAPTURE(line);
    auto next = seen.find(line, at);
    REQUIRE(next != seen.npos);
    at = next;
    bool is_bid = line.starts_with("Bid");  // one for each claim
    CHECK(count_of(seen, line) == (is_bid ? 2 : 1));
  }
  CHECK(say({"hoard"}).contains("3 artefacts found"));
  CHECK(say({"explain", goal_of(monday)}).contains("ended: all that was asked for is done"));

  // Tuesday: a crash in the middle of a goal, and up again in the same folder. A watch runs through
  // all of it.
  const std::vector<std::string> all_events{"watch",   "--name", "default-1", "--since", "1h",
                                            "--until", "0s",     "--output",  "jsonl"};
  auto before = events_in(say(all_events));
  watch = holt.start(here, {"watch", "--name", "default-1", "--output", "jsonl"});
  auto watched = holt.said();
  wait_for(20s, "it watches", [&] {
    return server.cli_words({"PUBSUB", "NUMSUB", "holt:default-1:workflow_events"}).at(1) == "2";
  });
  auto tuesday = goal_of(say({"forage", "--goal", "slowly, a page about tuesday"}));
  auto on_tuesday = "Writer " + tuesday;
  wait_for(20s, "the tool runs", [&] { return runs_in(here)[on_tuesday] == 1; });
  wait_for(20s, "its number is known", [&] { return text_of_file(here / "slow").ends_with('\n'); });
  auto slow = std::stoi(text_of_file(here / "slow"));
  CHECK(!is_gone(slow));
  holt.crash("default-1");
  wait_for(10s, "its tool died with it", [slow] { return is_gone(slow); });
  CHECK(say({"list"}).contains("process gone"));
  up = say({"up"});  // at once: that the process is dead is known
  CHECK(up.contains("Started instance: default-2"));
  CHECK_MESSAGE(
      up.contains("A board with open work was left here: default-1 (4 artefacts, 1 open)"), up);
  say({"down"});
  CHECK(say({"boards"}).contains("default-1    stopped   4 artefacts, 1 open"));
  CHECK(say({"hoard", "--name", "default-1"}).contains("4 artefacts found"));
  CHECK(say({"explain", tuesday, "--name", "default-1"}).contains("waits for: Writer"));
  write_file(here / "awake", "");
  CHECK(say({"up", "--resume"}).contains("Started instance: default-1"));
  eventually_says(holt, here, {"hoard", "--type", "Page"}, "2 artefacts found");
  CHECK(runs_in(here)[on_tuesday] == 2);  // the one that was killed, and the one that delivered
  wait_for(20s, "its end is seen",
           [&] { return text_of_file(watched).contains("workflow_completed"); });
  watch->terminate();
  CHECK(watch->wait(20s) == 0);
  auto live = events_in(text_of_file(watched));
  for (const auto& [event, times] : live) CHECK_MESSAGE(times == 1, event);
  auto happened = events_in(say(all_events));
  for (const auto& [event, times] : before) CHECK(happened.erase(event) == 1);
  CHECK(lasting(live) == happened);
  CHECK(happened.size() == 6);  // three artefacts, claims for two of them, and the end
  CHECK(say({"destroy", "--name", "default-2", "--yes-name", "default-2"}).contains("Destroyed"));

  // Wednesday: goals given while the agents are away.
  say({"down"});
  CHECK(say({"up", "--resume", "--no-agents"}).contains("Started instance: default-1"));
  auto wednesday = goal_of(say({"forage", "--goal", "a page about wednesday"}));
  eventually_says(holt, here, {"list"}, "(1 untaken)");
  CHECK(say({"list"}).contains("0 of 2 agents"));
  CHECK(say({"status"}).contains("1 of them nobody has taken"));
  CHECK(say({"explain", wednesday}).contains("nobody has taken it since"));
  CHECK(holt.must_not(here, {"retry", say({"explain", wednesday}).substr(6, 36)})
            .contains("is taken up when one comes"));
  auto agent = holt.start(here, {"agent", "run", "Writer"});
  eventually_says(holt, here, {"hoard", "--type", "Draft"}, "draft of a page about wednesday");
  CHECK(say({"list"}).contains("1 of 2 agents"));
  eventually_says(holt, here, {"list"}, "(1 untaken)");  // the draft: it needs the other role
  agent->terminate();
  CHECK(agent->wait(20s) == 0);
  CHECK(say({"list"}).contains("0 of 2 agents"));
  say({"down"});
  CHECK(say({"boards"}).contains("1 open (1 untaken)"));
  say({"up", "--resume"});
  eventually_says(holt, here, {"hoard", "--type", "Page"}, "3 artefacts found");
  CHECK(!say({"list"}).contains("untaken"));

  // Thursday: a tool that hangs is cancelled, and its role works on.
  auto thursday = holt.start(here, {"forage", "--goal", "write forever", "--watch"});
  wait_for(20s, "the tool hangs", [&] { return fs::exists(here / "hung"); });
  wait_for(20s, "the goal is told",
           [&] { return thursday->log_text().contains("Created goal: "); });
  auto hung = goal_of(thursday->log_text());
  say({"cancel", hung, "--reason", "takes too long"});
  CHECK(thursday->wait(30s) == 1);
  CHECK_MESSAGE(thursday->log_text().contains("ended: takes too long"), thursday->log_text());
  auto pid = std::stoi(text_of_file(here / "hung"));
  wait_for(20s, "the tool is gone", [pid] { return ::kill(pid, 0) != 0; });
  CHECK(say({"explain", hung}).contains("ended: takes too long"));
  CHECK(say({"forage", "--goal", "a page about thursday", "--watch"}).contains("completed"));

  // Friday: a question is answered.
  auto friday = holt.start(here, {"forage", "--goal", "a page in a colour", "--watch"});
  eventually_says(holt, here, {"questions"}, "which colour?");
  auto question = say({"questions"}).substr(0, 36);
  CHECK(say({"explain", question}).contains("it is a question, and ends with its answer"));
  wait_for(20s, "it is told",
           [&] { return friday->log_text().contains("holt answer " + question); });
  CHECK(say({"answer", question, "red"}).contains("Answered: "));
  CHECK(friday->wait(30s) == 0);
  CHECK_MESSAGE(friday->log_text().contains("Workflow completed"), friday->log_text());
  CHECK(say({"questions"}).contains("No question is open."));
  CHECK(say({"hoard", "--type", "Page"}).contains("page: red"));

  // Saturday: down, up --resume, and everything is as it was.
  auto all = say({"hoard", "--output", "jsonl"});
  CHECK(count_of(all, "\"structural_type\":\"Terminal\"") == 5);
  CHECK(say({"down"}).contains("Stopped instance: default-1"));
  CHECK(say({"list"}).contains("No active Holt instances"));
  CHECK(say({"boards"}).contains("0 open"));
  CHECK(say({"hoard", "--output", "jsonl"}) == all);  // of a board that is stopped
  auto past = say({"watch", "--since", "1h", "--until", "0s", "--output", "jsonl"});
  CHECK(count_of(past, "\"event\":\"artefact_created\"") == count_of(all, "\n"));
  CHECK(count_of(past, "\"event\":\"workflow_completed\"") == 5);
  CHECK(say({"up", "--resume"}).contains("Started instance: default-1"));
  CHECK(say({"hoard", "--output", "jsonl"}) == all);
  CHECK(say({"status"}).contains("0 open"));
  say({"down"});

  // Sunday: it moves elsewhere.
  say({"export", "board.jsonl"});
  auto there = holt.folder("elsewhere");
  hire(there);
  holt.must(there, {"import", "--name", "moved", (here / "board.jsonl").string()});
  CHECK(holt.must(there, {"up", "--name", "moved"}).contains("Started instance: moved"));
  CHECK(holt.must(there, {"hoard", "--output", "jsonl"}) == all);
  CHECK(holt.must(there, {"status"}).contains("0 open"));
  CHECK(holt.must(there, {"forage", "--goal", "a page about sunday", "--watch"})
            .contains("completed"));
  CHECK(runs_in(there).size() == 2);  // what had been done was not done again
  holt.must(there, {"down"});

  for (const auto& [run, times] : runs_in(here))
    CHECK_MESSAGE(times == (run == on_tuesday ? 2 : 1), run);
  CHECK(runs_in(here).size() == 11);
}
