#include "search/source/lister.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <ctime>

namespace warren::search {

namespace {

constexpr std::chrono::seconds settled_after{2};

}  // namespace

bool may_pass(const Skipped& skipped) {
  if (!skipped.reason.starts_with("cannot be read")) return false;
  return std::ranges::none_of(std::array{EACCES, EPERM, ENXIO},
                              [&](int error) { return skipped.reason == reason_of(error); });
}

bool is_ours(int error) { return error == EMFILE || error == ENFILE || error == ENOMEM; }

Root::Root(const std::string& path)
    : file_(open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)) {}

Root::~Root() {
  if (file_ >= 0) close(file_);
}

int Root::open_file(const std::string& path) const {
  open_how how{};
  // Not blocking: a pipe that somebody put there must not hold us.
  how.flags = O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC;
  how.resolve = RESOLVE_NO_SYMLINKS | RESOLVE_BENEATH;
  auto got = static_cast<int>(syscall(SYS_openat2, file_, path.c_str(), &how, sizeof how));
  if (got >= 0 || (errno != ENOSYS && errno != EPERM)) return got;
  return open_by_steps(path, static_cast<int>(how.flags));
}

// Where the system cannot do it at once.
int Root::open_by_steps(std::string_view path, int flags) const {
  int folder = file_;
  for (;;) {
    auto slash = path.find('/');
    std::string name(path.substr(0, slash));
    bool is_last = slash == std::string_view::npos;
    int next = openat(folder, name.c_str(),
                      is_last ? flags : O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    int error = errno;
    if (folder != file_) close(folder);
    // A link is no folder, to the system; to us it is a link.
    errno = !is_last && error == ENOTDIR ? ELOOP : error;
    if (next < 0 || is_last) return next;
    folder = next;
    path.remove_prefix(slash + 1);
  }
}

FileLister::FileLister(const SourceLimits& limits) : limits_(limits) {
  clock_gettime(CLOCK_REALTIME, &now_);
}

void FileLister::add(std::string path, const struct stat& facts, Found& into) const {
  Fingerprint id;
  auto number = [](auto value) { return static_cast<std::uint64_t>(value); };
  id.add(path);
  id.add({number(facts.st_size), number(facts.st_ino), number(facts.st_mode),
          number(facts.st_mtim.tv_sec), number(facts.st_mtim.tv_nsec), number(facts.st_ctim.tv_sec),
          number(facts.st_ctim.tv_nsec)});
  if (facts.st_ctim.tv_sec + settled_after.count() >= now_.tv_sec)
    id.add({number(now_.tv_sec), number(now_.tv_nsec)});
  count(id, into);
  auto size = number(facts.st_size);
  if (S_ISLNK(facts.st_mode))
    into.skipped.push_back({std::move(path), "a symbolic link"});
  else if (S_ISDIR(facts.st_mode))
    into.skipped.push_back({std::move(path), "another repository"});
  else if (!S_ISREG(facts.st_mode))
    into.skipped.push_back({std::move(path), "not a regular file"});
  else if (size > limits_.file_bytes)
    into.skipped.push_back({std::move(path), too_large(size, limits_.file_bytes)});
  else
    into.entries.push_back({std::move(path), id.text(), size, {}});
}

void FileLister::skip(std::string path, int error, Found& into) const {
  Fingerprint id;
  id.add(path);
  count(id, into);
  if (is_ours(error)) into.failure = fmt::format("{} {}", path, reason_of(error));
  into.skipped.push_back({std::move(path), reason_of(error)});
}

Result<Listing> FileLister::listing(const std::string& path, std::vector<Found>& found) const {
  Listing all;
  std::uint64_t a = 0, b = 0;
  for (auto& part : found) {
    if (!part.failure.empty()) return fail(Errc::unavailable, "{}", part.failure);
    a += part.a;
    b += part.b;
    std::ranges::move(part.entries, std::back_inserter(all.entries));
    std::ranges::move(part.skipped, std::back_inserter(all.source.skipped));
  }
  if (all.entries.size() + all.source.skipped.size() > limits_.files)
    return fail(Errc::overloaded, "{} has more than {} files", path, limits_.files);
  std::ranges::sort(all.source.skipped, {}, &Skipped::path);
  all.source.version = fmt::format("{:016x}{:016x}", a, b);
  auto end = path.find_last_not_of('/');
  auto name = path.substr(0, end == std::string::npos ? path.size() : end + 1);
  all.source.name = name.substr(name.rfind('/') + 1);
  return all;
}

void FileLister::count(const Fingerprint& id, Found& into) {
  into.a += id.value()[0];
  into.b += id.value()[1];
}

}  // namespace warren::search
