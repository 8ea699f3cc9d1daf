#include "services/fleet/plan/demand.h"

#include <cmath>

namespace warren::fleet {

void Demand::on_asked(Clock::time_point now, const std::string& repo) {
  if (asked_.size() >= most && !asked_.contains(repo)) return;
  auto& count = asked_[repo];
  auto age = std::chrono::duration<double>(now - count.asked).count();
  count.queries = (count.queries > 0 ? count.queries * std::exp2(-age / 600) : 0) + 1;
  count.asked = now;
  count.is_new = true;
}

std::optional<Demand::Asked> Demand::next(Clock::time_point now) {
  std::erase_if(asked_, [&](const auto& entry) { return now - entry.second.asked > 1h; });
  for (auto& [repo, count] : asked_) {
    bool may_tell = count.told == Clock::time_point::min() || now - count.told >= pause;
    if (!count.is_new || !may_tell) continue;
    count.told = now;
    count.is_new = false;
    return Asked{repo, static_cast<std::uint64_t>(std::ceil(count.queries))};
  }
  return std::nullopt;
}

}  // namespace warren::fleet
