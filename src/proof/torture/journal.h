#pragma once
// The history of one process in a file. Each event is written before the next thing happens, so
// what a process has recorded survives kill -9.
#include <filesystem>

#include "base/error.h"
#include "proof/history/catalog_history.h"
#include "proof/history/once_history.h"

namespace warren::torture {

class Journal {
 public:
  explicit Journal(const std::filesystem::path& file);
  ~Journal();
  Journal(const Journal&) = delete;
  Journal& operator=(const Journal&) = delete;

  // Record an event in one of them, then call write().
  history::LeaseHistory& lease() { return lease_; }
  history::MirrorHistory& mirror() { return mirror_; }
  history::CatalogHistory& catalog() { return catalog_; }
  history::OnceHistory& once() { return once_; }
  void write();

 private:
  int file_;
  history::LeaseHistory lease_;
  history::MirrorHistory mirror_;
  history::CatalogHistory catalog_;
  history::OnceHistory once_;
  std::size_t lease_written_ = 0, mirror_written_ = 0, catalog_written_ = 0, once_written_ = 0;
};

// What a process recorded before it ended or was killed. Errc::invalid: the file is not a journal.
Result<history::LeaseHistory> load_lease_history(const std::filesystem::path& file);
Result<history::MirrorHistory> load_mirror_history(const std::filesystem::path& file);
Result<history::CatalogHistory> load_catalog_history(const std::filesystem::path& file);
Result<history::OnceHistory> load_once_history(const std::filesystem::path& file);

}  // namespace warren::torture
