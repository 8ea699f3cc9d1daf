#include "primitives/catalog/etcd/rows.h"

namespace warren::etcd {

namespace {

Error lost(const std::string& key) {
  return {Errc::lease_lost, fmt::format("row {} is no longer claimed under this epoch", key)};
}

Condition lives(const Keys& keys, const NodeSession& session) {
  return {keys.node(session),
          true,
          {Errc::lease_lost, fmt::format("the lease of node {} has ended", session)}};
}

Condition is_dead(const Keys& keys, const SeenRow& seen) {
  return {
      keys.node(seen.record.owner()),
      false,
      {Errc::held_elsewhere, fmt::format("row {} is owned by {}", seen.key, seen.record.owner())}};
}

Condition is_over(const Keys& keys, const SeenRow& seen) {
  return {keys.wait(seen.record.wait()),
          false,
          {Errc::held_elsewhere, fmt::format("row {} is to wait", seen.key)}};
}

bool is_of(const std::optional<SeenRow>& seen, const Claim& claim) {
  return seen && seen->record.owner() == claim.session && claim.epoch.epoch == 0 &&
         static_cast<std::uint64_t>(seen->epoch()) == claim.epoch.counter;
}

void move_offer(Txn& txn, const Keys& keys, const SeenRow& seen, std::int64_t rank) {
  if (rank != seen.record.rank()) txn.erase(keys.offer(seen.record.rank(), seen.key));
  txn.put(keys.offer(rank, seen.key));
}

}  // namespace

Plan plan_claim(const Keys& keys, const std::optional<SeenRow>& seen, const NodeSession& session,
                const std::string& key) {
  Plan plan;
  plan.conditions.push_back(lives(keys, session));
  if (!seen) {
    plan.refusal = Error{Errc::not_found, fmt::format("there is no row {}", key)};
    return plan;
  }
  if (seen->record.owner() == session) return plan;
  if (seen->is_owned()) {
    plan.conditions.push_back(is_dead(keys, *seen));
    plan.txn.erase(keys.own(seen->record.owner(), key));
  } else {
    plan.txn.erase(keys.offer(seen->record.rank(), key));
  }
  if (!seen->record.wait().empty()) {
    plan.conditions.push_back(is_over(keys, *seen));
    plan.txn.erase(keys.waiting(seen->record.wait()));
  }
  plan.txn.put(keys.own(session, key));
  plan.after = claimed_by(*seen, session);
  return plan;
}

Plan plan_write(const Keys& keys, const std::optional<SeenRow>& seen, const Claim& claim,
                RowState state, const std::optional<std::string>& note) {
  Plan plan;
  plan.conditions.push_back(lives(keys, claim.session));
  if (is_of(seen, claim))
    plan.after = written(*seen, state, note);
  else
    plan.refusal = lost(claim.key);
  return plan;
}

Plan plan_release(const Keys& keys, const std::optional<SeenRow>& seen, const Claim& claim,
                  const Release& how, const std::optional<WaitAt>& wait) {
  Plan plan;
  plan.conditions.push_back(lives(keys, claim.session));
  // While the session lives, only its own release can have ended its claim and left the epoch.
  bool is_done = seen && !seen->is_owned() && seen->epoch() > 0 &&
                 static_cast<std::uint64_t>(seen->epoch()) == claim.epoch.counter;
  if (is_done) return plan;
  if (!is_of(seen, claim)) {
    plan.refusal = lost(claim.key);
    return plan;
  }
  plan.after = released(*seen, how);
  plan.txn.erase(keys.own(claim.session, claim.key));
  if (!wait) {
    plan.txn.put(keys.offer(seen->record.rank(), claim.key));
    return plan;
  }
  plan.after->set_wait(wait->place);
  plan.after->set_wait_lease(wait->lease);
  plan.txn.put(keys.wait(wait->place), "", wait->lease);
  plan.txn.put(keys.waiting(wait->place));
  plan.txn.put(keys.length(length_of_place(wait->place)));
  return plan;
}

Plan plan_hand_over(const Keys& keys, const std::optional<SeenRow>& seen, const Claim& claim,
                    const NodeSession& to) {
  Plan plan;
  plan.conditions.push_back(lives(keys, claim.session));
  bool is_done = seen && seen->record.owner() == to && seen->record.handed_from() > 0 &&
                 static_cast<std::uint64_t>(seen->record.handed_from()) == claim.epoch.counter;
  if (is_done) return plan;
  if (!is_of(seen, claim)) {
    plan.refusal = lost(claim.key);
    return plan;
  }
  plan.conditions.push_back(
      {keys.node(to), true, {Errc::not_found, fmt::format("the lease of node {} has ended", to)}});
  plan.after = handed_to(*seen, to);
  if (to != claim.session) plan.txn.erase(keys.own(claim.session, claim.key));
  plan.txn.put(keys.own(to, claim.key));
  return plan;
}

Plan plan_change(const Keys& keys, const std::optional<SeenRow>& seen, const std::string& key,
                 const RowChange& change) {
  Plan plan;
  if (!seen) {
    plan.refusal = Error{Errc::not_found, fmt::format("there is no row {}", key)};
    return plan;
  }
  plan.after = changed(*seen, change);
  auto rank = plan.after->rank();
  if (seen->is_owned()) return plan;
  auto& place = seen->record.wait();
  if (change.ends_wait && !place.empty()) {
    plan.txn.erase(keys.wait(place)).erase(keys.waiting(place));
    move_offer(plan.txn, keys, *seen, rank);
  } else if (rank == seen->record.rank()) {
    return plan;
  } else if (place.empty()) {
    move_offer(plan.txn, keys, *seen, rank);
  } else {
    // It is on offer already if another process noticed that its wait is over.
    Txn if_offered;
    if_offered.if_absent(keys.waiting(place));
    move_offer(if_offered, keys, *seen, rank);
    plan.txn.also(std::move(if_offered));
  }
  return plan;
}

}  // namespace warren::etcd
