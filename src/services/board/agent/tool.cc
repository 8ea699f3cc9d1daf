#include "services/board/agent/tool.h"

#include <signal.h>
#include <sys/wait.h>

#include <array>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/redirect_error.hpp>
#include <cstdlib>

#include "services/board/agent/child.h"

namespace warren::agent {

namespace {

using Descriptor = asio::posix::stream_descriptor;

// How long what has been written may still be on its way when the tool has ended; once for its
// helpers to end too, once after they were killed.
constexpr auto linger = 250ms;

// A running tool. Tasks note what happens to it, and one coroutine decides.
class Run {
 public:
  Run(asio::any_io_executor executor, Child child, const ToolTerms& terms)
      : terms_(terms),
        pid_(child.pid),
        process_(executor, child.process.release()),
        out_(executor, child.out.release()),
        err_(executor, child.err.release()),
        wake_(executor),
        deadline_(Clock::now() + terms.timeout) {}
  ~Run() { ensure(is_reaped_, "a tool is reaped"); }
  Run(const Run&) = delete;
  Run& operator=(const Run&) = delete;

  awaitable<void> watch();
  awaitable<void> collect(Descriptor& from, std::string& into);
  // Until the tool has ended, whatever happens to the caller.
  awaitable<void> conduct(TaskGroup& tasks);
  Result<ToolEnd> take_end();

 private:
  void notice() { wake_.cancel(); }
  bool is_over() const { return has_ended_ && open_streams_ == 0; }
  // What must be done now, and when to look again.
  Clock::time_point decide();
  void tell_group(int signal) { kill(-pid_, signal); }
  void reap();

  const ToolTerms& terms_;
  pid_t pid_;
  Descriptor process_, out_, err_;
  Timer wake_;
  Clock::time_point deadline_, ended_at_{};
  std::optional<Clock::time_point> asked_at_;  // to end, with SIGTERM
  int open_streams_ = 2;
  bool has_ended_ = false, is_killed_ = false, is_cancelled_ = false, is_abandoned_ = false,
       is_reaped_ = false;
  ToolEnd end_;
};

awaitable<void> Run::watch() {
  boost::system::error_code error;
  co_await process_.async_wait(Descriptor::wait_read,
                               asio::redirect_error(asio::use_awaitable, error));
  if (error) co_return;
  has_ended_ = true;
  ended_at_ = Clock::now();
  notice();
}

awaitable<void> Run::collect(Descriptor& from, std::string& into) {
  std::array<char, 64u << 10> bytes;
  boost::system::error_code error;
  for (;;) {
    auto got = co_await from.async_read_some(asio::buffer(bytes),
                                             asio::redirect_error(asio::use_awaitable, error));
    if (error) break;
    auto room = terms_.most_output - into.size();
    into.append(bytes.data(), std::min(got, room));
    if (got <= room) continue;
    end_.wrote_too_much = true;
    break;
  }
  // From now on whoever writes there is told so by a signal.
  boost::system::error_code ignored;
  from.close(ignored);
  --open_streams_;
  notice();
}

Clock::time_point Run::decide() {
  auto now = Clock::now();
  if (has_ended_) {
    if (is_over()) return now;
    if (!is_killed_ && now >= ended_at_ + linger) {
      is_killed_ = true;
      ended_at_ = now;
      tell_group(SIGKILL);
    }
    is_abandoned_ = is_killed_ && now >= ended_at_ + linger;
    return ended_at_ + linger;
  }
  bool is_late = now >= deadline_;
  if (!asked_at_ && (is_late || is_cancelled_ || end_.wrote_too_much)) {
    end_.timed_out = is_late && !is_cancelled_ && !end_.wrote_too_much;
    asked_at_ = now;
    tell_group(SIGTERM);
    tell_group(SIGCONT);  // a stopped one could not hear it
  }
  if (!asked_at_) return deadline_;
  if (!is_killed_ && now >= *asked_at_ + terms_.grace) {
    is_killed_ = true;
    tell_group(SIGKILL);
  }
  return is_killed_ ? Clock::time_point::max() : *asked_at_ + terms_.grace;
}

awaitable<void> Run::conduct(TaskGroup& tasks) {
  tasks.start("agent.tool", watch());
  tasks.start("agent.output", collect(out_, end_.out));
  tasks.start("agent.output", collect(err_, end_.err));
  while (!is_over() && !is_abandoned_) {
    auto state = co_await asio::this_coro::cancellation_state;
    is_cancelled_ = is_cancelled_ || is_cancelled(state);
    wake_.expires_at(decide());
    if (is_over() || is_abandoned_) break;
    boost::system::error_code ignored;
    co_await wake_.async_wait(asio::redirect_error(asio::use_awaitable, ignored));
  }
  reap();
  tasks.stop();
  co_await tasks.join();
}

void Run::reap() {
  tell_group(SIGKILL);  // what is left of it; nobody else can have its number yet
  int status = 0;
  while (waitpid(pid_, &status, 0) < 0)
    ensure(errno == EINTR, "a tool is waited for by its Run only");
  is_reaped_ = true;
  end_.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  end_.signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

Result<ToolEnd> Run::take_end() {
  if (is_cancelled_) return fail(Errc::cancelled, "{} was stopped", terms_.argv[0]);
  return std::move(end_);
}

}  // namespace

Async<ToolEnd> run_tool(ToolTerms terms) {
  bool throws = co_await asio::this_coro::throw_if_cancelled();
  co_await asio::this_coro::throw_if_cancelled(false);
  auto child = start_child(terms);
  Result<ToolEnd> end = fail(Errc::cancelled, "not started");
  if (child) {
    auto executor = co_await asio::this_coro::executor;
    TaskGroup tasks(executor);
    Run run(executor, *std::move(child), terms);
    co_await run.conduct(tasks);
    end = run.take_end();
  } else {
    end = std::unexpected(child.error());
  }
  co_await asio::this_coro::throw_if_cancelled(throws);
  co_return end;
}

std::map<std::string, std::string> least_environment() {
  std::map<std::string, std::string> environment;
  for (const char* name : {"PATH", "HOME", "LANG", "TERM"})
    if (const char* value = std::getenv(name)) environment[name] = value;
  return environment;
}

}  // namespace warren::agent
