#pragma once
// Where a secret can be seen by others: in processes, and in files.
#include <random>

#include "tests/with_git_server.h"

namespace warren::fleet {

inline bool is_number(std::string_view name) {
  return !name.empty() && name.find_first_not_of("0123456789") == name.npos;
}

// Processes whose argv or environment has this text, as "what: cmdline".
inline std::set<std::string> processes_with(const std::string& text) {
  std::set<std::string> found;
  std::error_code error;
  for (fs::directory_iterator all("/proc", error), end; !error && all != end;
       all.increment(error)) {
    if (!is_number(all->path().filename().string())) continue;
    for (const char* what : {"cmdline", "environ"})
      if (contents(all->path() / what).contains(text))
        found.insert(std::string(what) + ": " + contents(all->path() / "cmdline"));
  }
  return found;
}

inline std::vector<std::string> files_with(const fs::path& folder, const std::string& text) {
  std::vector<std::string> found;
  for (const auto& entry : fs::recursive_directory_iterator(folder))
    if (entry.is_regular_file() && contents(entry.path()).contains(text))
      found.push_back(entry.path());
  return found;
}

// Running programs whose argv has this text.
inline std::size_t programs_with(const std::string& text) {
  std::size_t count = 0;
  for (const auto& process : processes_with(text)) count += process.starts_with("cmdline") ? 1 : 0;
  return count;
}

inline std::string new_token() {
  std::random_device random;
  return fmt::format("tok{:08x}{:08x}{:08x}", random(), random(), random());
}

}  // namespace warren::fleet
