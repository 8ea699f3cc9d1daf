#include "cli/search_place.h"

#include <filesystem>

#include "search/git.h"

namespace warren::cli {

namespace {

namespace fs = std::filesystem;

bool is_there(const fs::path& path) {
  std::error_code ignored;
  return fs::exists(path, ignored);
}

bool is_bare(const fs::path& folder) {
  return is_there(folder / "HEAD") && is_there(folder / "objects") && is_there(folder / "refs");
}

// The nearest folder, from this one upwards, that is a work tree.
std::optional<fs::path> tree_around(fs::path folder) {
  for (;; folder = folder.parent_path()) {
    if (is_there(folder / ".git")) return folder;
    if (!folder.has_relative_path()) return std::nullopt;
  }
}

// Somebody who names a folder that git ignores wants to see it.
bool is_ignored(const fs::path& root, const std::string& below) {
  return search::run_child(search::git(root, {"check-ignore", "--", below}), "", 1u << 20)
      .has_value();
}

}  // namespace

Result<SearchPlace> find_place(const std::optional<std::string>& given,
                               std::vector<std::string> refs) {
  std::error_code error;
  auto folder = fs::canonical(given.value_or("."), error);
  if (error || !fs::is_directory(folder, error))
    return fail(Errc::not_found, "{} is no folder and no repository", given.value_or("."));
  using Kind = SearchPlace::Kind;
  if (is_bare(folder)) {
    if (refs.empty()) refs.emplace_back("HEAD");
    return SearchPlace{Kind::repository, folder, "", std::move(refs)};
  }
  auto tree = tree_around(folder);
  if (!tree && !refs.empty())
    return fail(Errc::not_found, "{} is in no repository, so that it has no {}", folder.string(),
                refs[0]);
  if (!tree) return SearchPlace{Kind::folder, folder, "", {}};
  std::string below;
  if (given && *tree != folder) below = folder.lexically_relative(*tree).string() + "/";
  if (!refs.empty()) return SearchPlace{Kind::repository, *tree, below, std::move(refs)};
  if (!below.empty() && is_ignored(*tree, below)) return SearchPlace{Kind::folder, folder, "", {}};
  return SearchPlace{Kind::tree, *tree, below, {}};
}

std::string shown_path(const SearchPlace& place, const std::string& path) {
  if (place.kind == SearchPlace::Kind::repository) return path;
  std::error_code error;
  auto here = fs::current_path(error);
  if (error) return path;
  return (fs::path(place.root) / path).lexically_relative(here).string();
}

}  // namespace warren::cli
