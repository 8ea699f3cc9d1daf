#include "proof/torture/lease_torture.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <sstream>
#include <thread>

#include "proof/torture/journal.h"
#include "proof/torture/lease_worker.h"

namespace warren::torture {

namespace {

using history::AttemptId;
using history::LeaseHistory;
using history::LeaseJudge;
using history::LockId;
using history::ProcessId;
using history::Token;
using history::Verdict;
using history::Violation;
using history::Window;

constexpr LockId lock_count = 3;

class LeaseRound : public Round {
 public:
  using Round::Round;

 private:
  std::vector<std::string> words_for(std::size_t slot, ProcessId process) override;
  void watch(Clock::time_point now) override;
  void on_fault() override;
  void calm_down() override;
  Verdict judge() override;

  Verdict leaks();
  Verdict judge_histories();
  Verdict order_of_the_log();
  // What the process recorded, with its places in the queues as we saw them.
  Result<LeaseHistory> history_of(ProcessId process) const;

  struct Place {
    ProcessId process = 0;
    AttemptId attempt = 0;
    Clock::time_point at;
    Token place;
  };
  std::vector<Place> places_;
  std::vector<std::set<std::string>> queued_{lock_count};  // the entries when we last looked
  Token last_place_{};
  Clock::time_point next_watch_{};
  std::vector<std::string> last_seen_;  // what the servers had while the workers still ran
};

std::vector<std::string> LeaseRound::words_for(std::size_t slot, ProcessId process) {
  WorkerTerms worker{.what = lease_worker,
                     .servers = arena().settings(slot),
                     .process = process,
                     .seed = random_.next(),
                     .locks = lock_count,
                     .ttl = ttl,
                     .replicated = arena().is_replicated(),
                     .is_reckless = options_.is_reckless,
                     .journal = journal_of(process)};
  return words_of(worker);
}

void LeaseRound::on_fault() {
  ++last_place_.epoch;
  for (auto& queue : queued_) queue.clear();
}

// New entries come after all existing ones, so numbering them as they appear gives their order.
// Only while nothing is wrong: afterwards the numbering starts again.
void LeaseRound::watch(Clock::time_point now) {
  if (has_fault() || now < next_watch_) return;
  next_watch_ = now + 20ms;
  for (LockId lock = 0; lock < lock_count; ++lock) {
    auto key = lease_key(lock) + ":queue";
    std::set<std::string> there;
    for (auto& entry : arena().owner(key).cli_words({"LRANGE", key, "0", "-1"})) {
      auto who = entry.substr(entry.rfind(' ') + 1);  // the value that its worker shows
      there.insert(who);
      if (queued_[lock].contains(who)) continue;
      Place place{.at = now, .place = {last_place_.epoch, ++last_place_.counter}};
      char dot = 0;
      std::istringstream(who) >> place.process >> dot >> place.attempt;
      places_.push_back(place);
    }
    queued_[lock] = std::move(there);
  }
}

// Long enough to see whether all workers continue.
void LeaseRound::calm_down() {
  let_pass(3 * ttl);
  for (LockId lock = 0; lock < lock_count; ++lock) {
    auto key = lease_key(lock);
    auto& server = arena().owner(key);
    auto line = fmt::format("lock {} in the end: holder \"{}\", last grant \"{}\"", lock,
                            server.cli({"GET", key}), server.cli({"GET", key + ":fence"}));
    for (auto& entry : server.cli_words({"LRANGE", key + ":queue", "0", "-1"}))
      line += fmt::format(", waits \"{}\"", entry);
    last_seen_.push_back(line);
  }
}

// What workers may leave behind after an orderly end: the last token and the log of each lock.
Verdict LeaseRound::leaks() {
  auto left = [&] {
    std::vector<std::string> keys;
    for (LockId lock = 0; lock < lock_count; ++lock)
      for (auto& suffix : {"", ":queue"}) {
        auto key = lease_key(lock) + suffix;
        if (arena().owner(key).cli({"EXISTS", key}) != "0") keys.push_back(key);
      }
    return keys;
  };
  // What a dead worker held, and what it was waiting for, ends with its session.
  auto deadline = Clock::now() + 2 * ttl + slack();
  while (!left().empty() && Clock::now() < deadline) std::this_thread::sleep_for(20ms);
  std::vector<history::Level> levels;
  for (auto& key : left()) levels.push_back({key, 0, 1});
  report_.checked.push_back("I12");
  return history::nothing_leaked(levels);
}

// The log itself, in the order in which the server wrote it: exact, and free of what was lost.
Verdict LeaseRound::order_of_the_log() {
  LeaseHistory written;
  std::map<std::string, AttemptId> owners;
  Clock::time_point position{};
  for (LockId lock = 0; lock < lock_count; ++lock) {
    auto key = log_key(lock);
    for (auto& entry : arena().owner(key).cli_words({"LRANGE", key, "0", "-1"})) {
      Token token;
      std::string owner;
      std::istringstream(entry) >> token.epoch >> token.counter >> owner;
      position += 1ms;
      auto [found, is_new] = owners.try_emplace(fmt::format("{} {}", lock, owner));
      if (is_new) found->second = written.begun(position, 0, lock);
      written.accepted(position, found->second, token, position);
      ++report_.counts["writes in the log"];
    }
  }
  return LeaseJudge(written, {.ttl = ttl, .wake = ttl}).resources_are_fenced();
}

Result<LeaseHistory> LeaseRound::history_of(ProcessId process) const {
  auto history = load_lease_history(journal_of(process));
  if (!history) return history;
  // A process that has left may be in the queue until the server hears of it.
  std::map<AttemptId, Window> waits;
  for (auto& event : history->events()) {
    using Kind = history::LeaseEvent::Kind;
    if (event.kind == Kind::begun) waits[event.attempt] = {event.at, Clock::time_point::max()};
    if (event.kind == Kind::granted || event.kind == Kind::ended)
      waits[event.attempt].until = event.at;
  }
  for (auto& [whose, attempt, at, place] : places_) {
    auto wait = whose == process ? waits.find(attempt) : waits.end();
    if (wait == waits.end() || at >= wait->second.until) continue;
    history->enqueued(std::max(at, wait->second.from), attempt, place);
  }
  return history;
}

Verdict LeaseRound::judge_histories() {
  LeaseHistory all = ours_;
  for (ProcessId process = 1; process <= last_process_; ++process) {
    auto history = history_of(process);
    if (!history) return Violation{"the journals", history.error().what, {}};
    all.add(*history);
  }
  all.sort();
  for (auto& event : all.events()) {
    using Kind = history::LeaseEvent::Kind;
    auto& counts = report_.counts;
    if (event.kind == Kind::begun) ++counts["attempts"];
    if (event.kind == Kind::enqueued) ++counts["places seen"];
    if (event.kind == Kind::granted) ++counts["grants"];
    if (event.kind == Kind::renewed) ++counts["renewals seen"];
    if (event.kind == Kind::lost) ++counts["losses told"];
    if (event.kind == Kind::released) ++counts["releases"];
    if (event.kind == Kind::accepted) ++counts["guarded writes"];
    if (event.kind == Kind::rejected) ++counts["stale writes refused"];
  }
  // An owner that was misled at the end of a fault believes for one ttl more.
  auto lossy = lossy_;
  for (auto& window : lossy) window.until += ttl;
  LeaseJudge judge(all, {.ttl = ttl,
                         .wake = 500ms + slack(),
                         .slack = slack(),
                         .overlap = 0ms,
                         .excused = excused_,
                         .lossy = lossy});
  report_.counts["owners at once, in lossy times"] += judge.lossy_overlaps();
  for (auto name : {"I1", "I2", "I3", "I4", "I6", "I7"}) report_.checked.push_back(name);
  // A resource that has forgotten what it accepted is judged by what it still has. So is one for
  // which a replaced primary kept accepting writes that were lost with it.
  if (!forgot_ && lossy_.empty())
    if (auto found = judge.resources_are_fenced()) return found;
  if (auto found = order_of_the_log()) return found;
  for (auto check : {&LeaseJudge::tokens_grow, &LeaseJudge::owners_exclude_each_other,
                     &LeaseJudge::losses_are_told, &LeaseJudge::waiters_wake,
                     &LeaseJudge::waiters_keep_their_order})
    if (auto found = (judge.*check)()) return found;
  return std::nullopt;
}

Verdict LeaseRound::judge() {
  // Before the histories, while leases of dead workers run out.
  auto leaked = has_aftermath_ ? std::nullopt : leaks();
  auto found = judge_histories();
  if (!found) found = leaked;
  if (found) found->events.insert(found->events.end(), last_seen_.begin(), last_seen_.end());
  return found;
}

}  // namespace

RoundReport torture_lease(const RoundOptions& options) { return LeaseRound(options).run(); }

}  // namespace warren::torture
