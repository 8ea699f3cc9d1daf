#pragma once
// Some processes' worth of Once, each with a client of its own, for the length of one test.
#include "primitives/once/once.h"
#include "with_client.h"

namespace warren {

struct OnceProcess {
  std::unique_ptr<redis::Client> client;
  std::unique_ptr<Once> once;
  // As when it is killed: it tells nobody, and nobody hears of it again.
  awaitable<void> die() { co_await client->close(); }
};
using OnceProcesses = std::vector<OnceProcess>;

inline std::string shown_text(const OnceView& view) {
  return fmt::format(R"({{"status":"{}","bytes":"{}"}})", view.status, view.bytes.substr(0, 100));
}

inline OnceTerms once_terms(std::chrono::milliseconds alive = 10s) {
  OnceTerms terms;
  terms.prefix = "openhands:";
  terms.alive = alive;
  terms.show = shown_text;
  return terms;
}

template <class Body, class... Args>
awaitable<void> run_with_once(std::vector<redis::Settings> settings, OnceTerms terms, Body body,
                              Args&... args) {
  auto executor = co_await asio::this_coro::executor;
  OnceProcesses processes;
  for (auto& each : settings) {
    auto client = redis::Client::create(executor, each);
    REQUIRE(client);
    processes.push_back({std::move(*client), nullptr});
    processes.back().once = std::make_unique<Once>(*processes.back().client, terms);
  }
  std::exception_ptr thrown;
  try {
    co_await body(processes, args...);
  } catch (...) {
    thrown = std::current_exception();
  }
  for (auto& process : processes) co_await process.once->close();
  for (auto& process : processes) co_await process.client->close();
  if (thrown) std::rethrow_exception(thrown);
}

// with_once({settings_for(server), settings_for(server)}, once_terms(),
//           [](OnceProcesses& processes) -> awaitable<void> { … });
template <class Body, class... Args>
void with_once(std::vector<redis::Settings> settings, OnceTerms terms, Body body, Args&... args) {
  run(run_with_once(std::move(settings), std::move(terms), body, args...));
}

// What the works of a test did. They run until they are told to end.
struct Workshop {
  explicit Workshop(asio::any_io_executor executor) : changed(executor) {}
  int begun = 0, cancelled = 0;
  bool may_end = false;
  std::vector<std::string> made;
  std::optional<OnceEarlier> earlier;
  Event changed;

  // A creator of `bytes`.
  OnceWork creator(std::string bytes) {
    return [this, bytes](OnceClaim& claim) { return create(claim, bytes); };
  }
  Async<OnceLeft> create(OnceClaim& claim, std::string bytes) {
    ++begun;
    earlier = claim.earlier();
    while (!may_end) {
      co_await changed.wait();
      auto state = co_await asio::this_coro::cancellation_state;
      if (is_cancelled(state)) {
        ++cancelled;
        co_return fail(Errc::cancelled, "the step is somebody else's");
      }
    }
    made.push_back(bytes);
    OnceLeft left{.status = "created", .bytes = std::move(bytes)};
    co_return left;
  }
  void let_end() {
    may_end = true;
    changed.notify();
  }
  static bool is_at_work(Workshop& shop) { return shop.begun > 0; }
};

// A wish in the background, and what became of it.
struct Wished {
  std::optional<Result<OnceOutcome>> outcome;
  Clock::time_point ended{};
  static bool is_over(Wished& wished) { return wished.outcome.has_value(); }
  const OnceOutcome& got() const {
    REQUIRE(outcome);
    REQUIRE_MESSAGE(outcome->has_value(), outcome->error().what);
    return **outcome;
  }
  const Error& error() const {
    REQUIRE(outcome);
    REQUIRE(!outcome->has_value());
    return outcome->error();
  }
};

inline awaitable<void> wish(Once& once, std::string name, OnceWork work, Wished& wished,
                            Clock::duration patience = 40s) {
  auto deadline = Clock::now() + patience;
  auto outcome = co_await once.obtain(std::move(name), std::move(work), deadline);
  wished.ended = Clock::now();
  wished.outcome = std::move(outcome);
}

inline awaitable<void> wish_step(Once& once, std::string name, OnceStep step, OnceWork work,
                                 Wished& wished, Clock::duration patience = 40s) {
  auto deadline = Clock::now() + patience;
  auto outcome = co_await once.change(std::move(name), std::move(step), std::move(work), deadline);
  wished.ended = Clock::now();
  wished.outcome = std::move(outcome);
}

// A work that ends at once, with this.
inline OnceWork leaves(std::string status, std::string bytes) {
  auto work = [](OnceLeft left) -> Async<OnceLeft> { co_return left; };
  return [work, status, bytes](OnceClaim&) { return work(OnceLeft{status, bytes}); };
}

inline OnceWork fails(Errc code, std::string what) {
  auto work = [](Error error) -> Async<OnceLeft> { co_return std::unexpected(std::move(error)); };
  return [work, code, what](OnceClaim&) { return work(Error{code, what}); };
}

}  // namespace warren
