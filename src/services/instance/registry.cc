#include "services/instance/registry.h"

#include <algorithm>

#include "base/log.h"
#include "base/uuid.h"
#include "primitives/lease/causes.h"
#include "redis/resp/refusal.h"
#include "services/instance/causes.h"
#include "services/instance/scripts.h"

namespace warren {

namespace {

constexpr auto heartbeat = 10s;
constexpr auto between_attempts = 1s;  // of a stand-by
constexpr int most_attempts = 100;     // at a number that nobody has taken as a name

const redis::Script& registration() {
  static const auto script = conditional_lease("join", scripts::join.source());
  return script;
}

Error name_in_use(std::string_view name) {
  return {Errc::held_elsewhere, instance::causes::name_taken, std::string(name),
          fmt::format("Instance name '{}' is already in use", name)};
}

Error workspace_in_use(const std::string& workspace, std::string_view by) {
  return {Errc::held_elsewhere, instance::causes::workspace_taken, std::string(by),
          fmt::format("workspace '{}' is already in use by instance '{}'", workspace, by)};
}

Error explain(const Error& error, const std::string& name, const InstanceTerms& terms) {
  if (error.code == Errc::held_elsewhere) return name_in_use(name);
  if (auto by = redis::said(error, "WORKSPACE")) return workspace_in_use(terms.workspace, *by);
  return error;
}

// For this run and no later one under the same name.
constexpr std::string_view stop_word = "stop ";
std::string stop_order(const InstanceEntry& entry) { return std::string(stop_word) + entry.run_id; }

}  // namespace

std::string_view name(InstanceState state) {
  switch (state) {
    case InstanceState::starting:
      return "starting";
    case InstanceState::running:
      return "running";
    case InstanceState::stale:
      return "stale";
    case InstanceState::unlisted:
      return "unlisted";
  }
  std::abort();
}

Async<> Instance::keep() {
  while (lease_.state() != LeaseState::ended) {
    lease_.show(lock_value(entry_, WallClock::now()));
    co_await sleep_for(heartbeat / 2);
    auto state = co_await asio::this_coro::cancellation_state;
    if (is_cancelled(state)) co_return fail(Errc::cancelled, "nobody keeps it any more");
  }
  co_await lease_.ended();
  co_return std::unexpected(lease_.why());
}

awaitable<void> Instance::stop_requested(redis::Subscriber& orders) {
  for (;;) {
    auto order = co_await orders.next();
    if (!order || order->payload == stop_order(entry_)) co_return;
  }
}

Async<> Instance::announce(std::string url) {
  entry_.url = std::move(url);
  redis::Command command("HSET", keys_.list(), name_, to_json(entry_));
  auto written = co_await lease_.guarded(std::move(command));
  if (!written) co_return std::unexpected(written.error());
  co_return ok;
}

Async<> Instance::leave() {
  redis::Command command("HDEL", keys_.list(), name_);
  auto removed = co_await lease_.guarded(std::move(command));
  auto released = co_await lease_.release();
  // Who stands by need not wait for the time at which the lock would have expired.
  redis::Command news("PUBLISH", control_channel(), "left " + entry_.run_id);
  auto options = redis::CallOptions().on_any_node();
  auto told = co_await client_->ask(std::move(news), options);
  if (!told) log::debug("instance.left_unheard", "why", told.error().what);
  if (!removed) co_return std::unexpected(removed.error());
  co_return released;
}

Registry::Registry(redis::Client& client, std::string prefix)
    : client_(client), keys_{std::move(prefix), client.settings().mode == redis::Mode::cluster} {}

Async<Instance> Registry::take(LeaseSession& session, std::string name,
                               const InstanceTerms& terms) {
  InstanceEntry entry{.run_id = uuid4(),
                      .workspace_path = terms.workspace,
                      .started_at = WallClock::now(),
                      .orchestrator_pid = terms.pid,
                      .host = terms.host,
                      .user = terms.user,
                      .process = process_mark(terms.pid)};
  LeaseTerms lock{keys_.lock(name), lock_value(entry, entry.started_at), terms.ttl};
  lock.replicated = terms.is_replicated;
  lock.renew_every = std::min<std::chrono::milliseconds>(heartbeat, terms.ttl / 3);
  lock.condition = {
      &registration(),
      {keys_.list(), keys_.boards()},
      {name, terms.workspace, to_json(entry), terms.is_forced ? "1" : "0", keys_.start(), ":lock"}};
  auto lease = co_await session.try_acquire(std::move(lock));
  if (!lease && lease.error().cause == lease::causes::not_replicated)
    co_await withdraw(name, entry.run_id);
  if (!lease) co_return std::unexpected(explain(lease.error(), name, terms));
  co_return Instance(client_, keys_, std::move(name), std::move(entry), std::move(*lease));
}

// What was entered with a lock that does not count, whether or not that is released by now.
awaitable<void> Registry::withdraw(std::string name, std::string run_id) {
  auto taken = co_await take_away(name, std::move(run_id));
  if (taken && !*taken) taken = co_await forget(name);
  if (!taken) log::warn("instance.entry_left", "name", name, "why", taken.error().what);
}

// The same, also from a process that is known to be dead: one that has the name, or the workspace.
Async<Instance> Registry::take_over(LeaseSession& session, std::string name,
                                    const InstanceTerms& terms) {
  for (;;) {
    auto taken = co_await take(session, name, terms);
    bool is_in_use = !taken && (taken.error().cause == instance::causes::name_taken ||
                                taken.error().cause == instance::causes::workspace_taken);
    if (!is_in_use) co_return taken;
    auto holder = co_await holder_of(taken.error().subject);
    if (!holder) co_return taken;
    auto buried = co_await bury_if_dead(*std::move(holder));
    if (!buried) co_return std::unexpected(buried.error());
    if (!*buried) co_return taken;
  }
}

Async<Instance> Registry::join(LeaseSession& session, InstanceTerms terms) {
  if (!terms.name.empty()) {
    auto fits = check_instance_name(terms.name);
    if (!fits) co_return std::unexpected(fits.error());
    auto name = terms.name;
    auto instance = co_await take_over(session, std::move(name), terms);
    co_return instance;
  }
  // So that who is refused anyway takes no number.
  auto others = co_await list();
  if (!others) co_return std::unexpected(others.error());
  for (auto& other : *others) {
    bool is_in_the_way = !terms.is_forced && other.state != InstanceState::stale &&
                         other.entry.workspace_path == terms.workspace;
    if (!is_in_the_way) continue;
    auto buried = co_await bury_if_dead(other);
    if (!buried) co_return std::unexpected(buried.error());
    if (!*buried) co_return std::unexpected(workspace_in_use(terms.workspace, other.name));
  }
  for (int attempt = 0; attempt < most_attempts; ++attempt) {
    auto number = co_await client_.ask(redis::Command("INCR", keys_.counter()));
    if (!number) co_return std::unexpected(number.error());
    auto name = fmt::format("default-{}", number->number);
    auto taken = co_await take(session, std::move(name), terms);
    bool is_name_taken = !taken && taken.error().cause == instance::causes::name_taken;
    if (!is_name_taken) co_return taken;
  }
  co_return fail(Errc::held_elsewhere, "{} names in a row are in use", most_attempts);
}

// The time until the lock expires. A lock that never expires is looked at again in a moment.
awaitable<Clock::duration> Registry::until_free(std::string name) {
  auto rest = co_await client_.ask(redis::Command("PTTL", keys_.lock(name)));
  if (!rest || rest->number == -1) co_return between_attempts;
  co_return std::chrono::milliseconds(std::max<std::int64_t>(rest->number, 10));
}

Async<Instance> Registry::stand_by(LeaseSession& session, InstanceTerms terms,
                                   redis::Subscriber& orders, Tell tell) {
  orders.subscribe(keys_.control(terms.name));
  auto heard = co_await orders.settled(Clock::now() + 10s);
  if (!heard) co_return std::unexpected(heard.error());
  std::optional<Cause> told;
  for (;;) {
    auto joined = co_await join(session, terms);
    bool is_taken = !joined && joined.error().cause == instance::causes::name_taken;
    // Without Redis nobody has anything to do but to wait for it.
    if (!is_taken && (joined || !may_retry(joined.error()))) co_return joined;
    Clock::duration wait = between_attempts;
    if (is_taken) {
      told.reset();
      wait = co_await until_free(terms.name);
    } else if (auto cause = joined.error().cause; told != cause) {
      told = cause;
      log::warn("instance.standby_waits", "name", terms.name, "why", joined.error().what);
      if (tell) tell(joined.error());
    }
    auto order = co_await orders.next(Clock::now() + wait);
    auto state = co_await asio::this_coro::cancellation_state;
    if (is_cancelled(state) || (order && order->payload.starts_with(stop_word)))
      co_return fail(Errc::cancelled, "instance {} was stopped", terms.name);
  }
}

Async<bool> Registry::forget(std::string name) {
  std::vector<std::string> keys{keys_.list(), keys_.lock(name), keys_.boards()};
  std::vector<std::string> args{std::move(name)};
  auto removed = co_await client_.run(scripts::forget, std::move(keys), std::move(args));
  if (!removed) co_return std::unexpected(removed.error());
  co_return removed->number == 1;
}

Async<bool> Registry::take_away(std::string name, std::string shown) {
  std::vector<std::string> keys{keys_.lock(name), keys_.list(), keys_.boards()};
  std::vector<std::string> args{std::move(name), std::move(shown)};
  auto buried = co_await client_.run(scripts::bury, std::move(keys), std::move(args));
  if (!buried) co_return std::unexpected(buried.error());
  co_return buried->number == 1;
}

Async<ListedInstance> Registry::unlisted(std::string name) {
  auto lock = co_await client_.ask(redis::Command("GET", keys_.lock(name)));
  if (!lock) co_return std::unexpected(lock.error());
  if (lock->is_null()) co_return fail(Errc::not_found, "there is no lock of '{}'", name);
  co_return ListedInstance{std::move(name), InstanceState::unlisted, parse_lock(lock->text)};
}

Async<bool> Registry::break_lock(std::string name, std::string value) {
  return take_away(std::move(name), std::move(value));
}

Async<bool> Registry::bury(ListedInstance dead) {
  ensure(is_known_dead(dead.entry), "only the name of one that is dead is taken away");
  auto buried = co_await take_away(dead.name, dead.entry.run_id);
  if (!buried) co_return buried;
  // Who stands by need not wait for the time at which the lock would have expired.
  redis::Command news("PUBLISH", keys_.control(dead.name), "left " + dead.entry.run_id);
  auto options = redis::CallOptions().on_any_node();
  auto told = co_await client_.ask(std::move(news), options);
  if (!told) log::debug("instance.left_unheard", "why", told.error().what);
  co_return buried;
}

Async<bool> Registry::bury_if_dead(ListedInstance holder) {
  if (!is_known_dead(holder.entry)) co_return false;
  log::warn("instance.found_dead", "name", holder.name, "pid", holder.entry.orchestrator_pid);
  co_return co_await bury(std::move(holder));
}

// Also if only its lock is there.
Async<ListedInstance> Registry::holder_of(std::string name) {
  auto listed = co_await list();
  if (!listed) co_return std::unexpected(listed.error());
  auto found = std::ranges::find(*listed, name, &ListedInstance::name);
  if (found != listed->end()) co_return std::move(*found);
  co_return co_await unlisted(std::move(name));
}

Async<> Registry::ask_to_stop(ListedInstance instance) {
  redis::Command order("PUBLISH", keys_.control(instance.name), stop_order(instance.entry));
  auto options = redis::CallOptions().on_any_node();
  auto sent = co_await client_.ask(std::move(order), options);
  if (!sent) co_return std::unexpected(sent.error());
  co_return ok;
}

Async<bool> Registry::is_gone(const ListedInstance& instance) {
  std::vector<redis::Command> questions;
  questions.emplace_back("GET", keys_.lock(instance.name));
  questions.emplace_back("HGET", keys_.list(), instance.name);
  auto run = instance.entry.run_id;
  auto answers = co_await client_.batch(std::move(questions));
  for (auto& answer : answers)
    if (!answer) co_return std::unexpected(answer.error());
  auto names_run = [&run](const redis::Reply& reply) {
    return !reply.is_null() && reply.text.contains(run);
  };
  bool has_lock = names_run(*answers[0]), has_entry = names_run(*answers[1]);
  // An entry without a lock is what a crash leaves; a lock without an entry, who is just leaving.
  bool is_stale = has_entry && answers[0]->is_null();
  co_return (!has_lock && !has_entry) || is_stale;
}

Async<std::vector<ListedInstance>> Registry::list() { return read(keys_.list()); }

Async<std::vector<ListedInstance>> Registry::boards() {
  auto boards = co_await read(keys_.boards());
  if (!boards) co_return boards;
  auto listed = co_await read(keys_.list());
  if (!listed) co_return listed;
  // Who is on the list is told by that; an older Warren writes nowhere else.
  for (auto& instance : *listed) {
    auto board = std::ranges::find(*boards, instance.name, &ListedInstance::name);
    if (board != boards->end())
      *board = std::move(instance);
    else
      boards->push_back(std::move(instance));
  }
  std::ranges::sort(*boards, {}, &ListedInstance::name);
  co_return boards;
}

Async<std::vector<ListedInstance>> Registry::read(std::string list) {
  auto entries = co_await client_.ask(redis::Command("HGETALL", list));
  if (!entries) co_return std::unexpected(entries.error());
  std::vector<ListedInstance> instances;
  std::vector<redis::Command> questions;
  for (std::size_t i = 0; i + 1 < entries->items.size(); i += 2) {
    auto& name = entries->items[i].text;
    auto entry = parse_instance_entry(entries->items[i + 1].text);
    if (!entry) {
      log::warn("instance.unreadable", "name", name, "why", entry.error().what);
      continue;
    }
    questions.emplace_back("EXISTS", keys_.lock(name));
    instances.push_back({std::move(name), InstanceState::stale, std::move(*entry)});
  }
  if (instances.empty()) co_return instances;
  auto locks = co_await client_.batch(std::move(questions));
  for (std::size_t i = 0; i < instances.size(); ++i) {
    if (!locks[i]) co_return std::unexpected(locks[i].error());
    bool is_starting = instances[i].entry.url.empty() && !instances[i].entry.is_foreign;
    if (locks[i]->number == 1)
      instances[i].state = is_starting ? InstanceState::starting : InstanceState::running;
  }
  std::ranges::sort(instances, {}, &ListedInstance::name);
  co_return instances;
}

}  // namespace warren
