#include "services/instance/entry.h"

#include <doctest/doctest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

using namespace warren;

TEST_CASE("a name is a letter and then letters, digits and hyphens, 63 at most") {
  for (auto good : {"a", "myproject", "default-1", "a-", "a--b", "z9"})
    CHECK_MESSAGE(check_instance_name(good), good);
  CHECK(check_instance_name(std::string(63, 'a')));
  for (auto bad :
       {"", "1a", "-a", "A", "aB", "a_b", "a.b", "a b", "a:b", "{a}", "a\n", "ä", "a*"}) {
    auto checked = check_instance_name(bad);
    REQUIRE_MESSAGE(!checked, bad);
    CHECK(checked.error().code == Errc::invalid);
  }
  CHECK(!check_instance_name(std::string(64, 'a')));
  CHECK(!check_instance_name(std::string_view("a\0b", 3)));
}

TEST_CASE("an entry is written as the documents show it, and read again") {
  InstanceEntry entry{.run_id = "550e8400-e29b-41d4-a716-446655440000",
                      .workspace_path = "/home/a \"b\"/project",
                      .started_at = WallClock::from_time_t(1759667696) + 789ms,
                      .orchestrator_pid = 12345};
  CHECK(to_json(entry) ==
        R"({"run_id":"550e8400-e29b-41d4-a716-446655440000",)"
        R"("workspace_path":"/home/a \"b\"/project","started_at":"2025-10-05T12:34:56Z",)"
        R"("orchestrator_pid":12345,"started_at_ms":1759667696789})");
  entry.host = "edge";
  entry.user = "alice";
  entry.url = "http://127.0.0.1:7000/";
  auto read = parse_instance_entry(to_json(entry));
  REQUIRE(read);
  CHECK(to_json(*read) == to_json(entry));
  CHECK(read->started_at == entry.started_at);
}

TEST_CASE("an entry of somebody else is read as far as it goes") {
  auto read = parse_instance_entry(
      R"({"started_at":"2025-10-05T12:34:56.789Z","run_id":7,"workspace_path":null,"new":[1]})");
  REQUIRE(read);
  CHECK(read->run_id.empty());
  CHECK(read->workspace_path.empty());
  CHECK(read->orchestrator_pid == 0);
  CHECK(read->started_at == WallClock::from_time_t(1759667696));
}

TEST_CASE("an entry that says nothing of its start, or nothing at all, is no entry") {
  for (auto bad : {"", "null", "[]", "{", "{}", R"({"started_at":"yesterday"})",
                   R"({"started_at":"2025-10-05T12:34:56+02:00"})", R"({"started_at":12})"}) {
    auto read = parse_instance_entry(bad);
    REQUIRE_MESSAGE(!read, bad);
    CHECK(read.error().code == Errc::protocol);
  }
}

TEST_CASE("a lock begins with what older programs look for") {
  InstanceEntry entry{.run_id = "r",
                      .started_at = WallClock::from_time_t(1759667696),
                      .orchestrator_pid = 7,
                      .host = "edge"};
  CHECK(lock_value(entry, WallClock::from_time_t(1759667800)) ==
        R"(orchestrator:1759667800 {"run_id":"r","pid":7,"start_time":"2025-10-05T12:34:56Z",)"
        R"("hostname":"edge"})");
}

TEST_CASE("in a cluster all keys of a prefix are in one slot") {
  InstanceKeys plain{"holt"}, tagged{"holt", true};
  CHECK(plain.counter() == "holt:instance_counter");
  CHECK(plain.boards() == "holt:boards");
  CHECK(tagged.boards() == "{holt}:boards");
  CHECK(plain.list() == "holt:instances");
  CHECK(plain.lock("x") == "holt:x:lock");
  CHECK(tagged.counter() == "{holt}:instance_counter");
  CHECK(tagged.list() == "{holt}:instances");
  CHECK(tagged.lock("x") == "{holt}:x:lock");
}

TEST_CASE("a process is known to be dead here, and nowhere else") {
  InstanceEntry entry{.orchestrator_pid = getpid(), .process = process_mark(getpid())};
  REQUIRE(!entry.process.empty());
  CHECK(!is_known_dead(entry));
  auto other = entry;
  other.process = "another-kernel" + entry.process.substr(entry.process.find(' '));
  other.orchestrator_pid = 0;
  CHECK(!is_known_dead(other));  // of another machine nothing is known
  other = entry;
  other.process += "1";  // the number was given to us after it had died
  CHECK(is_known_dead(other));
  other.process.clear();
  CHECK(!is_known_dead(other));  // an older Warren says nothing of it

  auto child = fork();
  if (child == 0) pause();
  REQUIRE(child > 0);
  InstanceEntry killed{.orchestrator_pid = child, .process = process_mark(child)};
  CHECK(!is_known_dead(killed));
  kill(child, SIGKILL);
  siginfo_t ended{};
  waitid(P_PID, static_cast<id_t>(child), &ended, WEXITED | WNOWAIT);
  CHECK(is_known_dead(killed));  // also before anybody has waited for it
  waitpid(child, nullptr, 0);
  CHECK(is_known_dead(killed));
}

TEST_CASE("a lock tells of its owner as far as it was written by one of ours") {
  InstanceEntry entry{
      .run_id = "r", .orchestrator_pid = 7, .host = "edge", .process = "b pid:[1] 2"};
  auto read = parse_lock(lock_value(entry, WallClock::now()));
  CHECK(read.run_id == "r");
  CHECK(read.orchestrator_pid == 7);
  CHECK(read.host == "edge");
  CHECK(read.process == entry.process);
  for (auto other :
       {"", "2025-10-05T12:34:56Z", "orchestrator:1759667800", "orchestrator:1 {", "{}"})
    CHECK_MESSAGE(parse_lock(other).run_id.empty(), other);
}
