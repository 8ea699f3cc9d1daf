#pragma once
// One round of torture: worker processes on private servers, while servers, links, clocks and the
// workers themselves fail.
//
//   seed ──▶ servers ──▶ workers ──▶ faults … calm ──▶ journals ──▶ verdict
//
// The seed determines the topology, the faults and their times, and what the workers choose. It
// does not determine the scheduling of threads, so it repeats the weather and not every step.
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "proof/history/checkers.h"
#include "proof/testkit/heartbeat.h"
#include "proof/testkit/process.h"
#include "proof/testkit/temp_folder.h"
#include "proof/torture/arena.h"
#include "proof/torture/clocks.h"

namespace warren::torture {

struct RoundOptions {
  std::uint64_t seed = 0;
  Clock::duration faults_for = 8s;        // then a calm, and the judgement
  std::filesystem::path binary;           // of warren: runs as a worker
  std::filesystem::path clock_shim = {};  // empty: clocks do not step
  bool is_reckless = false;            // plants a mistake in the workers, to check that it is found
  std::function<void()> tick = [] {};  // called from time to time
};

struct RoundReport {
  std::string topology;
  std::map<std::string, std::size_t> faults;  // how many of each
  std::map<std::string, std::size_t> counts;  // of what the workers did
  std::vector<std::string> checked = {};      // "I1", …
  Clock::duration lateness{};                 // the machine's greatest delay
  bool has_lying_clocks = false;              // the workers' time of day may step
  history::Verdict violation = {};
};

inline constexpr std::size_t worker_count = 4;
ArenaKind arena_of(std::uint64_t seed);

class Round {
 public:
  explicit Round(const RoundOptions& options);
  // Uses another place than the Redis servers that the seed chooses.
  Round(const RoundOptions& options, std::unique_ptr<Place> place);
  virtual ~Round() = default;
  // Fails the test (testkit) if the servers cannot be started.
  RoundReport run();

 protected:
  static constexpr auto ttl = 1000ms;  // of leases; faults last for fractions of it

  // The command line of a worker, without the program.
  virtual std::vector<std::string> words_for(std::size_t slot, history::ProcessId process) = 0;
  virtual void watch(Clock::time_point) {}  // every few ms
  virtual void on_fault() {}                // a fault begins
  virtual void calm_down() = 0;             // faults are over, workers still run
  virtual history::Verdict judge() = 0;     // the workers have ended

  std::filesystem::path journal_of(history::ProcessId process) const;
  Place& place() { return *place_; }
  Arena& arena() { return dynamic_cast<Arena&>(*place_); }
  bool has_fault() const { return fault_.has_value(); }
  // How late a worker may be, beyond what is promised: a little for its own work, and the delays
  // seen on this machine: once for the worker, once for what woke it.
  Clock::duration slack() const { return 150ms + 2 * heartbeat_.worst(); }
  void signal_workers(int signal);
  void let_pass(Clock::duration time);

  RoundOptions options_;
  Random random_;
  RoundReport report_;
  history::ProcessId last_process_ = 0;
  history::LeaseHistory ours_;  // what was done to the workers
  std::vector<history::Window> excused_, lossy_;
  bool forgot_ = false;         // a server lost all its data
  bool has_aftermath_ = false;  // what should expire may not expire

 private:
  struct Slot {  // the place of a worker: when one dies another takes it
    std::unique_ptr<Process> process = nullptr;
    history::ProcessId id = 0;
    Clock::time_point resume_at{};
  };
  void start_worker(std::size_t slot);
  void disturb_a_worker();
  void wake_workers(Clock::time_point now);
  bool all_workers_live();
  void begin_fault();
  void end_fault();
  void stop_workers();
  Clock::duration up_to(Clock::duration most);

  Heartbeat heartbeat_;
  TempFolder folder_;
  Clocks clocks_;  // of the workers
  std::unique_ptr<Place> place_;
  std::vector<Slot> slots_;
  std::optional<Fault> fault_;
  Clock::time_point fault_began_{}, fault_ends_{};
};

}  // namespace warren::torture
