#pragma once
// What processes that create things once did and saw, written down so that it can be judged
// (once_checkers.h).
//
//   OnceHistory history;
//   history.note({.at = now, .kind = OnceEvent::Kind::asked, .thing = 2, .process = 1, .call = 7, …});
//
// Who does a thing writes it down: "claimed" when he begins to work, "let_go" when he has stopped.
#include <string>
#include <vector>

#include "proof/history/history.h"

namespace warren::history {

using ThingId = std::uint32_t;

struct OnceEvent {
  enum class Kind : std::uint8_t {
    asked,     // somebody wants a thing, until `deadline`; value: flags
    answered,  // a call was given the record `value` (0: there is none), of the step `token`
    ended,     // a call ended with an error; value 1: of time, or since Redis was away
    claimed,  // works under `token`; the server cannot have granted it before `since`; value 1: from
              // nothing, not from a record
    renewed,   // may work until `deadline`
    let_go,    // no longer works
    accepted,  // the server has what the step `token` left: `value`; it was asked at `since`
    refused,   // the server said that the step `token` is over
    asleep,    // the process, until `deadline`
    killed,    // the process
    calm,      // from here on nothing goes wrong
    record,    // in the end: the record's value, or 0
    resource,  // in the end: the resource that is really there, or 0
  };
  // Of a claim: there was no record. Of a wish: also from somebody who is alive.
  static constexpr std::uint64_t from_nothing = 1, by_force = 2;

  Clock::time_point at{};
  Kind kind{};
  ThingId thing = 0;
  ProcessId process = 0;
  std::uint32_t call = 0;  // of the process: of one wish, or of one claim
  Token token{};
  std::uint64_t value = 0;
  Clock::time_point since{}, deadline{};
};

class OnceHistory {
 public:
  void note(const OnceEvent& event) { events_.push_back(event); }
  // Appends what another process wrote. Needs sort() before anybody reads it.
  void add(const OnceHistory& other);
  void sort();
  const std::vector<OnceEvent>& events() const { return events_; }

 private:
  std::vector<OnceEvent> events_;
};

// One line, with times as the distance from `origin`.
std::string describe(const OnceEvent& event, Clock::time_point origin);

}  // namespace warren::history
