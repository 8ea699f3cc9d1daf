#include "cli/instance/daemon_log.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>

namespace warren::cli {

namespace fs = std::filesystem;

namespace {

constexpr int most_kept = 4;

fs::path older(const fs::path& place, int number) {
  return number == 0 ? place : fs::path(fmt::format("{}.{}", place.string(), number));
}

// Shifts the older logs to make room for the newest.
void move_back(const fs::path& place, int from) {
  std::error_code ignored;
  for (int number = most_kept; number > from; --number)
    fs::rename(older(place, number - 1), older(place, number), ignored);
}

}  // namespace

fs::path daemon_log(const fs::path& folder, const std::string& prefix, const std::string& name) {
  return folder / fmt::format("{}-{}.log", prefix, name);
}

void place_daemon_log(const fs::path& written, const fs::path& place) {
  std::error_code ignored;
  if (fs::exists(place, ignored)) move_back(place, 0);
  fs::rename(written, place, ignored);
}

std::vector<fs::path> daemon_logs(const fs::path& place) {
  std::vector<fs::path> found;
  std::error_code ignored;
  for (int number = most_kept; number >= 0; --number)
    if (fs::exists(older(place, number), ignored)) found.push_back(older(place, number));
  return found;
}

void bound_daemon_log(int descriptor, std::size_t most) {
  struct stat status{};
  if (::fstat(descriptor, &status) != 0 || !S_ISREG(status.st_mode) ||
      static_cast<std::size_t>(status.st_size) <= most)
    return;
  std::error_code error;
  auto place = fs::read_symlink(fmt::format("/proc/self/fd/{}", descriptor), error);
  if (error || place.extension() != ".log") return;
  move_back(place, 1);
  // Standard output and error are this same file, opened for appending, so they keep working after
  // it is truncated.
  fs::copy_file(place, older(place, 1), fs::copy_options::overwrite_existing, error);
  if (!error) fs::resize_file(place, 0, error);
}

}  // namespace warren::cli
