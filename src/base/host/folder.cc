#include "base/host/folder.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/uuid.h"

namespace warren {

namespace {

constexpr int folder_flags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;

bool is_name(const std::string& name) {
  return !name.empty() && name != "." && name != ".." &&
         name.find_first_of(std::string_view("/\0", 2)) == name.npos;
}

bool write_all(int file, std::string_view text) {
  while (!text.empty()) {
    auto wrote = ::write(file, text.data(), text.size());
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote <= 0) return false;
    text.remove_prefix(static_cast<std::size_t>(wrote));
  }
  return true;
}

}  // namespace

Result<Folder> Folder::open(const std::filesystem::path& path) {
  int descriptor = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor >= 0) return Folder(path, descriptor);
  return fail(errno == ENOENT ? Errc::not_found : Errc::denied, "{}: {}", path.string(),
              std::strerror(errno));
}

Folder& Folder::operator=(Folder&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(descriptor_, other.descriptor_);
  return *this;
}

Folder::~Folder() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

Result<Folder> Folder::folder(const std::string& name) const {
  if (!is_name(name)) return failure(name, EINVAL);
  int descriptor = openat(descriptor_, name.c_str(), folder_flags);
  if (descriptor >= 0) return Folder(path_ / name, descriptor);
  int error = errno;
  struct stat facts{};
  bool is_there = fstatat(descriptor_, name.c_str(), &facts, AT_SYMLINK_NOFOLLOW) == 0;
  if (is_there && S_ISLNK(facts.st_mode))
    return fail(Errc::refused,
                "{} is a symbolic link: links are not followed here. Delete it, or put a folder in "
                "its place",
                (path_ / name).string());
  if (is_there && !S_ISDIR(facts.st_mode))
    return fail(Errc::refused, "{} is not a folder. Delete it, or put a folder in its place",
                (path_ / name).string());
  return failure(name, error);
}

Result<Folder> Folder::make_folder(const std::string& name) const {
  if (!is_name(name)) return failure(name, EINVAL);
  if (mkdirat(descriptor_, name.c_str(), 0777) != 0 && errno != EEXIST) return failure(name, errno);
  return folder(name);
}

Result<std::string> Folder::read(const std::string& name, std::size_t most) const {
  if (!is_name(name)) return failure(name, EINVAL);
  // O_NONBLOCK: a pipe that another process put there must not block us.
  int file = openat(descriptor_, name.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
  if (file < 0) return failure(name, errno);
  struct stat facts{};
  std::string text(most + 1, '\0');
  std::size_t size = 0;
  ssize_t got = 0;
  bool is_file = fstat(file, &facts) == 0 && S_ISREG(facts.st_mode);
  while (is_file && size < text.size() &&
         ((got = ::read(file, text.data() + size, text.size() - size)) > 0 ||
          (got < 0 && errno == EINTR)))
    size += static_cast<std::size_t>(std::max<ssize_t>(got, 0));
  int error = errno;
  ::close(file);
  if (!is_file) return fail(Errc::refused, "{} is not a file", (path_ / name).string());
  if (got < 0) return failure(name, error);
  if (size > most)
    return fail(Errc::overloaded, "{} is longer than {} bytes", (path_ / name).string(), most);
  text.resize(size);
  return text;
}

Result<bool> Folder::create(const std::string& name, std::string_view text, unsigned mode) const {
  if (!is_name(name)) return failure(name, EINVAL);
  int error = write_new(name, text, mode);
  if (error == EEXIST) return false;
  if (error != 0) return failure(name, error);
  return true;
}

// Returns errno, or 0 on success. After a failure nothing has the name, unless it existed before
// (EEXIST).
int Folder::write_new(const std::string& name, std::string_view text, unsigned mode) const {
  int file = openat(descriptor_, name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
                    static_cast<mode_t>(mode));
  if (file < 0) return errno;
  int error = write_all(file, text) ? 0 : errno;
  if (::close(file) != 0 && error == 0) error = errno;
  if (error != 0) unlinkat(descriptor_, name.c_str(), 0);
  return error;
}

Result<> Folder::replace(const std::string& name, std::string_view text, unsigned mode) const {
  auto prepared = prepare(name, text, mode);
  if (!prepared) return std::unexpected(prepared.error());
  return put_in_place(*prepared, name);
}

Result<std::string> Folder::prepare(const std::string& name, std::string_view text,
                                    unsigned mode) const {
  if (!is_name(name)) return failure(name, EINVAL);
  auto prepared = fmt::format(".{}.{}", name, uuid4());
  int error = write_new(prepared, text, mode);
  if (error != 0) return failure(name, error);
  return prepared;
}

Result<> Folder::put_in_place(const std::string& prepared, const std::string& name) const {
  if (renameat(descriptor_, prepared.c_str(), descriptor_, name.c_str()) == 0) return ok;
  int error = errno;
  discard(prepared);
  return failure(name, error);
}

void Folder::discard(const std::string& prepared) const {
  unlinkat(descriptor_, prepared.c_str(), 0);
}

bool Folder::has(const std::string& name) const {
  struct stat facts{};
  return fstatat(descriptor_, name.c_str(), &facts, AT_SYMLINK_NOFOLLOW) == 0;
}

std::vector<std::string> Folder::names() const {
  std::vector<std::string> found;
  // Opened again: a duplicated descriptor would share its read position.
  int own = openat(descriptor_, ".", folder_flags);
  auto* list = own < 0 ? nullptr : fdopendir(own);
  if (!list && own >= 0) ::close(own);
  while (const auto* entry = list ? readdir(list) : nullptr)
    if (is_name(entry->d_name)) found.emplace_back(entry->d_name);
  if (list) closedir(list);
  std::ranges::sort(found);
  return found;
}

std::filesystem::path Folder::for_child() const {
  return fmt::format("/proc/self/fd/{}", descriptor_);
}

std::unexpected<Error> Folder::failure(const std::string& name, int error) const {
  bool has_no_room = error == ENOSPC || error == EDQUOT || error == EFBIG;
  auto code = error == ENOENT                 ? Errc::not_found
              : error == ELOOP || has_no_room ? Errc::refused
                                              : Errc::denied;
  return fail(code, "{}: {}", (path_ / name).string(), std::strerror(error));
}

}  // namespace warren
