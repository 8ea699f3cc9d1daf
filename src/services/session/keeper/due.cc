#include "services/session/keeper/due.h"

namespace warren::session {

Due due(const Sandbox& sandbox, WallClock::time_point active_at, WallClock::time_point now,
        const DueTerms& terms) {
  auto has_passed = [now](WallClock::time_point since, std::chrono::milliseconds time) {
    return time > 0ms && now - since >= time;
  };
  if (sandbox.phase == Phase::ending) return {};
  if (has_passed(sandbox.created_at, terms.lifetime))
    return {Due::What::stop, "its lifetime is over"};
  if (sandbox.phase == Phase::running && has_passed(active_at, terms.idle))
    return {terms.idle_stops ? Due::What::stop : Due::What::pause, "nobody used it", true};
  bool is_kept = sandbox.phase == Phase::paused || sandbox.phase == Phase::ended;
  if (is_kept && has_passed(active_at, terms.keep_paused))
    return {Due::What::stop, "nobody used its files"};
  return {};
}

}  // namespace warren::session
