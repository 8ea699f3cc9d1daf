#pragma once
// The current state of a folder: which files exist and in what state, found without opening them.
//
// The id of an entry is computed from what the system knows of a file (size, times, inode), so it
// changes with the text. A file that changed within the last two seconds gets an id that includes
// the present moment: it may change again before the file system's clock advances, so it must be
// read next time.
//
//   auto listing = list_work_tree(path, limits);
//   auto segments = update_listing(*listing, reader(path), before, terms);
#include "search/source/repository.h"

namespace warren::search {

// All files below a folder, without .git. Does not follow links.
Result<Listing> list_folder(const std::string& path, const SourceLimits& limits);
// The files of a work tree as its user sees them: tracked and new files in their state on disk,
// without ignored ones (by the tree's rules and the user's). No program that the repository names
// runs.
Result<Listing> list_work_tree(const std::string& path, const SourceLimits& limits);
// Takes the texts of these entries, as read_entries() does for a repository.
Result<> read_folder(const std::string& path, std::span<const TreeEntry> entries,
                     const SourceLimits& limits, std::vector<Skipped>& skipped, const Take& take);
// Whether the reason for leaving it out may be gone next time, such as a disk error.
bool may_pass(const Skipped& skipped);

}  // namespace warren::search
