#include "primitives/mirror/mirror.h"

#include <boost/asio/redirect_error.hpp>
#include <random>

#include "base/log.h"
#include "base/uuid.h"
#include "primitives/mirror/patience.h"
#include "redis/causes.h"

namespace warren {

using namespace asio::experimental::awaitable_operators;
using mirror::Request;

namespace {

// If Redis does not answer for this long, it is away: four tail checks and a little.
constexpr auto silence = 2500ms;
constexpr auto aside_patience = 30s;  // for a page of keys, on a connection that ends with it

double random_unit() {
  static thread_local std::minstd_rand generator(std::random_device{}());
  return std::uniform_real_distribution<>(0, 1)(generator);
}

Result<> check(const MirrorTerms& terms) {
  if (terms.types.empty()) return fail(Errc::invalid, "a mirror without entity types");
  auto slot = redis::slot_of(terms.head_key());
  auto open = terms.prefix.find('{');
  if (open == terms.prefix.npos || terms.prefix.find('}', open) < open + 2 ||
      slot != redis::slot_of(terms.log_channel()))
    return fail(Errc::invalid, "prefix {} and channel {} need the same {{tag}}", terms.prefix,
                terms.channel);
  for (const auto& type : terms.types)
    for (const auto& other : terms.types)
      if (&type != &other && other.folder.starts_with(type.folder))
        return fail(Errc::invalid, "keys of {} cannot be told from those of {}", other.name,
                    type.name);
  return ok;
}

}  // namespace

std::string_view name(MirrorHealth health) {
  switch (health) {
    case MirrorHealth::loading:
      return "loading";
    case MirrorHealth::current:
      return "current";
    case MirrorHealth::degraded:
      return "degraded";
  }
  return "";
}

Result<std::unique_ptr<Mirror>> Mirror::create(redis::Client& client, MirrorTerms terms) {
  auto checked = check(terms);
  if (!checked) return std::unexpected(checked.error());
  return std::unique_ptr<Mirror>(new Mirror(client, std::move(terms)));
}

Mirror::Mirror(redis::Client& client, MirrorTerms terms)
    : client_(client),
      machine_(std::move(terms), uuid4(), random_unit),
      subscriber_(client),
      began_(Clock::now()),
      changed_(client.executor()),
      wake_(client.executor()),
      shown_(machine_.snapshot()),
      published_(shown_),
      tasks_(client.executor()) {
  if (client.settings().mode == redis::Mode::cluster) machine_.expect_moves();
  tasks_.start("mirror.listener", listen());
  tasks_.start("mirror.driver", keep_going());
  tasks_.start("mirror.watcher", watch());
}

Mirror::~Mirror() { ensure(closed_, "a mirror is closed before it is destroyed"); }

awaitable<void> Mirror::close() {
  closed_ = true;
  changed_.notify();
  machine_.abandon({Errc::cancelled, "the mirror is closed"});
  tasks_.stop();
  co_await subscriber_.close();
  co_await tasks_.join();
}

awaitable<void> Mirror::listen() {
  subscriber_.ssubscribe(machine_.terms().log_channel());
  subscriber_.subscribe(machine_.terms().channel);
  for (bool first = true;; first = false) {
    auto settled = co_await subscriber_.settled(Clock::now() + 10s);
    if (settled) break;
    if (settled.error().code == Errc::cancelled) co_return;
    if (first) log::warn("mirror.not_subscribed", "why", settled.error().what);
    co_await sleep_for(100ms);  // a refusal comes at once
  }
  machine_.on_subscribed(Clock::now());
  go_on();
  for (;;) {
    auto message = co_await subscriber_.next();
    // What arrived together is shown together.
    for (int taken = 0; message; ++taken) {
      if (message->kind == redis::Message::Kind::gap)
        machine_.on_gap(Clock::now());
      else
        machine_.on_message(Clock::now(), message->channel, message->payload);
      if (taken == 256) break;
      message = co_await subscriber_.next(Clock::time_point::min());
    }
    if (!message && message.error().code == Errc::cancelled) co_return;
    go_on();
  }
}

awaitable<void> Mirror::keep_going() {
  for (;;) {
    go_on();
    co_await wake_.wait(machine_.wake_at());
  }
}

awaitable<void> Mirror::watch() {
  for (;;) {
    co_await client_.changed(changes_);
    go_on();
    wake_.notify();
  }
}

void Mirror::look_at_connection() {
  auto changes = client_.changes();
  if (std::exchange(changes_, changes) != changes)
    machine_.on_connected(Clock::now(), client_.epoch());
}

// Called after each fact: sends what is due and publishes what has changed.
void Mirror::go_on() {
  look_at_connection();
  while (auto request = machine_.next(Clock::now()))
    tasks_.start("mirror.request", serve(*std::move(request)));
  machine_.publish();
  for (const auto& lost : machine_.take_rewrites()) {
    log::warn("mirror.history_rewritten", "after", to_string(lost.after), "until",
              to_string(lost.until), "certain", lost.certain);
    if (tell_) tell_(lost);
    changed_.notify();
  }
  if (shown_ == machine_.snapshot()) return;
  shown_ = machine_.snapshot();
  published_.store(shown_);
  changed_.notify();
}

awaitable<void> Mirror::serve(Request request) {
  auto options = mirror::options_for(request, Clock::now()).where(machine_.terms().prefix);
  auto command = request.script ? request.script->by_hash(request.words, request.args)
                                : redis::Command(std::span<const std::string>(request.words));
  Result<redis::Reply> reply;
  if (request.server.empty())
    reply = co_await client_.command(std::move(command), options);
  else
    reply = co_await ask_server(request.server, std::move(command));
  if (request.script && !reply && reply.error().cause == redis::causes::unknown_script) {
    command = request.script->by_source(request.words, request.args);
    reply = co_await client_.command(std::move(command), options);
  }
  if (closed_) co_return;
  look_at_connection();
  auto refused = machine_.counters().refused_writes;
  auto why = reply ? "the script's answer" : reply.error().what;
  machine_.on_reply(Clock::now(), std::move(request), std::move(reply));
  if (machine_.counters().refused_writes != refused) log::error("mirror.write_refused", "why", why);
  if (machine_.phase() != MirrorPhase::snapshot) aside_.reset();
  go_on();
  wake_.notify();
}

// The server that receives a slot does not own it yet, so the client would not ask it.
Async<redis::Reply> Mirror::ask_server(std::string server, redis::Command command) {
  auto address = redis::parse_address(server, 0);
  if (!address) co_return std::unexpected(address.error());
  auto aside = std::exchange(aside_, {});
  if (!aside || aside->address() != *address) {
    auto dialled = co_await client_.dial(*address, Clock::now() + mirror::patience);
    if (!dialled) co_return std::unexpected(dialled.error());
    aside = std::move(*dialled);
  }
  auto reply = co_await aside->ask(std::move(command), Clock::now() + aside_patience);
  if (reply) aside_ = std::move(aside);
  co_return reply;
}

Async<> Mirror::wait_until(std::function<bool()> fact, Clock::time_point deadline) {
  while (!fact()) {
    if (closed_) co_return fail(Errc::cancelled, "the mirror is closed");
    if (Clock::now() >= deadline) co_return fail(Errc::timeout, "the deadline passed");
    co_await changed_.wait(deadline);
    auto state = co_await asio::this_coro::cancellation_state;
    if (is_cancelled(state)) co_return fail(Errc::cancelled, "the caller left");
  }
  co_return ok;
}

awaitable<void> Mirror::changed(std::shared_ptr<const Snapshot> seen) {
  std::function<bool()> fact = [this, seen] { return shown_ != seen; };
  auto waited = co_await wait_until(std::move(fact), Clock::time_point::max());
  (void)waited;  // a caller that leaves early checks by itself
}

Async<> Mirror::ready(Clock::time_point deadline) {
  std::function<bool()> fact = [this] { return machine_.is_ready(); };
  auto waited = co_await wait_until(std::move(fact), deadline);
  co_return waited;
}

// Each put has a timer of its own: one event for all would wake every waiting caller for every
// batch.
Async<Version> Mirror::put(Batch batch, Clock::time_point deadline) {
  if (closed_) co_return fail(Errc::cancelled, "the mirror is closed");
  auto receipt = machine_.put(std::move(batch));
  if (!receipt) co_return std::unexpected(receipt.error());
  wake_.notify();
  Timer timer(client_.executor(), deadline);
  (*receipt)->tell = [&timer] { timer.cancel(); };
  boost::system::error_code ignored;
  co_await timer.async_wait(asio::redirect_error(asio::use_awaitable, ignored));
  (*receipt)->tell = nullptr;
  if ((*receipt)->result) co_return *(*receipt)->result;
  auto state = co_await asio::this_coro::cancellation_state;
  if (is_cancelled(state)) co_return fail(Errc::cancelled, "the caller left");
  co_return fail(Errc::timeout, "it still waits to be written");
}

Result<> Mirror::post(Batch batch) {
  if (closed_) return fail(Errc::cancelled, "the mirror is closed");
  auto receipt = machine_.put(std::move(batch));
  if (!receipt) return std::unexpected(receipt.error());
  wake_.notify();
  return ok;
}

Async<> Mirror::applied(Version version, Clock::time_point deadline) {
  using mirror::Fate;
  std::function<bool()> fact = [this, version] {
    return machine_.fate_of(version) != Fate::awaited;
  };
  auto waited = co_await wait_until(std::move(fact), deadline);
  if (!waited) co_return waited;
  auto fate = machine_.fate_of(version);
  if (fate == Fate::lost) co_return fail(Errc::not_found, "a failover lost {}", to_string(version));
  if (fate == Fate::unknown)
    co_return fail(Errc::unknown_outcome, "a failover may have lost {}", to_string(version));
  co_return ok;
}

MirrorHealth Mirror::health() const {
  if (!machine_.is_ready()) return MirrorHealth::loading;
  auto now = Clock::now();
  bool is_silent = now - machine_.heard_at() > silence;
  bool is_blocked = machine_.blocked_since() && now - *machine_.blocked_since() > silence;
  return is_silent || is_blocked ? MirrorHealth::degraded : MirrorHealth::current;
}

std::shared_ptr<void> Mirror::publish(Metrics& metrics) const {
  struct Published {
    explicit Published(Metrics& m)
        : pushed(entries(m, "push")),
          read(entries(m, "log")),
          catch_ups(repairs(m, "catch_up")),
          snapshots(repairs(m, "snapshot")),
          compared(repairs(m, "comparison")),
          rewrites(m.counter("warren_mirror_history_rewritten_total",
                             "Times that a failover lost changes that were seen here.")),
          notifications(
              m.counter("warren_mirror_notifications_total", "Changes that older peers told of.")),
          malformed(m.counter("warren_mirror_malformed_total", "Messages that nobody can read.")),
          writes(m.counter("warren_mirror_writes_total", "Batches written to the log.")),
          refused(m.counter("warren_mirror_refused_writes_total", "Batches refused for good.")),
          retries(m.counter("warren_mirror_write_retries_total", "Batches sent once more.")),
          queued(m.gauge("warren_mirror_queued_changes", "Changes that wait to be written.")),
          age(m.gauge("warren_mirror_age_seconds", "How old what readers see may be.")),
          current(m.gauge("warren_mirror_is_current", "1 when complete and following.")) {}
    static Counter entries(Metrics& m, const char* from) {
      return m.counter("warren_mirror_entries_total", "Entries of the log applied, by their way.",
                       {{"from", from}});
    }
    static Counter repairs(Metrics& m, const char* by) {
      return m.counter("warren_mirror_repairs_total", "What had to be put right, by the means.",
                       {{"by", by}});
    }
    Counter pushed, read, catch_ups, snapshots, compared, rewrites, notifications, malformed,
        writes, refused, retries;
    Gauge queued, age, current;
  };
  // The exposition runs on the client's thread, like everything that reads the machine.
  return metrics.on_collect([this, shown = Published(metrics)]() mutable {
    const auto& now = machine_.counters();
    shown.pushed.raise_to(double(now.pushed));
    shown.read.raise_to(double(now.applied - now.pushed));
    shown.catch_ups.raise_to(double(now.catch_ups));
    shown.snapshots.raise_to(double(now.snapshots));
    shown.compared.raise_to(double(now.repairs));
    shown.rewrites.raise_to(double(now.rewrites));
    shown.notifications.raise_to(double(now.notifications));
    shown.malformed.raise_to(double(now.malformed));
    shown.writes.raise_to(double(now.writes));
    shown.refused.raise_to(double(now.refused_writes));
    shown.retries.raise_to(double(now.write_retries));
    shown.queued.set(double(machine_.outbox().changes()));
    auto age = machine_.is_ready() ? read()->age(Clock::now()) : Clock::now() - began_;
    shown.age.set(std::chrono::duration<double>(age).count());
    shown.current.set(health() == MirrorHealth::current);
  });
}

}  // namespace warren
