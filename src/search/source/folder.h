#pragma once
// A folder as it is now: which files are there and in what state, found without opening them.
//
// The id of an entry is made of what the system knows of a file (size, times, inode), so that it
// changes with the text. A file that changed within the last two seconds gets an id of this moment:
// it may change again before the clock of the file system moves, and must be read the next time.
//
//   auto listing = list_work_tree(path, limits);
//   auto segments = update_listing(*listing, reader(path), before, terms);
#include "search/source/repository.h"

namespace warren::search {

// All files below a folder, without .git. Follows no links.
Result<Listing> list_folder(const std::string& path, const SourceLimits& limits);
// What a person sees of a work tree: tracked files and new ones, as they are on disk, without those
// that are ignored (by the tree's rules and by his own). No program that the repository names runs.
Result<Listing> list_work_tree(const std::string& path, const SourceLimits& limits);
// Takes the texts of entries, as read_entries() does for a repository.
Result<> read_folder(const std::string& path, std::span<const TreeEntry> entries,
                     const SourceLimits& limits, std::vector<Skipped>& skipped, const Take& take);
// Whether it was left out for something that may be gone the next time, such as an error of the
// disk.
bool may_pass(const Skipped& skipped);

}  // namespace warren::search
