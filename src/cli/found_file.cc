#include "cli/found_file.h"

#include <fcntl.h>
#include <fmt/ranges.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "base/causes.h"
#include "base/hmac.h"
#include "cli/instance/instances.h"

namespace warren::cli {

namespace {

namespace fs = std::filesystem;

constexpr const char* file_name = "warren.toml";
constexpr std::size_t most_file_bytes = 1u << 20;

Error unusable(const std::string& path, const std::string& why) {
  return {Errc::denied, warren::causes::bad_setting, path,
          fmt::format("{} {}: name it with --config if it is to be used all the same", path, why)};
}

struct OpenFile {
  int number;
  explicit OpenFile(int n) : number(n) {}
  ~OpenFile() {
    if (number >= 0) ::close(number);
  }
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;
};

Result<std::string> read_own(const std::string& path) {
  OpenFile file(::open(file_name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  if (file.number < 0 && errno == ELOOP)
    return std::unexpected(unusable(path, "is a symbolic link"));
  if (file.number < 0) return std::unexpected(file_error(path, errno));
  struct stat facts{};
  if (::fstat(file.number, &facts) != 0) return std::unexpected(file_error(path, errno));
  if (!S_ISREG(facts.st_mode)) return std::unexpected(unusable(path, "is not a regular file"));
  if (facts.st_uid != ::geteuid())
    return std::unexpected(unusable(path, "belongs to another user"));
  std::string text(most_file_bytes + 1, '\0');
  std::size_t size = 0;
  ssize_t got = 1;
  while (got > 0 && size < text.size()) {
    got = ::read(file.number, text.data() + size, text.size() - size);
    if (got > 0) size += static_cast<std::size_t>(got);
  }
  if (got < 0) return std::unexpected(file_error(path, errno));
  if (size > most_file_bytes) return std::unexpected(unusable(path, "is larger than 1 MB"));
  text.resize(size);
  return text;
}

// The file whose existence says that this content is allowed.
Result<fs::path> mark_of(const Context& context, const FoundFile& file) {
  auto folder = state_folder(context);
  if (!folder) return folder;
  return *folder / "allowed" / sha256(file.path + '\0' + file.text);
}

}  // namespace

Result<FoundFile> read_found_file(const Context& context) {
  std::error_code error;
  auto here = fs::canonical(".", error);
  if (error) return std::unexpected(file_error(".", error.value()));
  FoundFile file{.path = here / file_name, .text = {}};
  auto text = read_own(file.path);
  if (!text) return std::unexpected(text.error());
  file.text = std::move(*text);
  // If there is no state folder, nothing is allowed.
  if (auto mark = mark_of(context, file))
    file.is_allowed = fs::is_regular_file(fs::symlink_status(*mark, error));
  return file;
}

Result<> allow(const Context& context, const FoundFile& file) {
  auto mark = mark_of(context, file);
  if (!mark) return std::unexpected(mark.error());
  std::error_code error;
  fs::create_directories(mark->parent_path(), error);
  if (!error) fs::permissions(mark->parent_path(), fs::perms::owner_all, error);
  if (error) return std::unexpected(file_error(mark->parent_path(), error.value()));
  std::ofstream(*mark) << file.path << '\n';
  if (!fs::is_regular_file(*mark, error)) return std::unexpected(file_error(*mark, EIO));
  return ok;
}

Result<> deny(const Context& context, const FoundFile& file) {
  auto mark = mark_of(context, file);
  if (!mark) return std::unexpected(mark.error());
  std::error_code error;
  fs::remove(*mark, error);
  if (error) return std::unexpected(file_error(*mark, error.value()));
  return ok;
}

Result<> check_found_file(const FoundFile& file) {
  if (file.is_allowed) return ok;
  auto settings = settings_in_file(all_settings(), file_name, file.text);
  if (!settings) return std::unexpected(settings.error());
  std::vector<std::string> others;
  for (const auto& setting : *settings)
    if (!setting.name.starts_with("log.")) others.push_back(setting.name);
  if (others.empty()) return ok;
  return fail(Errc::invalid, warren::causes::bad_setting, file.path,
              "{} sets {}, and its content is not allowed: read it, then run `warren config allow` "
              "there, or name it with --config",
              file.path, fmt::join(others, ", "));
}

}  // namespace warren::cli
