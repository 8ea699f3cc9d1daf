#include "torture/lease_torture.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <sstream>

#include "base/log.h"
#include "testkit/process.h"
#include "testkit/run.h"
#include "torture/journal.h"
#include "torture/lease_worker.h"

namespace warren::torture {

namespace {

using history::LeaseHistory;
using history::LeaseJudge;
using history::LockId;
using history::ProcessId;
using history::Token;
using history::Verdict;
using history::Violation;
using history::Window;

constexpr auto ttl = 1000ms;
constexpr std::size_t worker_count = 4;
constexpr LockId lock_count = 3;

// One round, while it runs.
class Round {
 public:
  explicit Round(const RoundOptions& options)
      : options_(options),
        random_(options.seed),
        arena_(make_arena(arena_of(options.seed), {worker_count, ttl, options.clock_shim})) {}

  RoundReport run();

 private:
  struct Slot {  // of a worker: when one dies another takes its place
    std::unique_ptr<Process> process;
    ProcessId id = 0;
    Clock::time_point resume_at{};
  };

  void start_worker(std::size_t slot);
  void disturb_a_worker();
  void wake_workers(Clock::time_point now);
  bool all_workers_live();
  void watch_queues(Clock::time_point now);
  void begin_fault();
  void end_fault();
  void stop_workers();
  Verdict leaks();
  Verdict judge();
  Verdict order_of_the_log();
  // What the process wrote, with its places in the queues as we saw them.
  Result<LeaseHistory> history_of(ProcessId process) const;
  std::filesystem::path journal_of(ProcessId process) const {
    return folder_.path() / fmt::format("worker-{}.journal", process);
  }

