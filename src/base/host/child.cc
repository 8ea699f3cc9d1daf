#include "base/host/child.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <fstream>

#include "base/causes.h"

namespace warren {

namespace {

constexpr int pipe_bytes = 1 << 20;  // fewer context switches between the two sides
constexpr std::size_t errors_bytes = 64u << 10;
constexpr std::chrono::minutes longest_silence{5};  // git is silent while it reads a cold disk

// kill_children() does not know children beyond these slots.
std::array<std::atomic<pid_t>, 64> running;

void note(pid_t before, pid_t now) {
  for (auto& place : running) {
    auto expected = before;
    if (place.compare_exchange_strong(expected, now)) return;
  }
}

std::vector<char*> pointers(const std::vector<std::string>& words) {
  std::vector<char*> result;
  result.reserve(words.size() + 1);
  for (const auto& word : words) result.push_back(const_cast<char*>(word.c_str()));
  result.push_back(nullptr);
  return result;
}

// Turns SIGPIPE into EPIPE: writing to a child that has exited is an error for the caller, not a
// signal for the whole process.
ssize_t write_quietly(int file, std::string_view text) {
  sigset_t broken, before;
  sigemptyset(&broken);
  sigaddset(&broken, SIGPIPE);
  pthread_sigmask(SIG_BLOCK, &broken, &before);
  auto wrote = ::write(file, text.data(), text.size());
  int error = errno;
  if (wrote < 0 && error == EPIPE) {
    timespec now{};
    while (sigtimedwait(&broken, nullptr, &now) < 0 && errno == EINTR) continue;
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  errno = error;
  return wrote;
}

// An in-memory file of limited size: a child that writes endless errors costs nothing, and nothing
// has to read them.
int make_errors() {
  int file = memfd_create("errors", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (file < 0) return file;
  if (ftruncate(file, errors_bytes) == 0 &&
      fcntl(file, F_ADD_SEALS, F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL) == 0)
    return file;
  ::close(file);
  return -1;
}

int patience_until(Clock::time_point deadline) {
  if (deadline == Clock::time_point::max()) return -1;
  auto rest = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now()).count();
  return static_cast<int>(std::clamp<std::int64_t>(rest, 0, 1'000'000));
}

// Duplicates the descriptors above every number that a child's descriptor will get, so that placing
// one does not close another. If the result is shorter than the input, no more descriptors were
// available.
std::vector<int> copies_of(const std::vector<int>& descriptors) {
  std::vector<int> copies;
  for (int descriptor : descriptors) {
    int least = STDERR_FILENO + 1 + static_cast<int>(descriptors.size());
    int copy = fcntl(descriptor, F_DUPFD_CLOEXEC, least);
    if (copy < 0) break;
    copies.push_back(copy);
  }
  return copies;
}

int spawn(const ChildTerms& terms, const std::vector<int>& copies, int input, int output,
          int errors, pid_t& pid) {
  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  posix_spawn_file_actions_adddup2(&files, input, STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&files, output, STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&files, errors, STDERR_FILENO);
  int next = STDERR_FILENO + 1;
  for (int copy : copies) posix_spawn_file_actions_adddup2(&files, copy, next++);
  posix_spawn_file_actions_addclosefrom_np(&files, next);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  sigset_t none, all;
  sigemptyset(&none);
  sigfillset(&all);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setsigdefault(&attributes, &all);
  // The child gets its own process group, so that Ctrl-C in our terminal reaches only us, and so
  // that killing the group also kills the child's children.
  posix_spawnattr_setpgroup(&attributes, 0);
  posix_spawnattr_setflags(&attributes,
                           POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETPGROUP);
  auto argv = pointers(terms.argv), environment = pointers(terms.environment);
  int error = posix_spawnp(&pid, argv[0], &files, &attributes, argv.data(), environment.data());
  posix_spawn_file_actions_destroy(&files);
  posix_spawnattr_destroy(&attributes);
  return error;
}

void close_if_open(int& file) {
  if (file >= 0) ::close(file);
  file = -1;
}

}  // namespace

Result<Child> Child::start(const ChildTerms& terms) {
  ensure(!terms.argv.empty(), "a child has a name");
  std::array<int, 2> in{-1, -1}, out{-1, -1};
  int errors = make_errors();
  Child child;
  child.errors_ = errors;
  child.stop_ = terms.stop;
  bool has_pipes = errors >= 0 && pipe2(in.data(), O_CLOEXEC) == 0;
  child.input_ = in[1];
  has_pipes = has_pipes && pipe2(out.data(), O_CLOEXEC) == 0;
  child.output_ = out[0];
  auto copies = copies_of(terms.descriptors);
  int error = has_pipes && copies.size() == terms.descriptors.size()
                  ? spawn(terms, copies, in[0], out[1], errors, child.pid_)
                  : errno;
  for (int& copy : copies) close_if_open(copy);
  close_if_open(in[0]);
  close_if_open(out[1]);
  if (error != 0) {
    child.pid_ = -1;
    if (error == ENOENT) return fail(Errc::refused, "{} is not there", terms.argv[0]);
    return fail(Errc::unavailable, "{} cannot be run: {}", terms.argv[0], std::strerror(error));
  }
  note(0, child.pid_);
  rlimit files{terms.file_bytes, terms.file_bytes};
  prlimit(child.pid_, RLIMIT_FSIZE, &files, nullptr);
  if (terms.memory_bytes > 0) {
    rlimit limit{terms.memory_bytes, terms.memory_bytes};
    prlimit(child.pid_, RLIMIT_AS, &limit, nullptr);
  }
  fcntl(child.input_, F_SETFL, O_NONBLOCK);
  fcntl(child.input_, F_SETPIPE_SZ, pipe_bytes);
  fcntl(child.output_, F_SETPIPE_SZ, pipe_bytes);
  return child;
}

Child::Child(Child&& other) noexcept
    : pid_(std::exchange(other.pid_, -1)),
      stop_(other.stop_),
      input_(std::exchange(other.input_, -1)),
      output_(std::exchange(other.output_, -1)),
      errors_(std::exchange(other.errors_, -1)) {}

Child::~Child() {
  close_if_open(input_);
  close_if_open(output_);
  if (pid_ > 0) {
    ::kill(-pid_, SIGKILL);
    wait();
  }
  close_if_open(errors_);
}

Result<std::size_t> Child::exchange(std::string_view& input, bool is_all, char* into,
                                    std::size_t size, Clock::time_point deadline) {
  for (;;) {
    if (input.empty() && is_all) close_if_open(input_);
    std::array<pollfd, 3> files{
        {{output_, POLLIN, 0}, {input.empty() ? -1 : input_, POLLOUT, 0}, {stop_, POLLIN, 0}}};
    int ready = poll(files.data(), files.size(), patience_until(deadline));
    if (ready < 0 && errno == EINTR) continue;
    if (ready == 0 && Clock::now() < deadline) continue;  // beyond one poll()'s longest wait
    if (ready == 0) return fail(Errc::timeout, "the child does not answer");
    if (ready < 0)
      return fail(Errc::unavailable, warren::causes::no_resources, "", "poll: {}",
                  std::strerror(errno));
    if (files[2].revents != 0) return fail(Errc::cancelled, "nobody waits for the child");
    if (files[1].revents != 0) {
      auto wrote = write_quietly(input_, input);
      if (wrote > 0) input.remove_prefix(static_cast<std::size_t>(wrote));
      // The child accepts no more input. Its exit status explains why.
      if (wrote < 0 && errno != EAGAIN && errno != EINTR) input = {}, close_if_open(input_);
    }
    if (files[0].revents == 0) continue;
    auto got = ::read(output_, into, size);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0)
      return fail(Errc::unavailable, warren::causes::no_resources, "", "read: {}",
                  std::strerror(errno));
    return static_cast<std::size_t>(got);
  }
}

int Child::wait() {
  // Kill the process group while its number is still reserved. Later the number may belong to
  // another process.
  siginfo_t ended{};
  while (waitid(P_PID, static_cast<id_t>(pid_), &ended, WEXITED | WNOWAIT) < 0 && errno == EINTR)
    continue;
  ::kill(-pid_, SIGKILL);
  int status = 0;
  note(pid_, 0);
  while (waitpid(pid_, &status, 0) < 0 && errno == EINTR) continue;
  pid_ = -1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

Result<int> Child::wait(Clock::time_point deadline) {
  int process = static_cast<int>(syscall(SYS_pidfd_open, pid_, 0));
  if (process < 0)
    return fail(Errc::unavailable, warren::causes::no_resources, "", "pidfd_open: {}",
                std::strerror(errno));
  std::array<pollfd, 2> files{{{process, POLLIN, 0}, {stop_, POLLIN, 0}}};
  int ready = 0;
  do ready = poll(files.data(), files.size(), patience_until(deadline));
  while ((ready < 0 && errno == EINTR) || (ready == 0 && Clock::now() < deadline));
  ::close(process);
  if (ready > 0 && files[0].revents != 0) return wait();
  if (ready > 0) return fail(Errc::cancelled, "nobody waits for the child");
  return fail(Errc::timeout, "the child does not end");
}

std::string Child::errors() const {
  std::string text(errors_bytes, '\0');
  auto got = pread(errors_, text.data(), text.size(), 0);
  text.resize(static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
  // The part that the child has not written is zeros.
  while (!text.empty() && text.back() == '\0') text.pop_back();
  return text;
}

std::string Child::complaint() const {
  auto line = errors();
  line.resize(std::min<std::size_t>(line.size(), 1024));
  while (!line.empty() && line.back() == '\n') line.pop_back();
  for (char& c : line)
    if (static_cast<unsigned char>(c) < 0x20) c = ' ';
  return line;
}

void kill_children() {
  for (auto& place : running)
    if (auto pid = place.load(); pid > 0) ::kill(-pid, SIGKILL);
}

std::string Child::activity() const {
  auto place = fmt::format("/proc/{}/", pid_);
  std::string ran, line;
  std::ifstream(place + "schedstat") >> ran;  // in nanoseconds
  std::getline(std::ifstream(place + "stat"), line);
  // "PID (name) S …": in state S a process waits for something other than a disk.
  auto state = line.find_last_of(')');
  bool is_asleep = state != line.npos && line.substr(state).starts_with(") S");
  return is_asleep ? ran : "";
}

namespace {

// Waits for output of a child for as long as its terms allow.
class Patience {
 public:
  Patience(const Child& child, const ChildTerms& terms) : child_(child), idle_(terms.idle) {}

  void has_spoken() {
    silent_since_ = Clock::now();
    before_.clear();
  }
  Clock::time_point wake_at() const {
    auto last = silent_since_ + longest_silence;
    return idle_ > 0s ? std::min(last, Clock::now() + idle_) : last;
  }
  // Asked when the child was silent until wake_at(). It takes two such waits to know that it is idle.
  bool is_over() {
    if (Clock::now() >= silent_since_ + longest_silence) return true;
    auto now = child_.activity();
    return !now.empty() && std::exchange(before_, now) == now;
  }

 private:
  const Child& child_;
  std::chrono::seconds idle_;
  Clock::time_point silent_since_ = Clock::now();
  std::string before_;
};

}  // namespace

Result<> run_child(const ChildTerms& terms, std::string_view input, const TakeOutput& take) {
  auto child = Child::start(terms);
  if (!child) return std::unexpected(child.error());
  std::vector<char> buffer(256u << 10);
  Patience patience(*child, terms);
  for (;;) {
    auto got = child->exchange(input, true, buffer.data(), buffer.size(), patience.wake_at());
    if (!got && got.error().code == Errc::timeout) {
      if (!patience.is_over()) continue;
      return fail(Errc::timeout,
                  "{} waits for something that does not come: is there a pipe in the "
                  "place of a file?",
                  terms.argv[0]);
    }
    if (!got) return std::unexpected(within(terms.argv[0], got.error()));
    if (*got == 0) break;
    auto taken = take(std::string_view(buffer.data(), *got));
    if (!taken) return taken;
    patience.has_spoken();
  }
  if (int code = child->wait(); code != 0)
    return fail(Errc::refused, "{}",
                code == 127                  ? terms.argv[0] + " is not there"
                : child->complaint().empty() ? fmt::format("{} ended with {}", terms.argv[0], code)
                                             : child->complaint());
  return ok;
}

Result<std::string> run_child(const ChildTerms& terms, std::string_view input,
                              std::size_t most_output) {
  std::string output;
  auto done = run_child(terms, input, [&](std::string_view piece) -> Result<> {
    if (output.size() + piece.size() > most_output)
      return fail(Errc::overloaded, "{} says more than {} MB", terms.argv[0], most_output >> 20);
    output += piece;
    return ok;
  });
  if (!done) return std::unexpected(done.error());
  return output;
}

}  // namespace warren
