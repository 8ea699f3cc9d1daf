#pragma once
// Whether what happened to a catalog was allowed: I13 to I18 of docs/guarantees.md.
//
//   CatalogJudge judge(history, {.rows = 6, .lossy = windows});
//   if (auto violation = judge.first_violation()) print(violation->text());
//
//   node     claimed ├───────────────────┤ dropped         A node believes in a row from its claim
//   lease    ├──────────┤ deadline  ├───────────────┤      until it drops it, while its lease lasts
//   belief   ├──────────┤           ├────┤               (the times in both). No other node may
//                                                        believe in the row then.
#include <map>
#include <span>
#include <string>
#include <vector>

#include "proof/history/catalog_history.h"
#include "proof/history/checkers.h"

namespace warren::history {

struct CatalogBounds {
  RowId rows = 0;  // rows below this number always exist, and every node wants them
  // Times in which the effects of a server fault (lost data, a clock that stepped, a replaced
  // primary that does not know it) can make two nodes believe, or take a row back.
  std::vector<Window> lossy = {};
};

class CatalogJudge {
 public:
  // The history is sorted and must outlive the judge.
  CatalogJudge(const CatalogHistory& history, CatalogBounds bounds);

  // I13: no node believes that it owns a row while another does.
  Verdict owners_exclude_each_other() const;
  // I14: a node that asks for a row after another claim was known gets a higher epoch, and no epoch
  // is given twice.
  Verdict epochs_grow() const;
  // I15: no write is accepted under an epoch that was over when the write was requested (a higher
  // one was known, it was given back, or the catalog had refused it), and what was refused then is
  // never seen.
  Verdict old_epochs_are_refused() const;
  // I16: a node that serves a row does so before the deadline of its lease.
  Verdict nobody_serves_past_its_lease() const;
  // I17: a follower of the changes sees the epochs of a row in order, and in the end has what the
  // catalog has.
  Verdict followers_miss_nothing() const;
  // I18: no row is offered that a node believes in throughout, and if nothing fails for long
  // enough, every row has an owner.
  Verdict offers_are_free() const;

  Verdict first_violation() const;
  // How long rows were believed in, and how much of that I13 does not judge, because it was in
  // lossy times.
  struct HoldTime {
    Clock::duration excused{}, all{};
  };
  HoldTime hold_time() const;

 private:
  using Life = std::pair<ProcessId, LifeId>;
  struct Hold {
    const CatalogEvent* claimed;
    Window window;
  };

  void collect_leases();
  void collect_holds();
  Clock::time_point death_of(ProcessId process) const;
  std::span<const Window> lease_of(Life life) const;
  Clock::duration length_outside_losses(Window window) const;
  bool has_loss(Window window) const;
  bool is_lossy(Clock::time_point time) const { return has_loss({time, time}); }
  std::vector<const CatalogEvent*> by_row(std::initializer_list<CatalogEvent::Kind> kinds) const;
  const CatalogEvent* end_before(const CatalogEvent& write,
                                 std::span<const CatalogEvent* const> ends) const;
  Verdict epochs_grow(std::span<const CatalogEvent* const> claims) const;
  Verdict refused_is_not_seen(std::span<const CatalogEvent* const> refused_late) const;
  Verdict rows_are_seen_in_order() const;
  Verdict contents_are_equal() const;
  Violation violation(const char* invariant, std::string what,
                      std::vector<const CatalogEvent*> events) const;

  const CatalogHistory& history_;
  CatalogBounds bounds_;
  Clock::time_point start_{}, end_{};
  std::map<ProcessId, Clock::time_point> deaths_;
  std::map<Life, std::vector<Window>> leases_;  // disjoint, sorted
  std::vector<Window> losses_;                  // disjoint, sorted: bounds_.lossy
  std::vector<Hold> holds_;                     // by row, then time
};

}  // namespace warren::history
