#include "services/foghorn/state/journal.h"

#include "base/log.h"

namespace warren::foghorn {

void Journal::mark(EntityKey key) {
  if (dirty_.try_emplace(std::move(key), last_mark_ + 1).second) open_.insert(++last_mark_);
  work_.notify();
}

bool Journal::is_own(const EntityKey& key, std::string_view value) const {
  auto found = sent_.find(key);
  return found != sent_.end() && found->second.value == value;
}

// What operators say goes before what nodes say, however much that is.
Journal::Dirty::iterator Journal::first() {
  auto mode = dirty_.lower_bound({Kind::mode, ""});
  return mode != dirty_.end() ? mode : dirty_.begin();
}

// As much as one batch holds: of what is left another one is made.
Batch Journal::take() {
  Batch batch;
  std::size_t bytes = 0;
  while (!dirty_.empty() && batch.size() < mirror::Outbox::batch_changes) {
    auto next = first();
    const auto& key = next->first;
    auto value = owner_.value(key);
    auto id = key.id();
    bytes += id.size() + (value ? value->size() : 0) + 128;
    if (!batch.empty() && bytes > mirror::Outbox::batch_bytes) break;
    sent_[key] = {value, next->second};
    batch.push_back({static_cast<std::size_t>(key.kind), std::move(id), std::move(value)});
    dirty_.erase(next);
  }
  return batch;
}

awaitable<void> Journal::write(Mirror& mirror) {
  for (bool is_told = false;;) {
    while (dirty_.empty()) co_await work_.wait();
    auto batch = take();
    auto version = co_await mirror.put(std::move(batch), Clock::time_point::max());
    if (!version && version.error().code == Errc::cancelled) co_return;
    if (!version && version.error().code == Errc::overloaded) {
      co_await settle(true);
      co_await sleep_for(100ms);
      continue;
    }
    bool is_lost = false;
    if (version) {
      Result<> applied = fail(Errc::timeout, "");
      while (!applied && applied.error().code == Errc::timeout)
        applied = co_await mirror.applied(*version, Clock::now() + 10s);
      is_lost = !applied;
      is_told = false;
    } else {
      refusal_ = version.error();
      ++refusals_;
      if (!std::exchange(is_told, true))
        log::error("foghorn.write_refused", "changes", sent_.size(), "first",
                   sent_.begin()->first.id(), "why", version.error().what);
    }
    co_await settle(is_lost);
    if (!version) co_await sleep_for(1s);  // what is said again would be refused again
  }
}

awaitable<void> Journal::settle(bool is_lost) {
  if (!is_lost) co_await owner_.catch_up();
  for (auto& [key, sent] : std::exchange(sent_, {})) {
    if (is_lost) {
      auto [dirty, is_new] = dirty_.try_emplace(key, sent.mark);
      if (!is_new) open_.erase(std::exchange(dirty->second, sent.mark));
      continue;
    }
    open_.erase(sent.mark);
    if (!dirty_.contains(key)) owner_.settled(key, sent.value);
  }
  done_.notify();
}

awaitable<void> Journal::flushed(Clock::time_point deadline) {
  while (waiting() > 0 && Clock::now() < deadline) co_await done_.wait(deadline);
}

Async<> Journal::written(Clock::time_point deadline) {
  auto upto = last_mark_, refusals = refusals_;
  for (;;) {
    if (refusals_ != refusals) co_return std::unexpected(*refusal_);
    if (open_.empty() || *open_.begin() > upto) co_return ok;
    if (Clock::now() >= deadline) co_return fail(Errc::timeout, "Redis did not answer in time");
    co_await done_.wait(deadline);
    auto state = co_await asio::this_coro::cancellation_state;
    if (is_cancelled(state)) co_return fail(Errc::cancelled, "nobody waits any more");
  }
}

}  // namespace warren::foghorn
