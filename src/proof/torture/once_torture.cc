#include "proof/torture/once_torture.h"

#include <fmt/format.h>

#include "primitives/once/once.h"
#include "proof/history/once_checkers.h"
#include "proof/testkit/run.h"
#include "proof/torture/journal.h"
#include "proof/torture/once_worker.h"

namespace warren::torture {

namespace {

using history::LeaseEvent;
using history::OnceEvent;
using history::OnceHistory;
using history::OnceJudge;
using history::ProcessId;
using history::ThingId;
using history::Verdict;
using history::Violation;
using Kind = OnceEvent::Kind;

class OnceRound : public Round {
 public:
  explicit OnceRound(const RoundOptions& options)
      : Round(options), first_(thing_wanted(Clock::now())) {}

 private:
  std::vector<std::string> words_for(std::size_t slot, ProcessId process) override;
  void calm_down() override;
  Verdict judge() override;

  void note_what_was_done();
  void count(const OnceEvent& event);
  // Like a reaper: makes each record agree with its thing, and records both.
  awaitable<void> reconcile();
  Async<> make_agree(Once& once, ThingId thing);

  ThingId first_;
  OnceHistory all_;
};

std::vector<std::string> OnceRound::words_for(std::size_t slot, ProcessId process) {
  WorkerTerms worker{.what = once_worker,
                     .servers = arena().settings(slot),
                     .process = process,
                     .seed = random_.next(),
                     .ttl = ttl,
                     .is_reckless = options_.is_reckless,
                     .journal = journal_of(process)};
  return words_of(worker);
}

// A caller that reconnects, and asks then, is answered.
void OnceRound::calm_down() {
  let_pass(ttl + 500ms);
  all_.note({.at = Clock::now(), .kind = Kind::calm});
  let_pass(3 * ttl);
}

void OnceRound::note_what_was_done() {
  std::map<ProcessId, Clock::time_point> paused;
  for (const auto& event : ours_.events()) {
    if (event.kind == LeaseEvent::Kind::killed)
      all_.note({.at = event.at, .kind = Kind::killed, .process = event.process});
    if (event.kind == LeaseEvent::Kind::paused) paused[event.process] = event.at;
    if (event.kind != LeaseEvent::Kind::resumed) continue;
    OnceEvent asleep{.at = paused[event.process], .kind = Kind::asleep, .process = event.process};
    asleep.deadline = event.at;
    all_.note(asleep);
  }
}

void OnceRound::count(const OnceEvent& event) {
  if (event.kind == Kind::asked) ++report_.counts["wishes"];
  if (event.kind == Kind::answered) ++report_.counts["answers"];
  if (event.kind == Kind::claimed) ++report_.counts["steps"];
}

Async<> OnceRound::make_agree(Once& once, ThingId thing) {
  Things things(journal_of(0).parent_path());
  auto deadline = Clock::now() + 20s;
  for (;;) {
    auto record = co_await once.get(thing_called(thing), deadline);
    if (!record && record.error().code != Errc::not_found)
      co_return std::unexpected(record.error());
    bool is_settled = record && !record->is_busy && record->status != "failed";
    auto number = things.number_of(thing);
    std::uint64_t value = is_settled ? std::strtoull(record->bytes.c_str(), nullptr, 10) : 0;
    if (value == number && !(record && record->is_busy)) {
      auto now = Clock::now();
      all_.note({.at = now, .kind = Kind::record, .thing = thing, .value = value});
      all_.note({.at = now, .kind = Kind::resource, .thing = thing, .value = number});
      co_return ok;
    }
    ++report_.counts["records made to agree"];
    if (is_settled) {
      auto forgotten = co_await once.forget(*std::move(record), deadline);
      if (!forgotten && forgotten.error().code != Errc::lease_lost) co_return forgotten;
      continue;
    }
    auto adopt = [](std::string bytes) -> Async<OnceLeft> {
      OnceLeft left{.status = bytes == "0" ? "" : "created", .bytes = std::move(bytes)};
      co_return left;
    };
    OnceWork work = [adopt, number](OnceClaim&) { return adopt(std::to_string(number)); };
    auto adopted = co_await once.obtain(thing_called(thing), std::move(work), deadline);
    if (!adopted && adopted.error().code != Errc::refused)
      co_return std::unexpected(adopted.error());
  }
}

awaitable<void> OnceRound::reconcile() {
  auto client = redis::Client::create(co_await asio::this_coro::executor, arena().settings(0));
  ensure(client.has_value(), "a client can be made");
  Once once(**client, once_terms(ttl));
  auto last = thing_wanted(Clock::now());
  for (auto thing = first_; thing <= last; ++thing) {
    auto agreed = co_await make_agree(once, thing);
    if (agreed || report_.violation) continue;
    report_.violation = Violation{"I22",
                                  fmt::format("{} cannot be made to agree", thing_called(thing)),
                                  {agreed.error().what}};
  }
  co_await once.close();
  co_await (*client)->close();
}

Verdict OnceRound::judge() {
  testkit::run(reconcile());
  note_what_was_done();
  for (ProcessId process = 1; process <= last_process_; ++process) {
    auto history = load_once_history(journal_of(process));
    if (!history) return Violation{"the journals", history.error().what, {}};
    all_.add(*history);
  }
  all_.sort();
  for (const auto& event : all_.events()) count(event);
  // A grant from just before the end of a fault is believed in for one ttl more.
  auto lossy = lossy_;
  for (auto& window : lossy) window.until += ttl;
  OnceJudge judge(all_,
                  {.slack = slack(), .patience = 8 * ttl, .lossy = lossy, .unheard = excused_});
  for (auto name : {"I19", "I20", "I21", "I22"}) report_.checked.emplace_back(name);
  return judge.first_violation();
}

}  // namespace

RoundReport torture_once(const RoundOptions& options) { return OnceRound(options).run(); }

}  // namespace warren::torture
