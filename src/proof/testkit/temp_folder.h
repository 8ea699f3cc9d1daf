#pragma once
#include <filesystem>

namespace warren::inline testkit {

// A new folder under $TMPDIR. It is deleted with this object, unless the test failed or
// WARREN_KEEP=1 is set: then its path is printed and it stays, for people to look at.
class TempFolder {
 public:
  TempFolder();
  ~TempFolder();
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
  int exceptions_;  // in flight at construction: if there are more later, the test has failed
};

}  // namespace warren::inline testkit
