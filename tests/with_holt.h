#pragma once
// `holt` as a person uses it: folders, a Redis, and commands with what they say.
#include <doctest/doctest.h>
#include <signal.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "proof/testkit/process.h"
#include "proof/testkit/run.h"
#include "proof/testkit/servers/redis_server.h"
#include "proof/testkit/servers/sentinel_trio.h"
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

// True also for a zombie, whose parent has not asked for its exit code yet.
inline bool is_gone(pid_t pid) {
  auto line = text_of_file(fmt::format("/proc/{}/stat", pid));
  return line.empty() || line.contains(") Z ");
}

class Holt {
 public:
  explicit Holt(const RedisServer& server)
      : Holt(&server, {"REDIS_URL=redis://" + server.address()}) {}
  explicit Holt(SentinelTrio& trio)
      : Holt(&trio.primary(),
             {"REDIS_MODE=sentinel", fmt::format("REDIS_MASTER_NAME={}", SentinelTrio::name),
              "REDIS_ADDRS=" + addresses_of(trio)}) {}
  // Nothing is configured: the private Redis of a user of its own. Where a Redis listens on port
  // 6379, that is used instead.
  Holt() : Holt(nullptr, {}) {}
  // What a test that failed leaves running.
  ~Holt() {
    if (!server_ && !std::filesystem::exists(private_redis())) return;
    for (auto pid : daemons()) ::kill(pid, SIGKILL);
    if (!server_) (void)run(home_.path(), {"redis", "stop", "--force"});
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
    auto log = said();
    auto exit = process->wait(limit);
    return {exit, text_of_file(log)};  // all of it
  }
  // The same while the test does something else.
  std::unique_ptr<Process> start(const std::filesystem::path& in,
                                 std::vector<std::string> words) const {
    words.insert(words.begin(), program());
    return start_program(in, words);
  }
  // A script of a shell, in which $0 is the program.
  Outcome shell(const std::filesystem::path& in, const std::string& script) const {
    auto process = start_program(in, {"sh", "-c", script, program()});
    auto log = said();
    auto exit = process->wait(60s);
    return {exit, text_of_file(log)};
  }
  // The output of the command that was started last.
  std::filesystem::path said() const { return home_.path() / fmt::format("said-{}", commands_); }
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
    auto entries = server_ ? server_->try_cli({"HVALS", "holt:instances"})
                           : Result<std::string>(run(home_.path(), {"list", "--json"}).said);
    if (!entries) return pids;
    constexpr std::string_view member = "\"orchestrator_pid\":";
    for (auto at = entries->find(member); at != entries->npos; at = entries->find(member, at + 1))
      pids.push_back(std::atoi(entries->c_str() + at + member.size()));
    return pids;
  }
  // kill -9, and it is gone.
  void crash(const std::string& name) const {
    auto entry = server_->cli({"HGET", "holt:instances", name});
    constexpr std::string_view member = "\"orchestrator_pid\":";
    auto at = entry.find(member);
    REQUIRE(at != entry.npos);
    auto pid = std::atoi(entry.c_str() + at + member.size());
    ::kill(pid, SIGKILL);
    wait_for(10s, "the process is gone", [pid] { return is_gone(pid); });
  }

  // The socket of a private one, which is there while that runs.
  std::filesystem::path private_redis() const { return home_.path() / "warren/redis/redis.sock"; }

 private:
  static std::string program() {
    return std::filesystem::path(WARREN_BINARY).parent_path() / "holt";
  }
  std::unique_ptr<Process> start_program(const std::filesystem::path& in,
                                         const std::vector<std::string>& argv) const {
    Program program{
        {"env", "-C", in}, home_.path() / fmt::format("said-{}", ++commands_), environment_};
    if (!server_)
      for (auto name : {"REDIS_URL", "REDIS_ADDRS", "REDIS_HOST", "REDIS_MODE"})
        program.argv.insert(program.argv.end(), {"-u", name});
    program.argv.insert(program.argv.end(), argv.begin(), argv.end());
    return std::make_unique<Process>(program);
  }
  Holt(const RedisServer* server, std::vector<std::string> environment)
      : server_(server), environment_(std::move(environment)) {
    environment_.push_back("HOME=" + home_.path().string());
    environment_.push_back("XDG_STATE_HOME=" + home_.path().string());
  }
  static std::string addresses_of(SentinelTrio& trio) {
    std::vector<std::string> addresses;
    for (auto* sentinel : trio.sentinels()) addresses.push_back(sentinel->address());
    return fmt::format("{}", fmt::join(addresses, ","));
  }

  const RedisServer* server_;  // none: a private one
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
