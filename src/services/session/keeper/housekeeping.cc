#include "services/session/keeper/housekeeping.h"

#include <algorithm>
#include <boost/json.hpp>

#include "base/log.h"
#include "services/session/drivers/spec_json.h"

namespace warren::session {

namespace {

constexpr auto one_record = 10s;
constexpr auto one_end = 60s;
constexpr auto scan_time = 10s;
constexpr auto agent_time = 5s;
constexpr std::size_t most_info = 256u << 10;
constexpr std::size_t most_at_once = 8;

}  // namespace

// Workers that share a list of chores.
struct Housekeeping::Crew {
  std::deque<Chore> rest;
  std::size_t workers;
  std::size_t& wrong;
  Event ended;
};

Housekeeping::Housekeeping(const asio::any_io_executor& executor, Sessions& sessions,
                           redis::Client* redis, HousekeepingTerms terms, Telling& telling)
    : sessions_(sessions),
      redis_(redis),
      terms_(terms),
      telling_(telling),
      pool_(executor, {.most_connections = 1}) {
  if (redis_) scan_.emplace(*redis_, sessions_.terms().name_space);
}

Async<> Housekeeping::run() {
  records_at_ = Clock::now();
  changes_.reset();
  std::size_t wrong = 0;
  for (;;) {
    auto state = co_await asio::this_coro::cancellation_state;
    if (is_cancelled(state)) co_return fail(Errc::cancelled, "somebody else keeps house");
    if (sessions_.is_ready()) {
      co_await end_what_is_due();
      auto last_look = records_at_;
      auto names = co_await names_to_look_at();
      if (records_at_ != last_look) wrong = 0;
      wrong += co_await put_records_right(std::move(names));
      telling_.inconsistent(wrong);
    }
    auto next = Clock::now() + (sessions_.is_ready() ? Clock::duration(terms_.every) : 100ms);
    co_await sleep_until(std::min(next, Clock::now() + 1min));
  }
}

// Steps of replicas that may have died, in every round. Now and then all that exists, and after that,
// round by round, all that has a record.
awaitable<std::vector<std::string>> Housekeeping::names_to_look_at() {
  auto names = sessions_.steps_to_look_at();
  bool may_have_lost = redis_ && redis_->changes() != changes_;
  if (may_have_lost || Clock::now() >= records_at_) {
    if (redis_) changes_ = redis_->changes();
    records_at_ = Clock::now() + terms_.records_every;
    for (const auto* sandbox : sessions_.driver().all_seen()) names.push_back(sandbox->spec.name);
    if (scan_) scan_->begin();
  }
  if (scan_ && !scan_->is_over()) {
    auto found = co_await scan_->next(Clock::now() + scan_time);
    if (!found) log::warn("session.records_unread", "why", found.error().what);
    for (auto& name : found.value_or(std::vector<std::string>())) names.push_back(std::move(name));
  }
  std::ranges::sort(names);
  auto [first, last] = std::ranges::unique(names);
  names.erase(first, last);
  co_return names;
}

awaitable<void> Housekeeping::end_what_is_due() {
  std::deque<Chore> chores;
  auto& driver = sessions_.driver();
  auto now = Clock::now();
  auto is_gone = [&driver](const std::string& name) { return !driver.seen(name); };
  made_.forget_if(is_gone);
  used_.forget_if(is_gone);
  std::set<std::string> ended;
  for (const auto* sandbox : driver.all_seen()) {
    if (sandbox->phase == Phase::ended) ended.insert(sandbox->incarnation);
    if (auto what = due_for(*sandbox, now))
      chores.emplace_back(std::move(what), sandbox->spec.name);
  }
  std::erase_if(ended_since_, [&](const auto& one) { return !ended.contains(one.first); });
  std::size_t none = 0;
  co_await carry_out(std::move(chores), none);
}

awaitable<std::size_t> Housekeeping::put_records_right(std::vector<std::string> names) {
  std::deque<Chore> chores;
  for (auto& name : names) chores.emplace_back(std::nullopt, std::move(name));
  std::size_t wrong = 0;
  co_await carry_out(std::move(chores), wrong);
  co_return wrong;
}

awaitable<void> Housekeeping::carry_out(std::deque<Chore> chores, std::size_t& wrong) {
  if (chores.empty()) co_return;
  auto count = std::min(most_at_once, chores.size());
  auto executor = co_await asio::this_coro::executor;
  Crew crew{std::move(chores), count, wrong, Event(executor)};
  auto body = [](TaskGroup& tasks, Housekeeping& self, Crew& of) -> awaitable<bool> {
    for (std::size_t i = of.workers; i > 0; --i) tasks.start("session.chore", self.work(of));
    while (of.workers > 0) co_await of.ended.wait();
    co_return true;
  };
  co_await with_group(body, *this, crew);
}

awaitable<void> Housekeeping::work(Crew& crew) {
  struct AtEnd {
    Crew& crew;
    ~AtEnd() {
      --crew.workers;
      crew.ended.notify();
    }
  } at_end{crew};
  while (!crew.rest.empty()) {
    auto chore = std::move(crew.rest.front());
    crew.rest.pop_front();
    if (chore.due) {
      co_await end(*std::move(chore.due), std::move(chore.name));
      continue;
    }
    bool goes_on = co_await look_at_record(std::move(chore.name), crew.wrong);
    if (!goes_on) crew.rest.clear();
  }
}

// ---- What is due.

std::optional<Due> Housekeeping::due_for(const Sandbox& sandbox, Clock::time_point now) {
  const auto& name = sandbox.spec.name;
  auto used = used_.of(name, sessions_.driver().active_at(sandbox), now);
  auto what = due(sandbox.phase, made_.of(name, sandbox.created_at, now), used, terms_.due);
  // A sandbox that could not be used yet is not idle.
  bool waits =
      what.is_idle && (!sessions_.is_reachable(sandbox) || sessions_.is_in_use(sandbox.spec.name));
  bool is_due = what.what != Due::What::nothing;
  if (!is_due && is_to_be_replaced(sandbox, now)) return Due{Due::What::replace, sandbox.reason};
  if (!is_due || waits) return std::nullopt;
  return what;
}

// That it was reached in the life that ended is written beside it, as its last use.
bool Housekeeping::is_to_be_replaced(const Sandbox& sandbox, Clock::time_point now) {
  bool has_failed = sandbox.phase == Phase::ended && !sandbox.was_asked && sandbox.exit_code != 0;
  if (!has_failed) return false;
  auto last_use = sessions_.driver().active_at(sandbox);
  auto lived = std::chrono::duration_cast<Clock::duration>(last_use - sandbox.started_at);
  auto ended = now - ended_since_.try_emplace(sandbox.incarnation, now).first->second;
  auto used = used_.of(sandbox.spec.name, last_use, now);
  return is_replacement_due(sandbox.restarts, lived, ended, used, terms_.due);
}

awaitable<void> Housekeeping::end(Due what, std::string name) {
  const auto* sandbox = sessions_.driver().seen(name);
  if (!sandbox) co_return;
  if (what.what == Due::What::replace) co_return co_await replace(std::move(name));
  Sessions::StillDue still_due = nullptr;
  if (what.is_idle) {
    auto question = is_still_idle(*sandbox);
    auto is_idle = co_await std::move(question);
    if (!is_idle || !*is_idle) co_return;
    still_due = [this](Sandbox which) { return is_still_idle(std::move(which)); };
  }
  auto deadline = Clock::now() + one_end;
  bool pauses = what.what == Due::What::pause;
  log::info("session.due", "pod", name, "what", pauses ? "pause" : "stop", "why", what.why);
  Result<> ended = ok;
  if (pauses)
    ended = co_await sessions_.pause_if(name, std::move(still_due), deadline);
  else
    ended = co_await sessions_.stop_if(name, std::move(still_due), deadline);
  if (!ended) log::warn("session.not_ended", "pod", name, "why", ended.error().what);
}

awaitable<void> Housekeeping::replace(std::string name) {
  const auto* sandbox = sessions_.driver().seen(name);
  log::info("session.due", "pod", name, "what", "replace", "restarts", sandbox->restarts, "why",
            sandbox->reason);
  auto view = co_await sessions_.resume(name, Clock::now() + one_end);
  if (!view) log::warn("session.not_replaced", "pod", name, "why", view.error().what);
}

// Asked before the step, and again within it. An agent that works is not idle, even if nobody looks at it.
// One that does not answer may be at work too: it is given the idle time once more.
Async<bool> Housekeeping::is_still_idle(Sandbox sandbox) {
  const auto& name = sandbox.spec.name;
  auto question = ask_agent(sandbox);
  auto agent = co_await std::move(question);
  if (agent.idle && *agent.idle < terms_.due.idle) {
    std::ignore = co_await sessions_.driver().touch(name);
    co_return false;
  }
  auto used = used_.of(name, sessions_.driver().active_at(sandbox), Clock::now());
  auto patience = agent.answers ? terms_.due.idle : 2 * terms_.due.idle;
  co_return used >= patience && !sessions_.is_in_use(name);
}

awaitable<Housekeeping::Agent> Housekeeping::ask_agent(Sandbox sandbox) {
  Agent agent;
  auto at = sandbox.endpoints.find(Door::runtime);
  if (at == sandbox.endpoints.end()) co_return agent;
  HttpUrl url{.host = at->second.host, .port = std::to_string(at->second.port), .path = ""};
  HttpAsk ask{"GET", "/server_info"};
  ask.headers = "X-Session-API-Key: " + sandbox.spec.key + "\r\n";
  auto peer = sessions_.peer(sandbox, at->second);
  auto deadline = Clock::now() + agent_time;
  auto reply =
      co_await pool_.ask(std::move(url), std::move(ask), deadline, most_info, std::move(peer));
  agent.answers = reply && reply->status < 500;
  if (!reply || reply->status != 200) co_return agent;
  auto value = parse_json(reply->body);
  const auto* info = value ? value->if_object() : nullptr;
  const auto* idle = info ? info->if_contains("idle_time") : nullptr;
  if (!idle || !idle->is_number()) co_return agent;
  auto seconds = std::clamp(idle->to_number<double>(), 0.0, 1e9);
  agent.idle = std::chrono::milliseconds(static_cast<std::int64_t>(seconds * 1000));
  co_return agent;
}

// ---- Records.

awaitable<bool> Housekeeping::look_at_record(std::string name, std::size_t& wrong) {
  auto was_right = co_await sessions_.put_right(name, Clock::now() + one_record);
  if (was_right && !*was_right) ++wrong;
  if (was_right) co_return true;
  log::warn("session.record_unknown", "pod", name, "why", was_right.error().what);
  co_return was_right.error().code != Errc::unavailable&& was_right.error().code != Errc::timeout;
}

}  // namespace warren::session
