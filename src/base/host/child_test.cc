#include "base/host/child.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <fstream>

#include "proof/testkit/run.h"
#include "proof/testkit/temp_folder.h"

using namespace warren;
using namespace warren;

namespace {

ChildTerms shell(std::string script) {
  ChildTerms terms;
  terms.argv = {"sh", "-c", std::move(script)};
  terms.environment = {"PATH=/usr/bin:/bin"};
  return terms;
}

Result<std::string> output(const ChildTerms& terms) { return run_child(terms, "", 1u << 20); }

}  // namespace

TEST_CASE("a child gets the descriptors that are named, in order, and no other") {
  std::array<int, 2> one{}, two{};
  REQUIRE(pipe2(one.data(), O_CLOEXEC) == 0);
  REQUIRE(pipe2(two.data(), O_CLOEXEC) == 0);
  REQUIRE(::write(one[1], "one\n", 4) == 4);
  REQUIRE(::write(two[1], "two\n", 4) == 4);
  // Do not pipe the output of ls: the shell would have the pipe's ends open for a moment.
  auto terms = shell("read a <&3; read b <&4; echo $a $b; ls /proc/$$/fd; echo end");
  terms.descriptors = {one[0], two[0]};
  auto said = output(terms);
  REQUIRE_MESSAGE(said, said.error().what);
  CHECK(*said == "one two\n0\n1\n2\n3\n4\nend\n");
  for (int file : {one[0], one[1], two[0], two[1]}) ::close(file);
  terms.descriptors = {-1};  // do not reuse those: the numbers may have been reassigned
  auto closed = Child::start(terms);
  REQUIRE(!closed);
  CHECK(closed.error().code == Errc::unavailable);
}

TEST_CASE("whoever waits for a child is told to stop" * doctest::test_suite("threads")) {
  int stop = eventfd(0, EFD_CLOEXEC);
  auto terms = shell("exec sleep 600");
  terms.stop = stop;
  auto child = Child::start(terms);
  REQUIRE(child);
  std::string_view none;
  std::array<char, 10> buffer{};
  auto late = child->exchange(none, false, buffer.data(), buffer.size(), Clock::now() + 20ms);
  REQUIRE(!late);
  CHECK(late.error().code == Errc::timeout);
  CHECK(child->wait(Clock::now() + 20ms).error().code == Errc::timeout);
  REQUIRE(eventfd_write(stop, 1) == 0);
  auto stopped = child->exchange(none, false, buffer.data(), buffer.size());
  REQUIRE(!stopped);
  CHECK(stopped.error().code == Errc::cancelled);
  CHECK(child->wait(Clock::now() + 60s).error().code == Errc::cancelled);
  ::close(stop);
}

TEST_CASE("a child that complains without end keeps its first words, and ends as it would") {
  auto child =
      Child::start(shell("echo first >&2; head -c 10000000 /dev/zero | tr '\\0' x >&2; exit 3"));
  REQUIRE(child);
  auto code = child->wait(Clock::now() + 60s);
  REQUIRE(code);
  CHECK(*code == 3);
  CHECK(child->errors().starts_with("first\nxxx"));
  CHECK(child->errors().size() == 64u << 10);
  CHECK(child->complaint().starts_with("first xxx"));
}

TEST_CASE("a child that waits for a pipe is ended soon, and one that works in silence is not") {
  TempFolder folder;
  auto pipe = (folder.path() / "pipe").string();
  REQUIRE(mkfifo(pipe.c_str(), 0600) == 0);
  auto terms = shell("read line < " + pipe);
  terms.idle = 1s;
  auto before = Clock::now();
  auto waits = run_child(terms, "", 1u << 20);
  REQUIRE(!waits);
  CHECK(waits.error().code == Errc::timeout);
  CHECK(Clock::now() - before < 60s);
  // Longer than that, without a word.
  terms = shell("end=$(($(date +%s) + 3)); while [ $(date +%s) -lt $end ]; do :; done; echo done");
  terms.idle = 1s;
  auto works = run_child(terms, "", 1u << 20);
  REQUIRE_MESSAGE(works, (works ? "" : works.error().what));
  CHECK(*works == "done\n");
}

TEST_CASE("output is given away as it comes, and an error of its taker ends the child") {
  std::size_t got = 0;
  auto taken = run_child(shell("yes"), "", [&](std::string_view piece) -> Result<> {
    got += piece.size();
    if (got > 10'000'000) return fail(Errc::overloaded, "enough");
    return ok;
  });
  REQUIRE(!taken);
  CHECK(taken.error().code == Errc::overloaded);
  CHECK(got < 12'000'000);
}

TEST_CASE("what a child started ends with it" * doctest::test_suite("threads")) {
  TempFolder folder;
  auto note = folder.path() / "pid";
  auto child = Child::start(shell("sleep 600 & echo $! > " + note.string() + "; exit 0"));
  REQUIRE(child);
  CHECK(child->wait() == 0);
  pid_t pid = -1;
  std::ifstream(note) >> pid;
  REQUIRE(pid > 0);
  wait_for(30s, "it has ended", [&] {
    std::ifstream status("/proc/" + std::to_string(pid) + "/stat");
    std::string words, name, state;
    return !(status >> words >> name >> state) || state == "Z";
  });
}
