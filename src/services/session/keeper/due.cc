#include "services/session/keeper/due.h"

#include <algorithm>

#include "base/age.h"

namespace warren::session {

Clock::duration Ages::of(const std::string& thing, WallClock::time_point stamp,
                         Clock::time_point now) {
  auto [found, is_new] = seen_.try_emplace(thing, Seen{stamp, now});
  auto& seen = found->second;
  if (is_new) seen.since = now - age_of(stamp);
  if (stamp != seen.stamp) seen = {stamp, now};
  return now - seen.since;
}

Due due(Phase phase, Clock::duration made, Clock::duration used, const DueTerms& terms) {
  auto has_passed = [](Clock::duration age, std::chrono::milliseconds time) {
    return time > 0ms && age >= time;
  };
  if (phase == Phase::ending) return {};
  if (has_passed(made, terms.lifetime)) return {Due::What::stop, "its lifetime is over"};
  if (phase == Phase::running && has_passed(used, terms.idle))
    return {terms.idle_stops ? Due::What::stop : Due::What::pause, "nobody used it", true};
  bool is_kept = phase == Phase::paused || phase == Phase::ended;
  if (is_kept && has_passed(used, terms.keep_paused))
    return {Due::What::stop, "nobody used its files"};
  return {};
}

bool is_replacement_due(int failures, Clock::duration lived, Clock::duration ended,
                        Clock::duration used, const DueTerms& terms) {
  bool is_idle = terms.idle > 0ms && used >= terms.idle;
  if (lived <= 0ms || is_idle || terms.most_replacements == 0) return false;
  if (lived >= terms.steady) failures = 1;
  if (failures > terms.most_replacements) return false;
  return ended >= terms.replace_after * (1 << std::clamp(failures - 1, 0, 20));
}

}  // namespace warren::session
