#include "services/session/process/shim.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <memory>
#include <random>
#include <sstream>

#include "services/session/process/enclosure.h"
#include "services/session/process/kin.h"
#include "services/session/process/order.h"
#include "services/session/process/yard.h"

namespace warren::session {

namespace fs = std::filesystem;

namespace {

constexpr std::size_t most_order = 4u << 20;
constexpr auto look_at_port = 50ms;  // while it starts
constexpr auto look_at_children = 5s;
// So much of what a sandbox writes is taken in each tick; it waits for the rest.
constexpr std::size_t output_per_tick = 512u << 10;
constexpr auto output_tick = 50ms;

volatile sig_atomic_t was_told_to_end = 0;

std::string read_order() {
  std::string text;
  std::array<char, 4096> part{};
  while (text.size() < most_order) {
    auto count = ::read(STDIN_FILENO, part.data(), part.size());
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) break;
    text.append(part.data(), static_cast<std::size_t>(count));
  }
  return text;
}

void answer(const std::optional<Error>& error) {
  auto text = answer_json(error);
  std::ignore = ::write(STDOUT_FILENO, text.data(), text.size());
  int nothing = ::open("/dev/null", O_RDWR);
  for (int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) ::dup2(nothing, stream);
  ::close(nothing);
}

bool is_port_free(unsigned short port) {
  int file = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  int yes = 1;
  ::setsockopt(file, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_ANY);
  bool is_free = ::bind(file, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0;
  ::close(file);
  return is_free;
}

// The last of what the sandbox wrote, in two files of half the size.
class OutputLog {
 public:
  OutputLog(fs::path path, std::uint64_t most) : path_(std::move(path)), most_(most / 2) { open(); }
  ~OutputLog() { close(); }
  OutputLog(const OutputLog&) = delete;
  OutputLog& operator=(const OutputLog&) = delete;

  void add(std::string_view text) {
    if (size_ + text.size() > most_) turn();
    std::ignore = ::write(file_, text.data(), text.size());
    size_ += text.size();
  }

 private:
  void open() {
    file_ = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600);
    struct stat found{};
    size_ = ::fstat(file_, &found) == 0 ? static_cast<std::uint64_t>(found.st_size) : 0;
  }
  void close() {
    if (file_ >= 0) ::close(std::exchange(file_, -1));
  }
  void turn() {
    close();
    ::rename(path_.c_str(), (path_.string() + ".1").c_str());
    open();
  }

  fs::path path_;
  std::uint64_t most_, size_ = 0;
  int file_ = -1;
};

class Shim {
 public:
  Shim(Order order, Yard yard, FileLock lock)
      : order_(std::move(order)), yard_(std::move(yard)), lock_(std::move(lock)) {}

  Result<> start();
  void attend();

 private:
  const std::string& name() const { return order_.spec.name; }
  Result<> take_over();
  Result<> claim_ports();
  Result<> open_control();
  Result<> begin();
  void say(Phase phase, std::string reason = "");
  void look();
  void read_control();
  void read_output();
  void ask_to_end(Phase after, std::string reason);
  void end_now();
  bool has_ended();
  std::chrono::milliseconds patience() const;

