#include "proof/history/catalog_history.h"

#include <fmt/format.h>

#include <algorithm>

#include "proof/history/by_time.h"

namespace warren::history {

namespace {

using Kind = CatalogEvent::Kind;

std::string_view name(Kind kind) {
  switch (kind) {
    case Kind::leased:
      return "leased";
    case Kind::ended:
      return "ended";
    case Kind::claimed:
      return "claimed";
    case Kind::dropped:
      return "dropped";
    case Kind::served:
      return "served";
    case Kind::released:
      return "released";
    case Kind::written:
      return "written";
    case Kind::refused:
      return "refused";
    case Kind::offered:
      return "offered";
    case Kind::killed:
      return "killed";
    case Kind::seen:
      return "seen";
    case Kind::gone:
      return "gone";
    case Kind::restarts:
      return "restarts";
    case Kind::contents:
      return "contents";
    case Kind::catalog_contents:
      return "catalog_contents";
    case Kind::settled:
      return "settled";
  }
  std::abort();
}

std::string moment(Clock::time_point time, Clock::time_point origin) {
  return fmt::format("{:+.3f} ms",
                     std::chrono::duration<double, std::milli>(time - origin).count());
}

bool is_about_a_row(Kind kind) {
  return (kind >= Kind::claimed && kind <= Kind::offered) || kind == Kind::seen ||
         kind == Kind::gone;
}

}  // namespace

void CatalogHistory::add(const CatalogHistory& other) {
  events_.insert(events_.end(), other.events_.begin(), other.events_.end());
}

void CatalogHistory::sort() { sort_by_time(events_); }

std::string describe(const CatalogEvent& event, Clock::time_point origin) {
  auto line = fmt::format("{:>14}  process {}.{}  {}", moment(event.at, origin), event.process,
                          event.life, name(event.kind));
  if (is_about_a_row(event.kind)) line += fmt::format("  row {}", event.row);
  if (event.token != Token{}) line += fmt::format("  epoch {}", describe(event.token));
  if (event.number != 0) line += fmt::format("  number {}", event.number);
  if (event.since != Clock::time_point{})
    line += fmt::format("  since {}", moment(event.since, origin));
  if (event.deadline != Clock::time_point{})
    line += fmt::format("  deadline {}", moment(event.deadline, origin));
  return line;
}

}  // namespace warren::history
