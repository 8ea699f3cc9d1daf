// Tools that behave, and tools that do not.
#include "services/board/agent/tool.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <fstream>

#include "proof/testkit/run.h"
#include "proof/testkit/temp_folder.h"

using namespace warren;
using namespace warren::agent;

namespace {

ToolTerms shell(const std::string& script) {
  ToolTerms terms;
  terms.argv = {"sh", "-c", script};
  terms.environment = least_environment();
  return terms;
}

ToolEnd run_now(ToolTerms terms) {
  std::optional<Result<ToolEnd>> end;
  auto body = [](ToolTerms given, std::optional<Result<ToolEnd>>& into) -> awaitable<void> {
    into = co_await run_tool(std::move(given));
  };
  run(body(std::move(terms), end));
  REQUIRE_MESSAGE(*end, end->error().what);
  return **end;
}

std::string contents(const std::filesystem::path& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

// Processes whose command line has this word.
// A process may end between two looks at it.
std::string contents_if_there(const std::filesystem::path& path) {
  try {
    return contents(path);
  } catch (const std::exception&) {
    return {};
  }
}

int count_running(const std::string& word) {
  int count = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    auto words = contents_if_there(entry.path() / "cmdline");
    auto stat = words.contains(word) ? contents_if_there(entry.path() / "stat") : "";
    count += !stat.empty() && !stat.contains(") Z");
  }
  return count;
}

int open_files() {
  return static_cast<int>(std::distance(std::filesystem::directory_iterator("/proc/self/fd"), {}));
}

}  // namespace

TEST_CASE("a tool reads its input to the end, and writes to two streams") {
  auto terms = shell("cat; echo done >&2");
  terms.input = std::string(3'000'000, 'x');
  auto end = run_now(terms);
  CHECK(end.exit_code == 0);
  CHECK(end.out == terms.input);
  CHECK(end.err == "done\n");
  CHECK(!end.timed_out);
}

TEST_CASE("a tool that does not read its input, or closes its streams, disturbs nobody") {
  auto terms = shell("exec <&- >&- 2>&-; sleep 0.1; exit 3");
  terms.input = std::string(3'000'000, 'x');
  CHECK(run_now(terms).exit_code == 3);
}

TEST_CASE("how a tool ended is told: a code, or a signal") {
  CHECK(run_now(shell("exit 7")).exit_code == 7);
  auto killed = run_now(shell("kill -9 $$"));
  CHECK(killed.exit_code == -1);
  CHECK(killed.signal == SIGKILL);
}

TEST_CASE("signals that we ignore are not ignored by a tool") {
  auto before = signal(SIGPIPE, SIG_IGN);
  CHECK(run_now(shell("kill -PIPE $$; echo alive")).signal == SIGPIPE);
  signal(SIGPIPE, before);
}

TEST_CASE("a tool that cannot be started is an error that names it") {
  run([]() -> awaitable<void> {
    ToolTerms terms;
    terms.argv = {"/no/such/tool"};
    auto end = co_await run_tool(terms);
    REQUIRE(!end);
    CHECK(end.error().code == Errc::unavailable);
    CHECK(end.error().what == "/no/such/tool cannot be run in .: No such file or directory");
    terms.argv = {"true"};
    terms.folder = "/no/such/folder";
    end = co_await run_tool(terms);
    REQUIRE(!end);
    CHECK(end.error().what.contains("/no/such/folder"));
  }());
}

TEST_CASE("a tool that ignores SIGTERM is killed after the grace") {
  auto terms = shell("trap '' TERM; while :; do sleep 0.05; done");
  terms.timeout = 200ms;
  terms.grace = 200ms;
  auto began = Clock::now();
  auto end = run_now(terms);
  CHECK(end.timed_out);
  CHECK(end.exit_code == -1);
  CHECK(end.signal == SIGKILL);
  CHECK(Clock::now() - began >= 400ms);
  CHECK(Clock::now() - began < 20s);
}

TEST_CASE("at the deadline a tool may clean up, and what it wrote is kept") {
  auto terms = shell("trap 'echo bye; exit 0' TERM; echo hello; while :; do sleep 0.05; done");
  terms.timeout = 300ms;
  auto end = run_now(terms);
  CHECK(end.timed_out);
  CHECK(end.out == "hello\nbye\n");
}

TEST_CASE("a stopped tool is killed too") {
  auto terms = shell("kill -STOP $$");
  terms.timeout = 200ms;
  CHECK(run_now(terms).timed_out);
}

TEST_CASE("a helper that keeps the pipes open delays a tool's end by no more than a moment") {
  auto began = Clock::now();
  auto end = run_now(shell("echo result; sleep 61.5 & exit 0"));
  CHECK(end.exit_code == 0);
  CHECK(end.out == "result\n");
  CHECK(Clock::now() - began < 5s);
  CHECK(count_running("61.5") == 0);
}

