// How far repositories are that cannot be searched yet: their owners know.
#include <algorithm>
#include <set>

#include "services/fleet/router/router.h"

namespace warren::fleet {

namespace {

constexpr auto look_interval = 500ms;  // whoever asks in between is told the same
constexpr auto most_look_time = 300ms;

}  // namespace

// Who has it, and is not ready to answer for it.
std::set<std::string> Router::owners_of(const std::vector<Missing>& missing) const {
  std::set<std::string> endpoints;
  for (const auto& one : missing) {
    auto repo = table_.repos().find(one.repo);
    if (one.reason != "warming" || repo == table_.repos().end()) continue;
    for (const auto& [number, slot] : repo->second.slots) {
      auto node = table_.nodes().find(slot.row.owner);
      if (node != table_.nodes().end()) endpoints.insert(node->second.info.endpoint);
    }
  }
  return endpoints;
}

awaitable<void> Router::look_at_owner(std::string endpoint, Clock::time_point deadline) {
  auto url = parse_web_url(endpoint);
  if (!url) co_return;
  HttpAsk ask{"GET", "/v1/warming"};
  ask.headers = node_headers();
  auto reply = co_await pool_.ask(*std::move(url), std::move(ask), deadline);
  auto told =
      reply && reply->status == 200 ? parse_missing(reply->body) : Result<std::vector<Missing>>();
  if (!told) co_return;
  for (auto& one : *told) warming_.insert_or_assign(one.repo, std::move(one));
}

awaitable<void> Router::learn_progress(std::vector<Missing>& missing, Clock::time_point deadline) {
  auto endpoints = owners_of(missing);
  if (endpoints.empty()) co_return;
  auto now = Clock::now();
  if (now - looked_at_warming_ >= look_interval && now < deadline) {
    looked_at_warming_ = now;
    warming_.clear();
    auto until = std::min(deadline, now + most_look_time);
    auto body = [](TaskGroup& tasks, Router& self, std::set<std::string>& where,
                   Clock::time_point& end) -> awaitable<bool> {
      for (const auto& endpoint : where)
        tasks.start("fleet.look_at_owner", self.look_at_owner(endpoint, end));
      co_await tasks.join();
      co_return true;
    };
    co_await with_group(body, *this, endpoints, until);
  }
  for (auto& one : missing) {
    auto known = warming_.find(one.repo);
    if (one.reason != "warming" || known == warming_.end()) continue;
    one.phase = known->second.phase;
    one.progress = known->second.progress;
    one.eta = known->second.eta;
  }
}

}  // namespace warren::fleet
