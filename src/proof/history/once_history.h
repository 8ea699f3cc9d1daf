#pragma once
// What processes that create things once did and saw, recorded so that it can be judged
// (once_checkers.h).
//
//   OnceHistory history;
//   history.note({.at = now, .kind = OnceEvent::Kind::asked, .thing = 2, .process = 1, .call = 7, …});
//
// The process that does something records it: "claimed" when it begins to work, "let_go" when it
// has stopped.
#include <string>
#include <vector>

#include "proof/history/history.h"

namespace warren::history {

using ThingId = std::uint32_t;

struct OnceEvent {
  enum class Kind : std::uint8_t {
    asked,     // a caller wants a thing, until `deadline`; value: flags
    answered,  // a call got the record `value` (0: there is none), of the step `token`
    ended,     // a call ended with an error; value 1: timed out, or because Redis was away
    claimed,  // works under `token`; the server cannot have granted it before `since`; value 1: from
              // nothing, not from a record
    renewed,   // may work until `deadline`
    let_go,    // no longer works
    accepted,  // the server has the result `value` of the step `token`; requested at `since`
    refused,   // the server said that the step `token` is over
    asleep,    // the process, until `deadline`
    killed,    // the process
    calm,      // from here on nothing goes wrong
    record,    // in the end: the record's value, or 0
    resource,  // in the end: the resource that really exists, or 0
  };
  // from_nothing: the claim found no record. by_force: the caller also takes the step from a live
  // process.
  static constexpr std::uint64_t from_nothing = 1, by_force = 2;

  Clock::time_point at{};
  Kind kind{};
  ThingId thing = 0;
  ProcessId process = 0;
  std::uint32_t call = 0;  // of the process: a number per request or per claim
  Token token{};
  std::uint64_t value = 0;
  Clock::time_point since{}, deadline{};
};

class OnceHistory {
 public:
  void note(const OnceEvent& event) { events_.push_back(event); }
  // Appends what another process recorded. Call sort() before reading.
  void add(const OnceHistory& other);
  void sort();
  const std::vector<OnceEvent>& events() const { return events_; }

 private:
  std::vector<OnceEvent> events_;
};

// One line, with times relative to `origin`.
std::string describe(const OnceEvent& event, Clock::time_point origin);

}  // namespace warren::history