TEST_CASE("a helper that left the process group delays nothing either") {
  auto end = run_now(shell("setsid sleep 2.7 & sleep 0.2; echo result"));
  CHECK(end.exit_code == 0);
  CHECK(end.out == "result\n");
}

TEST_CASE("a crowd of helpers is killed whole") {
  auto terms = shell(
      "for i in 1 2 3 4 5 6 7 8; do sh -c 'sleep 62.5 & sleep 62.5' & done; "
      "echo ready; wait");
  terms.timeout = 1s;
  auto end = run_now(terms);
  CHECK(end.timed_out);
  CHECK(end.out == "ready\n");
  wait_for(5s, "the end of all sleepers", [] { return count_running("62.5") == 0; });
}

TEST_CASE("a tool that writes too much is stopped, and what fits is kept") {
  auto terms = shell("cat /dev/zero");
  terms.most_output = 100'000;
  auto end = run_now(terms);
  CHECK(end.wrote_too_much);
  CHECK(!end.timed_out);
  CHECK(end.out.size() == 100'000);
  terms = shell("head -c 100000 /dev/zero");
  terms.most_output = 100'000;
  end = run_now(terms);
  CHECK(!end.wrote_too_much);
  CHECK(end.exit_code == 0);
  CHECK(end.out.size() == 100'000);
}

TEST_CASE("the environment is the least there is and what was given") {
  setenv("REDIS_PASSWORD", "hunter2", 1);
  auto terms = shell("env");
  terms.environment["GIVEN"] = "a value";
  auto end = run_now(terms);
  unsetenv("REDIS_PASSWORD");
  CHECK(end.out.contains("GIVEN=a value\n"));
  CHECK(end.out.contains("PATH="));
  CHECK(!end.out.contains("hunter2"));
  for (std::size_t at = 0; at < end.out.size(); at = end.out.find('\n', at) + 1) {
    auto name = end.out.substr(at, end.out.find('=', at) - at);
    bool is_known = name == "PATH" || name == "HOME" || name == "LANG" || name == "TERM" ||
                    name == "GIVEN" || name == "PWD" || name == "_" || name == "SHLVL" ||
                    name == "OLDPWD";
    CHECK_MESSAGE(is_known, name);
  }
}

TEST_CASE("no descriptor of ours reaches a tool, and none is left over") {
  int leak = open("/dev/null", O_RDONLY);  // not close-on-exec
  run_now(shell("true"));                  // what is opened once and kept, such as epoll's
  int before = open_files();
  auto end = run_now(shell("ls /proc/self/fd | wc -l"));
  CHECK(end.out == "4\n");  // 0, 1, 2, and the folder that ls reads
  CHECK(open_files() == before);
  close(leak);
}

TEST_CASE("a tool has its folder, and a session of its own") {
  TempFolder folder;
  auto terms = shell("pwd; test \"$(cut -d' ' -f6 /proc/$$/stat)\" = $$ && echo leads");
  terms.folder = folder.path();
  CHECK(run_now(terms).out == folder.path().string() + "\nleads\n");
}

TEST_CASE("a cancelled caller gets its tool's end, and then goes on to leave") {
  run([]() -> awaitable<void> {
    TempFolder folder;
    auto executor = co_await asio::this_coro::executor;
    auto terms = shell(
        "trap 'echo asked > asked; exit 0' TERM; touch began; "
        "while :; do sleep 0.05; done");
    terms.folder = folder.path();
    TaskGroup tasks(executor);
    std::optional<Errc> seen;
    auto body = [](ToolTerms given, std::optional<Errc>& into) -> Async<> {
      auto end = co_await run_tool(std::move(given));
      into = end ? Errc::invalid : end.error().code;
      co_return ok;
    };
    tasks.start("tool", body(terms, seen));
    co_await eventually(10s, "the tool runs",
                        [&] { return std::filesystem::exists(folder.path() / "began"); });
    tasks.stop();
    co_await tasks.join();
    CHECK(std::filesystem::exists(folder.path() / "asked"));
    CHECK(seen == Errc::cancelled);
  }());
}

TEST_CASE("many tools run at once") {
  run([]() -> awaitable<void> {
    TaskGroup tasks(co_await asio::this_coro::executor);
    int ended = 0;
    auto body = [](int number, int& count) -> Async<> {
      auto end = co_await run_tool(shell(fmt::format("sleep 0.5; echo {}", number)));
      count += end && end->out == std::to_string(number) + "\n";
      co_return ok;
    };
    auto began = Clock::now();
    for (int i = 0; i < 20; ++i) tasks.start("tool", body(i, ended));
    co_await tasks.join();
    CHECK(ended == 20);
    CHECK(Clock::now() - began < 5s);
  }());
}
