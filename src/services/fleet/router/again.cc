// What a router does about rows that have changed hands since it was told whose they are.
//
// A node that no longer owns a row says "moved". The catalog knows whose it is by then, and the router
// hears of it a moment later: so it waits for that news, and not for a time, before it asks again.
#include <functional>

#include "base/log.h"
#include "services/fleet/router/router.h"

namespace warren::fleet {

namespace {

// The feed of a catalog that is polled is half a second behind.
constexpr auto moved_news_time = 2s;
// A node that does not answer may be dead, and then there is no news for as long as its lease lasts.
constexpr auto other_news_time = 300ms;
// Rows may move on while we ask for them: nodes that are drained one after the other.
constexpr int most_rounds = 5;

bool has_moved(const Missing& one) { return one.reason == "moved"; }
// Its owner is gone, and nothing is known of the next one yet.
bool is_orphaned(const Missing& one) { return one.reason == "unreachable"; }

}  // namespace

Router::Asked Router::asked_of(const Table::Plan& plan) {
  Asked asked;
  for (const auto& route : plan.routes)
    for (std::size_t i = 0; i < route.rows.size(); ++i) asked[route.repos[i]] = route.rows[i];
  return asked;
}

std::vector<Missing> Router::take_orphans(std::vector<Missing>& missing) {
  auto orphans = std::ranges::partition(missing, std::not_fn(is_orphaned));
  std::vector<Missing> taken(std::make_move_iterator(orphans.begin()),
                             std::make_move_iterator(orphans.end()));
  missing.erase(orphans.begin(), orphans.end());
  return taken;
}

awaitable<void> Router::ask_again(const SearchAsk& ask, Asked asked,
                                  std::vector<Missing> unanswered, Clock::time_point deadline,
                                  Gathered& into, std::vector<Missing>& missing) {
  for (int round = 0; round < most_rounds && !unanswered.empty(); ++round) {
    auto plan = co_await plan_again(unanswered, asked, deadline);
    std::ranges::move(plan.missing, std::back_inserter(missing));
    plan.missing.clear();
    for (auto& route : plan.routes) route.has_other = false;
    asked = asked_of(plan);
    auto again = std::make_shared<const Table::Plan>(std::move(plan));
    unanswered = co_await ask_nodes(ask, std::move(again), deadline, into);
    if (into.refused) co_return;
    // Who failed twice has failed.
    auto failed = std::ranges::partition(unanswered, has_moved);
    std::ranges::move(failed, std::back_inserter(missing));
    unanswered.erase(failed.begin(), failed.end());
  }
  std::ranges::move(unanswered, std::back_inserter(missing));
}

awaitable<Table::Plan> Router::plan_again(const std::vector<Missing>& unanswered,
                                          const Asked& asked, Clock::time_point deadline) {
  std::vector<std::string> names;
  for (const auto& one : unanswered) names.push_back(one.repo);
  bool is_news_due = std::ranges::any_of(unanswered, has_moved);
  auto until = Clock::now() + (is_news_due ? Clock::duration(moved_news_time) : other_news_time);
  until = std::min(until, deadline);
  for (;;) {
    auto plan = table_.plan(names, settings_.zone, suspects(), loads());
    auto is_as_before = [&](const auto& entry) {
      auto before = asked.find(entry.first);
      return before != asked.end() && before->second.key == entry.second.key &&
             before->second.epoch == entry.second.epoch;
    };
    bool is_news = std::ranges::none_of(asked_of(plan), is_as_before) &&
                   std::ranges::none_of(plan.missing, is_orphaned);
    if (is_news || Clock::now() >= until) co_return plan;
    co_await table_changed_.wait(until);
  }
}

// While the catalog is away, those who were there last are asked: they know when to stop.
awaitable<bool> Router::look_at_nodes() {
  auto look = ++looks_;
  auto nodes = co_await catalog_.nodes(Clock::now() + 5s);
  if (!nodes) log::warn("fleet.no_nodes", "why", nodes.error().what);
  // An answer that was overtaken would take back who has joined since.
  if (!nodes || look < newest_look_) co_return false;
  newest_look_ = look;
  table_.on_nodes(*nodes);
  std::erase_if(heard_, [&](const auto& entry) { return !table_.nodes().contains(entry.first); });
  knows_nodes_ = true;
  co_return true;
}

bool Router::knows_owners_of(const std::vector<Row>& rows) const {
  return std::ranges::all_of(rows, [&](const Row& row) {
    return row.owner.empty() || table_.nodes().contains(row.owner);
  });
}

}  // namespace warren::fleet
