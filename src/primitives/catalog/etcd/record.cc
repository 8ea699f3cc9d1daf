#include "primitives/catalog/etcd/record.h"

namespace warren::etcd {

namespace {

constexpr std::size_t most_memory_bytes = 8u << 20;
constexpr std::size_t most_memory_keys = 16u << 10;

void set_state(RowRecord& record, RowState state) {
  record.set_state(static_cast<std::uint32_t>(state));
}

// The row's next record, under the epoch that it already has.
RowRecord going_on(const SeenRow& seen) {
  auto record = seen.record;
  record.set_epoch(seen.epoch());
  record.set_has_new_epoch(false);
  return record;
}

RowRecord owned_anew(const SeenRow& seen, const NodeSession& session) {
  auto record = seen.record;
  record.set_owner(session);
  record.set_epoch(0);
  record.set_has_new_epoch(true);
  record.clear_handed_from();
  record.clear_wait();
  record.clear_wait_lease();
  return record;
}

void begin_to_count_anew(RowRecord& record) {
  record.clear_attempts();
  record.clear_error();
}

}  // namespace

Result<SeenRow> seen_row(std::string key, const etcdserverpb::KeyValue& kv) {
  SeenRow seen{std::move(key), kv.mod_revision(), {}};
  if (!seen.record.ParseFromString(kv.value()) ||
      seen.record.state() > static_cast<std::uint32_t>(RowState::failed))
    return fail(Errc::protocol, "row {} in etcd is not one of ours", seen.key);
  return seen;
}

Row row_of(const SeenRow& seen) {
  auto& record = seen.record;
  return {.key = seen.key,
          .spec = record.spec(),
          .note = record.note(),
          .rank = record.rank(),
          .state = seen.state(),
          .owner = record.owner(),
          .epoch = {0, static_cast<std::uint64_t>(seen.epoch())},
          .attempts = record.attempts(),
          .error = record.error()};
}

RowRecord claimed_by(const SeenRow& seen, const NodeSession& session) {
  auto record = owned_anew(seen, session);
  set_state(record, RowState::claimed);
  return record;
}

RowRecord written(const SeenRow& seen, RowState state, const std::optional<std::string>& note) {
  auto record = going_on(seen);
  set_state(record, state);
  if (note) record.set_note(*note);
  if (state == RowState::ready) begin_to_count_anew(record);
  return record;
}

RowRecord released(const SeenRow& seen, const Release& how) {
  auto record = going_on(seen);
  record.clear_owner();
  set_state(record, how.error.empty() ? RowState::free : RowState::failed);
  if (how.note) record.set_note(*how.note);
  if (how.error.empty()) return record;
  record.set_error(how.error);
  record.set_attempts(record.attempts() + 1);
  return record;
}

RowRecord handed_to(const SeenRow& seen, const NodeSession& session) {
  auto record = owned_anew(seen, session);
  record.set_handed_from(seen.epoch());
  set_state(record, RowState::ready);
  begin_to_count_anew(record);
  return record;
}

RowRecord freed(const SeenRow& seen) {
  auto record = going_on(seen);
  record.clear_owner();
  set_state(record, RowState::free);
  return record;
}

RowRecord changed(const SeenRow& seen, const RowChange& change) {
  auto record = going_on(seen);
  if (change.spec) record.set_spec(*change.spec);
  if (change.rank) record.set_rank(*change.rank);
  if (!change.ends_wait) return record;
  begin_to_count_anew(record);
  record.clear_wait();
  record.clear_wait_lease();
  if (seen.state() == RowState::failed) set_state(record, RowState::free);
  return record;
}

void RowMemory::keep(SeenRow row) {
  forget(row.key);
  bytes_ += size_of(row);
  order_.push_back(row.key);
  auto key = row.key;
  rows_.emplace(std::move(key), std::move(row));
  while (bytes_ > most_memory_bytes || order_.size() > most_memory_keys) {
    forget(order_.front());
    order_.pop_front();
  }
}

void RowMemory::forget(const std::string& key) {
  auto found = rows_.find(key);
  if (found == rows_.end()) return;
  bytes_ -= size_of(found->second);
  rows_.erase(found);
}

std::optional<SeenRow> RowMemory::find(const std::string& key) const {
  auto found = rows_.find(key);
  if (found == rows_.end()) return std::nullopt;
  return found->second;
}

std::size_t RowMemory::size_of(const SeenRow& row) {
  return 2 * row.key.size() + row.record.ByteSizeLong() + 256;
}

}  // namespace warren::etcd
