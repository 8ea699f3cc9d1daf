#include "search/source/document.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>

#include "search/source/skip.h"

namespace warren::search {

namespace {

struct Reader {
  std::string root;
  const SourceLimits& limits;
  const Take& take;
  Source source = {};
  std::size_t files = 0;
  Fingerprint fingerprint = {};

  void skip(const std::string& path, std::string reason) {
    source.skipped.push_back({path, std::move(reason)});
  }
  Result<> folder(const std::string& path);
  Result<> file(const std::string& path, int folder, const char* name);
};

struct Entry {
  std::string name;
  unsigned char type;
};

Result<> Reader::file(const std::string& path, int folder, const char* name) {
  // O_NONBLOCK: a pipe that another process put there must not block us.
  int file = openat(folder, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
  if (file < 0) return skip(path, errno == ELOOP ? "a symbolic link" : reason_of(errno)), ok;
  struct stat facts{};
  Document document;
  auto reason = read_text(file, limits.file_bytes, document.text, facts);
  close(file);
  fingerprint.add(path);
  fingerprint.add({static_cast<std::uint64_t>(facts.st_size),
                   static_cast<std::uint64_t>(facts.st_mtim.tv_sec),
                   static_cast<std::uint64_t>(facts.st_mtim.tv_nsec)});
  if (reason) return skip(path, std::move(*reason)), ok;
  document.path = path;
  return take(std::move(document));
}

Result<> Reader::folder(const std::string& path) {
  auto whole = path.empty() ? root : root + '/' + path;
  int flags = O_RDONLY | O_DIRECTORY | O_CLOEXEC | (path.empty() ? 0 : O_NOFOLLOW);
  int file_of_folder = open(whole.c_str(), flags);
  DIR* folder = file_of_folder < 0 ? nullptr : fdopendir(file_of_folder);
  if (folder == nullptr) {
    if (path.empty()) return fail(Errc::not_found, "{}: {}", root, std::strerror(errno));
    return skip(path, reason_of(errno)), ok;
  }
  std::vector<Entry> entries;
  while (const dirent* entry = readdir(folder)) {
    std::string_view name = entry->d_name;
    if (name != "." && name != ".." && name != ".git")
      entries.push_back({std::string(name), entry->d_type});
  }
  std::sort(entries.begin(), entries.end(),
            [](const auto& a, const auto& b) { return a.name < b.name; });
  Result<> result = ok;
  std::vector<std::string> folders;
  for (const auto& [name, type] : entries) {
    auto place = path.empty() ? name : path + '/' + name;
    struct stat facts{};
    bool is_folder = type == DT_DIR;
    if (type == DT_UNKNOWN &&
        fstatat(file_of_folder, name.c_str(), &facts, AT_SYMLINK_NOFOLLOW) == 0)
      is_folder = S_ISDIR(facts.st_mode);
    if (is_folder) {
      folders.push_back(std::move(place));
      continue;
    }
    if (++files > limits.files)
      result = fail(Errc::overloaded, "{} has more than {} files", root, limits.files);
    else
      result = file(place, file_of_folder, name.c_str());
    if (!result) break;
  }
  closedir(folder);
  for (const auto& place : folders)
    if (result) result = this->folder(place);
  return result;
}

}  // namespace

Result<Source> read_directory(const std::string& path, const SourceLimits& limits,
                              const Take& take) {
  Reader reader{path, limits, take};
  auto read = reader.folder("");
  if (!read) return std::unexpected(read.error());
  auto& source = reader.source;
  auto end = path.find_last_not_of('/');
  source.name = end == std::string::npos ? path : path.substr(0, end + 1);
  source.name = source.name.substr(source.name.rfind('/') + 1);
  source.version = reader.fingerprint.text();
  return std::move(source);
}

}  // namespace warren::search
