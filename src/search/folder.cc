#include "search/folder.h"

#include <dirent.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <condition_variable>
#include <cstring>
#include <fstream>
#include <mutex>
#include <optional>
#include <thread>
#include <unordered_set>

#include "search/git.h"
#include "search/parallel.h"
#include "search/skip.h"

namespace warren::search {

namespace {

constexpr std::size_t most_list_bytes = std::size_t{4} << 30;
constexpr std::chrono::seconds settled_after{2};

int thread_count() {
  return std::clamp(static_cast<int>(std::thread::hardware_concurrency()), 1, 8);
}

constexpr std::string_view cannot_be_read = "cannot be read: ";
std::string reason_of(int error) {
  return fmt::format("{}{}", cannot_be_read, std::strerror(error));
}

// We have too little of something just now: what would be left out for that is not left out for
// what it is, and the next one would be too.
bool is_ours(int error) { return error == EMFILE || error == ENFILE || error == ENOMEM; }

// A folder that is open, to reach what is in it.
class Root {
 public:
  explicit Root(const std::string& path)
      : file_(open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)) {}
  ~Root() {
    if (file_ >= 0) close(file_);
  }
  Root(const Root&) = delete;
  Root& operator=(const Root&) = delete;

  bool is_open() const { return file_ >= 0; }
  int file() const { return file_; }
  // To be read, and by no link, not even of a folder on the way: git does not follow those either.
  int open_file(const std::string& path) const {
    open_how how{};
    // Not blocking: a pipe that somebody put there must not hold us.
    how.flags = O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC;
    how.resolve = RESOLVE_NO_SYMLINKS | RESOLVE_BENEATH;
    auto got = static_cast<int>(syscall(SYS_openat2, file_, path.c_str(), &how, sizeof how));
    if (got >= 0 || (errno != ENOSYS && errno != EPERM)) return got;
    return open_by_steps(path, static_cast<int>(how.flags));
  }

 private:
  // Where the system cannot do it at once.
  int open_by_steps(std::string_view path, int flags) const {
    int folder = file_;
    for (;;) {
      auto slash = path.find('/');
      std::string name(path.substr(0, slash));
      bool is_last = slash == std::string_view::npos;
      int next = openat(folder, name.c_str(),
                        is_last ? flags : O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
      int error = errno;
      if (folder != file_) close(folder);
      // A link is no folder, to the system; to us it is a link.
      errno = !is_last && error == ENOTDIR ? ELOOP : error;
      if (next < 0 || is_last) return next;
      folder = next;
      path.remove_prefix(slash + 1);
    }
  }

  int file_;
};

// What one thread has found.
struct Found {
  std::vector<TreeEntry> entries = {};
  std::vector<Skipped> skipped = {};
  std::string failure = {};
  std::uint64_t a = 0, b = 0;  // of the version: sums, for threads find things in any order
};

class Lister {
 public:
  explicit Lister(const SourceLimits& limits) : limits_(limits) {
    timespec now{};
    clock_gettime(CLOCK_REALTIME, &now);
    now_ = now;
  }

  void add(std::string path, const struct stat& facts, Found& into) const {
    Fingerprint id;
    auto number = [](auto value) { return static_cast<std::uint64_t>(value); };
    id.add(path);
    id.add({number(facts.st_size), number(facts.st_ino), number(facts.st_mode),
            number(facts.st_mtim.tv_sec), number(facts.st_mtim.tv_nsec),
            number(facts.st_ctim.tv_sec), number(facts.st_ctim.tv_nsec)});
    if (facts.st_ctim.tv_sec + settled_after.count() >= now_.tv_sec)
      id.add({number(now_.tv_sec), number(now_.tv_nsec)});
    count(id, into);
    auto size = number(facts.st_size);
    if (S_ISLNK(facts.st_mode))
      into.skipped.push_back({std::move(path), "a symbolic link"});
    else if (S_ISDIR(facts.st_mode))
      into.skipped.push_back({std::move(path), "another repository"});
    else if (!S_ISREG(facts.st_mode))
      into.skipped.push_back({std::move(path), "not a regular file"});
    else if (size > limits_.file_bytes)
      into.skipped.push_back({std::move(path), too_large(size, limits_.file_bytes)});
    else
      into.entries.push_back({std::move(path), id.text(), size, {}});
  }
  void skip(std::string path, int error, Found& into) const {
    Fingerprint id;
    id.add(path);
    count(id, into);
    if (is_ours(error)) into.failure = fmt::format("{} {}", path, reason_of(error));
    into.skipped.push_back({std::move(path), reason_of(error)});
  }

