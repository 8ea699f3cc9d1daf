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

// git's own list names nothing else; whoever could make it do so would lead us out of the folder.
bool leads_out(std::string_view name) {
  return name.starts_with('/') || ('/' + std::string(name) + '/').contains("/../");
}

// git opens these files, and waits if one is a pipe. The same files of folders below are not checked:
// git is idle when one of those is a pipe, and each_record() ends it.
Result<> rules_are_files(const std::string& path) {
  for (const char* name : {"/.gitignore", "/.git/info/exclude"}) {
    struct stat facts{};
    if (stat((path + name).c_str(), &facts) == 0 && S_ISFIFO(facts.st_mode))
      return fail(Errc::refused, "{}{} is a pipe", path, name);
  }
  return ok;
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

void look_at(const Root& root, const std::string& name, const FileLister& lister, Found& into) {
  struct stat facts{};
  int got = fstatat(root.file(), name.c_str(), &facts, AT_SYMLINK_NOFOLLOW);
  // A folder that took the place of a file: what is in it is listed for itself.
  if (got == 0 && S_ISDIR(facts.st_mode) &&
      faccessat(root.file(), (name + "/.git").c_str(), F_OK, AT_SYMLINK_NOFOLLOW) != 0)
    return;
  if (got == 0)
    lister.add(name, facts, into);
  else if (errno != ENOENT && errno != ENOTDIR)  // those were removed
    lister.skip(name, errno, into);
}

Result<Listing> list_once(const std::string& path, const SourceLimits& limits, bool& is_calm) {
  Root root(path);
  if (!root.is_open()) return fail(Errc::not_found, "{}: {}", path, std::strerror(errno));
  if (auto fine = rules_are_files(path); !fine) return std::unexpected(fine.error());
  auto before = index_state(path);
  // Tracked files are known at once, new ones only after a look into every folder.
  std::vector<Found> found(2);
  FileLister lister(limits);
  ListingBudget budget(limits);
  auto done = in_parallel(2, [&](int thread) -> Result<> {
    std::vector<std::string> words{"ls-files", "-z"};
    if (thread == 0)
      words.emplace_back("--cached");
    else
      words.insert(words.end(), {"--others", "--exclude-standard"});
    auto terms = git_in(path, std::move(words), git::Obeys::person);
    auto& into = found[static_cast<std::size_t>(thread)];
    std::string last;
    return each_record(std::move(terms), limits, [&](std::string_view name) -> Result<> {
      if (name.ends_with('/')) name.remove_suffix(1);  // another repository
      // What is not merged is there several times, one after the other.
      if (name.empty() || name == last || leads_out(name)) return ok;
      last = name;
      if (auto fits = budget.add_file(name.size()); !fits) return fits;
      look_at(root, last, lister, into);
      return ok;
    });
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
