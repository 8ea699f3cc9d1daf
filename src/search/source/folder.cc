#include "search/source/folder.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <optional>
#include <thread>

#include "search/parallel.h"
#include "search/source/lister.h"

namespace warren::search {

namespace {

int thread_count() {
  return std::clamp(static_cast<int>(std::thread::hardware_concurrency()), 1, 8);
}

// Walks folders with several threads: each takes one that no other has started.
class Walk {
 public:
  Walk(const std::string& path, const FileLister& lister, std::size_t most_files)
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
  const FileLister& lister_;
  std::size_t most_files_;
  std::atomic<std::size_t> files_ = 0;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::string> waiting_{""};
  std::size_t busy_ = 0;
};

}  // namespace

Result<Listing> list_folder(const std::string& path, const SourceLimits& limits) {
  if (!Root(path).is_open()) return fail(Errc::not_found, "{}: {}", path, std::strerror(errno));
  FileLister lister(limits);
  std::vector<Found> found(static_cast<std::size_t>(thread_count()));
  Walk walk(path, lister, limits.files);
  auto done = in_parallel(thread_count(), [&](int thread) -> Result<> {
    walk.run(found[static_cast<std::size_t>(thread)]);
    return ok;
  });
  if (!done) return std::unexpected(done.error());
  return lister.listing(path, found);
}

Result<> read_folder(const std::string& path, std::span<const TreeEntry> entries,
                     const SourceLimits& limits, std::vector<Skipped>& skipped, const Take& take) {
  Root root(path);
  if (!root.is_open()) return fail(Errc::not_found, "{}: {}", path, std::strerror(errno));
  std::mutex mutex;  // documents are taken one at a time
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
      struct stat facts{};
      auto reason = file < 0 ? std::optional(errno == ELOOP ? "a symbolic link" : reason_of(errno))
                             : read_text(file, limits.file_bytes, document.text, facts);
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
