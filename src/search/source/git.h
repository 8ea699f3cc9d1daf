#pragma once
// git as a child.
#include <atomic>

#include "base/host/child.h"
#include "base/host/git.h"
#include "search/source/document.h"

namespace warren::search {

ChildTerms child_of(const git::Command& command);

// Runs git and passes on each NUL-terminated record of its output as it comes. git may use as much
// memory as `limits` say, besides its packs.
Result<> each_record(ChildTerms terms, const SourceLimits& limits,
                     const std::function<Result<>(std::string_view)>& take);

// The memory that a listing takes while it grows: a tree of a few kilobytes may name billions of
// files. Any thread may count.
class ListingBudget {
 public:
  explicit ListingBudget(const SourceLimits& limits) : limits_(limits) {}

  // A file, listed or left out, with the bytes of its texts. Errc::overloaded beyond the limits.
  Result<> add_file(std::size_t text_bytes);
  Result<> add(std::size_t bytes);

 private:
  SourceLimits limits_;
  std::atomic<std::size_t> files_ = 0, bytes_ = 0;
};

// In exactly the repository with this path, never one around it.
ChildTerms git_in(const std::string& path, std::vector<std::string> words,
                  git::Obeys obeys = git::Obeys::nobody);

}  // namespace warren::search
