#pragma once
// Runs the real binary as a child and checks its exit code, its output, and how long it takes.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>

#include "proof/testkit/process.h"
#include "proof/testkit/servers/redis_server.h"
#include "proof/testkit/temp_folder.h"

namespace warren {

using Words = std::vector<std::string>;

struct Outcome {
  int exit;
  std::string out, err;
  Clock::duration elapsed;
};

inline std::string contents(const std::filesystem::path& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

// Runs commands in a folder of its own, which is also $HOME, with only the given variables.
class Shell {
 public:
  Outcome run(const Words& words, const Words& environment = {}) const {
    return start("exec \"$0\" \"$@\" >out 2>err </dev/null", WARREN_BINARY, words, environment);
  }
  // Runs on a terminal. Both streams are in `out`.
  Outcome run_on_terminal(const std::string& words, const Words& environment = {}) const {
    auto line = fmt::format("{} {}", WARREN_BINARY, words);
    return start("exec script -qec \"$0\" /dev/null >out 2>err </dev/null", line, {}, environment);
  }
  Outcome start(const std::string& script, const std::string& zero, const Words& words,
                const Words& environment) const {
    auto path = std::string("PATH=") + std::getenv("PATH");
    Words argv{"env", "-i", "-C", folder_.path(), path, "HOME=" + folder_.path().string()};
    argv.insert(argv.end(), environment.begin(), environment.end());
    argv.insert(argv.end(), {"bash", "-c", script, zero});
    argv.insert(argv.end(), words.begin(), words.end());
    auto began = Clock::now();
    Process process(Program{argv, folder_.path() / "log"});
    int exit = process.wait(30s);
    return {exit, contents(folder_.path() / "out"), contents(folder_.path() / "err"),
            Clock::now() - began};
  }
  std::string write(const std::string& name, const std::string& text) const {
    std::filesystem::create_directories((folder_.path() / name).parent_path());
    std::ofstream(folder_.path() / name) << text;
    return folder_.path() / name;
  }

 private:
  TempFolder folder_;
};

inline std::string url(const RedisServer& server) { return "redis://" + server.address(); }

// Two lines: the error and the hint.
inline void check_error(const Outcome& outcome, int exit, const std::string& what,
                        const std::string& hint) {
  CAPTURE(outcome.err);
  CHECK(outcome.exit == exit);
  CHECK(outcome.out.empty());
  CHECK(outcome.err.starts_with("error: "));
  CHECK(outcome.err.contains(what));
  CHECK(outcome.err.contains("\nhint: "));
  CHECK(outcome.err.substr(outcome.err.find("\nhint: ")).contains(hint));
  CHECK(std::ranges::count(outcome.err, '\n') == 2);
}

// One line: the error says everything.
inline void check_plain_error(const Outcome& outcome, int exit, const std::string& what) {
  CAPTURE(outcome.err);
  CHECK(outcome.exit == exit);
  CHECK(outcome.err.starts_with("error: "));
  CHECK(outcome.err.contains(what));
  CHECK(std::ranges::count(outcome.err, '\n') == 1);
}

// The time that starting a process may cost on a busy machine, even under ASan.
inline constexpr auto slack = 1500ms;

}  // namespace warren
