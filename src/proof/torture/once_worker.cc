#include "proof/torture/once_worker.h"

#include <unistd.h>

#include <boost/asio/signal_set.hpp>
#include <fstream>
#include <random>

#include "primitives/once/once.h"
#include "proof/torture/journal.h"

namespace warren::torture {

namespace {

using history::OnceEvent;
using history::ThingId;
using history::Token;
using Kind = OnceEvent::Kind;

Token token_of(FencingToken token) { return {token.epoch, token.counter}; }

std::uint64_t number_in(const std::string& text) {
  return std::strtoull(text.c_str(), nullptr, 10);
}

std::uint64_t value_of(const OnceRecord& record) {
  return record.status.empty() ? 0 : number_in(record.bytes);
}

class Worker {
 public:
  Worker(const WorkerTerms& options, Once& once)
      : options_(options),
        once_(once),
        things_(options.journal.parent_path()),
        journal_(options.journal),
        random_(options.seed) {}

  awaitable<void> contend();
  void stop() { is_stopping_ = true; }

 private:
  enum class Wish : std::uint8_t { make, pause, resume, remove };
  double unit() { return std::uniform_real_distribution<>(0, 1)(random_); }
  Clock::duration part_of_ttl(double most) {
    return std::chrono::duration_cast<Clock::duration>(options_.ttl * (most * unit()));
  }
  void note(OnceEvent event) {
    event.process = options_.process;
    journal_.once().note(event);
    journal_.write();
  }

  Wish any_wish();
  awaitable<void> want(ThingId thing, Wish wish, Clock::duration patience);
  Async<OnceOutcome> ask(ThingId thing, Wish wish, Clock::time_point deadline);
  Async<OnceLeft> work(OnceClaim& claim, ThingId thing, Wish wish);
  awaitable<bool> take_time(OnceClaim& claim, ThingId thing, std::uint32_t call);
  OnceLeft do_it(OnceClaim& claim, ThingId thing, Wish wish);

