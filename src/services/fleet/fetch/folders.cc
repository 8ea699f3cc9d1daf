#include "services/fleet/fetch/folders.h"

#include <glob.h>

#include <algorithm>
#include <memory>

namespace warren::fleet {

namespace fs = std::filesystem;

namespace {

constexpr int deepest_found = 6;
constexpr std::size_t most_repositories = 10'000;

bool is_repository(const fs::path& folder) {
  std::error_code ignored;
  return fs::exists(folder / ".git", ignored) || (fs::is_regular_file(folder / "HEAD", ignored) &&
                                                  fs::is_directory(folder / "objects", ignored) &&
                                                  fs::is_directory(folder / "refs", ignored));
}

void find(const fs::path& folder, int depth, std::vector<fs::path>& found) {
  if (found.size() >= most_repositories) return;
  if (is_repository(folder)) return found.push_back(folder);
  if (depth == 0) return;
  std::error_code error;
  for (auto entry = fs::directory_iterator(folder, error);
       !error && entry != fs::directory_iterator(); entry.increment(error)) {
    std::error_code ignored;
    if (entry->is_directory(ignored) && !entry->is_symlink(ignored))
      find(entry->path(), depth - 1, found);
  }
}

std::string name_below(const fs::path& path, const fs::path& folder) {
  auto name =
      path == folder ? folder.filename().string() : path.lexically_relative(folder).string();
  if (name.size() > 4 && name.ends_with(".git") && !name.ends_with("/.git"))
    name.resize(name.size() - 4);
  return name;
}

}  // namespace

std::vector<FoundRepository> repositories_below(const fs::path& folder) {
  std::vector<fs::path> paths;
  find(folder, deepest_found, paths);
  std::vector<FoundRepository> found;
  for (auto& path : paths) {
    auto name = name_below(path, folder);
    found.push_back({std::move(path), std::move(name)});
  }
  std::ranges::sort(found, {}, &FoundRepository::name);
  return found;
}

std::vector<fs::path> repositories_matching(const std::string& pattern) {
  glob_t matched{};
  std::unique_ptr<glob_t, decltype(&globfree)> keeper(&matched, globfree);
  std::vector<fs::path> found;
  if (glob(pattern.c_str(), 0, nullptr, &matched) != 0) return found;
  for (std::size_t i = 0; i < matched.gl_pathc; ++i)
    if (is_repository(matched.gl_pathv[i])) found.emplace_back(matched.gl_pathv[i]);
  return found;
}

}  // namespace warren::fleet