  // Of all that was found.
  Result<Listing> listing(const std::string& path, std::vector<Found>& found) const {
    Listing all;
    std::uint64_t a = 0, b = 0;
    for (auto& part : found) {
      if (!part.failure.empty()) return fail(Errc::unavailable, "{}", part.failure);
      a += part.a;
      b += part.b;
      std::ranges::move(part.entries, std::back_inserter(all.entries));
      std::ranges::move(part.skipped, std::back_inserter(all.source.skipped));
    }
    if (all.entries.size() + all.source.skipped.size() > limits_.files)
      return fail(Errc::overloaded, "{} has more than {} files", path, limits_.files);
    std::ranges::sort(all.source.skipped, {}, &Skipped::path);
    all.source.version = fmt::format("{:016x}{:016x}", a, b);
    auto end = path.find_last_not_of('/');
    auto name = path.substr(0, end == std::string::npos ? path.size() : end + 1);
    all.source.name = name.substr(name.rfind('/') + 1);
    return all;
  }

 private:
  static void count(const Fingerprint& id, Found& into) {
    into.a += id.value()[0];
    into.b += id.value()[1];
  }

  const SourceLimits& limits_;
  timespec now_{};
};

// Goes through folders with several threads: each takes one that nobody has begun.
class Walk {
 public:
  Walk(const std::string& path, const Lister& lister, std::size_t most_files)
      : path_(path), lister_(lister), most_files_(most_files) {}

  void run(Found& into) {
    std::unique_lock lock(mutex_);
    for (;;) {
      changed_.wait(lock, [&] { return !waiting_.empty() || busy_ == 0; });
      if (waiting_.empty()) return;
      auto folder = std::move(waiting_.back());
      waiting_.pop_back();
      ++busy_;
      lock.unlock();
      std::vector<std::string> inner;
      look(folder, into, inner);
      lock.lock();
      std::ranges::move(inner, std::back_inserter(waiting_));
      --busy_;
      changed_.notify_all();
    }
  }

 private:
  void look(const std::string& folder, Found& into, std::vector<std::string>& inner) {
    auto whole = folder.empty() ? path_ : path_ + '/' + folder;
    int flags = O_RDONLY | O_DIRECTORY | O_CLOEXEC | (folder.empty() ? 0 : O_NOFOLLOW);
    int file = open(whole.c_str(), flags);
    DIR* open_folder = file < 0 ? nullptr : fdopendir(file);
    if (open_folder == nullptr) {
      int error = errno;
      if (file >= 0) close(file);
      return lister_.skip(folder, error, into);
    }
    for (;;) {
      errno = 0;
      const dirent* entry = readdir(open_folder);
      if (entry == nullptr) break;
      std::string_view name = entry->d_name;
      if (name == "." || name == ".." || name == ".git") continue;
      auto place = folder.empty() ? std::string(name) : folder + '/' + std::string(name);
      struct stat facts{};
      bool is_folder = entry->d_type == DT_DIR;
      if (!is_folder && fstatat(file, entry->d_name, &facts, AT_SYMLINK_NOFOLLOW) != 0) {
        if (errno != ENOENT) lister_.skip(std::move(place), errno, into);
        continue;
      }
      if (is_folder || S_ISDIR(facts.st_mode))
        inner.push_back(std::move(place));
      else if (++files_ <= most_files_ + 1)
        lister_.add(std::move(place), facts, into);
    }
    if (errno != 0) lister_.skip(folder, errno, into);
    closedir(open_folder);
  }