  const WorkerTerms& options_;
  Once& once_;
  Things things_;
  Journal journal_;
  std::mt19937_64 random_;
  std::uint32_t calls_ = 0;
  std::uint64_t made_ = 0;
  bool is_stopping_ = false;
};

Worker::Wish Worker::any_wish() {
  auto chance = unit();
  return chance < 0.75   ? Wish::make
         : chance < 0.83 ? Wish::pause
         : chance < 0.91 ? Wish::resume
                         : Wish::remove;
}

awaitable<void> Worker::contend() {
  while (!is_stopping_) {
    auto patience = unit() < 0.3 ? Clock::duration(8 * options_.ttl) : part_of_ttl(3);
    auto wish = any_wish();
    auto wanted = want(thing_wanted(Clock::now()), wish, patience);
    co_await std::move(wanted);
    co_await sleep_for(part_of_ttl(0.05));
  }
}

awaitable<void> Worker::want(ThingId thing, Wish wish, Clock::duration patience) {
  auto asked = Clock::now();
  auto call = ++calls_;
  note({.at = asked,
        .kind = Kind::asked,
        .thing = thing,
        .call = call,
        .deadline = asked + patience});
  auto asking = ask(thing, wish, asked + patience);
  auto outcome = co_await std::move(asking);
  OnceEvent event{.at = Clock::now(), .kind = Kind::ended, .thing = thing, .call = call};
  event.since = asked;
  if (outcome) {
    event.kind = Kind::answered;
    event.token = token_of(outcome->record.token);
    event.value = value_of(outcome->record);
  } else {
    event.value = may_retry(outcome.error()) ? 1 : 0;
  }
  note(event);
}

Async<OnceOutcome> Worker::ask(ThingId thing, Wish wish, Clock::time_point deadline) {
  OnceWork work = [this, thing, wish](OnceClaim& claim) { return this->work(claim, thing, wish); };
  auto name = thing_called(thing);
  if (wish == Wish::make) return once_.obtain(std::move(name), std::move(work), deadline);
  OnceStep step{.status = "stopping"};
  if (wish == Wish::pause) step = {.status = "pausing", .from = {"created"}};
  if (wish == Wish::resume) step = {.status = "resuming", .from = {"paused"}};
  return once_.change(std::move(name), std::move(step), std::move(work), deadline);
}

Async<OnceLeft> Worker::work(OnceClaim& claim, ThingId thing, Wish wish) {
  // A planted mistake: it ignores that it must stop.
  if (options_.is_reckless)
    co_await asio::this_coro::reset_cancellation_state(asio::disable_cancellation());
  auto call = ++calls_;
  auto now = Clock::now();
  // A grant older than this would be over.
  OnceEvent claimed{.at = now, .kind = Kind::claimed, .thing = thing, .call = call};
  claimed.token = token_of(claim.token());
  claimed.value = claim.record() ? 0 : OnceEvent::from_nothing;
  claimed.since = now - options_.ttl;
  claimed.deadline = claim.deadline();
  note(claimed);
  bool may_go_on = co_await take_time(claim, thing, call);
  OnceLeft left;
  if (may_go_on) left = do_it(claim, thing, wish);
  auto over = Clock::now();
  note({.at = over, .kind = Kind::let_go, .thing = thing, .call = call});
  if (!may_go_on) co_return fail(Errc::cancelled, "it is somebody else's");
  if (unit() < 0.05) co_return fail(Errc::refused, "planted");
  co_return left;
}

// Records how far the claim's deadline has moved. Returns false when the claim is over.
awaitable<bool> Worker::take_time(OnceClaim& claim, ThingId thing, std::uint32_t call) {
  auto deadline = claim.deadline();
  auto until = Clock::now() + part_of_ttl(unit() < 0.9 ? 0.1 : 2);
  while (Clock::now() < until) {
    if (claim.deadline() > deadline) {
      OnceEvent renewed{.at = Clock::now(), .kind = Kind::renewed, .thing = thing, .call = call};
      renewed.deadline = deadline = claim.deadline();
      note(renewed);
    }
    co_await sleep_for(5ms);
    auto state = co_await asio::this_coro::cancellation_state;
    if (is_cancelled(state)) co_return false;
  }
  co_return Clock::now() < claim.deadline() || options_.is_reckless;
}

OnceLeft Worker::do_it(OnceClaim& claim, ThingId thing, Wish wish) {
  if (wish == Wish::remove) {
    if (claim.record()) things_.remove(thing, value_of(*claim.record()));
    return {.status = "", .bytes = ""};
  }
  auto number = (std::uint64_t(options_.process) << 32) + ++made_;
  number = things_.make(thing, number);
  return {.status = wish == Wish::pause ? "paused" : "created", .bytes = std::to_string(number)};
}

}  // namespace

ThingId thing_wanted(Clock::time_point now) { return ThingId(now.time_since_epoch() / 700ms); }

std::string thing_called(ThingId thing) { return fmt::format("thing-{}", thing); }

OnceTerms once_terms(std::chrono::milliseconds ttl) {
  OnceTerms terms;
  terms.prefix = "torture:";
  terms.alive = ttl;
  terms.busy_ttl = 20s;
  terms.retry_after = 50ms;
  terms.show = [](const OnceView& view) { return std::string(view.status); };
  return terms;
}

std::filesystem::path Things::file(ThingId thing) const { return folder_ / thing_called(thing); }

std::uint64_t Things::make(ThingId thing, std::uint64_t number) const {
  auto made = folder_ / fmt::format("made-{}", number);
  std::ofstream(made) << number;
  std::error_code ignored;
  std::filesystem::create_hard_link(made, file(thing), ignored);  // only one process can
  std::filesystem::remove(made, ignored);
  return number_of(thing);
}

void Things::remove(ThingId thing, std::uint64_t number) const {
  std::error_code ignored;
  if (number_of(thing) == number) std::filesystem::remove(file(thing), ignored);
}

std::uint64_t Things::number_of(ThingId thing) const {
  std::uint64_t number = 0;
  std::ifstream(file(thing)) >> number;
  return number;
}

awaitable<void> run_once_worker(redis::Client& client, const WorkerTerms& terms) {
  asio::signal_set term(client.executor(), SIGTERM);
  Once once(client, once_terms(terms.ttl), fmt::format("worker-{}", terms.process));
  Worker worker(terms, once);
  {
    TaskGroup group(client.executor());
    for (int i = 0; i < 3; ++i) group.start("torture.contender", worker.contend());
    co_await term.async_wait(asio::use_awaitable);
    worker.stop();
    co_await group.join();
  }
  co_await once.close();
  co_await client.close();
}

}  // namespace warren::torture
