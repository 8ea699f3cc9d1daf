// The work tree of a repository: git says which files there are, the disk what is in them.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <unordered_set>

#include "search/parallel.h"
#include "search/source/git.h"
#include "search/source/lister.h"

namespace warren::search {

namespace {

constexpr std::size_t most_list_bytes = std::size_t{4} << 30;

// git's own list names nothing else; whoever could make it do so would lead us out of the folder.
bool leads_out(std::string_view name) {
  return name.starts_with('/') || ('/' + std::string(name) + '/').contains("/../");
}

std::vector<std::string> names_in(std::string_view list) {
  std::vector<std::string> names;
  while (!list.empty()) {
    auto name = list.substr(0, list.find('\0'));
    list.remove_prefix(std::min(list.size(), name.size() + 1));
    if (name.ends_with('/')) name.remove_suffix(1);  // another repository
    // What is not merged is there several times, one after the other.
    if (!name.empty() && !leads_out(name) && (names.empty() || names.back() != name))
      names.emplace_back(name);
  }
  return names;
}

// The list of tracked files as the system knows it: any command that changes it replaces it.
std::string index_state(const std::string& path) {
  auto folder = path + "/.git";
  struct stat facts{};
  if (stat(folder.c_str(), &facts) == 0 && S_ISREG(facts.st_mode)) {
    std::ifstream link(folder);  // of a work tree beside the first: "gitdir: FOLDER"
    std::string line;
    if (std::getline(link, line) && line.starts_with("gitdir: "))
      folder = line[8] == '/' ? line.substr(8) : path + '/' + line.substr(8);
  }
  if (stat((folder + "/index").c_str(), &facts) != 0) return "none";
  return fmt::format("{} {} {}.{}", facts.st_ino, facts.st_size, facts.st_ctim.tv_sec,
                     facts.st_ctim.tv_nsec);
}

Result<Listing> list_once(const std::string& path, const SourceLimits& limits, bool& is_calm) {
  Root root(path);
  if (!root.is_open()) return fail(Errc::not_found, "{}: {}", path, std::strerror(errno));
  auto before = index_state(path);
  // Tracked files are known at once, new ones only after a look into every folder.
  std::vector<Found> found(2);
  FileLister lister(limits);
  auto done = in_parallel(2, [&](int thread) -> Result<> {
    std::vector<std::string> words{"ls-files", "-z"};
    if (thread == 0)
      words.emplace_back("--cached");
    else
      words.insert(words.end(), {"--others", "--exclude-standard"});
    auto terms = git_in(path, std::move(words), git::Obeys::person);
    auto list = run_child(terms, "", most_list_bytes);
    if (!list) return std::unexpected(list.error());
    auto& into = found[static_cast<std::size_t>(thread)];
    for (auto& name : names_in(*list)) {
      struct stat facts{};
      int got = fstatat(root.file(), name.c_str(), &facts, AT_SYMLINK_NOFOLLOW);
      // A folder that took the place of a file: what is in it is listed for itself.
      if (got == 0 && S_ISDIR(facts.st_mode) &&
          faccessat(root.file(), (name + "/.git").c_str(), F_OK, AT_SYMLINK_NOFOLLOW) != 0)
        continue;
      if (got == 0)
        lister.add(std::move(name), facts, into);
      else if (errno != ENOENT && errno != ENOTDIR)  // those were removed
        lister.skip(std::move(name), errno, into);
    }
    return ok;
  });
  if (!done) return std::unexpected(done.error());
  is_calm = index_state(path) == before;
  if (!is_calm) {  // a file may be on both lists
    std::unordered_set<std::string> tracked;
    for (const auto& entry : found[0].entries) tracked.insert(entry.path);
    std::erase_if(found[1].entries,
                  [&](const auto& entry) { return tracked.contains(entry.path); });
  }
  return lister.listing(path, found);
}

}  // namespace

// The two lists are of two moments: when a file was added between them it may be on neither.
Result<Listing> list_work_tree(const std::string& path, const SourceLimits& limits) {
  constexpr int most_attempts = 3;
  for (int attempt = 1;; ++attempt) {
    bool is_calm = false;
    auto listing = list_once(path, limits, is_calm);
    if (!listing || is_calm || attempt == most_attempts) return listing;
  }
}

}  // namespace warren::search
