#include "search/store/cache.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <tuple>

namespace warren::search {

namespace {

namespace fs = std::filesystem;

// The state of this file according to the system. Any write to the file changes it.
std::string state_of(const std::string& path) {
  struct stat facts{};
  if (stat(path.c_str(), &facts) != 0) return "none";
  return fmt::format("{} {} {} {}.{:09}", facts.st_dev, facts.st_ino, facts.st_size,
                     facts.st_ctim.tv_sec, facts.st_ctim.tv_nsec);
}

std::string contents(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// Pages that are written but not yet on disk are lost when the machine goes down. So what we knew
// about a file before a reboot no longer counts.
std::string this_run_of_the_machine() { return contents("/proc/sys/kernel/random/boot_id"); }

// If this fails, files are only checked again next time.
void write_small(const std::string& path, const std::string& text) {
  auto temporary = path + ".XXXXXX";
  int file = mkostemp(temporary.data(), O_CLOEXEC);
  if (file < 0) return;
  bool is_written = ::write(file, text.data(), text.size()) == static_cast<ssize_t>(text.size());
  close(file);
  is_written = is_written && rename(temporary.c_str(), path.c_str()) == 0;
  if (!is_written) unlink(temporary.c_str());
}

// All files of one key.
struct Kept {
  std::string key = {};
  std::vector<std::string> paths = {};
  std::size_t bytes = 0;
  std::int64_t used = 0;
};

// The least recently used first.
std::vector<Kept> kept_in(const std::string& folder) {
  std::map<std::string, Kept> all;
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    auto path = at->path().string(), name = at->path().filename().string();
    struct stat facts{};
    if (stat(path.c_str(), &facts) != 0) continue;
    auto& kept = all[name.substr(0, name.find('.'))];
    kept.paths.push_back(path);
    kept.used = std::max<std::int64_t>(
        kept.used, facts.st_mtim.tv_sec * 1'000'000'000LL + facts.st_mtim.tv_nsec);
    kept.bytes += static_cast<std::size_t>(facts.st_blocks) * 512;
  }
  std::vector<Kept> list;
  for (auto& [key, kept] : all) {
    kept.key = key;
    list.push_back(std::move(kept));
  }
  std::ranges::sort(list, {}, [](const Kept& kept) { return std::tie(kept.used, kept.key); });
  return list;
}

std::size_t bytes_of(const std::vector<Kept>& all) {
  std::size_t bytes = 0;
  for (const auto& kept : all) bytes += kept.bytes;
  return bytes;
}

void remove(const Kept& kept) {
  for (const auto& path : kept.paths) unlink(path.c_str());
}

}  // namespace

Result<SegmentCache> SegmentCache::open(const std::string& folder, std::size_t most_bytes) {
  auto cannot = [&](const std::string& why) {
    return fail(Errc::unavailable, "{} cannot be used: {}", folder, why);
  };
  std::error_code error;
  fs::create_directories(fs::path(folder).parent_path(), error);
  if (error) return cannot(error.message());
  if (mkdir(folder.c_str(), S_IRWXU) != 0 && errno != EEXIST) return cannot(std::strerror(errno));
  struct stat facts{};
  if (stat(folder.c_str(), &facts) != 0) return cannot(std::strerror(errno));
  if (!S_ISDIR(facts.st_mode)) return cannot("it is no folder");
  if (facts.st_uid != geteuid()) return cannot("it belongs to somebody else");
  if ((facts.st_mode & (S_IRWXG | S_IRWXO)) != 0 && chmod(folder.c_str(), S_IRWXU) != 0)
    return cannot(std::strerror(errno));
  return SegmentCache(folder, most_bytes);
}

std::string SegmentCache::path_of(const std::string& key, std::string_view what) const {
  return fmt::format("{}/{}.{}", folder_, key, what);
}

std::shared_ptr<const Segment> SegmentCache::load(const std::string& path, bool is_known) const {
  auto loaded = Segment::load(path, is_known ? Segment::Loading::known : Segment::Loading::checked);
  if (loaded) return std::move(*loaded);
  if (loaded.error().code == Errc::invalid) unlink(path.c_str());
  return nullptr;
}

SegmentListPtr SegmentCache::load(const std::string& key) const {
  auto base_path = path_of(key, "base"), delta_path = path_of(key, "delta");
  auto seen = contents(path_of(key, "seen"));
  auto state = fmt::format("{}{}\n{}\n", this_run_of_the_machine(), state_of(base_path),
                           state_of(delta_path));
  bool is_known = seen == state;
  SegmentList list;
  if (auto base = load(base_path, is_known)) list.push_back(std::move(base));
  if (list.empty()) return nullptr;
  if (auto delta = load(delta_path, is_known)) list.push_back(std::move(delta));
  if (is_known)
    utimensat(AT_FDCWD, path_of(key, "seen").c_str(), nullptr, 0);
  else
    write_small(path_of(key, "seen"), state);
  return std::make_shared<const SegmentList>(std::move(list));
}

void SegmentCache::note_use(const std::string& key) const {
  write_small(path_of(key, "seen"),
              fmt::format("{}{}\n{}\n", this_run_of_the_machine(), state_of(path_of(key, "base")),
                          state_of(path_of(key, "delta"))));
}

Result<> SegmentCache::save(const std::string& key, std::string_view what,
                            const Segment& segment) const {
  auto path = path_of(key, what);
  auto saved = segment.save(path, Segment::Saving::quick);
  // What a new base replaces may be deleted to make room for it. The base that a delta belongs to
  // must stay.
  bool is_full = !saved && saved.error().code == Errc::overloaded;
  if (is_full && free_disk(segment.memory().total() + (64u << 10), what == "base" ? "" : key))
    saved = segment.save(path, Segment::Saving::quick);
  return saved;
}

Result<> SegmentCache::save_base(const std::string& key, const Segment& segment) const {
  if (segment.memory().total() > most_bytes_) return ok;
  auto saved = save(key, "base", segment);
  if (!saved) return saved;
  unlink(path_of(key, "delta").c_str());
  note_use(key);
  make_room(key);
  return ok;
}

Result<> SegmentCache::save_delta(const std::string& key, const Segment& segment,
                                  const std::string& base_version) const {
  auto base = Segment::load(path_of(key, "base"), Segment::Loading::known);
  if (!base || (*base)->version() != base_version) return ok;
  auto saved = save(key, "delta", segment);
  if (!saved) return saved;
  note_use(key);
  make_room(key);
  return ok;
}

void SegmentCache::make_room(const std::string& key) const {
  auto all = kept_in(folder_);
  auto total = bytes_of(all);
  for (const auto& kept : all) {
    if (total <= most_bytes_) return;
    if (kept.key == key) continue;
    remove(kept);
    total -= kept.bytes;
  }
}

// Returns false, and deletes nothing, if that would not free enough.
bool SegmentCache::free_disk(std::size_t bytes, const std::string& spared) const {
  auto all = kept_in(folder_);
  std::erase_if(all, [&](const Kept& kept) { return kept.key == spared; });
  std::error_code error;
  std::size_t free = fs::space(folder_, error).available;
  if (error || free >= bytes) free = 0;  // the disk has space: our quota is exhausted
  if (free + bytes_of(all) < bytes) return false;
  for (auto kept = all.begin(); kept != all.end() && free < bytes; ++kept) {
    remove(*kept);
    free += kept->bytes;
  }
  return true;
}

}  // namespace warren::search
