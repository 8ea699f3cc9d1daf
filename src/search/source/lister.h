#pragma once
// What list_folder() and list_work_tree() share: a folder that is open, and what was found in it.
#include <sys/stat.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "search/source/folder.h"
#include "search/source/skip.h"

namespace warren::search {

// We have too little of something just now: what would be left out for that is not left out for
// what it is, and the next one would be too.
bool is_ours(int error);

// A folder that is open, to reach what is in it.
class Root {
 public:
  explicit Root(const std::string& path);
  ~Root();
  Root(const Root&) = delete;
  Root& operator=(const Root&) = delete;

  bool is_open() const { return file_ >= 0; }
  int file() const { return file_; }
  // To be read, and by no link, not even of a folder on the way: git does not follow those either.
  int open_file(const std::string& path) const;

 private:
  int open_by_steps(std::string_view path, int flags) const;

  int file_;
};

// What one thread has found.
struct Found {
  std::vector<TreeEntry> entries = {};
  std::vector<Skipped> skipped = {};
  std::string failure = {};
  std::uint64_t a = 0, b = 0;  // of the version: sums, for threads find things in any order
};

class FileLister {
 public:
  explicit FileLister(const SourceLimits& limits);
  void add(std::string path, const struct stat& facts, Found& into) const;
  void skip(std::string path, int error, Found& into) const;
  // Of all that was found.
  Result<Listing> listing(const std::string& path, std::vector<Found>& found) const;

 private:
  static void count(const Fingerprint& id, Found& into);

  const SourceLimits& limits_;
  timespec now_{};
};

}  // namespace warren::search
