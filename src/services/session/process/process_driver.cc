#include "services/session/process/process_driver.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/buffer.hpp>
#include <boost/asio/redirect_error.hpp>
#include <cerrno>
#include <cstring>

#include "base/age.h"
#include "base/log.h"
#include "base/uuid.h"
#include "services/session/names.h"
#include "services/session/process/kin.h"
#include "services/session/process/shim.h"

namespace warren::session {

namespace {

constexpr auto look_again = 10ms;
constexpr auto past_grace = 3s;      // then the shim itself is ended
constexpr auto keep_locks = 24h;     // of sessions that were stopped
constexpr auto finish_every = 1min;  // removals that were cut short
constexpr std::size_t most_answer = 64u << 10;

using Stream = asio::posix::stream_descriptor;

// Like on_pool, but a cancellation of the caller does not reach into the other thread: the call ends when
// the work has ended.
template <class Function, class... Args>
awaitable<std::invoke_result_t<Function, Args...>> on_files(asio::thread_pool& pool,
                                                            Function function, Args... args) {
  using T = std::invoke_result_t<Function, Args...>;
  auto body = [](Function f, Args... a) -> awaitable<T> { co_return f(std::move(a)...); };
  auto work = body(std::move(function), std::move(args)...);
  auto token = asio::bind_cancellation_slot(asio::cancellation_slot(), asio::use_awaitable);
  co_return co_await asio::co_spawn(pool.get_executor(), std::move(work), token);
}

// The order, as a file that is nowhere.
Result<FileLock> file_with(std::string_view text) {
  FileLock file(::memfd_create("order", MFD_CLOEXEC));
  bool is_written = file.descriptor() >= 0 &&
                    ::write(file.descriptor(), text.data(), text.size()) == ssize_t(text.size()) &&
                    ::lseek(file.descriptor(), 0, SEEK_SET) == 0;
  if (!is_written)
    return fail(Errc::overloaded, "an order cannot be written: {}", std::strerror(errno));
  return file;
}

// Runs the shim with nothing of ours but these. Its environment is empty.
Result<pid_t> spawn(const ProcessTerms& terms, std::vector<std::string> words, int input,
                    int output) {
  words.insert(words.begin(), terms.program.string());
  std::vector<char*> argv, environment{nullptr};
  for (auto& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  posix_spawn_file_actions_adddup2(&files, input, STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&files, output, STDOUT_FILENO);
  posix_spawn_file_actions_addopen(&files, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  posix_spawn_file_actions_addclosefrom_np(&files, 3);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  sigset_t none, all;
  sigemptyset(&none);
  sigfillset(&all);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setsigdefault(&attributes, &all);
  posix_spawnattr_setpgroup(&attributes, 0);
  posix_spawnattr_setflags(&attributes,
                           POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETPGROUP);
  pid_t pid = -1;
  int error = posix_spawn(&pid, argv[0], &files, &attributes, argv.data(), environment.data());
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&files);
  if (error != 0)
    return fail(Errc::unavailable, "{} cannot be started: {}", words[0], std::strerror(error));
  return pid;
}

// Whether a shim may do here what it is for. Waits for it: before anything is served.
Result<> try_isolation(const ProcessTerms& terms) {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return fail(Errc::overloaded, "pipe");
  FileLock from(ends[0]);
  FileLock to(ends[1]);
  FileLock nothing(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  auto child = spawn(terms, {shim_word, shim_trial}, nothing.descriptor(), to.descriptor());
  if (!child) return std::unexpected(child.error());
  to = FileLock(-1);
  std::string text;
  std::array<char, 512> part{};
  for (;;) {
    auto count = ::read(from.descriptor(), part.data(), part.size());
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) break;
    text.append(part.data(), static_cast<std::size_t>(count));
  }
  ::waitpid(*child, nullptr, 0);
  auto answer = answer_from(text);
  if (!answer)
    return fail(Errc::denied,
                "sandboxes cannot be isolated on this machine ({}): allow user namespaces, or run "
                "them with --unisolated, where each sees all that you see",
                answer.error().what);
  return ok;
}

// The first process of a shim. The shim itself is its child; this one has ended, or has not come to
// anything.
struct Launched {
  pid_t pid;
  ~Launched() {
    ::kill(pid, SIGKILL);
    ::waitpid(pid, nullptr, 0);
  }
};

Async<std::string> read_line(Stream& from) {
  std::string text;
  std::array<char, 512> part{};
  while (text.size() < most_answer) {
    boost::system::error_code error;
    auto count = co_await from.async_read_some(asio::buffer(part),
                                               asio::redirect_error(asio::use_awaitable, error));
    text.append(part.data(), count);
    if (text.ends_with('\n') || error == asio::error::eof) co_return text;
    if (error)
      co_return fail(Errc::unknown_outcome, "the shim does not answer: {}", error.message());
  }
  co_return fail(Errc::protocol, "the shim says too much");
}

// Its first process, in the words of a pod.
std::vector<ContainerState> containers_of(const ShimState& state) {
  if (state.phase == Phase::paused) return {};
  ContainerState one{.name = "runtime", .restarts = state.restarts};
  bool has_ended = state.phase == Phase::ended;
  one.is = has_ended ? ContainerState::Is::terminated : ContainerState::Is::running;
  one.is_ready = state.phase == Phase::running;
  one.exit_code = state.exit_code.value_or(0);
  if (has_ended) {
    one.reason = one.exit_code == 0 ? "Completed" : "Error";
    one.message = state.reason;
  }
  return {std::move(one)};
}

Result<> finish_removal(Yard yard, FileLock lock, std::string name) {
  ensure(lock.descriptor() >= 0, "it is under the lock");
  return yard.finish_removal(name);
}

// The process that the state names, if it still is that one.
void end_shim(const ShimState& state) {
  int opened = static_cast<int>(::syscall(SYS_pidfd_open, state.pid, 0));
  if (opened < 0) return;
  if (state.began != 0 && began_at(state.pid) == state.began) {
    log::warn("session.shim_ended", "pid", state.pid, "incarnation", state.incarnation);
    ::syscall(SYS_pidfd_send_signal, opened, SIGKILL, nullptr, 0);
  }
  ::close(opened);
}

}  // namespace

Result<std::unique_ptr<ProcessDriver>> ProcessDriver::create(const asio::any_io_executor& executor,
                                                             ProcessTerms terms, Images images) {
  auto yard = Yard::open(terms.root);
  if (!yard) return std::unexpected(yard.error());
  terms.root = yard->root();
  if (terms.is_isolated)
    if (auto works = try_isolation(terms); !works) return std::unexpected(works.error());
  return std::unique_ptr<ProcessDriver>(
      new ProcessDriver(executor, std::move(terms), std::move(images), *std::move(yard)));
}

ProcessDriver::ProcessDriver(const asio::any_io_executor& executor, ProcessTerms terms,
                             Images images, Yard yard)
    : executor_(executor),
      terms_(std::move(terms)),
      images_(std::move(images)),
      yard_(std::move(yard)),
      changed_(executor) {}

ProcessDriver::~ProcessDriver() { files_.join(); }

const Sandbox* ProcessDriver::seen(const std::string& name) const {
  auto found = seen_.find(name);
  return found == seen_.end() ? nullptr : &found->second;
}

std::vector<const Sandbox*> ProcessDriver::all_seen() const {
  std::vector<const Sandbox*> all;
  for (const auto& [name, sandbox] : seen_) all.push_back(&sandbox);
  return all;
}

awaitable<void> ProcessDriver::changed(std::uint64_t since, Clock::time_point deadline) {
  while (changes_ == since && Clock::now() < deadline) {
    co_await changed_.wait(deadline);
    auto state = co_await asio::this_coro::cancellation_state;
    if (is_cancelled(state)) co_return;
  }
}

// The lock of the port is held, and its text is this incarnation. A shim writes its own there before its
// sandbox listens. So if another sandbox had accepted the connection, its incarnation would stand there by
// now.
Result<> ProcessDriver::confirm(const std::string& name, const std::string& incarnation,
                                const Endpoint& at) {
  auto owner = yard_.port_owner(at.port);
  if (owner && *owner == incarnation) return ok;
  // The shim may be of a version that wrote nothing there. Then the session's own lock has to do.
  if (owner && owner->empty() && yard_.is_locked(name))
    if (auto state = yard_.state(name); state && state->incarnation == incarnation) return ok;
  note(name);
  return fail(Errc::unavailable, "port {} is not that of {} any more", at.port, name);
}

std::optional<Sandbox> ProcessDriver::read(const std::string& name) const {
  auto state = yard_.state(name);
  if (!state) return std::nullopt;
  bool should_live = state->phase != Phase::paused && state->phase != Phase::ended;
  bool is_held = should_live && yard_.is_locked(name);
  // It may have said its last word between the two looks.
  if (should_live && !is_held) state = yard_.state(name);
  auto spec = yard_.spec(name);
  if (!state || !spec) return std::nullopt;
  if (state->phase != Phase::paused && state->phase != Phase::ended && !is_held) {
    state->phase = Phase::ended;
    state->reason = "it was killed with its shim";
  }
  return Sandbox{.spec = *std::move(spec),
                 .incarnation = state->incarnation,
                 .phase = state->phase,
                 .reason = state->reason,
                 .exit_code = state->exit_code,
                 .was_asked = state->was_asked,
                 .restarts = state->restarts,
                 .endpoints = state->endpoints,
                 .containers = containers_of(*state),
                 .created_at = state->created_at,
                 .started_at = state->started_at};
}

void ProcessDriver::note(const std::string& name) {
  auto found = read(name);
  if (found)
    seen_.insert_or_assign(name, *std::move(found));
  else
    seen_.erase(name);
  ++changes_;
  changed_.notify();
}

awaitable<void> ProcessDriver::run() {
  using namespace asio::experimental::awaitable_operators;
  co_await (follow() && sweep());
}

// Each state is replaced by a rename, and removed with its sandbox.
awaitable<void> ProcessDriver::follow() {
  Stream events(executor_, ::inotify_init1(IN_NONBLOCK | IN_CLOEXEC));
  ::inotify_add_watch(events.native_handle(), yard_.states().c_str(), IN_MOVED_TO | IN_DELETE);
  for (const auto& name : yard_.names()) note(name);
  is_settled_ = true;
  ++changes_;
  changed_.notify();
  alignas(inotify_event) std::array<char, 16u << 10> bytes{};
  for (;;) {
    boost::system::error_code error;
    auto count = co_await events.async_read_some(asio::buffer(bytes),
                                                 asio::redirect_error(asio::use_awaitable, error));
    if (error) co_return;
    for (std::size_t at = 0; at + sizeof(inotify_event) <= count;) {
      const auto* event = reinterpret_cast<const inotify_event*>(bytes.data() + at);
      at += sizeof(inotify_event) + event->len;
      std::string file = event->len > 0 ? event->name : "";
      if ((event->mask & IN_Q_OVERFLOW) != 0)
        for (const auto& name : yard_.names()) note(name);
      else if (file.ends_with(".json") && !file.starts_with('.'))
        note(file.substr(0, file.size() - 5));
    }
  }
}

awaitable<void> ProcessDriver::sweep() {
  auto forget_at = Clock::now(), finish_at = forget_at;
  for (;;) {
    if (Clock::now() >= finish_at) {
      finish_at = Clock::now() + finish_every;
      co_await finish_removals();
    }
    co_await sleep_for(terms_.look_at_locks);
    std::vector<std::string> gone;
    for (const auto& [name, sandbox] : seen_)
      if ((sandbox.lives() || sandbox.phase == Phase::ending) && !yard_.is_locked(name))
        gone.push_back(name);
    for (const auto& name : gone) note(name);
    if (Clock::now() < forget_at) continue;
    forget_at = Clock::now() + 1h;
    forget_old_locks();
  }
}

// A replica may have been killed while it removed them.
awaitable<void> ProcessDriver::finish_removals() {
  auto names = yard_.half_removed();
  for (auto& name : names) {
    auto lock = yard_.lock(name);
    if (!lock) continue;
    log::info("session.removal_finished", "pod", name);
    auto removed = co_await on_files(files_, finish_removal, yard_, *std::move(lock), name);
    if (!removed) log::warn("session.removal_failed", "pod", name, "why", removed.error().what);
    note(name);
  }
}

// What remembers that a session was stopped is needed for as long as somebody may start it late.
void ProcessDriver::forget_old_locks() {
  for (const auto& name : yard_.locked_names()) {
    auto stopped = yard_.stopped_at(name);
    if (!stopped || age_of(*stopped) < keep_locks || yard_.state(name)) continue;
    if (auto lock = yard_.lock(name)) yard_.forget(name, *std::move(lock));
  }
}

Async<Sight> ProcessDriver::look(std::string name, Clock::time_point) {
  // The generation first: a stop in between makes the start that follows fail, not succeed.
  auto generation = yard_.generation(name);
  co_return Sight{.sandbox = read(name), .basis = std::to_string(generation)};
}

Async<> ProcessDriver::launch(Order order, Clock::time_point deadline) {
  auto input = file_with(to_json(order));
  if (!input) co_return std::unexpected(input.error());
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0)
    co_return fail(Errc::overloaded, "pipe: {}", std::strerror(errno));
  Stream answers(executor_, ends[0]);
  FileLock far_end(ends[1]);
  auto child = spawn(terms_, {shim_word}, input->descriptor(), far_end.descriptor());
  if (!child) co_return std::unexpected(child.error());
  far_end = FileLock(-1);
  Launched launched{*child};
  auto text = co_await with_deadline(deadline, read_line(answers));
  if (!text) co_return fail(Errc::unknown_outcome, "the shim has not answered in time");
  co_return answer_from(*text);
}

Async<Sandbox> ProcessDriver::start(SandboxSpec spec, std::string basis,
                                    Clock::time_point deadline) {
  if (auto known = images_.apply(spec); !known) co_return std::unexpected(known.error());
  auto name = spec.name;
  if (spec.key.empty()) {
    auto before = yard_.spec(name);
    spec.key = before && !before->key.empty() ? before->key : new_session_key();
  }
  Order order{.spec = std::move(spec), .incarnation = uuid4(), .terms = terms_};
  order.generation = std::strtoull(basis.c_str(), nullptr, 10);
  auto incarnation = order.incarnation;
  auto launched = co_await launch(std::move(order), deadline);
  note(name);
  if (!launched) co_return std::unexpected(launched.error());
  auto sandbox = read(name);
  if (sandbox && sandbox->incarnation == incarnation) co_return *std::move(sandbox);
  co_return fail(Errc::unavailable, "the sandbox was ended as soon as it had begun");
}

Async<FileLock> ProcessDriver::take(std::string name, std::string incarnation, Phase after,
                                    Clock::time_point deadline) {
  std::optional<Clock::time_point> told_at;
  for (;;) {
    auto lock = yard_.lock(name);
    auto state = yard_.state(name);
    if (state && !incarnation.empty() && state->incarnation != incarnation)
      co_return fail(Errc::lease_lost, "another incarnation of {} lives by now", name);
    if (lock || lock.error().code != Errc::held_elsewhere) co_return std::move(lock);
    auto now = Clock::now();
    if (now >= deadline) co_return fail(Errc::timeout, "{} does not end in time", name);
    if (state && !told_at) {
      auto line = fmt::format("end {} {}\n", state->incarnation, session::name(after));
      if (yard_.tell(name, line)) told_at = now;
    }
    if (state && told_at && now - *told_at > terms_.grace + past_grace) {
      end_shim(*state);
      told_at = now;
    }
    co_await sleep_for(look_again);
    auto cancelled = co_await asio::this_coro::cancellation_state;
    if (is_cancelled(cancelled)) co_return fail(Errc::cancelled, "the caller left");
  }
}

namespace {

// Of a shim that was killed, processes may be on their way out.
Result<> end_rest(const Yard& yard, const std::string& name) {
  auto state = yard.state(name);
  if (!state) return ok;
  bool is_gone = end_leftovers(state->main_pid, state->main_began, state->incarnation,
                               Clock::now() + leftovers_time);
  if (!is_gone) return fail(Errc::timeout, "processes of {} do not end", name);
  return ok;
}

Result<> settle_paused(Yard yard, FileLock lock, std::string name) {
  ensure(lock.descriptor() >= 0, "it is under the lock");
  if (auto ended = end_rest(yard, name); !ended) return ended;
  auto state = yard.state(name);
  if (!state) return fail(Errc::not_found, "there is no sandbox {}", name);
  if (state->phase == Phase::paused) return ok;
  state->phase = Phase::paused;
  state->reason = "it was paused";
  return yard.put_state(name, *state);
}

Result<> remove_all(Yard yard, FileLock lock, std::string name) {
  if (auto ended = end_rest(yard, name); !ended) return ended;
  // First: whoever was to start it must not find files that are half gone.
  if (auto counted = Yard::set_generation(lock, Yard::generation(lock) + 1); !counted)
    return counted;
  return yard.remove(name);
}

}  // namespace

Async<> ProcessDriver::pause(std::string name, std::string incarnation,
                             Clock::time_point deadline) {
  if (!yard_.state(name)) co_return fail(Errc::not_found, "there is no sandbox {}", name);
  auto lock = co_await take(name, std::move(incarnation), Phase::paused, deadline);
  if (!lock) co_return std::unexpected(lock.error());
  auto settled = co_await on_files(files_, settle_paused, yard_, *std::move(lock), name);
  note(name);
  co_return settled;
}

Async<> ProcessDriver::stop(std::string name, std::string incarnation, Clock::time_point deadline) {
  auto lock = co_await take(name, std::move(incarnation), Phase::ended, deadline);
  if (!lock) co_return std::unexpected(lock.error());
  auto removed = co_await on_files(files_, remove_all, yard_, *std::move(lock), name);
  note(name);
  co_return removed;
}

Async<> ProcessDriver::touch(std::string name) {
  yard_.touch(name);
  co_return ok;
}

WallClock::time_point ProcessDriver::active_at(const Sandbox& sandbox) const {
  auto touched = yard_.touched_at(sandbox.spec.name);
  return std::max(sandbox.started_at, touched.value_or(sandbox.started_at));
}

Async<std::string> ProcessDriver::log_tail(std::string name, std::size_t bytes) {
  co_return yard_.log_tail(name, bytes);
}

Async<std::vector<SandboxEvent>> ProcessDriver::events(std::string) {
  co_return std::vector<SandboxEvent>();
}

}  // namespace warren::session
