#include "services/session/keeper/housekeeping.h"

#include <boost/json.hpp>

#include "base/log.h"
#include "services/session/drivers/spec_json.h"

namespace warren::session {

namespace {

constexpr auto one_record = 10s;
constexpr auto one_end = 60s;
constexpr auto agent_time = 5s;
constexpr std::size_t most_info = 256u << 10;

}  // namespace

Housekeeping::Housekeeping(const asio::any_io_executor& executor, Sessions& sessions,
                           redis::Client* redis, HousekeepingTerms terms, Telling& telling)
    : sessions_(sessions),
      redis_(redis),
      terms_(terms),
      telling_(telling),
      pool_(executor, {.most_connections = 1}) {}

Async<> Housekeeping::run() {
  auto records_at = Clock::now();
  std::optional<std::uint64_t> changes;
  for (;;) {
    auto state = co_await asio::this_coro::cancellation_state;
    if (is_cancelled(state)) co_return fail(Errc::cancelled, "somebody else keeps house");
    if (sessions_.is_ready()) {
      co_await end_what_is_due();
      bool may_have_lost = redis_ && redis_->changes() != changes;
      if (may_have_lost || Clock::now() >= records_at) {
        if (redis_) changes = redis_->changes();
        records_at = Clock::now() + terms_.records_every;
        auto wrong = co_await put_records_right();
        telling_.inconsistent(wrong);
      }
    }
    auto next = Clock::now() + (sessions_.is_ready() ? Clock::duration(terms_.every) : 100ms);
    co_await sleep_until(std::min(next, Clock::now() + 1min));
  }
}

awaitable<void> Housekeeping::end_what_is_due() {
  std::vector<std::pair<Due, std::string>> all;
  auto& driver = sessions_.driver();
  auto now = Clock::now();
  auto is_gone = [&driver](const std::string& name) { return !driver.seen(name); };
  made_.forget_if(is_gone);
  used_.forget_if(is_gone);
  for (const auto* sandbox : driver.all_seen()) {
    const auto& name = sandbox->spec.name;
    auto what = due(sandbox->phase, made_.of(name, sandbox->created_at, now),
                    used_.of(name, driver.active_at(*sandbox), now), terms_.due);
    // What nobody could use yet is not idle.
    bool waits = what.is_idle && !sessions_.is_reachable(*sandbox);
    if (what.what != Due::What::nothing && !waits) all.emplace_back(std::move(what), name);
  }
  for (auto& [what, name] : all) co_await end(what, name);
}

awaitable<void> Housekeeping::end(Due what, std::string name) {
  const auto* sandbox = sessions_.driver().seen(name);
  if (!sandbox) co_return;
  if (what.is_idle) {
    auto idle = co_await idle_time(*sandbox);
    if (idle && *idle < terms_.due.idle) {
      std::ignore = co_await sessions_.driver().touch(name);
      co_return;
    }
  }
  auto deadline = Clock::now() + one_end;
  bool pauses = what.what == Due::What::pause;
  log::info("session.due", "pod", name, "what", pauses ? "pause" : "stop", "why", what.why);
  auto ended =
      pauses ? co_await sessions_.pause(name, deadline) : co_await sessions_.stop(name, deadline);
  if (!ended) log::warn("session.not_ended", "pod", name, "why", ended.error().what);
}

// Agent servers tell how long they have had nothing to do: who works is not idle, though nobody looks.
awaitable<std::optional<std::chrono::milliseconds>> Housekeeping::idle_time(Sandbox sandbox) {
  auto at = sandbox.endpoints.find(Door::runtime);
  if (at == sandbox.endpoints.end()) co_return std::nullopt;
  HttpUrl url{.host = at->second.host, .port = std::to_string(at->second.port), .path = ""};
  HttpAsk ask{"GET", "/server_info"};
  ask.headers = "X-Session-API-Key: " + sandbox.spec.key + "\r\n";
  auto reply = co_await pool_.ask(url, std::move(ask), Clock::now() + agent_time, most_info);
  if (!reply || reply->status != 200) co_return std::nullopt;
  auto value = parse_json(reply->body);
  const auto* info = value ? value->if_object() : nullptr;
  const auto* idle = info ? info->if_contains("idle_time") : nullptr;
  if (!idle || !idle->is_number()) co_return std::nullopt;
  auto seconds = std::clamp(idle->to_number<double>(), 0.0, 1e9);
  co_return std::chrono::milliseconds(static_cast<std::int64_t>(seconds * 1000));
}

awaitable<std::size_t> Housekeeping::put_records_right() {
  std::vector<std::string> names;
  for (const auto* sandbox : sessions_.driver().all_seen()) names.push_back(sandbox->spec.name);
  std::size_t wrong = 0;
  for (auto& name : names) {
    auto was_right = co_await sessions_.put_right(name, Clock::now() + one_record);
    if (was_right && !*was_right) ++wrong;
    if (was_right) continue;
    log::warn("session.record_unknown", "pod", name, "why", was_right.error().what);
    if (was_right.error().code == Errc::unavailable || was_right.error().code == Errc::timeout)
      break;
  }
  co_return wrong;
}

}  // namespace warren::session
