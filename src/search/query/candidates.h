#pragma once
// Which blocks, files or paths may hold a match, as the index has it.
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "search/index/segment.h"
#include "search/query/formula.h"
#include "search/query/matcher.h"
#include "search/query/watch.h"

namespace warren::search {

// Ascending places; nothing: all.
using Places = std::optional<std::vector<std::uint32_t>>;

// How many blocks it will be at most.
std::uint64_t cost_of(const Segment& segment, const Formula& formula);
// `keys` grows by the lists that were read. When the watch ends it, the places mean nothing.
Places candidate_blocks(const Segment& segment, const Formula& formula, std::uint64_t& keys,
                        Watch& watch);
// Files that have all keys, in whatever blocks: for patterns across lines.
Places candidate_files(const Segment& segment, const Formula& formula, std::uint64_t& keys,
                       Watch& watch);
std::vector<std::uint32_t> files_of(const Segment& segment,
                                    const std::vector<std::uint32_t>& blocks);

std::vector<std::uint32_t> intersected(const std::vector<std::uint32_t>& a,
                                       const std::vector<std::uint32_t>& b);
std::vector<std::uint32_t> united(const std::vector<std::uint32_t>& a,
                                  const std::vector<std::uint32_t>& b);

// Paths in groups of neighbours, and which groups have which key: most patterns that are looked for
// in contents and paths are in no path, and that should cost nothing.
class PathIndex {
 public:
  PathIndex() = default;  // knows nothing: all paths are looked at
  explicit PathIndex(const Segment& segment);
  // Files whose path matches, ascending; not all of them when the watch ends it.
  std::vector<std::uint32_t> find(const Segment& segment, Finder& finder, Watch& watch) const;
  std::size_t memory() const {
    return sizeof *this + starts_.capacity() * sizeof(std::uint32_t) +
           groups_.capacity() * sizeof(std::uint16_t);
  }

 private:
  Places groups_of(const Formula& formula) const;

  std::vector<std::uint32_t> starts_;  // of each key's groups; empty: few paths, no index
  std::vector<std::uint16_t> groups_;
};
// Made when it is asked for the third time, kept as long as the segment and part of its memory. Any
// thread.
std::shared_ptr<const PathIndex> path_index_of(const std::shared_ptr<const Segment>& segment);

}  // namespace warren::search
