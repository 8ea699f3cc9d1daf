#include "proof/history/once_history.h"

#include <fmt/format.h>

#include "proof/history/by_time.h"

namespace warren::history {

namespace {

std::string_view name_of(OnceEvent::Kind kind) {
  using Kind = OnceEvent::Kind;
  switch (kind) {
    case Kind::asked:
      return "asked";
    case Kind::answered:
      return "answered";
    case Kind::ended:
      return "ended";
    case Kind::claimed:
      return "claimed";
    case Kind::renewed:
      return "renewed";
    case Kind::let_go:
      return "let_go";
    case Kind::accepted:
      return "accepted";
    case Kind::refused:
      return "refused";
    case Kind::asleep:
      return "asleep";
    case Kind::killed:
      return "killed";
    case Kind::calm:
      return "calm";
    case Kind::record:
      return "record";
    case Kind::resource:
      return "resource";
  }
  std::abort();
}

std::string distance(Clock::time_point time, Clock::time_point origin) {
  return fmt::format("{:+.3f} ms",
                     std::chrono::duration<double, std::milli>(time - origin).count());
}

}  // namespace

void OnceHistory::add(const OnceHistory& other) {
  events_.insert(events_.end(), other.events_.begin(), other.events_.end());
}

void OnceHistory::sort() { sort_by_time(events_); }

std::string describe(const OnceEvent& event, Clock::time_point origin) {
  auto line = fmt::format("{:>14}  process {}  {}  thing {}  call {}", distance(event.at, origin),
                          event.process, name_of(event.kind), event.thing, event.call);
  if (event.token != Token{}) line += fmt::format("  token {}", describe(event.token));
  if (event.value != 0) line += fmt::format("  value {}", event.value);
  if (event.since != Clock::time_point{})
    line += fmt::format("  since {}", distance(event.since, origin));
  if (event.deadline != Clock::time_point{})
    line += fmt::format("  deadline {}", distance(event.deadline, origin));
  return line;
}

}  // namespace warren::history
