// What is asked for in vain, told to the catalog.
#include "base/log.h"
#include "services/fleet/router/router.h"

namespace warren::fleet {

// What is asked for in vain is offered first; once it is served that is forgotten.
awaitable<void> Router::tell_demand() {
  for (;;) {
    co_await sleep_for(settings_.look);
    std::vector<std::pair<std::string, std::uint64_t>> wanted;
    while (auto asked = demand_.next(Clock::now())) {
      told_.insert(asked->repo);
      wanted.emplace_back(asked->repo, asked->queries);
    }
    for (auto place = told_.begin(); place != told_.end();) {
      auto found = table_.repos().find(*place);
      bool is_served = found != table_.repos().end() && found->second.is_served();
      if (is_served) wanted.emplace_back(*place, 0);
      place = is_served || found == table_.repos().end() ? told_.erase(place) : std::next(place);
    }
    for (const auto& [repo, queries] : wanted) {
      auto found = table_.repos().find(repo);
      if (found == table_.repos().end()) continue;
      auto spec = found->second.spec;
      auto slots = found->second.slots;
      for (const auto& [number, slot] : slots) {
        if (queries > 0 && !slot.row.owner.empty()) continue;
        RowChange change;
        change.rank = rank_of(spec, queries, slot.note.size_bytes);
        auto changed = co_await catalog_.change(slot.row.key, std::move(change), Clock::now() + 5s);
        if (!changed) log::warn("fleet.demand_not_told", "repo", repo, "why", changed.error().what);
      }
    }
  }
}

}  // namespace warren::fleet
