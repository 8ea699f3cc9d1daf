#include "services/fleet/node/snapshots.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/log.h"
#include "search/store/stream.h"
#include "services/fleet/fetch/url.h"

namespace warren::fleet {

namespace {

namespace fs = std::filesystem;
using search::in_pages;
using search::page_bytes;

constexpr std::string_view ending = ".snapshot";
constexpr std::string_view unfinished = ".unfinished";
constexpr std::uint32_t format = 1;  // another one for another layout
constexpr std::uint32_t most_facts = 1u << 20;

struct Front {
  std::array<char, 8> magic = {'w', 'r', 'r', 'n', 's', 'n', 'a', 'p'};
  std::uint32_t version = format;
  std::uint32_t facts_bytes = 0;
  std::uint64_t facts_checksum = 0;  // of their pages
};

std::string name_of(const std::string& repo) { return file_name(repo).append(ending); }

// A descriptor of ours, closed with it.
class OpenFile {
 public:
  explicit OpenFile(int number = -1) : number_(number) {}
  OpenFile(OpenFile&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  OpenFile& operator=(OpenFile&&) = delete;
  ~OpenFile() {
    if (number_ >= 0) ::close(number_);
  }
  int get() const { return number_; }

 private:
  int number_;
};

bool write_all(int file, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    auto wrote = ::write(file, bytes.data(), bytes.size());
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote <= 0) return false;
    bytes = bytes.subspan(static_cast<std::size_t>(wrote));
  }
  return true;
}

// All of them, or it ends before.
bool read_all(int file, std::span<std::byte> into) {
  while (!into.empty()) {
    auto got = ::read(file, into.data(), into.size());
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    into = into.subspan(static_cast<std::size_t>(got));
  }
  return true;
}

std::vector<std::byte> pages_of(const std::string& text) {
  std::vector<std::byte> pages(in_pages(text.size()));
  std::memcpy(pages.data(), text.data(), text.size());
  return pages;
}

// The front and the facts.
std::vector<std::byte> beginning_of(const HandOver& facts) {
  auto text = to_json(facts);
  auto pages = pages_of(text);
  Front front;
  front.facts_bytes = static_cast<std::uint32_t>(text.size());
  front.facts_checksum = search::checksum_of(pages);
  std::vector<std::byte> all(page_bytes);
  std::memcpy(all.data(), &front, sizeof front);
  all.insert(all.end(), pages.begin(), pages.end());
  return all;
}

// Reads up to the first segment. Errc::invalid says what is wrong.
Result<HandOver> read_beginning(int file, const std::string& repo) {
  struct stat what{};
  if (fstat(file, &what) != 0 || !S_ISREG(what.st_mode))
    return fail(Errc::invalid, "it is not a file");
  if (what.st_uid != geteuid() || (what.st_mode & 077) != 0)
    return fail(Errc::invalid, "it is not ours alone");
  std::vector<std::byte> page(page_bytes);
  Front front, expected;
  if (!read_all(file, page)) return fail(Errc::invalid, "it is truncated");
  std::memcpy(&front, page.data(), sizeof front);
  if (front.magic != expected.magic) return fail(Errc::invalid, "it is no snapshot");
  if (front.version != expected.version)
    return fail(Errc::invalid, "it has format {}, and this version reads {}", front.version,
                expected.version);
  if (front.facts_bytes > most_facts) return fail(Errc::invalid, "it is damaged in its front");
  std::vector<std::byte> pages(in_pages(front.facts_bytes));
  if (!read_all(file, pages)) return fail(Errc::invalid, "it is truncated");
  if (search::checksum_of(pages) != front.facts_checksum)
    return fail(Errc::invalid, "it is damaged in its facts");
  auto facts = parse_hand_over({reinterpret_cast<const char*>(pages.data()), front.facts_bytes});
  if (!facts) return fail(Errc::invalid, "its facts cannot be read");
  if (facts->key != row_key(repo, 0)) return fail(Errc::invalid, "it is of {}", facts->key);
  if (static_cast<std::uint64_t>(what.st_size) != page.size() + pages.size() + facts->bytes())
    return fail(Errc::invalid, "it is truncated, or too long");
  return facts;
}

Result<std::shared_ptr<const search::Segment>> read_one(int file, std::uint64_t bytes) {
  std::uint64_t left = bytes;
  auto source = [&](std::span<std::byte> into) -> Result<std::size_t> {
    auto some = into.first(std::min<std::uint64_t>(into.size(), left));
    if (!read_all(file, some)) return fail(Errc::invalid, "it is truncated");
    left -= some.size();
    return some.size();
  };
  auto segment = search::read_segment(source, bytes);
  if (segment && left > 0) return fail(Errc::invalid, "a segment is shorter than it should be");
  return segment;
}

}  // namespace

