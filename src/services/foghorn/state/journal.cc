#include "services/foghorn/state/journal.h"

#include "base/log.h"

namespace warren::foghorn {

void Journal::mark(EntityKey key) {
  dirty_.insert(std::move(key));
  work_.notify();
}

bool Journal::is_own(const EntityKey& key, std::string_view value) const {
  auto found = sent_.find(key);
  return found != sent_.end() && found->second == value;
}

// What operators say goes before what nodes say, however much that is.
std::set<EntityKey>::iterator Journal::first() const {
  auto mode = dirty_.lower_bound({Kind::mode, ""});
  return mode != dirty_.end() ? mode : dirty_.begin();
}

// As much as one batch holds: of what is left another one is made.
Batch Journal::take() {
  Batch batch;
  std::size_t bytes = 0;
  while (!dirty_.empty() && batch.size() < mirror::Outbox::batch_changes) {
    auto key = first();
    auto value = owner_.value(*key);
    auto id = key->id();
    bytes += id.size() + (value ? value->size() : 0) + 128;
    if (!batch.empty() && bytes > mirror::Outbox::batch_bytes) break;
    sent_[*key] = value;
    batch.push_back({static_cast<std::size_t>(key->kind), std::move(id), std::move(value)});
    dirty_.erase(key);
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
      settle(true);
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
    } else if (!std::exchange(is_told, true)) {
      log::error("foghorn.write_refused", "changes", sent_.size(), "first",
                 sent_.begin()->first.id(), "why", version.error().what);
    }
    settle(is_lost);
    if (!version) co_await sleep_for(1s);  // what is said again would be refused again
  }
}

void Journal::settle(bool is_lost) {
  if (!is_lost) owner_.catch_up();
  auto sent = std::exchange(sent_, {});
  for (auto& [key, value] : sent) {
    if (is_lost)
      dirty_.insert(key);
    else if (!dirty_.contains(key))
      owner_.settled(key, value);
  }
  if (waiting() == 0) done_.notify();
}

awaitable<void> Journal::flushed(Clock::time_point deadline) {
  while (waiting() > 0 && Clock::now() < deadline) co_await done_.wait(deadline);
}

}  // namespace warren::foghorn
