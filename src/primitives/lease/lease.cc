#include "primitives/lease/lease.h"

#include <algorithm>
#include <boost/asio/redirect_error.hpp>
#include <cstdlib>
#include <set>

#include "base/log.h"
#include "base/uuid.h"
#include "primitives/lease/fence.h"
#include "primitives/lease/steps.h"
#include "redis/causes.h"

namespace warren {

namespace {

SessionTerms terms_of(const redis::Client& client, std::string holder,
                      std::chrono::milliseconds ttl, std::optional<LeaseRoom> room) {
  return {std::move(holder), ttl, client.settings().mode == redis::Mode::cluster, std::move(room)};
}

// The number of replicas that must have a grant for it to survive a failover: all that are connected
// (by the primary's ROLE), and all that the sentinels know, connected or not. Left out are those that
// most sentinels consider down: Sentinel cannot promote them before they are back, and when they come
// back they copy the grant from the primary.
int replicas_to_wait_for(const redis::Reply& role, const redis::Client& client) {
  std::set<redis::Address> connected;
  if (role.items.size() > 2)
    for (const auto& replica : role.items[2].items)
      if (replica.items.size() > 1)
        connected.insert(
            {replica.items[0].text, std::uint16_t(std::atoi(replica.items[1].text.c_str())), ""});
  if (client.settings().mode != redis::Mode::sentinel) return int(connected.size());
  int known = 0;
  for (const auto& node : client.topology().nodes)
    known += !node.is_primary && (!node.is_down || connected.contains(node.address));
  return std::max(known, int(connected.size()));
}

}  // namespace

Lease::Lease(Lease&& other) noexcept
    : session_(std::exchange(other.session_, nullptr)), id_(other.id_) {}

Lease& Lease::operator=(Lease&& other) noexcept {
  if (this == &other) return *this;
  if (session_) session_->leave(id_);
  session_ = std::exchange(other.session_, nullptr);
  id_ = other.id_;
  return *this;
}

Lease::~Lease() {
  if (session_) session_->leave(id_);
}

LeaseState Lease::state() const {
  if (!session_ || session_->is_over(id_)) return LeaseState::ended;
  if (session_->machine_.is_past_deadline(id_, Clock::now())) session_->look_at_clock();
  return session_->machine_.state(id_);
}

FencingToken Lease::token() const { return session_->machine_.token(id_); }

Clock::time_point Lease::deadline() const { return session_->machine_.deadline(id_); }

const std::string& Lease::fence() const { return session_->machine_.fence_key(id_); }

const Error& Lease::why() const { return session_->machine_.why_ended(id_); }

const LeaseTerms& Lease::terms() const { return session_->machine_.terms(id_); }

void Lease::show(std::string value) { session_->machine_.show(id_, std::move(value)); }

Async<redis::Reply> Lease::guarded(redis::Command command) {
  auto& session = *session_;
  auto id = id_;
  if (session.is_over(id)) co_return std::unexpected(why());
  auto watcher = session.watchers_.at(id);
  for (;;) {
    auto shown = session.machine_.token(id);
    auto reply =
        co_await run_guarded(session.client_, session.machine_.fence_key(id), shown, command);
    if (reply || reply.error().code != Errc::lease_lost || session.is_over(id)) co_return reply;
    session.machine_.on_fenced(id, shown);
    session.pump();
    // Our own renewal may have raised the token while the command was on its way. Then the command
    // was not run, and it is sent again with the new token.
    while (!session.is_over(id) && session.machine_.token(id) == shown)
      co_await watcher->changed.wait();
    if (session.is_over(id)) co_return reply;
  }
}

awaitable<void> Lease::ended() {
  auto& session = *session_;
  auto id = id_;
  auto watcher = session.watchers_.find(id);
  if (watcher == session.watchers_.end()) co_return;
  auto shared = watcher->second;
  while (!session.is_over(id)) co_await shared->changed.wait();
}

Async<> Lease::release() {
  auto& session = *std::exchange(session_, nullptr);
  auto id = id_;
  auto watcher = session.watchers_.find(id);
  if (watcher == session.watchers_.end()) co_return fail(Errc::cancelled, "the session is closed");
  auto shared = watcher->second;
  Result<> result = ok;
  auto& machine = session.machine_;
  if (machine.state(id) == LeaseState::ended) result = std::unexpected(machine.why_ended(id));
  auto deadline = Clock::now() + session.client_.settings().command_timeout;
  session.leave(id);
  while (machine.knows(id)) {
    if (Clock::now() >= deadline) co_return std::unexpected(machine.why_ended(id));
    co_await shared->changed.wait(deadline);
  }
  if (shared->refusal) result = std::unexpected(*shared->refusal);
  co_return result;
}

Async<> while_held(Lease& lease, Async<> work) {
  using namespace asio::experimental::awaitable_operators;
  auto first = co_await (lease.ended() || std::move(work));
  if (first.index() == 0) co_return std::unexpected(lease.why());
  co_return std::get<1>(std::move(first));
}

Async<redis::Reply> run_guarded(redis::Client& client, std::string fence, FencingToken token,
                                redis::Command command) {
  std::vector<std::string> keys{std::move(fence)};
  if (command.has_key()) keys.emplace_back(command.key());
  std::vector<std::string> args{std::to_string(token.epoch), std::to_string(token.counter),
                                std::to_string(fence_retention.count())};
  for (int i = 0; i < command.size(); ++i) args.emplace_back(command.word(i));
  static const auto script = behind_fence(scripts::guard);
  auto reply = co_await client.run(script, std::move(keys), std::move(args));
  if (!reply) co_return std::unexpected(behind_fence(std::move(reply.error())));
  co_return reply;
}

redis::Script conditional_lease(std::string name, std::string_view source) {
  return {std::move(name), fmt::format("local function lease(KEYS, ARGV)\n{}\nend\n{}",
                                       scripts::lease.source(), source)};
}

LeaseSession::LeaseSession(redis::Client& client, std::chrono::milliseconds ttl,
                           std::optional<LeaseRoom> room)
    : client_(client),
      holder_(uuid4()),
      machine_(terms_of(client, holder_, ttl, std::move(room))),
      subscriber_(client),
      timer_(client.executor(), Clock::time_point::max()),
      tasks_(client.executor()) {
  follow_topology();
  tasks_.start("lease.timer", keep_time());
  tasks_.start("lease.grants", listen());
  tasks_.start("lease.topology", watch_topology());
}

LeaseSession::~LeaseSession() { ensure(closed_, "a session is closed before it is destroyed"); }

Async<Lease> LeaseSession::try_acquire(LeaseTerms terms) {
  return obtain(std::move(terms), false, Clock::now() + client_.settings().command_timeout);
}

Async<Lease> LeaseSession::acquire(LeaseTerms terms, Clock::time_point deadline) {
  return obtain(std::move(terms), true, deadline);
}

Async<Lease> LeaseSession::obtain(LeaseTerms terms, bool waits, Clock::time_point deadline) {
  if (closed_) co_return fail(Errc::cancelled, "the session is closed");
  auto id = machine_.begin(std::move(terms), waits, deadline, Clock::now());
  if (!id) co_return std::unexpected(id.error());
  auto watcher = std::make_shared<Watcher>(Event(client_.executor()), std::nullopt);
  watchers_[*id] = watcher;
  Lease lease(*this, *id);
  pump();
  while (!is_over(*id) && machine_.state(*id) != LeaseState::held &&
         machine_.state(*id) != LeaseState::uncertain)
    co_await watcher->changed.wait();
  if (!is_over(*id)) co_return lease;
  if (closed_) co_return fail(Errc::cancelled, "the session was closed");
  co_return std::unexpected(machine_.why_ended(*id));
}

void LeaseSession::leave(LeaseId id) {
  if (closed_) return;
  machine_.leave(id, Clock::now());
  pump();
}

bool LeaseSession::is_over(LeaseId id) const {
  return closed_ || !machine_.knows(id) || machine_.state(id) == LeaseState::ended;
}

// An answer is judged by the server that gave it, so the machine hears of a new server first.
void LeaseSession::follow_topology() {
  if (std::exchange(changes_seen_, client_.changes()) != client_.changes())
    machine_.on_connected(client_.epoch(), Clock::now());
}

// Call after giving the machine a fact: carries out what it wants.
void LeaseSession::pump() {
  while (auto request = machine_.next_request())
    tasks_.start("lease.request", send(std::move(*request)));
  for (const auto& channel : machine_.grant_channels()) {
    if (!subscribed_.insert(channel).second) continue;
    subscriber_.ssubscribe(channel);
    tasks_.start("lease.subscription", ask_when_subscribed());
  }
  for (auto& [id, why] : machine_.take_refusals()) {
    log::warn("lease.release_refused", "why", why.what);
    if (auto watcher = watchers_.find(id); watcher != watchers_.end())
      watcher->second->refusal = std::move(why);
  }
  for (auto id : machine_.take_changes()) {
    auto watcher = watchers_.find(id);
    if (watcher == watchers_.end()) continue;
    watcher->second->changed.notify();
    if (!machine_.knows(id)) {
      watchers_.erase(watcher);
    } else if (machine_.state(id) == LeaseState::ended &&
               machine_.why_ended(id).code == Errc::lease_lost) {
      log::warn("lease.lost", "key", machine_.terms(id).key, "token", to_string(machine_.token(id)),
                "why", machine_.why_ended(id).what);
    }
  }
  if (machine_.wake_at() < timer_.expiry()) timer_.cancel();
}

awaitable<void> LeaseSession::send(LeaseMachine::Request request) {
  bool has_all_replicas = true;
  auto reply = co_await write(request, has_all_replicas);
  follow_topology();
  machine_.on_reply(request.id, std::move(reply), has_all_replicas, Clock::now());
  pump();
}

Async<redis::Reply> LeaseSession::write(LeaseMachine::Request& request, bool& has_all_replicas) {
  auto options = redis::CallOptions().by(request.deadline).idempotent();
  if (request.is_renewal) options = options.lane(redis::Lane::renewal);
  if (request.keys.empty()) {
    redis::Command command{std::span<const std::string>(request.args)};
    co_return co_await client_.ask(std::move(command), options);
  }
  const auto& script = request.script ? *request.script : scripts::lease;
  if (!request.replicated) {
    if (request.script) co_return co_await client_.run(script, request.keys, request.args, options);
    auto reply =
        co_await client_.run(script, request.keys, request.args, options.unless_keys_are_split());
    if (reply || !LeaseSteps::are_needed(reply.error())) co_return reply;
    co_return co_await write_in_steps(request, options);
  }

  co_return co_await write_replicated(request, script, options, has_all_replicas);
}

Async<redis::Reply> LeaseSession::write_replicated(const LeaseMachine::Request& request,
                                                   const redis::Script& script,
                                                   redis::CallOptions options,
                                                   bool& has_all_replicas) {
  auto role = co_await client_.ask(redis::Command("ROLE"), options.where(request.keys[0]));
  if (!role) co_return role;
  int wanted = replicas_to_wait_for(*role, client_);
  auto written =
      co_await client_.durable(script.by_hash(request.keys, request.args), wanted, options);
  if (!written && written.error().cause == redis::causes::unknown_script)
    written =
        co_await client_.durable(script.by_source(request.keys, request.args), wanted, options);
  if (!written) co_return std::unexpected(written.error());
  has_all_replicas = written->replicas >= wanted;
  if (has_all_replicas && client_.settings().mode == redis::Mode::sentinel) {
    // WAIT only counts. A replica that came back since ROLE may have been counted instead of one that
    // lacks the grant.
    role = co_await client_.ask(redis::Command("ROLE"), options);
    has_all_replicas = role && written->replicas >= replicas_to_wait_for(*role, client_);
  }
  if (!has_all_replicas)
    log::info("lease.not_replicated", "key", request.keys[0], "have", written->replicas, "of",
              wanted);
  co_return std::move(written->reply);
}

Async<redis::Reply> LeaseSession::write_in_steps(const LeaseMachine::Request& request,
                                                 redis::CallOptions options) {
  LeaseSteps steps(request);
  while (auto step = steps.next()) {
    Result<redis::Reply> reply;
    if (step->script) {
      reply = co_await client_.run(*step->script, std::move(step->keys), std::move(step->args),
                                   options);
    } else {
      redis::Command command{std::span<const std::string>(step->args)};
      reply = co_await client_.ask(std::move(command), options);
    }
    steps.on_reply(std::move(reply));
  }
  co_return steps.answer();
}

awaitable<void> LeaseSession::keep_time() {
  for (;;) {
    timer_.expires_at(machine_.wake_at());
    boost::system::error_code interrupted;
    co_await timer_.async_wait(asio::redirect_error(asio::use_awaitable, interrupted));
    look_at_clock();
  }
}

void LeaseSession::look_at_clock() {
  machine_.on_time(Clock::now());
  pump();
}

awaitable<void> LeaseSession::listen() {
  for (;;) {
    auto message = co_await subscriber_.next();
    if (!message) co_return;
    if (message->kind == redis::Message::Kind::gap)
      machine_.on_gap(Clock::now());
    else
      machine_.on_grant(message->payload, Clock::now());
    pump();
  }
}

// A grant published before the subscription was confirmed was missed.
awaitable<void> LeaseSession::ask_when_subscribed() {
  auto settled = co_await subscriber_.settled(Clock::time_point::max());
  if (!settled) co_return;
  machine_.on_gap(Clock::now());
  pump();
}

awaitable<void> LeaseSession::watch_topology() {
  for (;;) {
    co_await client_.changed(changes_seen_);
    follow_topology();
    pump();
  }
}

awaitable<void> LeaseSession::close() {
  if (closed_) co_return;
  auto watchers = watchers_;
  for (auto& [id, watcher] : watchers)
    if (machine_.knows(id) && !machine_.is_left(id)) leave(id);
  auto deadline = Clock::now() + 1s;
  for (auto& [id, watcher] : watchers)
    while (machine_.knows(id) && Clock::now() < deadline) co_await watcher->changed.wait(deadline);
  auto session = machine_.live_session();
  closed_ = true;
  for (auto& [id, watcher] : watchers) watcher->changed.notify();
  if (session) {
    redis::Command forget("DEL", *session);
    auto options = redis::CallOptions().by(deadline).idempotent();
    auto told = co_await client_.ask(std::move(forget), options);
    if (!told) log::debug("lease.session_left", "why", told.error().what);  // it expires by itself
  }
  tasks_.stop();
  co_await subscriber_.close();
  co_await tasks_.join();
}

std::shared_ptr<void> LeaseSession::publish(Metrics& metrics) const {
  auto counter = [&](const char* what, const char* help) {
    return metrics.counter(fmt::format("warren_lease_{}_total", what), help);
  };
  return metrics.on_collect(
      [this, granted = counter("grants", "Leases that were granted to this process."),
       refused = counter("refusals", "Leases that somebody else held."),
       renewed = counter("renewals", "Renewals that the server confirmed."),
       lost = counter("losses", "Leases that ended before they were released."),
       open = metrics.gauge("warren_lease_open",
                            "Leases held, asked for or being given back.")]() mutable {
        const auto& now = machine_.counters();
        granted.raise_to(double(now.granted));
        refused.raise_to(double(now.refused));
        renewed.raise_to(double(now.renewed));
        lost.raise_to(double(now.lost));
        open.set(double(machine_.leases()));
      });
}

}  // namespace warren
