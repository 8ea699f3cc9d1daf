#pragma once
// The history of one process in a file, each event written before the next thing happens: what a
// process has told is there also after kill -9.
#include <filesystem>

#include "base/error.h"
#include "history/history.h"

namespace warren::torture {

class Journal {
 public:
  explicit Journal(const std::filesystem::path& file);
  ~Journal();
  Journal(const Journal&) = delete;
  Journal& operator=(const Journal&) = delete;

  // Tell it what happens, then write.
  history::LeaseHistory& lease() { return lease_; }
  void write();

 private:
  int file_;
  history::LeaseHistory lease_;
  std::size_t written_ = 0;
};

// What somebody wrote, up to where he was killed. Errc::invalid: it is no journal.
Result<history::LeaseHistory> load_lease_history(const std::filesystem::path& file);

}  // namespace warren::torture
