#include "services/fleet/node/held.h"

#include "search/store/memory.h"

namespace warren::fleet {

std::uint64_t Held::memory_bytes() const {
  return segments ? search::memory_of(*segments).total() : 0;
}

RepoNote Held::note(Phase phase) const {
  RepoNote note;
  note.phase = phase;
  for (const auto& [ref, commit] : commits) {
    if (!note.commit_hash.empty()) note.commit_hash += ' ';
    note.commit_hash += commit;
  }
  note.is_ready = segments != nullptr;
  note.has_index = has_index;
  note.last_indexed_at = indexed_at;
  note.size_bytes = text_bytes;
  note.memory_bytes = memory_bytes();
  if (segments) {
    for (const auto& segment : *segments) {
      for (std::uint32_t file = 0; file < segment->file_count(); ++file)
        note.files += segment->is_dead(file) ? 0 : 1;
      note.skipped += segment->skipped().size();
    }
  }
  note.fetch_ms = static_cast<std::uint64_t>(fetch_time.count());
  note.index_ms = static_cast<std::uint64_t>(index_time.count());
  note.reindex = reindex;
  return note;
}

HandOver facts_of(const Held& held) {
  HandOver facts{.key = {}, .epoch = {}, .session = {}, .spec = {}, .commits = held.commits};
  facts.reindex = held.reindex;
  facts.text_bytes = held.text_bytes;
  facts.fetch_ms = static_cast<std::uint64_t>(held.fetch_time.count());
  facts.index_ms = static_cast<std::uint64_t>(held.index_time.count());
  facts.has_index = held.has_index;
  facts.has_symbols = held.has_symbols;
  facts.is_warm = held.is_warm;
  facts.indexed_at = held.indexed_at;
  return facts;
}

Held held_of(const HandOver& facts, search::SegmentListPtr segments) {
  Held held{.segments = std::move(segments), .commits = facts.commits};
  held.reindex = facts.reindex;
  held.has_index = facts.has_index;
  held.has_symbols = facts.has_symbols;
  held.is_warm = facts.is_warm;
  held.text_bytes = facts.text_bytes;
  held.indexed_at = facts.indexed_at;
  held.fetch_time = std::chrono::milliseconds(facts.fetch_ms);
  held.index_time = std::chrono::milliseconds(facts.index_ms);
  return held;
}

}  // namespace warren::fleet