Result<Snapshots> Snapshots::open(SnapshotTerms terms) {
  auto shown = terms.folder.string();
  std::error_code ignored;
  fs::create_directories(terms.folder.parent_path(), ignored);
  if (mkdir(terms.folder.c_str(), 0700) != 0 && errno != EEXIST)
    return fail(Errc::denied, "{}: {}", shown, std::strerror(errno));
  OpenFile folder(::open(terms.folder.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (folder.get() < 0)
    return fail(
        Errc::denied, "{}: {}", shown,
        errno == ELOOP || errno == ENOTDIR ? "it is a link, or no folder" : std::strerror(errno));
  struct stat what{};
  if (fstat(folder.get(), &what) != 0 || what.st_uid != geteuid())
    return fail(Errc::denied, "{} belongs to another user: use a folder of your own", shown);
  if ((what.st_mode & 077) != 0)
    return fail(Errc::denied, "{} can be read by others: run chmod 700 on it", shown);
  int kept = dup(folder.get());
  if (kept < 0) return fail(Errc::unavailable, "{}: {}", shown, std::strerror(errno));
  fcntl(kept, F_SETFD, FD_CLOEXEC);
  Snapshots snapshots(std::move(terms), kept);
  snapshots.remove_leftovers();
  return snapshots;
}

Snapshots::Snapshots(Snapshots&& other) noexcept
    : terms_(std::move(other.terms_)), folder_(std::exchange(other.folder_, -1)) {}

Snapshots::~Snapshots() {
  if (folder_ >= 0) ::close(folder_);
}

std::unexpected<Error> Snapshots::failure(const std::string& name, int error) const {
  auto code = error == ENOSPC || error == EDQUOT ? Errc::overloaded
              : error == ENOENT                  ? Errc::not_found
              : error == ELOOP                   ? Errc::invalid
                                                 : Errc::unavailable;
  return fail(code, "{}: {}", (terms_.folder / name).string(), std::strerror(error));
}

Result<> Snapshots::save(const std::string& repo, const Held& held) const {
  auto facts = fleet::facts_of(held);
  facts.key = row_key(repo, 0);
  for (const auto& segment : *held.segments)
    facts.sizes.push_back(search::SegmentSender(segment).bytes());
  auto beginning = beginning_of(facts);
  auto name = name_of(repo);
  auto room = make_room(name, beginning.size() + facts.bytes());
  if (!room) return room;

  auto temporary = fmt::format("{}.{}{}", name, getpid(), unfinished);
  OpenFile file(openat(folder_, temporary.c_str(),
                       O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, S_IRUSR | S_IWUSR));
  if (file.get() < 0) return failure(temporary, errno);
  // Held for as long as somebody writes: without it, it is a leftover.
  flock(file.get(), LOCK_EX);
  auto written = [&]() -> Result<> {
    if (!write_all(file.get(), beginning)) return failure(temporary, errno);
    for (const auto& segment : *held.segments) {
      auto sent = search::write_segment(segment, [&](std::span<const std::byte> bytes) -> Result<> {
        if (!write_all(file.get(), bytes)) return failure(temporary, errno);
        return ok;
      });
      if (!sent) return sent;
    }
    if (fsync(file.get()) != 0) return failure(temporary, errno);
    if (renameat(folder_, temporary.c_str(), folder_, name.c_str()) != 0)
      return failure(name, errno);
    return ok;
  }();
  if (!written) unlinkat(folder_, temporary.c_str(), 0);
  if (written && fsync(folder_) != 0) return failure(name, errno);
  // Nobody reads it soon: the memory is for what is served.
  posix_fadvise(file.get(), 0, 0, POSIX_FADV_DONTNEED);
  return written;
}

Result<HandOver> Snapshots::facts_of(const std::string& repo) const {
  auto name = name_of(repo);
  OpenFile file(openat(folder_, name.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  if (file.get() < 0) return failure(name, errno);
  return read_beginning(file.get(), repo);
}

Result<Held> Snapshots::load(const std::string& repo, std::uint64_t most_bytes) const {
  auto name = name_of(repo);
  OpenFile file(openat(folder_, name.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  if (file.get() < 0) return failure(name, errno);
  auto facts = read_beginning(file.get(), repo);
  if (!facts) return std::unexpected(facts.error());
  if (facts->bytes() > most_bytes)
    return fail(Errc::overloaded, "it has {} bytes, and {} are free", facts->bytes(), most_bytes);
  posix_fadvise(file.get(), 0, 0, POSIX_FADV_SEQUENTIAL);
  auto list = std::make_shared<search::SegmentList>();
  for (auto bytes : facts->sizes) {
    auto segment = read_one(file.get(), bytes);
    if (!segment) return fail(Errc::invalid, "{}", segment.error().what);
    if ((*segment)->name() != repo)
      return fail(Errc::invalid, "it has a segment of {}", (*segment)->name());
    list->push_back(*std::move(segment));
  }
  if (list->empty() || !facts->has_index) return fail(Errc::invalid, "it has no index");
  posix_fadvise(file.get(), 0, 0, POSIX_FADV_DONTNEED);
  utimensat(folder_, name.c_str(), nullptr, AT_SYMLINK_NOFOLLOW);
  return held_of(*facts, std::move(list));
}

void Snapshots::remove(const std::string& repo) const {
  unlinkat(folder_, name_of(repo).c_str(), 0);
}

namespace {

struct Kept {
  std::string name;
  std::uint64_t bytes = 0;
  timespec used{};
  auto order() const { return std::tuple(used.tv_sec, used.tv_nsec, name); }
};

// Files of the folder with this ending.
std::vector<Kept> all_in(int folder, std::string_view with_ending) {
  std::vector<Kept> found;
  std::error_code error;
  for (fs::directory_iterator all(fmt::format("/proc/self/fd/{}", folder), error), end;
       !error && all != end; all.increment(error)) {
    Kept one{.name = all->path().filename().string()};
    struct stat what{};
    if (!one.name.ends_with(with_ending) ||
        fstatat(folder, one.name.c_str(), &what, AT_SYMLINK_NOFOLLOW) != 0)
      continue;
    one.bytes = static_cast<std::uint64_t>(what.st_size);
    one.used = what.st_mtim;
    found.push_back(std::move(one));
  }
  std::ranges::sort(found, {}, &Kept::order);
  return found;
}

}  // namespace

// For one of so many bytes in place of the one of this name.
Result<> Snapshots::make_room(const std::string& name, std::uint64_t bytes) const {
  if (bytes > terms_.most_bytes)
    return fail(Errc::overloaded, "it has {} bytes, and all snapshots may have {}", bytes,
                terms_.most_bytes);
  remove_leftovers();
  auto total = bytes;
  auto kept = all_in(folder_, ending);
  for (const auto& one : kept) total += one.name == name ? 0 : one.bytes;
  for (const auto& oldest : kept) {
    if (total <= terms_.most_bytes) break;
    if (oldest.name == name || unlinkat(folder_, oldest.name.c_str(), 0) != 0) continue;
    total -= oldest.bytes;
    log::info("fleet.snapshot_dropped", "file", oldest.name, "bytes", oldest.bytes);
  }
  return ok;
}

// Of processes that died while they wrote.
void Snapshots::remove_leftovers() const {
  for (const auto& one : all_in(folder_, unfinished)) {
    OpenFile file(
        openat(folder_, one.name.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
    bool is_written = file.get() >= 0 && flock(file.get(), LOCK_EX | LOCK_NB) != 0;
    if (!is_written) unlinkat(folder_, one.name.c_str(), 0);
  }
}

}  // namespace warren::fleet
