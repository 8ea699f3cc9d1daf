#include "proof/testkit/temp_folder.h"

#include <fmt/format.h>
#include <stdlib.h>

#include <cstring>
#include <exception>

#include "proof/testkit/failure.h"

namespace warren::inline testkit {

namespace fs = std::filesystem;

TempFolder::TempFolder() : exceptions_(std::uncaught_exceptions()) {
  std::string name = fs::temp_directory_path() / "warren-XXXXXX";
  if (!mkdtemp(name.data())) fail_test(fmt::format("mkdtemp {}: {}", name, strerror(errno)));
  path_ = name;
}

TempFolder::~TempFolder() {
  const char* keep = getenv("WARREN_KEEP");
  bool wanted = keep && *keep && std::string_view(keep) != "0";
  if (wanted || test_has_failed() || std::uncaught_exceptions() > exceptions_) {
    fmt::print(stderr, "kept {}\n", path_.string());
    return;
  }
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

}  // namespace warren::inline testkit
