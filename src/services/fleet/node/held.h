#pragma once
// A repository in memory: its segments, and the commits that they show.
#include <map>
#include <string>

#include "search/store/delta.h"
#include "services/fleet/plan/records.h"
#include "services/fleet/wire/hand_over.h"

namespace warren::fleet {

struct Held {
  search::SegmentListPtr segments;             // null: nothing yet
  std::map<std::string, std::string> commits;  // by ref, as they were asked for
  std::uint64_t reindex = 0;
  bool has_index = false, has_symbols = false, is_warm = false;
  std::uint64_t text_bytes = 0;
  std::string indexed_at = {};
  std::chrono::milliseconds fetch_time = {}, index_time = {};

  std::uint64_t memory_bytes() const;
  RepoNote note(Phase phase) const;
};

// All but its segments, without a row and sizes, and the other way round.
HandOver facts_of(const Held& held);
Held held_of(const HandOver& facts, search::SegmentListPtr segments);

}  // namespace warren::fleet