  Order order_;
  Yard yard_;
  FileLock lock_;
  std::vector<FileLock> ports_ = {};
  ShimState state_ = {};
  FileLock control_{-1}, output_{-1}, watched_{-1};
  std::optional<OutputLog> log_ = {};
  pid_t main_ = 0;
  int status_ = 0;
  std::size_t taken_ = 0;  // of the output, in this tick
  Clock::time_point tick_ = {};
  std::optional<Phase> after_ = {};  // told to end, and what it is then
  std::string why_ = {};
  Clock::time_point kill_at_ = {};
};

// Of the life before, nothing may be left; its counts go on. From here on this life is what others see.
Result<> Shim::take_over() {
  auto before = yard_.state(name());
  auto now = WallClock::now();
  state_.created_at = before ? before->created_at : now;
  state_.restarts = before ? before->restarts : 0;
  state_.started_at = now;
  state_.incarnation = order_.incarnation;
  state_.pid = ::getpid();
  state_.began = began_at(state_.pid);
  if (before) {
    state_.main_pid = before->main_pid;
    state_.main_began = before->main_began;
    if (before->phase == Phase::starting || before->phase == Phase::running) ++state_.restarts;
  }
  if (auto described = yard_.put_spec(order_.spec); !described) return described;
  say(Phase::starting);
  if (!before) return ok;
  bool is_gone = end_leftovers(before->main_pid, before->main_began, before->incarnation,
                               Clock::now() + leftovers_time);
  if (!is_gone)
    return fail(Errc::unavailable, "processes of the sandbox before this one do not end");
  return ok;
}

// From anywhere in the range, so that two that look at once rarely meet.
Result<> Shim::claim_ports() {
  const auto& terms = order_.terms;
  if (terms.first_port == 0 || terms.last_port < terms.first_port)
    return fail(Errc::invalid, "ports {}-{}: this is no range", terms.first_port, terms.last_port);
  unsigned count = static_cast<unsigned>(terms.last_port - terms.first_port) + 1;
  auto begin = std::random_device{}() % count;
  std::size_t next = 0;
  for (unsigned i = 0; i < count && next < all_doors.size(); ++i) {
    auto port = static_cast<unsigned short>(terms.first_port + (begin + i) % count);
    auto lock = yard_.lock_port(port, state_.incarnation);
    if (!lock && lock.error().code != Errc::held_elsewhere) return std::unexpected(lock.error());
    if (!lock || !is_port_free(port)) continue;
    state_.endpoints[all_doors[next++]] = {"127.0.0.1", port};
    ports_.push_back(*std::move(lock));
  }
  if (next < all_doors.size())
    return fail(Errc::overloaded,
                "fewer than four ports of {}-{} are free: stop a session, or allow more",
                terms.first_port, terms.last_port);
  return ok;
}

Result<> Shim::open_control() {
  auto path = yard_.control(name());
  ::unlink(path.c_str());  // with all that was said to the one before
  if (::mkfifo(path.c_str(), 0600) != 0)
    return fail(Errc::refused, "{}: {}", path.string(), std::strerror(errno));
  // For writing, too: it has no end then.
  control_ = FileLock(::open(path.c_str(), O_RDWR | O_NONBLOCK | O_CLOEXEC | O_NOFOLLOW));
  if (control_.descriptor() < 0)
    return fail(Errc::refused, "{}: {}", path.string(), std::strerror(errno));
  return ok;
}

Result<> Shim::begin() {
  auto work = yard_.sandbox(name()) / "work";
  if (::mkdir(work.c_str(), 0700) != 0 && errno != EEXIST)
    return fail(Errc::refused, "{}: {}", work.string(), std::strerror(errno));
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0)
    return fail(Errc::overloaded, "pipe: {}", std::strerror(errno));
  log_.emplace(yard_.log(name()), order_.terms.log_bytes);
  output_ = FileLock(ends[0]);
  FileLock far_end(ends[1]);
  ::fcntl(ends[0], F_SETFL, O_NONBLOCK);
  const auto& terms = order_.terms;
  auto factor = static_cast<unsigned>(std::clamp(order_.spec.resource_factor, 1, 64));
  Enclosure enclosure{.is_isolated = terms.is_isolated,
                      .work = work,
                      .shown = terms.shown,
                      .host_name = name().substr(0, 63),
                      .argv = words_of(order_.spec, state_.endpoints),
                      .environment = environment_of(order_, state_.endpoints),
                      .working_dir = order_.spec.working_dir,
                      .most_memory = terms.memory * factor,
                      .most_processes = terms.processes * static_cast<int>(factor),
                      .output = far_end.descriptor()};
  if (order_.spec.run_as_user.value_or(0) > 0) enclosure.user = *order_.spec.run_as_user;
  if (order_.spec.run_as_group.value_or(0) > 0) enclosure.group = *order_.spec.run_as_group;
  if (enclosure.argv.empty())
    return fail(Errc::invalid, "the sandbox has no command: give one, or an image that has one");
  auto child = enclose(enclosure);
  if (!child) return std::unexpected(child.error());
  main_ = *child;
  state_.main_pid = main_;
  state_.main_began = began_at(main_);
  watched_ = FileLock(static_cast<int>(::syscall(SYS_pidfd_open, main_, 0)));
  return ok;
}

Result<> Shim::start() {
  if (Yard::generation(lock_) != order_.generation)
    return fail(Errc::lease_lost, "the session was stopped since this was asked for");
  auto begun = take_over();
  if (begun) begun = claim_ports();
  if (begun) begun = open_control();
  if (begun) begun = begin();
  if (begun)
    say(Phase::starting);
  else
    say(Phase::ended, begun.error().what);
  return begun;
}

void Shim::say(Phase phase, std::string reason) {
  state_.phase = phase;
  state_.reason = std::move(reason);
  std::ignore = yard_.put_state(name(), state_);
}

std::chrono::milliseconds Shim::patience() const {
  if (after_) return look_at_port;
  if (taken_ >= output_per_tick) return output_tick;
  if (state_.phase == Phase::starting) return look_at_port;
  return look_at_children;
}

void Shim::attend() {
  while (!has_ended()) {
    auto now = Clock::now();
    if (now - tick_ >= output_tick) {
      tick_ = now;
      taken_ = 0;
    }
    std::array<pollfd, 3> files{
        pollfd{control_.descriptor(), POLLIN, 0}, pollfd{watched_.descriptor(), POLLIN, 0},
        pollfd{taken_ < output_per_tick ? output_.descriptor() : -1, POLLIN, 0}};
    ::poll(files.data(), files.size(), static_cast<int>(patience().count()));
    if (files[0].revents != 0) read_control();
    if (files[2].revents != 0) read_output();
    if (was_told_to_end) ask_to_end(Phase::ended, "the machine, or a person, ended it");
    look();
  }
  end_now();
}

