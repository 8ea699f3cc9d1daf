#pragma once
// Which blocks, files or paths may contain a match, according to the index.
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "search/index/segment.h"
#include "search/query/formula.h"
#include "search/query/matcher.h"
#include "search/query/watch.h"

namespace warren::search {

// Ascending places; nullopt for all.
using Places = std::optional<std::vector<std::uint32_t>>;

// An upper bound on the number of blocks.
std::uint64_t cost_of(const Segment& segment, const Formula& formula);
// Adds the number of lists read to `keys`. If the watch ends it, the places are meaningless.
Places candidate_blocks(const Segment& segment, const Formula& formula, std::uint64_t& keys,
                        Watch& watch);
// Files that have all keys, in any of their blocks: for patterns across lines.
Places candidate_files(const Segment& segment, const Formula& formula, std::uint64_t& keys,
                       Watch& watch);
std::vector<std::uint32_t> files_of(const Segment& segment,
                                    const std::vector<std::uint32_t>& blocks);

std::vector<std::uint32_t> intersected(const std::vector<std::uint32_t>& a,
                                       const std::vector<std::uint32_t>& b);
std::vector<std::uint32_t> united(const std::vector<std::uint32_t>& a,
                                  const std::vector<std::uint32_t>& b);

// Groups neighbouring paths and records which groups have which key. Most patterns that are
// searched in contents and paths occur in no path, and that case should cost nothing.
class PathIndex {
 public:
  PathIndex() = default;  // without an index all paths are scanned
  explicit PathIndex(const Segment& segment);
  // Files whose path matches, ascending. Incomplete if the watch ends it.
  std::vector<std::uint32_t> find(const Segment& segment, Finder& finder, Watch& watch) const;
  std::size_t memory() const {
    return sizeof *this + starts_.capacity() * sizeof(std::uint32_t) +
           groups_.capacity() * sizeof(std::uint16_t);
  }

 private:
  Places groups_of(const Formula& formula) const;

  std::vector<std::uint32_t> starts_;  // of each key's groups; empty if there are too few paths
  std::vector<std::uint16_t> groups_;
};
// Built at the third request. Kept as long as the segment, and counted in its memory. Any thread
// may call it.
std::shared_ptr<const PathIndex> path_index_of(const std::shared_ptr<const Segment>& segment);

}  // namespace warren::search
