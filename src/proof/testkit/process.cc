#include "proof/testkit/process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <climits>
#include <cstring>
#include <fstream>
#include <iterator>

#include "base/error.h"
#include "proof/testkit/failure.h"
#include "proof/testkit/run.h"

namespace warren::inline testkit {

namespace {

std::vector<char*> pointers(const std::vector<std::string>& words) {
  std::vector<char*> result;
  for (auto& word : words) result.push_back(const_cast<char*>(word.c_str()));
  result.push_back(nullptr);
  return result;
}

// Runs in the child between fork and exec, where only system calls are safe.
[[noreturn]] void become(char** argv, char** environment, int log, int failure, pid_t parent) {
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(127);  // it died before it could be watched
  dup2(open("/dev/null", O_RDONLY), STDIN_FILENO);
  dup2(log, STDOUT_FILENO);
  dup2(log, STDERR_FILENO);
  // Asio does not mark its sockets: a server that inherits one keeps a closed connection open.
  close_range(3, UINT_MAX, CLOSE_RANGE_CLOEXEC);
  execvpe(argv[0], argv, environment);
  int error = errno;
  _exit(write(failure, &error, sizeof error) == sizeof error ? 127 : 126);
}

}  // namespace

Process::Process(const Program& program) : name_(program.argv.at(0)), log_(program.log) {
  // Of two equal names the first one counts, so our additions come first.
  auto variables = program.environment;
  for (char** variable = environ; *variable; ++variable) variables.push_back(*variable);
  auto argv = pointers(program.argv), environment = pointers(variables);
  int log = open(log_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  int failure[2];
  if (log < 0 || pipe2(failure, O_CLOEXEC) != 0)
    fail_test(fmt::format("{}: {}", log_.string(), strerror(errno)));
  pid_t self = getpid();
  pid_ = fork();
  if (pid_ == 0) become(argv.data(), environment.data(), log, failure[1], self);
  close(log);
  close(failure[1]);
  // The pipe closes by itself if exec succeeds.
  int error = 0;
  bool failed = pid_ < 0 || read(failure[0], &error, sizeof error) != 0;
  close(failure[0]);
  if (!failed) return;
  if (pid_ > 0) waitpid(pid_, nullptr, 0);
  fail_test(fmt::format("cannot run {}: {}", name_, strerror(error ? error : errno)));
}

Process::~Process() { kill(); }

void Process::pause() {
  ensure(alive(), "only a living process is paused");
  ::kill(pid_, SIGSTOP);
  while (!paused_ && !exit_code_) observe(true);
}

void Process::resume() {
  ::kill(pid_, SIGCONT);
  while (paused_ && !exit_code_) observe(true);
}

void Process::kill() {
  // Only before the process has been waited for: afterwards the number may belong to another one.
  if (!exit_code_) ::kill(-pid_, SIGKILL);
  while (!exit_code_) observe(true);
}

void Process::terminate() {
  if (!alive()) return;
  ::kill(pid_, SIGTERM);
  if (paused_) resume();
}

int Process::wait(Clock::duration limit) {
  wait_for(limit, fmt::format("the end of {} (pid {})", name_, pid_), [&] { return !alive(); });
  return *exit_code_;
}

bool Process::alive() {
  if (!exit_code_) observe(false);
  return !exit_code_;
}

std::string Process::log_text() const {
  std::ifstream file(log_);
  std::string text(std::istreambuf_iterator<char>(file), {});
  return text.size() <= 4000 ? text : text.substr(text.size() - 4000);
}

void Process::observe(bool block) {
  int status = 0;
  pid_t changed = waitpid(pid_, &status, WUNTRACED | WCONTINUED | (block ? 0 : WNOHANG));
  if (changed < 0 && errno == EINTR) return;
  ensure(changed >= 0, "a child is waited for by its Process only");
  if (changed == 0) return;
  if (WIFEXITED(status)) exit_code_ = WEXITSTATUS(status);
  if (WIFSIGNALED(status)) exit_code_ = 128 + WTERMSIG(status);
  if (WIFSTOPPED(status) || WIFCONTINUED(status)) paused_ = WIFSTOPPED(status);
}

}  // namespace warren::inline testkit
