#pragma once
// A node of the fleet in virtual time: what node/ does with coroutines, here as events. It decides with
// the same Claims, Shelf and NodeMachine; a clone, a build or a call only takes its time.
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <unordered_map>

#include "primitives/catalog/node_machine.h"
#include "services/fleet/simulate/catalog.h"
#include "services/fleet/simulate/work.h"

namespace warren::fleet_sim {

inline constexpr double megabyte = 1e6;

class ModelNode;

// What all of them share.
struct Stage {
  explicit Stage(const Terms& given);

  const Terms& terms;
  Agenda agenda;
  Chance chance;
  std::vector<Repo> repos;
  ModelCatalog catalog;
  std::vector<std::unique_ptr<Link>> hosts;
  std::vector<std::unique_ptr<ModelNode>> nodes;
  std::unordered_map<std::string, int> row_of;       // by key
  std::unordered_map<std::string, int> repo_number;  // by name
  std::vector<std::vector<int>> believers;           // by row: nodes that would answer for it
  std::vector<Time> evicted;                         // by repository; 0: never
  std::vector<std::uint64_t> clones;                 // by repository
  std::size_t cloning = 0;
  std::uint64_t budget_bytes = 0;
  Outcome outcome;

  const ModelRow& row(int id) const { return catalog.rows().at(static_cast<std::size_t>(id)); }
  const Repo& repo_of(int id) const { return repos.at(static_cast<std::size_t>(row(id).repo)); }
  std::uint64_t hot_bytes(const Repo& repo) const;
  std::uint64_t warm_bytes(const Repo& repo) const;
  std::uint64_t peak_bytes(const Repo& repo) const;
  double clone_seconds(const Repo& repo) const;  // with nothing else on the link
  double build_seconds(const Repo& repo) const;
  void violated(std::string what);
};

class ModelNode {
 public:
  ModelNode(Stage& stage, int number);

  void start();  // a new process, with empty memory
  void kill();
  void pause() { is_paused_ = true; }
  void resume();
  void cut_off(bool is_cut) { is_cut_ = is_cut; }  // from the catalog, not from who asks
  // Hands all rows over, then ends; `done` when the process has.
  void drain(Clock::duration time, Act done);

  bool is_running() const { return process_ != nullptr; }
  bool takes_part() const { return process_ && session() != nobody && !process_->is_draining; }
  bool is_building() const { return process_ && !process_->building.empty(); }
  double busy() const { return busy_; }
  void set_busy(double busy) { busy_ = busy; }  // as its next heartbeat says
  bool would_answer() const;                    // as owner, by its own clock
  // What a router that asks it for this row under this epoch hears.
  enum class Answer : std::uint8_t { served, moved, silence };
  Answer ask(int row, std::uint64_t epoch);
  void on_change(int row);
  int session() const;
  std::vector<int> serving() const;  // rows
  std::uint64_t memory() const;      // held, and what builds take now
  double worst_memory() const { return worst_memory_; }
  std::string why_not(int row) const;
  fleet::Shelf::Counters counters() const;  // of all its processes

 private:
  struct Owned {
    std::uint64_t epoch = 0, task = 0;
    bool is_ready = false, leaves = false, is_busy = true;
    std::uint32_t attempts = 0;
    Time since{};
  };
  struct HeldRepo {
    bool is_warm = false;
    double rebuild_seconds = 1;
  };
  // All that ends with the process.
  struct Process {
    Process(const Stage& stage, int number, std::uint64_t seed, Builders::After after);
    NodeMachine lease;
    fleet::Claims claims;
    fleet::Shelf shelf;
    CloneSlots slots;
    Builders builders;
    std::map<int, Owned> owned;                 // by row
    std::map<int, HeldRepo> held;               // by repository
    std::map<int, std::uint64_t> building;      // by repository: what its build takes
    std::set<std::pair<int, Link::Id>> clones;  // under way, by host
    int session = nobody;
    std::size_t unready = 0;  // of the owned
    Time next_look{}, looked{};
    bool is_looking = false, is_claiming = false, is_draining = false;
    std::uint64_t look_plan = 0, extra_bytes = 0;
    std::vector<Act> deferred;  // while it stands still
    std::vector<int> to_hand_over;
    int handing_over = 0;
    Act drained;
  };

  // By its own clock, which runs a little wrong.
  Time clock() const;
  Time real(Time local) const;
  // For as long as this process lives, and not while it stands still.
  void at(Time real_time, Act act);
  void after(Clock::duration wait, Act act);
  template <class T>
  void call(Clock::duration patience, std::function<Result<T>()> work,
            std::function<void(Result<T>)> answer);

  void pump_lease();
  void on_session_lost();
  fleet::NodeInfo info() const;

  void want_look(Clock::duration within);
  void plan_look();
  void look();
  void on_offers(std::vector<int> rows, std::vector<fleet::Candidate> nodes);
  void claim_next();
  void on_claimed(int session, const fleet::Offer& offer, Result<std::uint64_t> epoch);
  bool owns(int repo) const;
  bool make_room(const fleet::Offer& offer);

  // One row, from its claim on. `task` is void once the row is not ours under that claim.
  Owned* current(int row, std::uint64_t task);
  void bring(int row, std::uint64_t task);
  void clone(int row, std::uint64_t task);
  void build(int row, std::uint64_t task);
  void read(int row, std::uint64_t task);
  void index(int row, std::uint64_t task);
  void publish(int row, std::uint64_t task, bool is_whole);
  void fail_to_bring(int row, std::uint64_t task, std::string why, std::uint64_t peak = 0);
  void finish(int row, std::uint64_t task);
  void give_back(int row, ModelCatalog::ModelRelease how);
  void believe(int row);
  void disbelieve(int row);
  void end_build(int repo);

  void mind_memory();
  void demote(int repo);
  void evict(int repo);
  void note_memory();

  void hand_over_next();
  void hand_over(int row);
  bool receive(int repo, std::uint64_t bytes);
  void adopt(int row, std::uint64_t epoch, HeldRepo held);
  void end_drain();

  Stage& stage_;
  int number_;
  double drift_;
  std::shared_ptr<Process> process_;  // events of an older one have nobody to tell
  bool is_paused_ = false, is_cut_ = false;
  std::uint64_t tasks_ = 0, processes_ = 0;
  double worst_memory_ = 0;
  double busy_ = 0;                // of its processors
  fleet::Shelf::Counters before_;  // of earlier processes
};

}  // namespace warren::fleet_sim
