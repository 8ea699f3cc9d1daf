#pragma once
// What happens on a board, as it happens, and the truth about what was missed.
//
//   BoardFeed feed(board->client(), board->keys());
//   co_await feed.settled(deadline);           // from here on nothing is missed silently
//   for (;;) {
//     auto event = co_await feed.next();
//     if (!event) break;
//     if (std::holds_alternative<board::Gap>(*event)) co_await sweep();
//     if (auto* artefact = std::get_if<board::Artefact>(&*event)) …
//   }
//   co_await feed.close();                     // ~BoardFeed ensures that this was done
//
// An event that cannot be read is a Malformed, and the next one follows it.
#include <string>
#include <vector>

#include "base/task.h"
#include "redis/subscriber.h"
#include "services/board/store/events.h"
#include "services/board/store/keys.h"

namespace warren {

namespace board {

struct FeedTerms {
  bool artefacts = true;
  bool claims = true;
  bool workflow = true;
  bool all_grants = false;
  std::vector<std::string> grants_to;  // roles
};

}  // namespace board

class BoardFeed {
 public:
  // The client outlives it.
  BoardFeed(redis::Client& client, board::BoardKeys keys, board::FeedTerms terms = {});
  BoardFeed(const BoardFeed&) = delete;
  BoardFeed& operator=(const BoardFeed&) = delete;

  Async<> settled(Clock::time_point deadline) { return subscriber_.settled(deadline); }
  // Errors: timeout, cancelled.
  Async<board::BoardEvent> next(Clock::time_point deadline = Clock::time_point::max());
  awaitable<void> close() { return subscriber_.close(); }

 private:
  board::BoardKeys keys_;
  redis::Subscriber subscriber_;
};

// Runs body(group, feed, args...) with a feed of the board and a group of tasks, and puts both away
// however the body ended: see with_group.
template <class Body, class... Args>
Async<> with_feed(redis::Client& client, board::BoardKeys keys, board::FeedTerms terms, Body body,
                  Args&... args) {
  BoardFeed feed(client, std::move(keys), std::move(terms));
  std::exception_ptr thrown;
  Result<> result = ok;
  try {
    result = co_await with_group(body, feed, args...);
  } catch (...) {
    thrown = std::current_exception();
  }
  bool throws = co_await asio::this_coro::throw_if_cancelled();
  co_await asio::this_coro::throw_if_cancelled(false);
  co_await feed.close();
  co_await asio::this_coro::throw_if_cancelled(throws);
  if (thrown) std::rethrow_exception(thrown);
  co_return result;
}

}  // namespace warren
