#include "services/session/keeper/accounts.h"

namespace warren::session {

Accounts::Accounts(const asio::any_io_executor& executor, Fetch fetch, AccountTerms terms)
    : fetch_(std::move(fetch)), terms_(terms), news_(executor) {}

void Accounts::make_room(Clock::time_point now) {
  if (entries_.size() < terms_.most) return;
  std::erase_if(entries_, [&](const auto& one) {
    const auto& entry = one.second;
    return !entry.is_under_way && (!entry.fetched_at || now - *entry.fetched_at > terms_.fresh);
  });
}

awaitable<Account> Accounts::of(TaskGroup& tasks, std::string name, std::string incarnation) {
  auto now = Clock::now();
  auto known = entries_.find(name);
  if (known == entries_.end()) {
    make_room(now);
    if (entries_.size() >= terms_.most) co_return Account();
    known = entries_.try_emplace(name).first;
  }
  auto& entry = known->second;
  bool is_other = entry.incarnation != incarnation;
  if (is_other && !entry.is_under_way) entry = Entry{.incarnation = incarnation};
  bool is_fresh = entry.fetched_at && now - *entry.fetched_at < terms_.fresh;
  if (!is_fresh && !entry.is_under_way) {
    entry.is_under_way = true;
    tasks.start("session.account", fetch_one(name, incarnation));
  }
  auto deadline = now + terms_.patience;
  for (;;) {
    auto found = entries_.find(name);
    if (found == entries_.end()) co_return Account();
    const auto& seen = found->second;
    bool is_known = seen.incarnation == incarnation && seen.fetched_at;
    bool is_late = !seen.is_under_way || Clock::now() >= deadline;
    if (is_known && (is_late || now - *seen.fetched_at < terms_.stale)) co_return seen.account;
    if (is_late) co_return Account();
    co_await news_.wait(deadline);
  }
}

awaitable<void> Accounts::fetch_one(std::string name, std::string incarnation) {
  struct AtEnd {
    Accounts& self;
    const std::string& which;
    ~AtEnd() {
      self.entries_[which].is_under_way = false;
      self.news_.notify();
    }
  } at_end{*this, name};
  auto account = co_await fetch_(name);
  auto& entry = entries_[name];
  entry.incarnation = incarnation;
  entry.account = std::move(account);
  entry.fetched_at = Clock::now();
}

}  // namespace warren::session
