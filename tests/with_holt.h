#pragma once
// `holt` as a person uses it: folders, a Redis, and commands with what they say.
#include <signal.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "proof/testkit/process.h"
#include "proof/testkit/run.h"
#include "proof/testkit/servers/redis_server.h"
#include "proof/testkit/temp_folder.h"

namespace warren {

struct Outcome {
  int exit;
  std::string said;
};

inline void write_file(const std::filesystem::path& path, const std::string& text) {
  std::filesystem::create_directories(path.parent_path());
  std::ofstream(path) << text;
}

inline std::string text_of_file(const std::filesystem::path& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

class Holt {
 public:
  explicit Holt(const RedisServer& server)
      : server_(server), environment_{"REDIS_URL=redis://" + server.address()} {
    environment_.push_back("HOME=" + home_.path().string());
    environment_.push_back("XDG_STATE_HOME=" + home_.path().string());
  }
  // What a test that failed leaves running.
  ~Holt() {
    for (auto pid : daemons()) ::kill(pid, SIGKILL);
  }
  Holt(const Holt&) = delete;
  Holt& operator=(const Holt&) = delete;

  // A project folder of this name.
  std::filesystem::path folder(const std::string& name) const {
    auto path = home_.path() / name;
    std::filesystem::create_directories(path);
    return std::filesystem::canonical(path);
  }
  Outcome run(const std::filesystem::path& in, std::vector<std::string> words,
              Clock::duration limit = 60s) const {
    auto process = start(in, std::move(words));
    auto log = home_.path() / fmt::format("said-{}", commands_);
    auto exit = process->wait(limit);
    return {exit, text_of_file(log)};  // all of it
  }
  // The same while the test does something else.
  std::unique_ptr<Process> start(const std::filesystem::path& in,
                                 std::vector<std::string> words) const {
    Program program{{"env", "-C", in, std::filesystem::path(WARREN_BINARY).parent_path() / "holt"},
                    home_.path() / fmt::format("said-{}", ++commands_),
                    environment_};
    program.argv.insert(program.argv.end(), words.begin(), words.end());
    return std::make_unique<Process>(program);
  }
  // As `run`, and it must succeed.
  std::string must(const std::filesystem::path& in, std::vector<std::string> words) const {
    auto shown = fmt::format("holt {}", fmt::join(words, " "));
    auto done = run(in, std::move(words));
    REQUIRE_MESSAGE(done.exit == 0, shown << ": " << done.said);
    return done.said;
  }
  // And it must fail.
  std::string must_not(const std::filesystem::path& in, std::vector<std::string> words) const {
    auto shown = fmt::format("holt {}", fmt::join(words, " "));
    auto done = run(in, std::move(words));
    REQUIRE_MESSAGE(done.exit != 0, shown << ": " << done.said);
    return done.said;
  }

  std::vector<pid_t> daemons() const {
    std::vector<pid_t> pids;
    auto entries = server_.try_cli({"HVALS", "holt:instances"});
    if (!entries) return pids;
    constexpr std::string_view member = "\"orchestrator_pid\":";
    for (auto at = entries->find(member); at != entries->npos; at = entries->find(member, at + 1))
      pids.push_back(std::atoi(entries->c_str() + at + member.size()));
    return pids;
  }
  // kill -9, and it is gone.
  void crash(const std::string& name) const {
    auto entry = server_.cli({"HGET", "holt:instances", name});
    constexpr std::string_view member = "\"orchestrator_pid\":";
    auto at = entry.find(member);
    REQUIRE(at != entry.npos);
    auto pid = std::atoi(entry.c_str() + at + member.size());
    ::kill(pid, SIGKILL);
    wait_for(10s, "the process is gone", [pid] {
      std::ifstream stat(fmt::format("/proc/{}/stat", pid));
      std::string line{std::istreambuf_iterator<char>(stat), {}};
      return line.empty() || line.contains(") Z ");
    });
  }

 private:
  const RedisServer& server_;
  TempFolder home_;
  std::vector<std::string> environment_;
  mutable int commands_ = 0;
};

// The word behind these, up to the next blank: "Created goal: 3f2a…".
inline std::string word_after(const std::string& text, const std::string& before) {
  auto at = text.find(before);
  REQUIRE_MESSAGE(at != text.npos, before << " is not in: " << text);
  std::istringstream rest(text.substr(at + before.size()));
  std::string word;
  rest >> word;
  return word;
}

}  // namespace warren
