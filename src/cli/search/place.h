#pragma once
// Where `warren search` looks.
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"

namespace warren::cli {

struct SearchPlace {
  // A folder as it is; the work tree of a repository as it is; commits of a repository.
  enum class Kind { folder, tree, repository };
  Kind kind = Kind::folder;
  std::string root;               // without links
  std::string below = {};         // "src/cli/": only what is there
  std::vector<std::string> refs;  // of a repository
  std::string here = {};          // the current folder, "/src/warren/"; empty: it is gone
};

// `given`: a folder or a repository; none: the repository around the current folder, or that
// folder. Errc::not_found.
Result<SearchPlace> find_place(const std::optional<std::string>& given,
                               std::vector<std::string> refs);
// Without regard to git.
SearchPlace plain_place(const std::optional<std::string>& given);
// As a person can open it from here; what is in a commit has no other name than its path. One that
// begins with a dash has ./ before it.
std::string shown_path(const SearchPlace& place, const std::string& path);

}  // namespace warren::cli
