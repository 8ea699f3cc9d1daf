#pragma once
// The history of one process in a file, each event written before the next thing happens: what a
// process has told is there also after kill -9.
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

  // Tell one of them what happens, then write.
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

// What somebody wrote, up to where he was killed. Errc::invalid: it is no journal.
Result<history::LeaseHistory> load_lease_history(const std::filesystem::path& file);
Result<history::MirrorHistory> load_mirror_history(const std::filesystem::path& file);
Result<history::CatalogHistory> load_catalog_history(const std::filesystem::path& file);
Result<history::OnceHistory> load_once_history(const std::filesystem::path& file);

}  // namespace warren::torture
