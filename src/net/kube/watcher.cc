#include "net/kube/watcher.h"

#include "base/log.h"

namespace warren::kube {

namespace {

constexpr auto list_time = 2min;
constexpr auto begin_time = 30s;

}  // namespace

Watcher::Watcher(Client& client, Place place, Selection selection, WatchMachineTerms terms)
    : client_(client),
      place_(std::move(place)),
      selection_(std::move(selection)),
      machine_(terms),
      changed_(client.executor()),
      random_(std::random_device{}()) {}

awaitable<void> Watcher::run() {
  for (;;) {
    auto now = Clock::now();
    auto step = machine_.next(now);
    if (step.kind == WatchMachine::Step::wait) {
      co_await sleep_until(machine_.wake_at());
      continue;
    }
    bool lists = step.kind == WatchMachine::Step::list;
    Answer<bool> done = true;
    if (lists)
      done = co_await list();
    else
      done = co_await watch(std::move(step));
    auto state = co_await asio::this_coro::cancellation_state;
    if (is_cancelled(state)) co_return;
    now = Clock::now();
    if (done) {
      if (!lists) machine_.on_ended(now, chance());
      continue;
    }
    ++counters_.failures;
    bool is_usual = done.error().reason == Reason::expired;
    if (!is_usual) log::warn("kube.watch_failed", "of", text_of(place_), "why", done.error().what);
    machine_.on_failed(now, done.error(), chance());
  }
}

Asked<bool> Watcher::list() {
  auto place = place_;
  auto selection = selection_;
  auto all =
      co_await client_.list_all(std::move(place), std::move(selection), Clock::now() + list_time);
  if (!all) co_return std::unexpected(all.error());
  ++counters_.lists;
  for (const auto& difference : cache_.replace(std::move(all->items))) tell(difference);
  heard_at_ = Clock::now();
  machine_.on_listed(heard_at_, std::move(all->version));
  changed_.notify();
  co_return true;
}

Asked<bool> Watcher::watch(WatchMachine::Step step) {
  WatchTerms terms;
  terms.selection = selection_;
  terms.version = std::move(step.version);
  terms.sends_initial_events = step.kind == WatchMachine::Step::stream_list;
  terms.time = watch_time();
  auto place = place_;
  auto stream =
      co_await client_.watch(std::move(place), std::move(terms), Clock::now() + begin_time);
  if (!stream) co_return std::unexpected(stream.error());
  ++counters_.watches;
  machine_.on_began(Clock::now());
  if (step.kind == WatchMachine::Step::stream_list) cache_.begin_replace();
  for (;;) {
    auto change = co_await (*stream)->next();
    if (!change) co_return std::unexpected(change.error());
    if (!*change) co_return true;
    apply(**std::move(change));
  }
}

void Watcher::apply(Change change) {
  heard_at_ = Clock::now();
  std::string version(version_of(change.object));
  switch (change.type) {
    case Change::added:
    case Change::modified:
      tell(cache_.put(std::move(change.object)));
      break;
    case Change::removed:
      tell(cache_.remove(change.object));
      break;
    case Change::bookmark:
      if (change.ends_initial()) return end_initial(change.object);
      break;
  }
  machine_.on_change(std::move(version));
  if (change.type != Change::bookmark) changed_.notify();
}

void Watcher::end_initial(const Object& bookmark) {
  ++counters_.streamed_lists;
  for (const auto& gone : cache_.end_replace()) tell(gone);
  machine_.on_listed(heard_at_, std::string(version_of(bookmark)));
  changed_.notify();
}

Cached Watcher::find(std::string_view name) const {
  return {cache_.find(place_.space, name), machine_.is_synced(), Clock::now() - heard_at_};
}

void Watcher::tell(const std::optional<Difference>& difference) {
  if (!difference) return;
  ++counters_.changes;
  for (const auto& hears : hears_) hears(*difference);
}

// Random, so that watchers that started together do not return together. Never later than the next
// list.
std::chrono::seconds Watcher::watch_time() {
  auto time = std::chrono::seconds(300 + static_cast<int>(300 * chance()));
  auto rest = std::chrono::ceil<std::chrono::seconds>(machine_.relist_at() - Clock::now());
  bool is_relist = rest <= 0s;  // this watch is the list
  return is_relist ? time : std::min(time, rest);
}

double Watcher::chance() { return std::uniform_real_distribution<double>(0, 1)(random_); }

}  // namespace warren::kube
