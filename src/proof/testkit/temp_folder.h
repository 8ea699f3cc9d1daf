#pragma once
#include <filesystem>

namespace warren::inline testkit {

// A new folder under $TMPDIR. It goes with this object, unless the test failed or WARREN_KEEP=1:
// then its path is printed and it stays for whoever wants to know why.
class TempFolder {
 public:
  TempFolder();
  ~TempFolder();
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
  int exceptions_;  // in flight when we were made: more of them later mean that the test failed
};

}  // namespace warren::inline testkit
