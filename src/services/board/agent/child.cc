#include "services/board/agent/child.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <climits>
#include <cstring>

#include "base/causes.h"

namespace warren::agent {

namespace {

// A file that only the two of us have: unlike a pipe it takes everything at once, and nothing is
// stuck when the tool does not read it.
Result<File> input_file(const std::string& input) {
  File file(memfd_create("tool-input", MFD_CLOEXEC));
  std::size_t written = 0;
  while (file.get() >= 0 && written < input.size()) {
    auto wrote = ::write(file.get(), input.data() + written, input.size() - written);
    if (wrote <= 0) break;
    written += static_cast<std::size_t>(wrote);
  }
  if (file.get() < 0 || written < input.size() || lseek(file.get(), 0, SEEK_SET) != 0)
    return fail(Errc::unavailable, warren::causes::no_resources, "",
                "no room for {} bytes of input: {}", input.size(), std::strerror(errno));
  return file;
}

struct Pipe {
  File read_end, write_end;
};

Result<Pipe> make_pipe() {
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0)
    return fail(Errc::unavailable, warren::causes::no_resources, "", "no pipe can be had: {}",
                std::strerror(errno));
  return Pipe{File(ends[0]), File(ends[1])};
}

std::vector<char*> pointers(const std::vector<std::string>& words) {
  std::vector<char*> result;
  result.reserve(words.size() + 1);
  for (const auto& word : words) result.push_back(const_cast<char*>(word.c_str()));
  result.push_back(nullptr);
  return result;
}

// What the child needs, all made before there is one.
struct Plan {
  char** argv;
  char** environment;
  const char* folder;
  int input, out, err, failure;
  pid_t parent;
};

// Runs in the child between fork and exec, where only system calls are safe. All signals are
// blocked when it begins, so that no handler of ours runs in it.
[[noreturn]] void become(const Plan& plan) {
  setsid();
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != plan.parent) _exit(127);  // it died before it could be watched
  struct sigaction usual{};
  usual.sa_handler = SIG_DFL;
  for (int number = 1; number < NSIG; ++number) sigaction(number, &usual, nullptr);
  bool is_set = dup2(plan.input, STDIN_FILENO) >= 0 && dup2(plan.out, STDOUT_FILENO) >= 0 &&
                dup2(plan.err, STDERR_FILENO) >= 0 && chdir(plan.folder) == 0;
  // Asio does not mark its sockets, and a tool has no business with our connections.
  close_range(STDERR_FILENO + 1, UINT_MAX, CLOSE_RANGE_CLOEXEC);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  if (is_set) execvpe(plan.argv[0], plan.argv, plan.environment);
  int error = errno;
  _exit(write(plan.failure, &error, sizeof error) == sizeof error ? 127 : 126);
}

pid_t fork_with_signals_blocked(const Plan& plan) {
  sigset_t all, before;
  sigfillset(&all);
  sigprocmask(SIG_SETMASK, &all, &before);
  pid_t pid = fork();
  if (pid == 0) become(plan);
  int error = errno;
  sigprocmask(SIG_SETMASK, &before, nullptr);
  errno = error;
  return pid;
}

}  // namespace

File& File::operator=(File&& other) noexcept {
  std::swap(descriptor_, other.descriptor_);
  return *this;
}

File::~File() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

Result<Child> start_child(const ToolTerms& terms) {
  ensure(!terms.argv.empty(), "a tool has a name");
  auto input = input_file(terms.input);
  if (!input) return std::unexpected(input.error());
  auto out = make_pipe(), err = make_pipe(), failure = make_pipe();
  if (!out || !err || !failure)
    return fail(Errc::unavailable, warren::causes::no_resources, "", "no pipe can be had");
  std::vector<std::string> variables;
  for (const auto& [name, value] : terms.environment) variables.push_back(name + "=" + value);
  auto argv = pointers(terms.argv), environment = pointers(variables);
  Plan plan{argv.data(),          environment.data(),   terms.folder.c_str(),     input->get(),
            out->write_end.get(), err->write_end.get(), failure->write_end.get(), getpid()};
  Child child;
  child.pid = fork_with_signals_blocked(plan);
  if (child.pid < 0)
    return fail(Errc::unavailable, warren::causes::no_resources, "",
                "no process can be started: {}", std::strerror(errno));
  // This pipe closes by itself when exec succeeds.
  failure->write_end = File();
  int error = 0;
  ssize_t got = 0;
  do got = read(failure->read_end.get(), &error, sizeof error);
  while (got < 0 && errno == EINTR);
  if (got == 0) child.process = File(static_cast<int>(syscall(SYS_pidfd_open, child.pid, 0)));
  if (child.process.get() < 0) {
    if (got == 0) error = errno;
    kill(-child.pid, SIGKILL);
    waitpid(child.pid, nullptr, 0);
    return fail(Errc::unavailable, "{} cannot be run in {}: {}", terms.argv[0],
                terms.folder.string(), std::strerror(error));
  }
  child.out = std::move(out->read_end);
  child.err = std::move(err->read_end);
  return child;
}

}  // namespace warren::agent