// What it may be asked each time round; cheap but for the first seconds.
void Shim::look() {
  if (after_ && Clock::now() >= kill_at_) ::kill(main_, SIGKILL);
  if (state_.phase != Phase::starting || after_) return;
  auto found = state_.endpoints.find(Door::runtime);
  if (listens(descendants_of(::getpid()), found->second.port)) say(Phase::running);
}

void Shim::read_control() {
  std::array<char, 1024> text{};
  auto count = ::read(control_.descriptor(), text.data(), text.size() - 1);
  if (count <= 0) return;
  std::istringstream lines(std::string(text.data(), static_cast<std::size_t>(count)));
  // end <incarnation> paused|ended
  for (std::string verb, incarnation, phase; lines >> verb >> incarnation >> phase;)
    if (verb == "end" && incarnation == state_.incarnation)
      ask_to_end(phase == session::name(Phase::paused) ? Phase::paused : Phase::ended,
                 "it was asked to end");
}

void Shim::read_output() {
  std::array<char, 64u << 10> text{};
  auto count = ::read(output_.descriptor(), text.data(), text.size());
  if (count > 0) {
    log_->add({text.data(), static_cast<std::size_t>(count)});
    taken_ += static_cast<std::size_t>(count);
  } else if (count == 0) {
    output_ = FileLock(-1);
  }
}

void Shim::ask_to_end(Phase after, std::string reason) {
  if (after_) return;
  after_ = after;
  why_ = std::move(reason);
  state_.was_asked = true;
  kill_at_ = Clock::now() + order_.terms.grace;
  say(Phase::ending);
  ::kill(order_.terms.is_isolated ? main_ : -main_, SIGTERM);
}

bool Shim::has_ended() {
  for (;;) {
    int status = 0;
    auto child = ::waitpid(-1, &status, WNOHANG);
    if (child <= 0) return false;
    if (child != main_) continue;
    status_ = status;
    return true;
  }
}

// All that is left are children of ours, or will be when their parents are gone, until the last is
// buried. Others are not signalled: who is not ours to bury may have been buried already.
void Shim::end_now() {
  for (;;) {
    for (auto pid : children_of(::getpid())) ::kill(pid, SIGKILL);
    int status = 0;
    auto child = ::waitpid(-1, &status, 0);
    if (child < 0 && errno != EINTR) break;
  }
  while (output_.descriptor() >= 0 && taken_ < 2 * output_per_tick) {
    auto before = taken_;
    read_output();
    if (taken_ == before) break;
  }
  state_.exit_code = WIFEXITED(status_) ? WEXITSTATUS(status_) : 128 + WTERMSIG(status_);
  if (after_) return say(*after_, why_);
  ++state_.restarts;
  say(Phase::ended, WIFEXITED(status_)
                        ? fmt::format("its command ended with exit code {}", *state_.exit_code)
                        : fmt::format("its command was killed by signal {}", WTERMSIG(status_)));
}

Result<std::unique_ptr<Shim>> prepare() {
  auto order = order_from(read_order());
  if (!order) return std::unexpected(order.error());
  auto yard = Yard::open(order->terms.root);
  if (!yard) return std::unexpected(yard.error());
  auto lock = yard->lock(order->spec.name);
  if (!lock) return std::unexpected(lock.error());
  return std::make_unique<Shim>(*std::move(order), *std::move(yard), *std::move(lock));
}

int run() {
  // Whoever started us need not wait for our end, nor be there for it.
  if (pid_t child = ::fork(); child != 0) return child > 0 ? 0 : 1;
  ::setsid();
  ::signal(SIGPIPE, SIG_IGN);
  ::signal(SIGHUP, SIG_IGN);
  ::signal(SIGINT, SIG_IGN);
  struct sigaction action{};
  action.sa_handler = [](int) { was_told_to_end = 1; };
  ::sigaction(SIGTERM, &action, nullptr);
  ::prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
  ::umask(077);
  std::ignore = ::chdir("/");
  auto shim = prepare();
  if (!shim) {
    answer(shim.error());
    return 1;
  }
  auto started = (*shim)->start();
  answer(started ? std::nullopt : std::optional(started.error()));
  if (!started) return 1;
  (*shim)->attend();
  return 0;
}

}  // namespace

std::optional<int> run_as_shim(std::span<const std::string> words) {
  if (words.empty() || words[0] != shim_word) return std::nullopt;
  if (words.size() == 2 && words[1] == shim_trial) {
    auto works = check_isolation();
    answer(works ? std::nullopt : std::optional(works.error()));
    return works ? 0 : 1;
  }
  return run();
}

}  // namespace warren::session
