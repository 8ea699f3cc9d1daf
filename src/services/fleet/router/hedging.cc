// Hedging: where there are replicas, the router does not wait for one slow node alone.
//
//   n1  ├── asked, with the whole deadline ─────────────────────▶   the first whole answer counts,
//   n2         hedge ├── asked for the same ───────▶                the other request is cancelled
//
// The first request goes on when the others are asked, so that a query that takes long on every node is
// still answered in full. Rejected: ending the first request at the hedge, since its node then answers that
// its time was over; and asking the others one after the other in the time that is left.
#include <deque>

#include "base/log.h"
#include "services/fleet/router/router.h"

namespace warren::fleet {

// The requests for one route: to its own node, and to those that have replicas.
struct Router::Race {
  struct Runner {
    PlanPtr plan;
    std::size_t place;
    std::optional<Result<Part>> part = {};

    bool is_whole() const {
      return part && *part && (*part)->missing.empty() && (*part)->answer.why_incomplete != "time";
    }
    bool is_refused() const { return part && !*part && part->error().code == Errc::invalid; }
  };

  const SearchAsk& ask;
  Clock::time_point deadline;
  FoundFiles* found;
  Event changed;
  std::deque<Runner> runners = {};  // the route's own node, then the others
  Clock::time_point begin = Clock::now();

  bool is_hedged() const { return runners.size() > 1; }
  bool have_others_won() const {
    return is_hedged() && !runners[0].is_whole() &&
           std::all_of(runners.begin() + 1, runners.end(),
                       [](const Runner& one) { return one.is_whole(); });
  }
  bool is_over() const {
    bool all_ended =
        std::ranges::all_of(runners, [](const Runner& one) { return one.part.has_value(); });
    return all_ended || runners[0].is_whole() || runners[0].is_refused() || have_others_won();
  }
};

awaitable<std::vector<Router::Heard>> Router::ask_route(const SearchAsk& ask, PlanPtr plan,
                                                        std::size_t place,
                                                        Clock::time_point deadline,
                                                        FoundFiles* found) {
  const auto& route = plan->routes[place];
  if (!route.has_other) {
    auto what = ask;
    auto part = co_await ask_node(route, std::move(what), deadline, found);
    std::vector<Heard> heard;
    heard.push_back({std::move(plan), place, std::move(part)});
    co_return heard;
  }
  Race all{ask, deadline, found, Event(executor_)};
  all.runners.push_back({std::move(plan), place});
  auto body = [](TaskGroup& tasks, Router& self, Race& of) -> awaitable<bool> {
    co_await self.race(tasks, of);
    co_return true;
  };
  co_await with_group(body, *this, all);
  co_return outcome_of(all);
}

awaitable<void> Router::ask_racing(Race& all, std::size_t number) {
  auto& runner = all.runners[number];
  auto what = all.ask;
  auto part = co_await ask_node(runner.plan->routes[runner.place], std::move(what), all.deadline,
                                all.found);
  runner.part.emplace(std::move(part));
  all.changed.notify();
}

awaitable<void> Router::race(TaskGroup& tasks, Race& all) {
  tasks.start("fleet.ask", ask_racing(all, 0));
  auto hedge = all.begin + settings_.hedge;
  while (!all.is_over() && Clock::now() < hedge) co_await all.changed.wait(hedge);
  if (all.is_over()) co_return;
  const auto& first = all.runners[0];
  if (auto others = plan_without(first.plan->routes[first.place])) {
    for (std::size_t i = 0; i < others->routes.size(); ++i) all.runners.push_back({others, i});
    for (std::size_t i = 1; i < all.runners.size(); ++i)
      tasks.start("fleet.hedge", ask_racing(all, i));
  }
  while (!all.is_over()) co_await all.changed.wait();
}

// The same rows on other nodes; null if one of them is nowhere else.
Router::PlanPtr Router::plan_without(const Table::Route& route) {
  auto avoided = suspects();
  avoided.push_back(route.session);
  auto plan = table_.plan(route.repos, settings_.zone, avoided, loads());
  bool is_elsewhere =
      plan.missing.empty() &&
      std::ranges::find(plan.routes, route.session, &Table::Route::session) == plan.routes.end();
  if (!is_elsewhere) return nullptr;
  return std::make_shared<const Table::Plan>(std::move(plan));
}

// The answer of the route's own node, unless the others were faster or it has failed.
std::vector<Router::Heard> Router::outcome_of(Race& all) {
  std::vector<Heard> heard;
  auto& first = all.runners[0];
  bool have_others_won = all.have_others_won();
  const auto& route = first.plan->routes[first.place];
  if (have_others_won) {
    log::info("fleet.hedged", "session", route.session);
    // A node that has answered other queries meanwhile is only slow at this one.
    if (heard_[route.session] < all.begin)
      suspects_[route.session] = Clock::now() + settings_.suspicion;
  }
  bool is_first_of_use = first.part && (first.part->has_value() || first.is_refused());
  if (!have_others_won && (is_first_of_use || !all.is_hedged())) {
    heard.push_back({first.plan, first.place, *std::move(first.part)});
    return heard;
  }
  // The race is over, so all of the others have ended.
  if (!have_others_won) suspects_[route.session] = Clock::now() + settings_.suspicion;
  for (auto runner = all.runners.begin() + 1; runner != all.runners.end(); ++runner)
    heard.push_back({runner->plan, runner->place, *std::move(runner->part)});
  return heard;
}

}  // namespace warren::fleet
