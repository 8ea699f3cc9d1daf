#pragma once
// Work on the threads that look for matches, awaited by the one that answers.
#include <atomic>
#include <functional>
#include <memory>
#include <optional>

#include "base/task.h"
#include "search/query/lanes.h"

namespace warren::fleet {

// Short work in its turn among the queries of all clients: a look at one file. What it needs moves in.
// Errc::overloaded: too much waits already. Errc::cancelled: the caller was.
template <class T>
Async<T> on_lanes(search::Lanes& lanes, std::string client, std::function<Result<T>()> work) {
  struct Job {
    explicit Job(const asio::any_io_executor& executor) : done(executor) {}
    std::optional<Result<T>> result = {};
    Event done;
  };
  auto executor = co_await asio::this_coro::executor;
  auto job = std::make_shared<Job>(executor);  // owners: whoever waits here, and the lanes
  auto run = [job, executor, work = std::move(work)](Clock::time_point) {
    auto result = std::make_shared<Result<T>>(work());
    asio::post(executor, [job, result] {
      job->result.emplace(std::move(*result));
      job->done.notify();
    });
    return true;
  };
  auto submitted = lanes.submit(std::move(run), std::move(client));
  if (!submitted) co_return std::unexpected(submitted.error());
  auto throws = co_await asio::this_coro::throw_if_cancelled();
  co_await asio::this_coro::throw_if_cancelled(false);
  while (!job->result) {
    auto state = co_await asio::this_coro::cancellation_state;
    if (is_cancelled(state)) {
      lanes.cancel(*submitted);
      co_return fail(Errc::cancelled, "nobody waits for it");
    }
    co_await job->done.wait();
  }
  co_await asio::this_coro::throw_if_cancelled(throws);
  co_return std::move(*job->result);
}

}  // namespace warren::fleet
