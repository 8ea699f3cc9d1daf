#include "services/fleet/fetch/slots.h"

namespace warren::fleet {

struct FetchSlots::InLine {
  FetchSlots& slots;
  Place place;

  ~InLine() {
    auto host = std::move(place->host), repo = std::move(place->repo);
    bool has_slot = place->is_granted;
    slots.waiters_.erase(place);
    if (has_slot) slots.give_back(host, repo);
  }
  // It has its slot, and gives it to a Slot.
  Slot take() const {
    place->is_granted = false;
    return {slots, place->host, place->repo};
  }
};

Slot::~Slot() {
  if (slots_) slots_->give_back(host_, repo_);
}

FetchSlots::~FetchSlots() {
  ensure(waiters_.empty() && repos_.empty(), "slots outlive those who use them");
}

Async<Slot> FetchSlots::acquire(std::string host, std::string repo, Clock::time_point deadline) {
  if (waiters_.size() >= limits_.waiting)
    co_return fail(Errc::overloaded, "{} fetches wait already", limits_.waiting);
  auto place = waiters_.insert(waiters_.end(),
                               Waiter{std::move(host), std::move(repo), Event(executor_), false});
  InLine line{*this, place};
  grant();
  while (!place->is_granted && Clock::now() < deadline) {
    co_await place->granted.wait(deadline);
    auto state = co_await asio::this_coro::cancellation_state;
    if (is_cancelled(state)) co_return fail(Errc::cancelled, "nobody waits for the slot");
  }
  if (!place->is_granted)
    co_return fail(Errc::timeout, "{}: no slot became free until the deadline", place->repo);
  co_return line.take();
}

bool FetchSlots::fits(const std::string& host, const std::string& repo) const {
  auto of_host = hosts_.find(host);
  return repos_.size() < limits_.running && !repos_.contains(repo) &&
         (of_host == hosts_.end() || of_host->second < limits_.of_one_host);
}

void FetchSlots::take(const std::string& host, const std::string& repo) {
  ++hosts_[host];
  repos_.insert(repo);
}

void FetchSlots::give_back(const std::string& host, const std::string& repo) {
  if (--hosts_[host] == 0) hosts_.erase(host);
  repos_.erase(repo);
  grant();
}

void FetchSlots::grant() {
  for (auto& waiter : waiters_) {
    if (waiter.is_granted || !fits(waiter.host, waiter.repo)) continue;
    take(waiter.host, waiter.repo);
    waiter.is_granted = true;
    waiter.granted.notify();
  }
}

}  // namespace warren::fleet
