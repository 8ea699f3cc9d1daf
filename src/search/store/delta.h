#pragma once
// A repository that goes on changing, searched all the while.
//
//   list   [ base | delta | delta ]      one pointer, swapped whole, under a mutex that is held for
//            ^ dead: what a delta        the copy alone (the std::atomic<shared_ptr> of g++ 12 has
//              has anew or nobody has    a race):  auto list = current();  search(*list, query, …)
//
// A new commit costs what it changed. Small repositories are built anew, which is faster than it is
// to notice; large ones get a delta: a segment of the changed files, and marks on the replaced
// ones. Readers that still hold the list before keep it until they let go of it. Texts that did not
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
// Equal owners: whoever publishes the list and every search that goes on in it.
using SegmentListPtr = std::shared_ptr<const SegmentList>;

struct UpdateTerms {
  BuildTerms build = {};
  SourceLimits limits = {};
  std::size_t delta_from = 50u << 20;  // bytes of text from which a repository gets deltas
};

// The list for what refs point to now; `current` itself when that is what it shows already, and
// null for the first time. Segments of a delta have no symbols until with_symbols().
Result<SegmentListPtr> update_repository(const std::string& path, std::vector<std::string> refs,
                                         const SegmentListPtr& current,
                                         const UpdateTerms& terms = {});

// The same for any listing whose entries have ids that change with their texts. `read` takes texts
// of entries as read_entries() does.
using ReadEntries = std::function<Result<>(std::span<const TreeEntry> entries,
                                           std::vector<Skipped>& skipped, const Take& take)>;
Result<SegmentListPtr> update_listing(Listing listing, const ReadEntries& read,
                                      const SegmentListPtr& current, const UpdateTerms& terms = {});

// The memory that update_listing() needs for the same arguments, in addition to `current`: a delta needs
// memory for the changed files, a rebuild for the whole repository.
MemoryForecast forecast_update(const Listing& listing, const SegmentListPtr& current,
                               const UpdateTerms& terms = {});

}  // namespace warren::search
