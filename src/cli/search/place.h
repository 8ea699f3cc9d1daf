#pragma once
// Where `warren search` searches.
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"

namespace warren::cli {

struct SearchPlace {
  // A plain folder, the work tree of a repository in its current state, or commits of a repository.
  enum class Kind { folder, tree, repository };
  Kind kind = Kind::folder;
  std::string root;               // links resolved
  std::string below = {};         // "src/cli/": only what is below
  std::vector<std::string> refs;  // for a repository
  std::string here = {};          // the current folder, "/src/warren/"; empty if it was deleted
};

// `given` is a folder or a repository. Without it: the repository around the current folder, or
// else the current folder. Errc::not_found.
Result<SearchPlace> find_place(const std::optional<std::string>& given,
                               std::vector<std::string> refs);
// Ignores git.
SearchPlace plain_place(const std::optional<std::string>& given);
// The path relative to the current folder, so that a person can open it. A file in a commit only
// has its path. A name that begins with a dash gets ./ in front.
std::string shown_path(const SearchPlace& place, const std::string& path);

}  // namespace warren::cli
