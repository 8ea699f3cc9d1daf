#include "primitives/catalog/returns.h"

namespace warren {

namespace {

// Either way the row is not the caller's any more. Other errors prove nothing.
bool is_over(const Result<>& answer) { return answer || answer.error().code == Errc::lease_lost; }

}  // namespace

void Returns::owe(Claim claim, Release how) {
  auto key = claim.key;
  owed_.insert_or_assign(std::move(key), Due{std::move(claim), std::move(how)});
}

void Returns::on_released(const Claim& claim, const Result<>& answer) {
  if (!is_over(answer)) return;
  auto owed = owed_.find(claim.key);
  if (owed != owed_.end() && owed->second.claim.epoch <= claim.epoch) owed_.erase(owed);
  // A refused row may still be ours. A lease that had ended by a clock that was ahead may last
  // again. A claim under another epoch, even a lower one, may be ours: a server that lost the claim
  // we gave back may have processed an earlier call since. The changes will tell.
  auto own = own_rows_.find(claim.key);
  if (answer && own != own_rows_.end() && own->second.epoch == claim.epoch) own_rows_.erase(own);
}

void Returns::on_changes(const Changes& changes, const NodeSession& session) {
  if (changes.is_everything) own_rows_.clear();
  for (const auto& key : changes.removed) own_rows_.erase(key);
  for (const auto& row : changes.rows) {
    if (row.owner == session)
      own_rows_.insert_or_assign(row.key, Claim{session, row.key, row.epoch});
    else
      own_rows_.erase(row.key);
  }
}

std::vector<Returns::Due> Returns::due(
    const std::function<bool(const std::string& key)>& is_known) const {
  std::vector<Due> due;
  for (const auto& [key, owed] : owed_)
    if (!is_known(key)) due.push_back(owed);
  for (const auto& [key, claim] : own_rows_)
    if (!owed_.contains(key) && !is_known(key)) due.push_back({claim, {}});
  return due;
}

}  // namespace warren
