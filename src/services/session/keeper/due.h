#pragma once
// What is due for a sandbox: decided from what is written down beside it, so that any replica, also one
// that has just begun, decides the same.
#include <chrono>
#include <map>
#include <string>

#include "services/session/drivers/driver.h"

namespace warren::session {

// How long ago things happened that have a stamp. A stamp says how old it is only when it is seen for the
// first time; from then on a clock counts that nobody sets. So a step of the wall clock makes nothing idle
// that is in use, and ends no lifetime. What gets another stamp while we look has happened just now.
class Ages {
 public:
  Clock::duration of(const std::string& thing, WallClock::time_point stamp, Clock::time_point now);
  template <class Predicate>
  void forget_if(Predicate is_gone) {
    std::erase_if(seen_, [&](const auto& one) { return is_gone(one.first); });
  }

 private:
  struct Seen {
    WallClock::time_point stamp;
    Clock::time_point since;  // by our clock
  };
  std::map<std::string, Seen> seen_;
};

struct DueTerms {
  std::chrono::milliseconds idle = 20min;  // then it is paused; 0: never
  bool idle_stops = false;                 // stopped instead, with its files
  std::chrono::milliseconds lifetime =
      0ms;  // since it was first made: then it is stopped; 0: never
  std::chrono::milliseconds keep_paused =
      24h * 60;  // since it was last used: then it is stopped; 0: never
  // A sandbox that failed is started again after this time, the next time after twice as long, and so on.
  std::chrono::milliseconds replace_after = 10s;
  int most_replacements = 3;                 // 0: only a client starts it again
  std::chrono::milliseconds steady = 10min;  // one that lived for so long begins to count again
};

struct Due {
  enum class What { nothing, pause, stop, replace } what = What::nothing;
  std::string why = {};
  bool is_idle = false;  // because nobody used it; its agent may know better
};

// Of one that was made and last used so long ago.
Due due(Phase phase, Clock::duration made, Clock::duration used, const DueTerms& terms);

// Whether a sandbox that failed is to be started again: one that was in use not long ago, that came up in
// its last life (`lived` is from its start to its last use), and that does not fail again and again.
bool is_replacement_due(int failures, Clock::duration lived, Clock::duration ended,
                        Clock::duration used, const DueTerms& terms);

}  // namespace warren::session
