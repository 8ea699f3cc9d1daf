#pragma once
// A row as stored in etcd. Include in .cc files only.
#include <deque>
#include <optional>
#include <string>
#include <unordered_map>

#include "catalog.pb.h"
#include "etcd.pb.h"
#include "primitives/catalog/catalog.h"

namespace warren::etcd {

struct SeenRow {
  std::string key;
  std::int64_t revision = 0;  // at which it was written
  RowRecord record;

  RowState state() const { return static_cast<RowState>(record.state()); }
  std::int64_t epoch() const { return record.has_new_epoch() ? revision : record.epoch(); }
  bool is_owned() const { return !record.owner().empty(); }
};

// Errc::protocol: another program wrote this.
Result<SeenRow> seen_row(std::string key, const etcdserverpb::KeyValue& kv);
// Leaves out the wait, which only a lease knows.
Row row_of(const SeenRow& seen);

// The record that follows from the one that was seen.
RowRecord claimed_by(const SeenRow& seen, const NodeSession& session);
RowRecord written(const SeenRow& seen, RowState state, const std::optional<std::string>& note);
RowRecord released(const SeenRow& seen, const Release& how);
RowRecord handed_to(const SeenRow& seen, const NodeSession& session);
RowRecord freed(const SeenRow& seen);  // because its owner is gone
RowRecord changed(const SeenRow& seen, const RowChange& change);

// Rows as they were last seen here. A remembered row saves a read but decides nothing: etcd
// compares the revision before it writes.
class RowMemory {
 public:
  void keep(SeenRow row);
  void forget(const std::string& key);
  std::optional<SeenRow> find(const std::string& key) const;

 private:
  static std::size_t size_of(const SeenRow& row);

  std::unordered_map<std::string, SeenRow> rows_;
  std::deque<std::string> order_;  // in order of arrival; may have a key twice, or one that is gone
  std::size_t bytes_ = 0;
};

}  // namespace warren::etcd
