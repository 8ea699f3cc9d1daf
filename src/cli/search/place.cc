#include "cli/search/place.h"

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "search/source/git.h"

namespace warren::cli {

namespace {

namespace fs = std::filesystem;

bool is_bare(const fs::path& folder) {
  std::error_code ignored;
  if (!fs::is_directory(folder / "objects", ignored) || !fs::is_directory(folder / "refs", ignored))
    return false;
  // The same checks as git's: any folder may contain these names, and reading a pipe would block.
  if (!fs::is_regular_file(folder / "HEAD", ignored)) return false;
  std::string head(64, '\0');
  std::ifstream file(folder / "HEAD", std::ios::binary);
  file.read(head.data(), static_cast<std::streamsize>(head.size()));
  head.resize(static_cast<std::size_t>(file.gcount()));
  return head.starts_with("ref: refs/") ||
         (head.size() >= 40 &&
          head.substr(0, 40).find_first_not_of("0123456789abcdef") == std::string::npos);
}

// If someone names a folder that git ignores, search it anyway.
bool is_ignored(const fs::path& root, const std::string& below) {
  auto terms = search::git_in(root, {"check-ignore", "--", "./" + below}, git::Obeys::person);
  return run_child(terms, "", 1u << 20).has_value();
}

std::string current_folder() {
  std::error_code error;
  auto here = fs::current_path(error).string();
  if (error) return {};
  return here.ends_with('/') ? here : here + '/';
}

}  // namespace

Result<SearchPlace> find_place(const std::optional<std::string>& given,
                               std::vector<std::string> refs) {
  std::error_code error;
  auto folder = fs::canonical(given.value_or("."), error);
  if (error || !fs::is_directory(folder, error))
    return fail(Errc::not_found, "{} is no folder and no repository", given.value_or("."));
  using Kind = SearchPlace::Kind;
  auto here = current_folder();
  if (is_bare(folder)) {
    if (refs.empty()) refs.emplace_back("HEAD");
    return SearchPlace{Kind::repository, folder, "", std::move(refs), here};
  }
  auto repository = git::repository_around(folder);
  if (!repository && !refs.empty())
    return fail(Errc::not_found, "{} is in no repository, so that it has no {}", folder.string(),
                refs[0]);
  if (!repository) return SearchPlace{Kind::folder, folder, "", {}, here};
  const auto& tree = repository->tree;
  std::string below;
  if (given && tree != folder) below = folder.lexically_relative(tree).string() + "/";
  if (!refs.empty()) return SearchPlace{Kind::repository, tree, below, std::move(refs), here};
  if (!below.empty() && is_ignored(tree, below))
    return SearchPlace{Kind::folder, folder, "", {}, here};
  return SearchPlace{Kind::tree, tree, below, {}, here};
}

SearchPlace plain_place(const std::optional<std::string>& given) {
  std::error_code ignored;
  auto folder = fs::canonical(given.value_or("."), ignored);
  return {SearchPlace::Kind::folder, folder, "", {}, current_folder()};
}

std::string shown_path(const SearchPlace& place, const std::string& path) {
  // So that no program takes the name for a flag.
  auto as_name = [](std::string name) { return name.starts_with('-') ? "./" + name : name; };
  if (place.kind == SearchPlace::Kind::repository) return as_name(path);
  std::string_view here = place.here;
  auto whole = place.root + (place.root.ends_with('/') ? "" : "/") + path;
  auto same = static_cast<std::size_t>(std::ranges::mismatch(here, whole).in1 - here.begin());
  same = here.substr(0, same).rfind('/') + 1;  // whole path components only
  std::string shown;
  for (auto up = std::ranges::count(here.substr(same), '/'); up > 0; --up) shown += "../";
  shown += std::string_view(whole).substr(same);
  return shown.empty() ? "." : as_name(std::move(shown));
}

}  // namespace warren::cli
