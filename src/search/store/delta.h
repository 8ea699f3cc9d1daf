#pragma once
// A repository that keeps changing while it is searched.
//
//   list   [ base | delta | delta ]      one pointer, swapped whole, under a mutex that is held
//            ^ dead: replaced by a       only for the copy (the std::atomic<shared_ptr> of g++ 12
//              delta, or deleted         has a race):  auto list = current();  search(*list, …)
//
// A new commit costs only what it changed. Small repositories are rebuilt, which is faster than
// comparing. Large ones get a delta: a segment of the changed files, and marks on the replaced
// ones. Readers that still hold the old list keep it until they release it. Texts that did not
// change are never read again: a rebuild takes them from the segments.
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "search/index/segment.h"
#include "search/source/repository.h"
#include "search/store/memory.h"

namespace warren::search {

using SegmentList = std::vector<std::shared_ptr<const Segment>>;
// Equal owners: the publisher of the list, and every search that still uses it.
using SegmentListPtr = std::shared_ptr<const SegmentList>;

struct UpdateTerms {
  BuildTerms build = {};
  SourceLimits limits = {};
  std::size_t delta_from = 50u << 20;  // bytes of text from which a repository gets deltas
};

// The list for the commits that the refs point to now. Returns `current` itself if it is up to
// date. Pass null the first time. The segments of a delta have no symbols until with_symbols().
Result<SegmentListPtr> update_repository(const std::string& path, std::vector<std::string> refs,
                                         const SegmentListPtr& current,
                                         const UpdateTerms& terms = {});

// The same for any listing whose entries have ids that change with their texts. `read` takes the
// texts of entries, as read_entries() does.
using ReadEntries = std::function<Result<>(std::span<const TreeEntry> entries,
                                           std::vector<Skipped>& skipped, const Take& take)>;
Result<SegmentListPtr> update_listing(Listing listing, const ReadEntries& read,
                                      const SegmentListPtr& current, const UpdateTerms& terms = {});

// The memory that update_listing() needs for the same arguments, in addition to `current`: a delta needs
// memory for the changed files, a rebuild for the whole repository.
MemoryForecast forecast_update(const Listing& listing, const SegmentListPtr& current,
                               const UpdateTerms& terms = {});

}  // namespace warren::search
