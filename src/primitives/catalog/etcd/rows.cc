#include "primitives/catalog/etcd/rows.h"

#include <algorithm>
#include <set>

#include "base/uuid.h"

namespace warren::etcd {

namespace {

// Each is a row and an offer; one more operation notifies readers.
constexpr std::size_t most_added_at_once = (most_txn_operations - 2) / 2;
// Each is at most a row, an offer, a wait and where it waits.
constexpr std::size_t most_removed_at_once = (most_txn_operations - 2) / 4;

RowRecord new_record(const Row& row) {
  RowRecord record;
  record.set_spec(row.spec);
  record.set_rank(row.rank);
  return record;
}

Txn whole_txn(const Keys& keys, const std::string& key, const std::optional<SeenRow>& seen,
              Plan& plan) {
  Txn txn = std::move(plan.txn);
  txn.if_unchanged(keys.row(key), seen ? seen->revision : 0);
  txn.else_get(keys.row(key));
  for (auto& condition : plan.conditions) {
    if (condition.exists)
      txn.if_exists(condition.key);
    else
      txn.if_absent(condition.key);
    txn.else_get(condition.key, Only::keys);
  }
  if (plan.after) txn.put(keys.row(key), plan.after->SerializeAsString()).put(keys.last());
  return txn;
}

bool has_key(const pb::TxnResponse& answer, int index) {
  return !answer.responses(index).response_range().kvs().empty();
}

// The first condition that did not hold, in a transaction of whole_txn.
std::optional<Error> violated(const Plan& plan, const pb::TxnResponse& answer) {
  for (std::size_t i = 0; i < plan.conditions.size(); ++i)
    if (has_key(answer, int(i) + 1) != plan.conditions[i].exists)
      return plan.conditions[i].otherwise;
  return std::nullopt;
}

Result<std::optional<SeenRow>> row_in(const std::string& key, const pb::RangeResponse& range) {
  if (range.kvs().empty()) return std::optional<SeenRow>();
  auto seen = seen_row(key, range.kvs(0));
  if (!seen) return std::unexpected(seen.error());
  return std::optional(std::move(*seen));
}

Claim claim_of(const SeenRow& row) {
  return {row.record.owner(), row.key, {0, static_cast<std::uint64_t>(row.epoch())}};
}

// Takes some of the rows: as many as fit into one transaction.
std::vector<Row> take_some(std::vector<Row>& rows) {
  std::vector<Row> some;
  std::size_t bytes = 0;
  while (!rows.empty() && some.size() < most_added_at_once && bytes < most_txn_bytes) {
    bytes += rows.back().spec.size() + 4 * rows.back().key.size();
    some.push_back(std::move(rows.back()));
    rows.pop_back();
  }
  return some;
}

void remove_row(Txn& txn, const Keys& keys, const SeenRow& row) {
  txn.if_unchanged(keys.row(row.key), row.revision).erase(keys.row(row.key));
  if (row.is_owned())
    txn.erase(keys.own(row.record.owner(), row.key));
  else
    txn.erase(keys.offer(row.record.rank(), row.key));
  auto& place = row.record.wait();
  if (!place.empty()) txn.erase(keys.wait(place)).erase(keys.waiting(place));
}

}  // namespace

Async<std::size_t> Rows::add(std::vector<Row> rows, Clock::time_point deadline) {
  for (auto& row : rows) {
    auto checked = check_row(row);
    if (!checked) co_return std::unexpected(checked.error());
  }
  std::set<std::string> keys;
  std::erase_if(rows, [&](const Row& row) { return !keys.insert(row.key).second; });
  std::ranges::reverse(rows);  // they are taken from the end
  std::size_t added = 0;
  while (!rows.empty()) {
    auto some = co_await add_some(take_some(rows), deadline);
    if (!some) co_return std::unexpected(some.error());
    added += *some;
  }
  co_return added;
}

// The offer records which call added it. So an attempt whose answer was lost is recognised, and its
// rows count.
Async<std::size_t> Rows::add_some(std::vector<Row> rows, Clock::time_point deadline) {
  const auto mark = uuid4();
  auto& keys = store_.keys;
  std::size_t added = 0;
  while (!rows.empty()) {
    Txn txn;
    for (auto& row : rows) {
      txn.if_absent(keys.row(row.key));
      txn.put(keys.row(row.key), new_record(row).SerializeAsString());
      txn.put(keys.offer(row.rank, row.key), mark);
      txn.else_get(keys.row(row.key), Only::keys).else_get(keys.offer(row.rank, row.key));
    }
    txn.put(keys.last());
    auto answer = co_await store_.client.txn(std::move(txn.request), deadline);
    if (!answer) co_return std::unexpected(answer.error());
    if (answer->succeeded()) co_return added + rows.size();
    std::vector<Row> absent;
    for (int i = 0; i < int(rows.size()); ++i) {
      auto& offer = answer->responses(2 * i + 1).response_range();
      if (!offer.kvs().empty() && offer.kvs(0).value() == mark) ++added;
      if (!has_key(*answer, 2 * i)) absent.push_back(std::move(rows[std::size_t(i)]));
    }
    rows = std::move(absent);
  }
  co_return added;
}

Async<std::size_t> Rows::remove(std::vector<std::string> keys, Clock::time_point deadline) {
  std::ranges::sort(keys);
  keys.erase(std::ranges::unique(keys).begin(), keys.end());
  std::size_t removed = 0;
  for (std::size_t begin = 0; begin < keys.size(); begin += most_removed_at_once) {
    auto end = std::min(begin + most_removed_at_once, keys.size());
    std::vector<std::string> some(keys.begin() + std::ptrdiff_t(begin),
                                  keys.begin() + std::ptrdiff_t(end));
    auto gone = co_await remove_some(std::move(some), deadline);
    if (!gone) co_return std::unexpected(gone.error());
    removed += *gone;
  }
  co_return removed;
}

// A row that was there at one look and is gone at the next counts: most likely this call removed
// it, in an attempt whose answer was lost.
Async<std::size_t> Rows::remove_some(std::vector<std::string> keys, Clock::time_point deadline) {
  std::set<std::string> there;
  for (;;) {
    auto rows = co_await read_rows(store_, keys, 0, deadline);
    if (!rows) co_return std::unexpected(rows.error());
    std::erase(*rows, std::nullopt);
    if (rows->empty()) co_return there.size();
    Txn txn;
    for (auto& row : *rows) {
      there.insert(row->key);
      memory_.forget(row->key);
      remove_row(txn, store_.keys, *row);
    }
    txn.put(store_.keys.last());
    auto answer = co_await store_.client.txn(std::move(txn.request), deadline);
    if (!answer) co_return std::unexpected(answer.error());
    if (answer->succeeded()) co_return there.size();
  }
}

Async<> Rows::change(std::string key, RowChange change, Clock::time_point deadline) {
  auto checked = check_change(change);
  if (!checked) co_return checked;
  Planner planner = [&](auto& seen) { return plan_change(store_.keys, seen, key, change); };
  auto row = co_await update(key, std::move(planner), deadline);
  if (!row) co_return std::unexpected(row.error());
  co_return ok;
}

Async<Claim> Rows::claim(NodeSession session, std::string key, Clock::time_point deadline) {
  Planner planner = [&](auto& seen) { return plan_claim(store_.keys, seen, session, key); };
  auto row = co_await update(key, std::move(planner), deadline);
  if (!row) co_return std::unexpected(row.error());
  co_return claim_of(*row);
}

Async<> Rows::write(Claim claim, RowState state, std::optional<std::string> note,
                    Clock::time_point deadline) {
  auto checked = check_write(state, note);
  if (!checked) co_return checked;
  Planner planner = [&](auto& seen) { return plan_write(store_.keys, seen, claim, state, note); };
  auto row = co_await update(claim.key, std::move(planner), deadline);
  if (!row) co_return std::unexpected(row.error());
  co_return ok;
}

Async<> Rows::release(Claim claim, Release how, Clock::time_point deadline) {
  auto checked = check_release(how);
  if (!checked) co_return checked;
  for (;;) {
    std::optional<WaitAt> wait;
    if (how.wait > 0ms) {
      auto seconds = wait_seconds(how.wait);
      auto lease = co_await store_.client.grant(0, seconds, deadline);
      if (!lease) co_return std::unexpected(lease.error());
      wait = WaitAt{place_of(seconds, lease->header().revision(), claim.key), lease->id()};
    }
    Planner planner = [&](auto& seen) { return plan_release(store_.keys, seen, claim, how, wait); };
    auto row = co_await update(claim.key, std::move(planner), deadline);
    if (row) co_return ok;
    // The lease of the wait ended before it was used: this took too long.
    if (row.error().code != Errc::not_found) co_return std::unexpected(row.error());
  }
}

Async<Claim> Rows::hand_over(Claim claim, NodeSession to, Clock::time_point deadline) {
  Planner planner = [&](auto& seen) { return plan_hand_over(store_.keys, seen, claim, to); };
  auto row = co_await update(claim.key, std::move(planner), deadline);
  if (!row) co_return std::unexpected(row.error());
  co_return claim_of(*row);
}

Async<SeenRow> Rows::update(std::string key, Planner planner, Clock::time_point deadline) {
  auto sight = co_await any_sight_of(key, deadline);
  if (!sight) co_return std::unexpected(sight.error());
  auto seen = std::move(*sight);
  for (;;) {
    auto plan = planner(seen);
    auto txn = whole_txn(store_.keys, key, seen, plan);
    auto answer = co_await store_.client.txn(std::move(txn.request), deadline);
    if (!answer) co_return std::unexpected(answer.error());
    if (answer->succeeded()) {
      if (plan.refusal) co_return std::unexpected(std::move(*plan.refusal));
      if (plan.after) seen = SeenRow{key, answer->header().revision(), std::move(*plan.after)};
      memory_.keep(*seen);
      co_return std::move(*seen);
    }
    auto now = row_in(key, answer->responses(0).response_range());
    if (!now) co_return std::unexpected(now.error());
    auto is_same = (*now ? (*now)->revision : 0) == (seen ? seen->revision : 0);
    seen = std::move(*now);
    if (seen)
      memory_.keep(*seen);
    else
      memory_.forget(key);
    if (!is_same) continue;
    auto error = violated(plan, *answer);
    ensure(error.has_value(), "a transaction fails because a condition does not hold");
    co_return std::unexpected(std::move(*error));
  }
}

// From any member, without delay: it may be behind.
Async<std::optional<SeenRow>> Rows::any_sight_of(std::string key, Clock::time_point deadline) {
  auto remembered = memory_.find(key);
  if (remembered) co_return remembered;
  pb::RangeRequest request;
  request.set_key(store_.keys.row(key));
  request.set_serializable(true);
  auto answer = co_await store_.client.range(std::move(request), deadline);
  if (!answer) co_return std::unexpected(answer.error());
  co_return row_in(key, *answer);
}

}  // namespace warren::etcd
