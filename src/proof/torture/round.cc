#include "proof/torture/round.h"

#include <fmt/format.h>
#include <signal.h>

#include <fstream>

#include "proof/testkit/run.h"

namespace warren::torture {

namespace {

// The runtime of a sanitizer must be loaded first.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool may_preload = false;
#else
constexpr bool may_preload = true;
#endif

// Whether a process has a handler for the signal: SigCgt is a mask in hexadecimal digits.
bool catches(pid_t pid, int signal) {
  std::ifstream file(fmt::format("/proc/{}/status", pid));
  for (std::string line; std::getline(file, line);)
    if (line.starts_with("SigCgt:"))
      return std::stoull(line.substr(7), nullptr, 16) >> (signal - 1) & 1;
  return false;
}

}  // namespace

using history::ProcessId;
using history::Violation;

ArenaKind arena_of(std::uint64_t seed) { return static_cast<ArenaKind>(seed % 3); }

Round::Round(const RoundOptions& options)
    : Round(options, make_arena(arena_of(options.seed), {worker_count, ttl, options.clock_shim})) {}

Round::Round(const RoundOptions& options, std::unique_ptr<Place> place)
    : options_(options),
      random_(options.seed),
      clocks_(may_preload ? options.clock_shim : ""),
      place_(std::move(place)),
      slots_(worker_count) {}

std::filesystem::path Round::journal_of(ProcessId process) const {
  return folder_.path() / fmt::format("worker-{}.journal", process);
}

Clock::duration Round::up_to(Clock::duration most) {
  return std::chrono::duration_cast<Clock::duration>(most * random_.unit());
}

void Round::start_worker(std::size_t slot) {
  auto id = ++last_process_;
  Program program{.argv = words_for(slot, id),
                  .log = folder_.path() / fmt::format("worker-{}.log", id),
                  .environment = clocks_.environment()};
  program.argv.insert(program.argv.begin(), options_.binary.string());
  slots_[slot] = {std::make_unique<Process>(program), id};
}

// Stops a worker for a fraction of its ttl, kills it and starts another, or sets its time of day,
// which excuses nothing.
void Round::disturb_a_worker() {
  auto index = random_.below(slots_.size());
  auto& slot = slots_[index];
  if (slot.process->is_paused()) return;
  if (clocks_.can_lie() && random_.below(4) == 0) {
    static const std::vector<std::chrono::seconds> steps{1s, -1s, 30s, -30s, 3600s, -3600s};
    clocks_.set(slot.process->pid(), random_.one_of(steps));
    ++report_.faults["worker's clock stepped"];
    return;
  }
  if (random_.below(5) == 0) {
    slot.process->kill();
    ours_.killed(Clock::now(), slot.id);
    ++report_.faults["worker killed"];
    return start_worker(index);
  }
  static const std::vector<double> parts{0.5, 0.99, 1.01, 1.5, 3};
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

// A worker ends only when it is asked to.
bool Round::all_workers_live() {
  for (auto& slot : slots_) {
    if (slot.process->alive()) continue;
    report_.violation =
        Violation{"I12", fmt::format("worker {} died", slot.id), {slot.process->log_text()}};
    return false;
  }
  return true;
}

// A worker that has just started would be killed by a signal that it does not handle yet.
void Round::signal_workers(int signal) {
  for (auto& slot : slots_) {
    wait_for(60s, "a worker listens for signals",
             [&] { return !slot.process->alive() || catches(slot.process->pid(), signal); });
    kill(slot.process->pid(), signal);
  }
}

void Round::let_pass(Clock::duration time) {
  for (auto end = Clock::now() + time; Clock::now() < end;) {
    options_.tick();
    std::this_thread::sleep_for(5ms);
  }
}

void Round::begin_fault() {
  on_fault();
  fault_began_ = Clock::now();
  fault_ = place_->begin_fault(random_);
  fault_ends_ = Clock::now() + fault_->length;
  ++report_.faults[fault_->name];
}

void Round::end_fault() {
  fault_->end();
  place_->settle();
  // Clients notice a silent connection after one ttl, and then reconnect.
  auto over = Clock::now() + ttl + 500ms;
  excused_.push_back({fault_began_, over + fault_->aftermath});
  if (fault_->is_lossy) lossy_.push_back({fault_began_, over});
  forgot_ = forgot_ || fault_->forgets;
  has_aftermath_ = has_aftermath_ || fault_->aftermath > 0s;
  fault_.reset();
}

void Round::stop_workers() {
  for (auto& slot : slots_) slot.process->terminate();
  for (auto& slot : slots_) {
    auto code = slot.process->wait(30s);
    if (code != 0 && !report_.violation)
      report_.violation = Violation{
          "I12", fmt::format("worker {} ended with {}", slot.id, code), {slot.process->log_text()}};
  }
}

RoundReport Round::run() {
  report_.topology = place_->name();
  report_.has_lying_clocks = clocks_.can_lie();
  for (std::size_t slot = 0; slot < slots_.size(); ++slot) start_worker(slot);
  auto end = Clock::now() + options_.faults_for;
  auto next_fault = Clock::now() + ttl, next_worker = next_fault;
  // A fault that has begun runs to its end: otherwise half a failover would still be to come.
  while (fault_ || Clock::now() < end) {
    let_pass(5ms);
    auto now = Clock::now();
    if (!all_workers_live()) return report_;
    wake_workers(now);
    watch(now);
    if (fault_ && now >= fault_ends_) {
      end_fault();
      next_fault = Clock::now() + up_to(2 * ttl);
    } else if (!fault_ && now >= next_fault && now < end) {
      begin_fault();
    }
    if (now >= next_worker && now < end) {
      disturb_a_worker();
      next_worker = Clock::now() + up_to(ttl / 2);
    }
  }
  wake_workers(Clock::time_point::max());
  calm_down();
  if (!all_workers_live()) return report_;
  stop_workers();
  if (auto found = judge(); found && !report_.violation) report_.violation = found;
  report_.lateness = heartbeat_.worst();
  return report_;
}

}  // namespace warren::torture
