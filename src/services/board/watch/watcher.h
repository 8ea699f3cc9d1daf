#pragma once
// What happens on a board, as one stream: what happened before, then what happens, without a gap
// between the two and nothing twice.
//
//   subscribe ── settled ── history ──▶ live ── gap ── history from the last seen ──▶ live …
//                  │          └ what is heard meanwhile waits, and is left out if history had it
//                  └ from here on nothing is missed silently
//
//   BoardFeed feed(board.client(), board.keys());
//   Watcher watcher(board, feed, terms, show, tell);
//   auto watched = co_await watcher.run();
//   co_await feed.close();
#include <functional>
#include <unordered_map>

#include "services/board/store/feed.h"
#include "services/board/watch/filter.h"
#include "services/board/watch/seen.h"

namespace warren::watch {

struct WatchTerms {
  Filter filter = {};
  bool with_history = false;
  // Ends with the first Terminal artefact, be it shown or not: of those that come, and of history
  // if the filter says since when.
  bool until_completion = false;
};

class Watcher {
 public:
  // False: enough was seen.
  using Show = std::function<bool(const Happening& happening)>;
  // For whoever watches, not part of what is watched.
  using Tell = std::function<void(const std::string& notice)>;
  // All that is given outlives it.
  Watcher(Board& board, BoardFeed& feed, WatchTerms terms, Show show, Tell tell);

  // Subscribed, and the moment known from which on nothing is missed.
  Async<> settle();
  // After settle(): until enough was seen, or the filter's end has come. Whoever cancels it closes
  // the feed.
  Async<> run();

 private:
  enum class Next { go_on, end };
  enum class Origin { history, missed, live };
  Async<Next> replay(board::UnixTime since, Origin origin);
  Async<Next> take(board::BoardEvent event);
  Async<Next> offer(Happening happening, Origin origin);
  awaitable<std::string> type_of(const Happening& happening);
  board::UnixTime now() const;
  Clock::time_point deadline_of(const Filter& filter) const;

  Board& board_;
  BoardFeed& feed_;
  WatchTerms terms_;
  Show show_;
  Tell tell_;
  std::chrono::milliseconds server_ahead_{0};  // of our clock
  board::UnixTime settled_at_{};               // what is younger is not history
  Seen seen_{board::UnixTime{}};
  std::unordered_map<std::string, std::string> types_;   // of artefacts, as far as we know
  std::unordered_map<std::string, std::string> claims_;  // the artefact of each
};

}  // namespace warren::watch
