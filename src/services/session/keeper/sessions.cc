#include "services/session/keeper/sessions.h"

#include <boost/json.hpp>

#include "base/log.h"
#include "services/session/names.h"

namespace warren::session {

namespace json = boost::json;

namespace {

constexpr auto probe_time = 5s;
constexpr std::size_t most_probe = 16u << 20;
constexpr auto first_probe = 20ms;
constexpr auto last_probe = 1s;
constexpr auto look_again = 50ms;
constexpr auto past_deadline = 5s;  // an errand says by itself that it is late
constexpr std::size_t most_heard = 10'000;
constexpr std::size_t most_log = 4096;
constexpr std::size_t most_errands = 4096;

Error conflict(const std::string& session_id) {
  return {
      Errc::held_elsewhere,
      fmt::format("session \"{}\" runs with another image or command: stop it first", session_id)};
}

// The hash is empty if another program made the sandbox: then it is not known what was asked for.
bool are_same(const std::string& hash, const std::string& other) {
  return hash.empty() || other.empty() || hash == other;
}

}  // namespace

std::string bytes_of(const Sandbox& sandbox) {
  return json::serialize(
      json::object{{"incarnation", sandbox.incarnation}, {"runtime_id", sandbox.spec.runtime_id}});
}

OnceTerms once_terms(const Actor& actor, std::chrono::milliseconds lock_ttl, bool needs_redis) {
  OnceTerms terms{.prefix = std::string(key_prefix)};
  terms.lock_ttl = lock_ttl;
  terms.without_redis = needs_redis ? OnceWithoutRedis::fail : OnceWithoutRedis::optimistic;
  terms.show = [actor](const OnceView& view) {
    return resource_json(view, actor, WallClock::now());
  };
  return terms;
}

Sessions::Sessions(const asio::any_io_executor& executor, Driver& driver, Once* once,
                   SessionTerms terms, Telling& telling)
    : executor_(executor),
      driver_(driver),
      once_(once),
      terms_(std::move(terms)),
      telling_(telling),
      pool_(executor, {.most_connections = 4}),
      news_(executor) {
  if (once_) hearing_ = once_->on_change([this](const OnceRecord& record) { on_record(record); });
}

std::string Sessions::resource(const std::string& name) const {
  return resource_of(terms_.name_space, name);
}

// ---- What is followed.

awaitable<void> Sessions::run() {
  auto body = [](TaskGroup& tasks, Sessions& self) -> awaitable<Result<>> {
    self.tasks_ = &tasks;
    tasks.start("session.driver", self.driver_.run());
    tasks.start("session.uses", self.touch_what_is_in_use());
    co_await self.follow();
    co_return ok;
  };
  struct AtEnd {
    Sessions& self;
    ~AtEnd() { self.tasks_ = nullptr; }
  } at_end{*this};
  std::ignore = co_await with_group(body, *this);
}

awaitable<void> Sessions::follow() {
  for (;;) {
    auto seen = driver_.changes();
    on_driver_changed();
    co_await driver_.changed(seen, Clock::now() + 60s);
  }
}

void Sessions::on_driver_changed() {
  for (const auto* sandbox : driver_.all_seen()) {
    if (sandbox->phase != Phase::running || is_reachable(*sandbox)) continue;
    auto at = sandbox->endpoints.find(Door::runtime);
    if (at == sandbox->endpoints.end() || !probed_.insert(sandbox->incarnation).second) continue;
    tasks_->start("session.probe", probe(sandbox->spec.name, sandbox->incarnation, at->second,
                                         peer(*sandbox, at->second)));
  }
  std::erase_if(reachable_, [this](const auto& one) { return !driver_.seen(one.first); });
  std::erase_if(touched_, [this](const auto& one) { return !driver_.seen(one.first); });
  std::erase_if(names_, [this](const auto& one) { return !driver_.seen(one.second); });
  news_.notify();
}

// Whatever answers there, and does not say that it cannot.
awaitable<void> Sessions::probe(std::string name, std::string incarnation, Endpoint at,
                                HttpPeer peer) {
  struct AtEnd {
    std::set<std::string>& probed;
    const std::string& which;
    ~AtEnd() { probed.erase(which); }
  } at_end{probed_, incarnation};
  Clock::duration pause = first_probe;
  HttpUrl url{.host = at.host, .port = std::to_string(at.port), .path = ""};
  for (;;) {
    const auto* sandbox = driver_.seen(name);
    if (!sandbox || sandbox->incarnation != incarnation || sandbox->phase != Phase::running)
      co_return;
    HttpAsk ask{"GET", "/alive"};
    auto deadline = Clock::now() + probe_time;
    auto reply = co_await pool_.ask(url, std::move(ask), deadline, most_probe, peer);
    if (reply && reply->status < 500) break;
    co_await sleep_for(pause);
    pause = std::min<Clock::duration>(pause * 2, last_probe);
  }
  // From here on it may be idle: what its start took does not count. A replica that begins, and
  // looks at one that somebody used before, is no use of it.
  const auto* there = driver_.seen(name);
  if (there && driver_.active_at(*there) <= there->started_at) co_await write_touch(name);
  reachable_[name] = incarnation;
  news_.notify();
}

bool Sessions::is_reachable(const Sandbox& sandbox) const {
  auto found = reachable_.find(sandbox.spec.name);
  return sandbox.phase == Phase::running && found != reachable_.end() &&
         found->second == sandbox.incarnation;
}

HttpPeer Sessions::peer(const Sandbox& sandbox, const Endpoint& at) {
  auto confirm = [this, name = sandbox.spec.name, incarnation = sandbox.incarnation, at] {
    return driver_.confirm(name, incarnation, at);
  };
  return HttpPeer(sandbox.incarnation, std::move(confirm));
}

void Sessions::doubt(const Sandbox& sandbox) {
  if (reachable_.erase(sandbox.spec.name) == 0) return;
  log::info("session.doubted", "pod", sandbox.spec.name);
  if (tasks_) on_driver_changed();
}

void Sessions::on_record(const OnceRecord& record) {
  if (record.name.empty()) return heard_.clear();
  bool is_news = record.is_busy || record.status == "failed";
  if (!is_news)
    heard_.erase(record.name);
  else if (heard_.size() < most_heard || heard_.contains(record.name))
    heard_.insert_or_assign(record.name, Heard{record, Clock::now(), next_look()});
  news_.notify();
}

void Sessions::touch(const Sandbox& sandbox) {
  auto now = Clock::now();
  auto& last = touched_[sandbox.spec.name];
  if (now - last < terms_.touch_every || !tasks_) return;
  last = now;
  tasks_->start("session.touch", write_touch(sandbox.spec.name));
}

awaitable<void> Sessions::write_touch(std::string name) {
  auto written = co_await driver_.touch(name);
  if (!written) log::warn("session.touch_failed", "pod", name, "why", written.error().what);
}

Sessions::Use::Use(Sessions& sessions, std::string name)
    : sessions_(sessions), name_(std::move(name)) {
  ++sessions_.uses_[name_];
}

Sessions::Use::~Use() {
  auto found = sessions_.uses_.find(name_);
  if (--found->second == 0) sessions_.uses_.erase(found);
}

awaitable<void> Sessions::touch_what_is_in_use() {
  for (;;) {
    co_await sleep_for(terms_.touch_every);
    for (const auto& [name, count] : uses_)
      if (const auto* sandbox = driver_.seen(name)) touch(*sandbox);
  }
}

// ---- What is asked for.

Result<> Sessions::may_change() const {
  if (!terms_.needs_redis || is_coordinated_) return ok;
  return fail(Errc::unavailable, "Redis does not answer, and this service does nothing without it");
}

Async<View> Sessions::start(SandboxSpec spec, Clock::time_point deadline) {
  if (!is_ready()) co_return fail(Errc::unavailable, "this replica has not looked around yet");
  spec.hash = hash_of(spec);
  auto name = spec.name;
  if (const auto* there = driver_.seen(name); there && there->lives()) {
    bool is_same = are_same(there->spec.hash, spec.hash);
    if (there->spec.session_id != spec.session_id || !is_same)
      co_return std::unexpected(conflict(there->spec.session_id));
    if (is_reachable(*there)) {
      touch(*there);
      telling_.attached(name);
      co_return session::view_of(*there, true);
    }
  }
  auto hash = spec.hash;
  auto errand = errand_for(std::move(spec), Bring::start);
  if (!errand) co_return std::unexpected(errand.error());
  co_return co_await wait_for(*std::move(errand), std::move(hash), deadline);
}

Async<View> Sessions::resume(std::string name, Clock::time_point deadline) {
  if (!is_ready()) co_return fail(Errc::unavailable, "this replica has not looked around yet");
  auto began = Clock::now();
  auto sight = co_await driver_.look(name, deadline);
  if (!sight) co_return std::unexpected(sight.error());
  if (!sight->sandbox) co_return fail(Errc::not_found, "there is no sandbox {}", name);
  if (is_reachable(*sight->sandbox)) {
    touch(*sight->sandbox);
    co_return session::view_of(*sight->sandbox, true);
  }
  auto errand = errand_for(sight->sandbox->spec, Bring::resume);
  if (!errand) co_return std::unexpected(errand.error());
  auto view = co_await wait_for(*std::move(errand), "", deadline);
  if (view && view->standing == Standing::running) telling_.resumed(name, Clock::now() - began);
  co_return view;
}

Result<std::shared_ptr<Sessions::Errand>> Sessions::errand_for(SandboxSpec spec, Bring bring) {
  auto found = errands_.find(spec.name);
  if (found != errands_.end()) {
    const auto& other = found->second->spec;
    bool is_same = other.session_id == spec.session_id && are_same(other.hash, spec.hash);
    if (bring == Bring::start && !is_same) return std::unexpected(conflict(other.session_id));
    return found->second;
  }
  if (auto may = may_change(); !may) return std::unexpected(may.error());
  if (errands_.size() >= most_errands)
    return fail(Errc::overloaded, "too many sessions are being started here");
  auto deadline = Clock::now() + terms_.ready_time + terms_.lock_wait;
  auto errand = std::make_shared<Errand>(std::move(spec));
  errands_[errand->spec.name] = errand;
  tasks_->start("session.errand", run_errand(errand, bring, deadline));
  return errand;
}

awaitable<void> Sessions::run_errand(std::shared_ptr<Errand> errand, Bring bring,
                                     Clock::time_point deadline) {
  struct AtEnd {
    Sessions& self;
    Errand& what;
    ~AtEnd() {
      if (!what.result) what.result = fail(Errc::cancelled, "this replica is stopping");
      self.errands_.erase(what.spec.name);
      self.news_.notify();
    }
  } at_end{*this, *errand};
  Wish wish{.spec = errand->spec, .bring = bring};
  auto work = bring_up(std::move(wish), deadline);
  auto brought = co_await with_deadline(deadline + past_deadline, std::move(work));
  if (!brought) telling_.creation_failed(errand->spec.name, brought.error());
  errand->result = std::move(brought);
}

// A client is told no later than start_wait how far it is, as soon as there is something to tell.
Async<View> Sessions::wait_for(std::shared_ptr<Errand> errand, std::string hash,
                               Clock::time_point deadline) {
  const auto& name = errand->spec.name;
  auto patience = std::min(deadline, Clock::now() + terms_.start_wait);
  for (;;) {
    if (errand->result && !*errand->result) co_return std::unexpected(errand->result->error());
    const auto* sandbox = driver_.seen(name);
    bool is_there = sandbox && (sandbox->lives() || errand->result);
    auto now = Clock::now();
    // Another replica may have started it with something else meanwhile.
    if (is_there && !are_same(sandbox->spec.hash, hash))
      co_return std::unexpected(conflict(sandbox->spec.session_id));
    if (is_there && (errand->result || now >= patience))
      co_return session::view_of(*sandbox, is_reachable(*sandbox));
    if (errand->result) co_return fail(Errc::unavailable, "{} was stopped meanwhile", name);
    if (now >= deadline) co_return fail(Errc::timeout, "{} is not there in time", name);
    co_await news_.wait(now < patience ? patience : deadline);
    auto state = co_await asio::this_coro::cancellation_state;
    if (is_cancelled(state)) co_return fail(Errc::cancelled, "the client left");
  }
}

Async<> Sessions::bring_up(Wish wish, Clock::time_point deadline) {
  auto name = wish.spec.name;
  auto sight = co_await driver_.look(name, deadline);
  if (!sight) co_return std::unexpected(sight.error());
  wish.basis = sight->basis;
  if (!once_) {
    auto spawned = co_await spawn(std::move(wish), nullptr);
    if (!spawned) co_return std::unexpected(spawned.error());
    co_return ok;
  }
  for (int attempt = 1; attempt <= terms_.attempts; ++attempt) {
    telling_.attempt(name, attempt, terms_.attempts);
    auto is_up = co_await bring_up_once(wish, deadline);
    if (!is_up && is_up.error().code == Errc::timeout) telling_.no_lock(resource(name));
    if (!is_up) co_return std::unexpected(is_up.error());
    if (*is_up) co_return ok;
  }
  co_return fail(Errc::unavailable, "{} changes faster than it can be started: try again", name);
}

// False: what the record said is no longer so; look again.
Async<bool> Sessions::bring_up_once(Wish wish, Clock::time_point deadline) {
  auto name = wish.spec.name;
  auto heard = heard_.find(resource(name));
  bool is_elsewhere = heard != heard_.end() && heard->second.record.is_busy &&
                      !heard->second.record.owner.starts_with(once_->holder());
  if (is_elsewhere) telling_.waiting_for_other(name, Clock::now() - heard->second.at);
  auto outcome = co_await once_->obtain(resource(name), spawning(wish), deadline);
  if (!outcome) co_return std::unexpected(outcome.error());
  if (outcome->how == OnceHow::unconfirmed) telling_.without_redis(name);
  if (outcome->how != OnceHow::attached) co_return true;
  co_return co_await follow_record(std::move(wish), std::move(outcome->record), deadline);
}

// There is a record, by somebody else or from before. Where it is behind the truth, a step from exactly
// that version makes it true: of many who see the same, one takes it.
Async<bool> Sessions::follow_record(Wish wish, OnceRecord record, Clock::time_point deadline) {
  auto name = wish.spec.name;
  auto sight = co_await driver_.look(name, deadline);
  if (!sight) co_return std::unexpected(sight.error());
  if (record.status == "created" && sight->sandbox && sight->sandbox->lives()) {
    auto incarnation = sight->sandbox->incarnation;
    auto reached = co_await until_reachable(name, incarnation, deadline);
    if (!reached) co_return std::unexpected(reached.error());
    telling_.attached(name);
    co_return true;
  }
  if (!sight->sandbox) telling_.cleaning_up(name);
  OnceStep step{.status = "creating", .from = {record.status}, .version = record.token};
  auto work = spawning(std::move(wish));
  auto outcome = co_await once_->change(resource(name), std::move(step), std::move(work), deadline);
  if (!outcome && outcome.error().code == Errc::not_found) co_return false;
  if (!outcome) co_return std::unexpected(outcome.error());
  if (outcome->how == OnceHow::unconfirmed) telling_.without_redis(name);
  co_return outcome->how != OnceHow::attached;
}

OnceWork Sessions::spawning(Wish wish) {
  return [this, wish = std::move(wish)](OnceClaim& claim) { return spawn(wish, &claim); };
}

Async<OnceLeft> Sessions::spawn(Wish wish, OnceClaim* claim) {
  auto name = wish.spec.name;
  auto deadline = Clock::now() + terms_.ready_time;
  bool has_lock = claim && claim->token() != FencingToken{};
  if (has_lock) telling_.acquired_lock(name, Clock::now() - wish.asked_at);
  auto sandbox = co_await make(std::move(wish), deadline);
  if (!sandbox) {
    // Whoever asks after the stop is not to hear of it.
    if (claim && sandbox.error().code == Errc::lease_lost) claim->retry_after(0ms);
    co_return std::unexpected(sandbox.error());
  }
  auto reached = co_await until_reachable(name, sandbox->incarnation, deadline);
  if (!reached && reached.error().code == Errc::timeout) {
    // It takes room, and nobody can use it. Its files stay.
    std::ignore =
        co_await driver_.pause(name, sandbox->incarnation, Clock::now() + terms_.end_time);
    co_return fail(Errc::refused, "it did not listen on its port within {} s",
                   terms_.ready_time / 1s);
  }
  if (!reached) co_return std::unexpected(reached.error());
  OnceLeft left{.status = "created", .bytes = bytes_of(*sandbox)};
  co_return left;
}

// The driver decides between all who come here, with or without a claim.
Async<Sandbox> Sessions::make(Wish wish, Clock::time_point deadline) {
  auto name = wish.spec.name;
  for (;;) {
    auto sight = co_await driver_.look(name, deadline);
    if (!sight) co_return std::unexpected(sight.error());
    auto& there = sight->sandbox;
    if (sight->basis != wish.basis)
      co_return fail(Errc::lease_lost, "{} was stopped since it was asked for", name);
    if (there && there->spec.session_id != wish.spec.session_id)
      co_return fail(Errc::held_elsewhere, "{} belongs to another session", name);
    if (there && there->lives()) co_return *std::move(there);
    if (!there && wish.bring == Bring::resume)
      co_return fail(Errc::not_found, "there is no sandbox {} any more", name);
    auto wanted = there && wish.bring == Bring::resume ? there->spec : wish.spec;
    wanted.key.clear();  // it keeps the one it has
    auto started = co_await driver_.start(std::move(wanted), wish.basis, deadline);
    if (started) {
      telling_.created(name);
      co_return started;
    }
    auto code = started.error().code;
    bool may_be_there = code == Errc::held_elsewhere || code == Errc::unknown_outcome;
    if (!may_be_there) co_return started;
    if (Clock::now() >= deadline) co_return fail(Errc::timeout, "{}", started.error().what);
    co_await sleep_for(look_again);
    auto state = co_await asio::this_coro::cancellation_state;
    if (is_cancelled(state)) co_return fail(Errc::cancelled, "the start was given up");
  }
}

Async<> Sessions::until_reachable(std::string name, std::string incarnation,
                                  Clock::time_point deadline) {
  for (;;) {
    const auto* sandbox = driver_.seen(name);
    if (sandbox && sandbox->incarnation == incarnation) {
      if (is_reachable(*sandbox)) co_return ok;
      if (sandbox->phase == Phase::ended) {
        auto why = sandbox->reason;
        auto tail = co_await driver_.log_tail(name, most_log);
        if (tail && !tail->empty()) why += "; it wrote last: " + *tail;
        co_return fail(Errc::refused, "{}", why);
      }
      if (!sandbox->lives())
        co_return fail(Errc::unavailable, "{} was ended while it started", name);
    } else if (sandbox && sandbox->lives()) {
      incarnation = sandbox->incarnation;  // somebody replaced it; that one will do
      continue;
    }
    if (Clock::now() >= deadline)
      co_return fail(Errc::timeout, "{} cannot be reached in time", name);
    co_await news_.wait(std::min(deadline, Clock::now() + 1s));
    auto state = co_await asio::this_coro::cancellation_state;
    if (is_cancelled(state)) co_return fail(Errc::cancelled, "the start was given up");
  }
}

// ---- The other steps.

// What is there, as a record.
Async<OnceLeft> Sessions::adopt(std::string name) {
  auto sight = co_await driver_.look(name, Clock::now() + terms_.end_time);
  if (!sight) co_return std::unexpected(sight.error());
  OnceLeft left{.status = ""};
  if (sight->sandbox) {
    left.status = sight->sandbox->lives() ? "created" : "paused";
    left.bytes = bytes_of(*sight->sandbox);
  }
  co_return left;
}

// A step from whatever the record is; without one it is made first, from what is there.
Async<OnceRecord> Sessions::change(std::string name, OnceStep step, OnceWork work,
                                   Clock::time_point deadline) {
  auto wanted = step.status;
  for (int attempt = 1; attempt <= terms_.attempts; ++attempt) {
    auto outcome = co_await once_->change(resource(name), step, work, deadline);
    bool is_unknown = !outcome && outcome.error().code == Errc::not_found;
    if (!is_unknown) {
      if (!outcome) co_return std::unexpected(outcome.error());
      co_return std::move(outcome->record);
    }
    OnceWork adopts = [this, name](OnceClaim&) { return adopt(name); };
    auto adopted = co_await once_->obtain(resource(name), std::move(adopts), deadline);
    if (!adopted) co_return std::unexpected(adopted.error());
    if (adopted->record.status.empty())
      co_return fail(Errc::not_found, "there is no sandbox {}", name);
  }
  co_return fail(Errc::unavailable, "{}: {} is overtaken again and again", name, wanted);
}

Async<OnceLeft> Sessions::end_for_pause(std::string name, StillDue still_due) {
  auto deadline = Clock::now() + terms_.end_time;
  auto sight = co_await driver_.look(name, deadline);
  if (!sight) co_return std::unexpected(sight.error());
  if (!sight->sandbox) co_return fail(Errc::not_found, "there is no sandbox {}", name);
  OnceLeft left{.status = "paused", .bytes = bytes_of(*sight->sandbox)};
  if (still_due && sight->sandbox->lives()) {
    auto question = still_due(*sight->sandbox);
    auto is_due = co_await std::move(question);
    if (!is_due) co_return std::unexpected(is_due.error());
    if (!*is_due) {
      left.status = "created";
      co_return left;
    }
  }
  auto paused = co_await driver_.pause(name, sight->sandbox->incarnation, deadline);
  if (!paused) co_return std::unexpected(paused.error());
  co_return left;
}

Async<OnceLeft> Sessions::end_for_good(std::string name, StillDue still_due) {
  auto deadline = Clock::now() + terms_.end_time;
  OnceLeft left{.status = ""};
  std::string incarnation;
  if (still_due) {
    auto sight = co_await driver_.look(name, deadline);
    if (!sight) co_return std::unexpected(sight.error());
    if (!sight->sandbox) co_return left;
    auto question = still_due(*sight->sandbox);
    auto is_due = co_await std::move(question);
    if (!is_due) co_return std::unexpected(is_due.error());
    if (!*is_due) {
      left.status = sight->sandbox->lives() ? "created" : "paused";
      left.bytes = bytes_of(*sight->sandbox);
      co_return left;
    }
    incarnation = sight->sandbox->incarnation;
  }
  auto stopped = co_await driver_.stop(name, incarnation, deadline);
  if (!stopped) co_return std::unexpected(stopped.error());
  co_return left;
}

// A client may join a step of the leader that ends with nothing done, because the sandbox is in use. What
// a client asks for is done all the same, by a step of its own.
Async<> Sessions::pause_if(std::string name, StillDue still_due, Clock::time_point deadline) {
  if (auto may = may_change(); !may) co_return may;
  auto sight = co_await driver_.look(name, deadline);
  if (!sight) co_return std::unexpected(sight.error());
  if (!sight->sandbox) co_return fail(Errc::not_found, "there is no sandbox {}", name);
  if (sight->sandbox->phase == Phase::paused) co_return ok;
  auto how = still_due ? "idle" : "asked for";
  if (!once_) {
    auto left = co_await end_for_pause(name, std::move(still_due));
    if (!left) co_return std::unexpected(left.error());
    if (left->status == "paused") log::info("session.paused", "pod", name, "why", how);
    co_return ok;
  }
  for (int attempt = 1; attempt <= terms_.attempts; ++attempt) {
    OnceStep step{.status = "pausing"};
    OnceWork work = [this, name, still_due](OnceClaim&) { return end_for_pause(name, still_due); };
    auto left = co_await change(name, std::move(step), std::move(work), deadline);
    if (!left) co_return std::unexpected(left.error());
    bool is_paused = left->status == "paused";
    if (is_paused) log::info("session.paused", "pod", name, "why", how);
    if (is_paused || still_due) co_return ok;
    // Somebody resumed or stopped it meanwhile, unless it still lives in the state it had.
    if (left->status != "created") co_return ok;
  }
  co_return fail(Errc::unavailable, "{} is resumed again and again", name);
}

Async<> Sessions::stop_if(std::string name, StillDue still_due, Clock::time_point deadline) {
  if (auto may = may_change(); !may) co_return may;
  auto sight = co_await driver_.look(name, deadline);
  if (!sight) co_return std::unexpected(sight.error());
  if (!sight->sandbox && !errands_.contains(name) && !heard_.contains(resource(name)))
    co_return fail(Errc::not_found, "there is no sandbox {}", name);
  std::string left_status;
  if (!once_) {
    auto left = co_await end_for_good(name, still_due);
    if (!left) co_return std::unexpected(left.error());
    left_status = left->status;
  }
  for (int attempt = 1; once_ && attempt <= terms_.attempts; ++attempt) {
    OnceStep step{.status = "stopping", .takes_over = !still_due};
    OnceWork work = [this, name, still_due](OnceClaim&) { return end_for_good(name, still_due); };
    auto left = co_await change(name, std::move(step), std::move(work), deadline);
    if (!left) co_return std::unexpected(left.error());
    left_status = left->status;
    if (left_status.empty() || still_due) break;
  }
  if (!left_status.empty() && !still_due)
    co_return fail(Errc::unavailable, "{} is started again and again", name);
  if (left_status.empty()) log::info("session.stopped", "pod", name);
  co_return ok;
}

// ---- What is known.

const Sandbox* Sessions::sandbox_of_runtime(const std::string& runtime_id) const {
  auto known = names_.find(runtime_id);
  if (known != names_.end())
    if (const auto* sandbox = driver_.seen(known->second);
        sandbox && sandbox->spec.runtime_id == runtime_id)
      return sandbox;
  for (const auto* sandbox : driver_.all_seen()) {
    if (sandbox->spec.runtime_id != runtime_id) continue;
    names_[runtime_id] = sandbox->spec.name;
    return sandbox;
  }
  return nullptr;
}

std::optional<View> Sessions::view_of_runtime(const std::string& runtime_id) const {
  if (const auto* sandbox = sandbox_of_runtime(runtime_id))
    return session::view_of(*sandbox, is_reachable(*sandbox));
  for (const auto& [name, errand] : errands_)
    if (errand->spec.runtime_id == runtime_id) return session::view_of(errand->spec, std::nullopt);
  return std::nullopt;
}

std::optional<View> Sessions::view_of_session(const std::string& session_id) const {
  auto name = name_of(session_id);
  const auto* sandbox = driver_.seen(name);
  if (sandbox && sandbox->spec.session_id == session_id)
    return session::view_of(*sandbox, is_reachable(*sandbox));
  SandboxSpec spec{.session_id = session_id,
                   .name = name,
                   .runtime_id = runtime_id_of(terms_.name_space, session_id)};
  if (errands_.contains(name)) return session::view_of(spec, std::nullopt);
  auto heard = heard_.find(resource(name));
  if (heard == heard_.end()) return std::nullopt;
  const auto& record = heard->second.record;
  if (record.is_busy && record.status != "creating") return std::nullopt;
  return session::view_of(spec, record.is_busy ? std::nullopt : record.error);
}

std::vector<View> Sessions::all() const {
  std::vector<View> views;
  for (const auto* sandbox : driver_.all_seen())
    views.push_back(session::view_of(*sandbox, is_reachable(*sandbox)));
  for (const auto& [name, errand] : errands_)
    if (!driver_.seen(name)) views.push_back(session::view_of(errand->spec, std::nullopt));
  return views;
}

}  // namespace warren::session
