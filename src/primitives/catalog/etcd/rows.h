#pragma once
// Operations on rows. Each is one transaction, which succeeds only if everything is still as it was
// seen. Include in .cc files only.
//
//   seen (remembered, or read from any member)      The row that was seen may be old, so it decides
//     |                                             nothing: the transaction compares its revision.
//     v                                             If it differs, the answer has the current row,
//   plan ──> transaction ──> done                   and the plan is made again. So a claim of a
//     ^           │                                 row that was just offered is one round trip.
//     └─ the row ─┘ has changed
#include <functional>
#include <string>
#include <vector>

#include "primitives/catalog/etcd/listing.h"

namespace warren::etcd {

// A key that must, or must not, exist for the plan to hold.
struct Condition {
  std::string key;
  bool exists = true;
  Error otherwise;
};

// What follows if a row is as it was seen and the conditions hold: a refusal, or what is written.
// Conditions are checked in order, before the refusal.
struct Plan {
  std::vector<Condition> conditions = {};
  std::optional<Error> refusal = {};
  std::optional<RowRecord> after = {};  // nullopt: the row is already as it should be
  Txn txn = {};                         // what else is written
};

Plan plan_claim(const Keys& keys, const std::optional<SeenRow>& seen, const NodeSession& session,
                const std::string& key);
Plan plan_write(const Keys& keys, const std::optional<SeenRow>& seen, const Claim& claim,
                RowState state, const std::optional<std::string>& note);
// Where a wait is kept. Without one, the row is offered at once.
struct WaitAt {
  std::string place;
  std::int64_t lease = 0;
};
Plan plan_release(const Keys& keys, const std::optional<SeenRow>& seen, const Claim& claim,
                  const Release& how, const std::optional<WaitAt>& wait);
Plan plan_hand_over(const Keys& keys, const std::optional<SeenRow>& seen, const Claim& claim,
                    const NodeSession& to);
Plan plan_change(const Keys& keys, const std::optional<SeenRow>& seen, const std::string& key,
                 const RowChange& change);

class Rows {
 public:
  explicit Rows(Store& store) : store_(store) {}

  // As in catalog.h.
  Async<std::size_t> add(std::vector<Row> rows, Clock::time_point deadline);
  Async<std::size_t> remove(std::vector<std::string> keys, Clock::time_point deadline);
  Async<> change(std::string key, RowChange change, Clock::time_point deadline);
  Async<Claim> claim(NodeSession session, std::string key, Clock::time_point deadline);
  Async<> write(Claim claim, RowState state, std::optional<std::string> note,
                Clock::time_point deadline);
  Async<> release(Claim claim, Release how, Clock::time_point deadline);
  Async<Claim> hand_over(Claim claim, NodeSession to, Clock::time_point deadline);

  // Remembers a row that was read, for the next thing that is done to it.
  void saw(SeenRow row) { memory_.keep(std::move(row)); }

 private:
  using Planner = std::function<Plan(const std::optional<SeenRow>& seen)>;
  // Returns the row as it is afterwards.
  Async<SeenRow> update(std::string key, Planner planner, Clock::time_point deadline);
  Async<std::optional<SeenRow>> any_sight_of(std::string key, Clock::time_point deadline);
  Async<std::size_t> add_some(std::vector<Row> rows, Clock::time_point deadline);
  Async<std::size_t> remove_some(std::vector<std::string> keys, Clock::time_point deadline);

  Store& store_;
  RowMemory memory_;
};

}  // namespace warren::etcd
