#include "proof/testkit/process.h"

#include <signal.h>
#include <unistd.h>

#include <fstream>
#include <set>

#include "proof/testkit/ports.h"
#include "proof/testkit/run.h"
#include "proof/testkit/servers/redis_server.h"
#include "proof/testkit/victim.h"

using namespace warren;

TEST_CASE("a program that cannot be executed fails the test and says why") {
  Victim victim("victim: runs what is not there");
  CHECK(victim.process.wait(30s) != 0);
  CHECK(victim.said("cannot run /no/such/program: No such file or directory"));
}
TEST_CASE("victim: runs what is not there" * doctest::skip()) {
  TempFolder folder;
  Process process({.argv = {"/no/such/program"}, .log = folder.path() / "log"});
}

TEST_CASE("a process' exit code, output and environment are seen") {
  TempFolder folder;
  Process process({.argv = {"sh", "-c", "echo out $X; echo err >&2; exit 3"},
                   .log = folder.path() / "log",
                   .environment = {"X=42"}});
  CHECK(process.wait() == 3);
  CHECK(!process.alive());
  CHECK(process.log_text() == "out 42\nerr\n");
}

TEST_CASE("a process is paused, resumed, terminated and killed") {
  TempFolder folder;
  auto log = folder.path() / "log";
  Process process({.argv = {"sleep", "1000"}, .log = log});
  process.pause();
  CHECK(process.is_paused());
  CHECK(process.alive());
  process.resume();
  CHECK(!process.is_paused());
  process.pause();
  process.terminate();
  CHECK(process.wait() == 128 + SIGTERM);

  Process other({.argv = {"sleep", "1000"}, .log = log});
  other.pause();
  other.kill();
  CHECK(!other.alive());
  CHECK(other.wait() == 128 + SIGKILL);
}

TEST_CASE("a child inherits no descriptor") {
  int leaked[2];
  REQUIRE(pipe(leaked) == 0);
  TempFolder folder;
  Process process({.argv = {"ls", "/proc/self/fd"}, .log = folder.path() / "log"});
  CHECK(process.wait() == 0);
  CHECK(process.log_text() == "0\n1\n2\n3\n");  // 3 is the folder that ls reads
  close(leaked[0]);
  close(leaked[1]);
}

TEST_CASE("a test that is killed leaves no server behind") {
  Victim victim("victim: starts a server and waits");
  auto port = wait_for(30s, "the victim's server runs", [&]() -> Result<unsigned short> {
    auto text = victim.process.log_text();
    auto at = text.find("port ");
    if (at == text.npos || text.find('\n', at) == text.npos)
      return fail(Errc::not_found, "{}", text);
    return static_cast<unsigned short>(std::stoi(text.substr(at + 5)));
  });
  CHECK(control({port, "testkit", "testkit"}, {"PING"}, 10s));
  // Kills only the test itself, not its process group.
  ::kill(victim.process.pid(), SIGKILL);
  wait_for(30s, "the server is gone", [&] { return !control({port}, {"PING"}, 10s); });
}
TEST_CASE("victim: starts a server and waits" * doctest::skip()) {
  RedisServer server;
  fmt::print("port {}\n", server.port());
  std::fflush(stdout);
  ::pause();
}

TEST_CASE("a folder goes with its object, unless the test failed or WARREN_KEEP is set") {
  std::filesystem::path path;
  {
    TempFolder folder;
    path = folder.path();
    std::ofstream(path / "file") << "content";
    CHECK(std::filesystem::exists(path / "file"));
  }
  CHECK(!std::filesystem::exists(path));

  auto kept = [](const std::string& test_case, const std::string& keep) {
    Victim victim(test_case, {"WARREN_KEEP=" + keep});
    victim.process.wait(30s);
    bool any = !std::filesystem::is_empty(victim.temp);
    CHECK(victim.said("kept " + victim.temp.string()) == any);
    return any;
  };
  CHECK(kept("victim: fails a CHECK", ""));
  CHECK(kept("victim: fails a REQUIRE", ""));
  CHECK(!kept("victim: succeeds", ""));
  CHECK(kept("victim: succeeds", "1"));
}
TEST_CASE("victim: fails a CHECK" * doctest::skip()) {
  TempFolder folder;
  CHECK(folder.path().empty());
}
TEST_CASE("victim: fails a REQUIRE" * doctest::skip()) {
  TempFolder folder;
  REQUIRE(folder.path().empty());
}
TEST_CASE("victim: succeeds" * doctest::skip()) { TempFolder folder; }

TEST_CASE("no port is given out twice") {
  std::vector<Port> ports(200);
  std::set<unsigned short> numbers;
  for (auto& port : ports) numbers.insert(port.number());
  CHECK(numbers.size() == ports.size());

  Port moved = std::move(ports.back());
  CHECK(numbers.contains(moved.number()));
}
