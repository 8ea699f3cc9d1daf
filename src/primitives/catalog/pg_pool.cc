#include "primitives/catalog/pg_pool.h"

#include <algorithm>

#include "base/log.h"
#include "redis/connection/link.h"

namespace warren::pg {

namespace {

constexpr std::size_t most_waiting = 4096;
constexpr auto least_pause = 20ms;
constexpr auto most_pause = 1s;

bool is_repeated(const Error& error) {
  return error.code == Errc::unavailable || error.code == Errc::unknown_outcome;
}

// Only the function that does the work knows whether it is one statement or several.
struct RunStatement {
  const Statement& statement;
  const Parameters& parameters;
  Async<Rows> operator()(Connection& connection) const {
    return connection.run(statement, parameters);
  }
};
struct ExecuteText {
  const std::string& sql;
  Async<> operator()(Connection& connection) const { return connection.execute(sql); }
};

}  // namespace

// A place in line, for as long as the waiting coroutine lives. A connection that it was given and
// did not take goes to the next waiter.
class Pool::InLine {
 public:
  explicit InLine(Pool& pool) : pool_(pool), waiter_(pool.executor_) {
    pool_.line_.push_back(&waiter_);
  }
  ~InLine() {
    if (!waiter_.place) std::erase(pool_.line_, &waiter_);
  }
  InLine(const InLine&) = delete;
  InLine& operator=(const InLine&) = delete;

  Waiter& waiter() { return waiter_; }

 private:
  Pool& pool_;
  Waiter waiter_;
};

Pool::Place::Place(Place&& other) noexcept
    : connection(std::move(other.connection)), pool_(std::exchange(other.pool_, nullptr)) {}

Pool::Place::~Place() {
  if (pool_) pool_->give_back(std::move(connection));
}

Pool::Pool(asio::any_io_executor executor, Server& server, std::size_t most)
    : executor_(executor), server_(server), most_(most) {}

Async<Rows> Pool::run(const Statement& statement, Parameters parameters, Effect effect,
                      Clock::time_point deadline) {
  RunStatement action{statement, parameters};
  co_return co_await within<Rows>(action, effect, deadline);
}

Async<> Pool::execute(std::string sql, Clock::time_point deadline) {
  ExecuteText action{sql};
  co_return co_await within<void>(action, Effect::writes, deadline);
}

template <class T, class Action>
Async<T> Pool::within(Action action, Effect effect, Clock::time_point deadline) {
  if (deadline <= Clock::now()) co_return fail(Errc::timeout, "the deadline had passed already");
  Progress progress;
  auto work = repeat<T>(action, progress);
  auto result = co_await with_deadline(deadline, std::move(work));
  if (result || result.error().code != Errc::timeout) co_return result;
  if (effect == Effect::writes && (progress.is_sent || progress.may_have_run))
    co_return fail(Errc::unknown_outcome, "{}: no answer by the deadline", server_.shown());
  if (progress.last && !progress.is_sent)
    co_return fail(Errc::unavailable, "{}: {}", server_.shown(), progress.last->what);
  co_return fail(Errc::timeout, "{}: no answer by the deadline", server_.shown());
}

template <class T, class Action>
Async<T> Pool::repeat(Action action, Progress& progress) {
  redis::Backoff backoff(least_pause, most_pause);
  for (;;) {
    auto result = co_await attempt<T>(action, progress);
    on_outcome(result ? nullptr : &result.error());
    if (result || !is_repeated(result.error())) co_return result;
    progress.may_have_run |= result.error().code == Errc::unknown_outcome;
    progress.last = result.error();
    co_await sleep_for(backoff.next(redis::random_unit()));
  }
}

template <class T, class Action>
Async<T> Pool::attempt(Action action, Progress& progress) {
  auto place = co_await enter();
  if (!place) co_return std::unexpected(place.error());
  if (!place->connection) {
    auto dialled = co_await server_.dial();
    if (!dialled) co_return std::unexpected(dialled.error());
    place->connection = std::move(*dialled);
  }
  progress.is_sent = true;
  auto result = co_await action(*place->connection);
  if (result || result.error().code != Errc::cancelled) progress.is_sent = false;
  co_return result;
}

Async<Pool::Place> Pool::enter() {
  if (used_ < most_) {
    ++used_;
    Place place(*this);
    place.connection = take_idle();
    co_return std::move(place);
  }
  if (line_.size() >= most_waiting)
    co_return fail(Errc::overloaded, "{} calls wait for a connection to {} already", line_.size(),
                   server_.shown());
  InLine in_line(*this);
  auto& waiter = in_line.waiter();
  while (!waiter.place) co_await waiter.wake.wait();
  Place place = *std::move(waiter.place);
  co_return std::move(place);
}

void Pool::give_back(std::unique_ptr<Connection> connection) {
  if (connection && !connection->is_ready()) connection.reset();
  if (!line_.empty()) {
    auto* next = line_.front();
    line_.pop_front();
    next->place.emplace(*this);
    next->place->connection = std::move(connection);
    next->wake.notify();
    return;
  }
  --used_;
  if (connection) idle_.push_back({std::move(connection), Clock::now()});
}

std::unique_ptr<Connection> Pool::take_idle() {
  while (!idle_.empty()) {
    auto connection = std::move(idle_.back().connection);
    idle_.pop_back();
    if (connection->is_open()) return connection;
  }
  return nullptr;
}

void Pool::close_unused(Clock::time_point since) {
  while (!idle_.empty() && idle_.front().since < since) idle_.pop_front();
}

// Logs the first failure and the end of it, for an operator's timeline.
void Pool::on_outcome(const Error* problem) {
  bool was_away = is_away_;
  if (problem && problem->code == Errc::cancelled) return;
  is_away_ = problem && is_repeated(*problem);
  if (is_away_ && !was_away)
    log::warn("catalog.postgres_failed", "server", server_.shown(), "why", problem->what);
  if (was_away && !is_away_) log::info("catalog.postgres_recovered", "server", server_.shown());
}

}  // namespace warren::pg