  const std::string& path_;
  const Lister& lister_;
  std::size_t most_files_;
  std::atomic<std::size_t> files_ = 0;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::string> waiting_{""};
  std::size_t busy_ = 0;
};

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

// The file's text, or why it is left out.
std::optional<std::string> read_text(int file, std::size_t most, std::string& text) {
  struct stat facts{};
  if (fstat(file, &facts) != 0) return reason_of(errno);
  if (!S_ISREG(facts.st_mode)) return "not a regular file";
  auto size = static_cast<std::size_t>(facts.st_size);
  if (size > most) return too_large(size, most);
  int error = 0;
  text.resize_and_overwrite(size, [&](char* into, std::size_t) {
    std::size_t got = 0;
    while (got < size) {
      auto count = ::read(file, into + got, size - got);
      if (count < 0 && errno == EINTR) continue;
      if (count < 0) error = errno;
      if (count <= 0) break;
      got += static_cast<std::size_t>(count);
    }
    return got;
  });
  if (error != 0) return reason_of(error);
  if (is_binary(text)) return "binary";
  return std::nullopt;
}

}  // namespace

bool may_pass(const Skipped& skipped) {
  if (!skipped.reason.starts_with(cannot_be_read)) return false;
  return std::ranges::none_of(std::array{EACCES, EPERM, ENXIO},
                              [&](int error) { return skipped.reason == reason_of(error); });
}

Result<Listing> list_folder(const std::string& path, const SourceLimits& limits) {
  if (!Root(path).is_open()) return fail(Errc::not_found, "{}: {}", path, std::strerror(errno));
  Lister lister(limits);
  std::vector<Found> found(static_cast<std::size_t>(thread_count()));
  Walk walk(path, lister, limits.files);
  auto done = in_parallel(thread_count(), [&](int thread) -> Result<> {
    walk.run(found[static_cast<std::size_t>(thread)]);
    return ok;
  });
  if (!done) return std::unexpected(done.error());
  return lister.listing(path, found);
}

namespace {

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
  Lister lister(limits);
  auto done = in_parallel(2, [&](int thread) -> Result<> {
    auto terms = thread == 0
                     ? git_of_user(path, {"ls-files", "-z", "--cached"})
                     : git_of_user(path, {"ls-files", "-z", "--others", "--exclude-standard"});
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

Result<> read_folder(const std::string& path, std::span<const TreeEntry> entries,
                     const SourceLimits& limits, std::vector<Skipped>& skipped, const Take& take) {
  Root root(path);
  if (!root.is_open()) return fail(Errc::not_found, "{}: {}", path, std::strerror(errno));
  std::mutex mutex;  // one document is taken at a time
  std::atomic<std::size_t> next = 0;
  std::atomic<bool> has_failed = false;
  auto work = [&](int) -> Result<> {
    for (std::size_t i = next++; i < entries.size() && !has_failed; i = next++) {
      const auto& entry = entries[i];
      int file = root.open_file(entry.path);
      if (file < 0 && errno == ENOENT) continue;
      if (file < 0 && is_ours(errno)) {
        int error = errno;
        has_failed = true;
        return fail(Errc::unavailable, "{} {}", entry.path, reason_of(error));
      }
      Document document{entry.path, {}, entry.blob, entry.branches};
      auto reason = file < 0 ? std::optional(errno == ELOOP ? "a symbolic link" : reason_of(errno))
                             : read_text(file, limits.file_bytes, document.text);
      if (file >= 0) close(file);
      std::lock_guard lock(mutex);
      if (reason) {
        skipped.push_back({entry.path, *reason, *reason == "binary" ? entry.blob : ""});
        continue;
      }
      auto taken = take(std::move(document));
      if (taken) continue;
      has_failed = true;
      return taken;
    }
    return ok;
  };
  return entries.size() < 64 ? work(0) : in_parallel(thread_count(), work);
}

}  // namespace warren::search