  RoundOptions options_;
  Random random_;
  TempFolder folder_;
  std::unique_ptr<Arena> arena_;
  std::vector<Slot> slots_{worker_count};
  ProcessId last_process_ = 0;
  LeaseHistory ours_;  // what was done to the workers
  std::optional<Fault> fault_;
  Clock::time_point fault_began_{}, fault_ends_{};
  std::vector<Window> excused_, lossy_;
  bool forgot_ = false;
  struct Place {
    ProcessId process = 0;
    history::AttemptId attempt = 0;
    Clock::time_point at;
    Token place;
  };
  std::vector<Place> places_;
  std::vector<std::map<std::string, bool>> queued_{lock_count};  // who stood there when we looked
  Token last_place_{};
  Clock::time_point next_watch_{};
  RoundReport report_;
};

void Round::start_worker(std::size_t slot) {
  LeaseWorker worker{.servers = arena_->settings(slot),
                     .process = ++last_process_,
                     .seed = random_.next(),
                     .locks = lock_count,
                     .ttl = ttl,
                     .replicated = arena_->is_replicated(),
                     .is_reckless = options_.is_reckless,
                     .journal = journal_of(last_process_)};
  Program program{.argv = words_of(worker),
                  .log = folder_.path() / fmt::format("worker-{}.log", worker.process)};
  program.argv.insert(program.argv.begin(), {options_.binary.string(), lease_worker_word});
  slots_[slot] = {std::make_unique<Process>(program), worker.process};
}

// Stops a worker for a part of its ttl, or kills it and starts another.
void Round::disturb_a_worker() {
  auto index = random_.below(slots_.size());
  auto& slot = slots_[index];
  if (slot.process->is_paused()) return;
  if (random_.below(3) == 0) {
    slot.process->kill();
    ours_.killed(Clock::now(), slot.id);
    ++report_.faults["worker killed"];
    return start_worker(index);
  }
  static const std::vector<double> parts{0.5, 0.99, 1.01, 3};
  auto length = std::chrono::duration_cast<Clock::duration>(ttl * random_.one_of(parts));
  ours_.paused(Clock::now(), slot.id);
  slot.process->pause();
  slot.resume_at = Clock::now() + length;
  ++report_.faults["worker paused"];
}

void Round::wake_workers(Clock::time_point now) {
  for (auto& slot : slots_) {
    if (!slot.process->is_paused() || slot.resume_at > now) continue;
    slot.process->resume();
    ours_.resumed(Clock::now(), slot.id);
  }
}

// A worker ends only when it is told to.
bool Round::all_workers_live() {
  for (auto& slot : slots_) {
    if (slot.process->alive()) continue;
    report_.violation =
        Violation{"I12", fmt::format("worker {} died", slot.id), {slot.process->log_text()}};
    return false;
  }
  return true;
}

// New entries are behind all that were there, so numbering them as they appear gives their order.
// Only while nothing is wrong: afterwards we begin anew.
void Round::watch_queues(Clock::time_point now) {
  if (fault_ || now < next_watch_) return;
  next_watch_ = now + 20ms;
  for (LockId lock = 0; lock < lock_count; ++lock) {
    auto key = lease_key(lock) + ":queue";
    std::map<std::string, bool> there;
    for (auto& entry : arena_->owner(key).cli_words({"LRANGE", key, "0", "-1"})) {
      auto who = entry.substr(entry.rfind(' ') + 1);  // the value that its worker shows
      there[who] = true;
      if (queued_[lock].contains(who)) continue;
      Place place{.at = now, .place = {last_place_.epoch, ++last_place_.counter}};
      char dot = 0;
      std::istringstream(who) >> place.process >> dot >> place.attempt;
      places_.push_back(place);
    }
    queued_[lock] = std::move(there);
  }
}

void Round::begin_fault() {
  ++last_place_.epoch;
  for (auto& queue : queued_) queue.clear();
  fault_began_ = Clock::now();
  fault_ = arena_->begin_fault(random_);
  fault_ends_ = Clock::now() + fault_->length;
  ++report_.faults[fault_->name];
}

void Round::end_fault() {
  if (!fault_) return;
  fault_->end();
  arena_->settle();
  // Clients notice a silent connection after one ttl, and then connect anew.
  auto over = Clock::now() + ttl + 500ms;
  excused_.push_back({fault_began_, over});
  if (fault_->is_lossy) lossy_.push_back({fault_began_, over});
  forgot_ = forgot_ || fault_->forgets;
  fault_.reset();
}

void Round::stop_workers() {
  wake_workers(Clock::time_point::max());
  for (auto& slot : slots_) slot.process->terminate();
  for (auto& slot : slots_) {
    auto code = slot.process->wait(30s);
    if (code != 0 && !report_.violation)
      report_.violation = Violation{
          "I12", fmt::format("worker {} ended with {}", slot.id, code), {slot.process->log_text()}};
  }
}

// What workers that said goodbye leave behind: the last token and the log of each lock.
Verdict Round::leaks() {
  auto left = [&] {
    std::vector<std::string> keys;
    for (LockId lock = 0; lock < lock_count; ++lock)
      for (auto& suffix : {"", ":queue"}) {
        auto key = lease_key(lock) + suffix;
        if (arena_->owner(key).cli({"EXISTS", key}) != "0") keys.push_back(key);
      }
    return keys;
  };
  // What a dead worker held, and what it was waiting for, goes with its session.
  auto deadline = Clock::now() + 2 * ttl;
  while (!left().empty() && Clock::now() < deadline) std::this_thread::sleep_for(20ms);
  std::vector<history::Level> levels;
  for (auto& key : left()) levels.push_back({key, 0, 1});
  report_.checked.push_back("I12");
  return history::nothing_leaked(levels);
}

// The log itself, in the order in which the server wrote it: exact, and free of what was lost.
Verdict Round::order_of_the_log() {
  LeaseHistory written;
  std::map<std::string, history::AttemptId> owners;
  Clock::time_point position{};
  for (LockId lock = 0; lock < lock_count; ++lock) {
    auto key = log_key(lock);
    for (auto& entry : arena_->owner(key).cli_words({"LRANGE", key, "0", "-1"})) {
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

Result<LeaseHistory> Round::history_of(ProcessId process) const {
  auto history = load_lease_history(journal_of(process));
  if (!history) return history;
  // Who has left may stand in the queue until the server hears of it.
  std::map<history::AttemptId, Window> waits;
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

Verdict Round::judge() {
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
  LeaseJudge judge(all, {.ttl = ttl,
                         .wake = 500ms,
                         .slack = 150ms,
                         .overlap = 0ms,
                         .excused = excused_,
                         .lossy = lossy_,
                         .lossy_overlap = ttl});
  report_.counts["owners at once, in lossy times"] += judge.lossy_overlaps();
  for (auto name : {"I1", "I2", "I3", "I4", "I6", "I7"}) report_.checked.push_back(name);
  // A resource that has forgotten what it accepted is judged by what it still has.
  if (!forgot_)
    if (auto found = judge.resources_are_fenced()) return found;
  if (auto found = order_of_the_log()) return found;
  for (auto check : {&LeaseJudge::tokens_grow, &LeaseJudge::owners_exclude_each_other,
                     &LeaseJudge::losses_are_told, &LeaseJudge::waiters_wake,
                     &LeaseJudge::waiters_keep_their_order})
    if (auto found = (judge.*check)()) return found;
  return std::nullopt;
}

RoundReport Round::run() {
  report_.topology = arena_->name();
  for (std::size_t slot = 0; slot < slots_.size(); ++slot) start_worker(slot);
  auto end = Clock::now() + options_.faults_for;
  auto next_fault = Clock::now() + ttl, next_worker = next_fault;
  auto some_time = [&] {
    return std::chrono::duration_cast<Clock::duration>(2 * ttl * random_.unit());
  };
  while (Clock::now() < end) {
    std::this_thread::sleep_for(5ms);
    auto now = Clock::now();
    if (!all_workers_live()) return report_;
    wake_workers(now);
    watch_queues(now);
    if (fault_ && now >= fault_ends_) {
      end_fault();
      next_fault = Clock::now() + some_time();
    } else if (!fault_ && now >= next_fault) {
      begin_fault();
    }
    if (now >= next_worker) {
      disturb_a_worker();
      next_worker = Clock::now() + some_time();
    }
  }
  end_fault();
  wake_workers(Clock::time_point::max());
  // Long enough to see whether everybody goes on.
  std::this_thread::sleep_for(3 * ttl);
  if (!all_workers_live()) return report_;
  stop_workers();
  auto leaked = leaks();
  auto found = judge();
  if (!report_.violation) report_.violation = found;
  if (!report_.violation) report_.violation = leaked;
  return report_;
}

}  // namespace

ArenaKind arena_of(std::uint64_t seed) { return static_cast<ArenaKind>(seed % 3); }

RoundReport torture_lease(const RoundOptions& options) { return Round(options).run(); }

}  // namespace warren::torture
