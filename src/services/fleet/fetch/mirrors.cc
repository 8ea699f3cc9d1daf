#include "services/fleet/fetch/mirrors.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>

#include "base/host/git.h"
#include "base/log.h"
#include "search/source/git.h"

namespace warren::fleet {

namespace {

namespace fs = std::filesystem;

constexpr int look_again_ms = 20;  // at a lock that another process holds: the kernel tells nobody

// A lock by flock, let go with this object.
class Lock {
 public:
  explicit Lock(int file = -1) : file_(file) {}
  Lock(Lock&& other) noexcept : file_(std::exchange(other.file_, -1)) {}
  Lock& operator=(Lock&&) = delete;
  ~Lock() {
    if (file_ >= 0) ::close(file_);
  }
  int release() { return std::exchange(file_, -1); }

 private:
  int file_;
};

// Errc::held_elsewhere. The file may have been removed, by who evicts, while we opened it.
Result<Lock> try_lock(const fs::path& path, int kind) {
  for (;;) {
    int file = ::open(path.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (file < 0) return fail(Errc::unavailable, "{}: {}", path.string(), std::strerror(errno));
    Lock lock(file);
    if (flock(file, kind | LOCK_NB) != 0)
      return fail(Errc::held_elsewhere, "{} is held", path.string());
    struct stat here{}, there{};
    if (fstat(file, &here) == 0 && lstat(path.c_str(), &there) == 0 && here.st_ino == there.st_ino)
      return lock;
  }
}

Result<Lock> wait_lock(const fs::path& path, int kind, Clock::time_point deadline, int stop) {
  for (;;) {
    auto lock = try_lock(path, kind);
    if (lock || lock.error().code != Errc::held_elsewhere) return lock;
    pollfd file{stop, POLLIN, 0};
    if (poll(&file, 1, look_again_ms) > 0 && file.revents != 0)
      return fail(Errc::cancelled, "nobody waits for the mirror");
    if (Clock::now() >= deadline)
      return fail(Errc::timeout, "{}: another fetch of it went on until the deadline",
                  path.stem().string());
  }
}

// Its time is that of the last use.
Hold hold(Lock use) {
  int file = use.release();
  futimens(file, nullptr);
  return Hold(file);
}

std::uint64_t bytes_below(const fs::path& folder) {
  std::uint64_t bytes = 0;
  std::error_code error;
  for (fs::recursive_directory_iterator all(folder, error), end; !error && all != end;
       all.increment(error)) {
    struct stat facts{};
    if (lstat(all->path().c_str(), &facts) == 0)
      bytes += static_cast<std::uint64_t>(facts.st_blocks) * 512;
  }
  return bytes;
}

// What git leaves when it is killed, and would trip over or keep. We have the lock, so nobody
// writes.
void remove_leftovers(const fs::path& mirror) {
  std::error_code error;
  std::vector<fs::path> found;
  for (fs::recursive_directory_iterator all(mirror, error), end; !error && all != end;
       all.increment(error)) {
    auto name = all->path().filename().string();
    if (name.ends_with(".lock") || name.starts_with("tmp_")) found.push_back(all->path());
  }
  for (const auto& path : found) fs::remove_all(path, error);
}

bool is_mirror(const fs::path& path) {
  std::error_code error;
  return fs::is_directory(fs::symlink_status(path, error)) &&
         fs::is_regular_file(fs::symlink_status(path / "HEAD", error));
}

// One of the refs that were asked for, which the remote has.
struct Wanted {
  std::string ref, name, local, commit;  // as asked for; in full; in the mirror; at the remote
};

// What names of a mirror are on; one that is not there is not in the answer.
std::map<std::string, std::string> local_commits(const fs::path& mirror,
                                                 const std::vector<std::string>& names) {
  std::map<std::string, std::string> commits;
  std::string question;
  for (const auto& name : names) question += name + "^{commit}\n";
  auto answer = run_child(search::git_in(mirror, {"cat-file", "--batch-check=%(objectname)"}),
                          question, 1u << 20);
  if (!answer) return commits;
  std::string_view rest = *answer;
  for (const auto& name : names) {
    auto line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(rest.size(), line.size() + 1));
    if (git::is_hash(line)) commits[name] = line;
  }
  return commits;
}

// What names may be at the remote, the best first.
std::vector<std::string> full_names(const std::string& ref) {
  if (ref == "HEAD" || ref.starts_with("refs/")) return {ref};
  return {"refs/heads/" + ref, "refs/tags/" + ref};
}

// The full name of a ref that the remote has; empty: it has none.
std::string chosen(const std::string& ref, const std::map<std::string, std::string>& commits) {
  for (auto& name : full_names(ref))
    if (commits.contains(name)) return name;
  return {};
}

Result<Listing> list(const RemoteSettings& settings, const FetchRequest& request) {
  ensure(!request.refs.empty(), "a fetch names at least one ref");
  std::vector<std::string> names;
  for (const auto& ref : request.refs) {
    if (auto fine = check_ref(ref); !fine) return fail(Errc::invalid, "{}", fine.error().what);
    for (auto& name : full_names(ref)) names.push_back(std::move(name));
  }
  return list_remote(settings, request.remote, names);
}

std::vector<Wanted> wanted_of(const Listing& listing, const std::vector<std::string>& refs) {
  std::vector<Wanted> all;
  for (const auto& ref : refs)
    if (auto name = chosen(ref, listing.commits); !name.empty())
      all.push_back({ref, name, local_ref(name), listing.commits.at(name)});
  return all;
}

std::vector<std::string> each(const std::vector<Wanted>& wanted, std::string Wanted::* member) {
  std::vector<std::string> values;
  for (const auto& one : wanted) values.push_back(one.*member);
  return values;
}

bool are_here(const std::vector<Wanted>& wanted,
              const std::map<std::string, std::string>& commits) {
  return std::ranges::all_of(wanted, [&](const Wanted& one) {
    auto found = commits.find(one.local);
    return found != commits.end() && found->second == one.commit;
  });
}

std::vector<fs::path> all_with(const fs::path& folder, std::string_view ending) {
  std::vector<fs::path> found;
  std::error_code error;
  for (fs::directory_iterator all(folder, error), end; !error && all != end; all.increment(error))
    if (all->path().extension() == ending) found.push_back(all->path());
  return found;
}

// The length of the hashes in it.
std::size_t hash_digits_of(const fs::path& mirror) {
  std::ifstream config(mirror / "config");
  std::string text{std::istreambuf_iterator<char>(config), {}};
  return text.contains("sha256") ? 64 : 40;
}

Clock::time_point deadline_of(const FetchRequest& request, const RemoteSettings& settings) {
  return std::min(request.remote.deadline, Clock::now() + settings.limits.time);
}

}  // namespace

Hold& Hold::operator=(Hold&& other) noexcept {
  std::swap(lock_, other.lock_);
  return *this;
}

Hold::~Hold() {
  if (lock_ >= 0) ::close(lock_);
}

Result<Mirrors> Mirrors::open(MirrorSettings settings) {
  std::error_code error;
  fs::create_directories(settings.folder.parent_path(), error);
  if (mkdir(settings.folder.c_str(), 0700) != 0 && errno != EEXIST)
    return fail(Errc::denied, "{}: {}", settings.folder.string(), std::strerror(errno));
  settings.folder = fs::canonical(settings.folder, error);
  struct stat facts{};
  if (error || lstat(settings.folder.c_str(), &facts) != 0 || !S_ISDIR(facts.st_mode))
    return fail(Errc::denied, "{} is not a folder", settings.folder.string());
  if (facts.st_uid != geteuid())
    return fail(Errc::denied, "{} belongs to another user: use a folder of your own",
                settings.folder.string());
  if ((facts.st_mode & 077) != 0)
    return fail(Errc::denied, "{} can be read by others: run chmod 700 on it",
                settings.folder.string());
  return Mirrors(std::move(settings));
}

Result<Resolved> Mirrors::resolve(const FetchRequest& request) const {
  auto listing = list(settings_.remote, request);
  if (!listing) return std::unexpected(listing.error());
  Resolved resolved{listing->url, {}, listing->head, listing->is_moved};
  for (auto& one : wanted_of(*listing, request.refs)) resolved.commits[one.ref] = one.commit;
  return resolved;
}

Result<Fetched> Mirrors::fetch(const FetchRequest& request) const {
  auto listing = list(settings_.remote, request);
  if (!listing) return std::unexpected(listing.error());
  auto wanted = wanted_of(*listing, request.refs);
  Fetched fetched{{listing->url, {}, listing->head, listing->is_moved}, {}, {}, false};
  if (wanted.empty()) return fetched;
  auto name = file_name(request.remote.url.repo_id());
  auto lock = wait_lock(path(name, ".lock"), LOCK_EX, deadline_of(request, settings_.remote),
                        request.remote.stop);
  if (!lock) return std::unexpected(lock.error());
  auto ready = prepare(request, name, wanted.front().commit.size());
  if (!ready) return std::unexpected(ready.error());
  fetched.folder = path(name, ".git");
  auto commits = local_commits(fetched.folder, each(wanted, &Wanted::local));
  if (request.depth != 1 || !are_here(wanted, commits)) {
    auto done = transfer(request, listing->url, name, each(wanted, &Wanted::name));
    if (!done) remove_leftovers(fetched.folder);
    if (!done) return std::unexpected(done.error());
    fetched.is_transferred = true;
    commits = local_commits(fetched.folder, each(wanted, &Wanted::local));
  }
  // The remote may have moved on since it was asked: what is here counts. A tag of something else
  // than a commit is not here.
  for (const auto& one : wanted)
    if (auto found = commits.find(one.local); found != commits.end())
      fetched.resolved.commits[one.ref] = found->second;
  // Free at once: who wants it alone has our lock.
  auto use = try_lock(path(name, ".use"), LOCK_SH);
  if (!use) return std::unexpected(use.error());
  fetched.hold = hold(std::move(*use));
  trim();
  return fetched;
}

Result<Fetched> Mirrors::find(const RemoteUrl& url, const std::string& commit,
                              Clock::time_point deadline) const {
  ensure(git::is_hash(commit), "a commit is a hash");
  auto name = file_name(url.repo_id());
  auto mirror = path(name, ".git");
  auto none = fail(Errc::not_found, "{} is not in the mirror of {}", commit, url.repo_id());
  if (!is_mirror(mirror)) return none;
  auto use = wait_lock(path(name, ".use"), LOCK_SH, deadline, -1);
  if (!use) return std::unexpected(use.error());
  if (!is_mirror(mirror) || local_commits(mirror, {commit}).empty()) return none;
  return Fetched{{url, {{commit, commit}}, {}}, mirror, hold(std::move(*use)), false};
}

bool Mirrors::has(const RemoteUrl& url) const {
  std::error_code ignored;
  return fs::is_directory(path(file_name(url.repo_id()), ".git"), ignored);
}

std::uint64_t Mirrors::bytes() const { return bytes_below(settings_.folder); }

// With the lock: a mirror that is whole, of these hashes, and of not too many packs.
Result<> Mirrors::prepare(const FetchRequest& request, const std::string& name,
                          std::size_t hash_digits) const {
  auto mirror = path(name, ".git");
  if (!is_mirror(mirror) || hash_digits_of(mirror) != hash_digits)
    return remake(request, name, hash_digits);
  remove_leftovers(mirror);
  if (all_with(mirror / "objects/pack", ".pack").size() <= settings_.most_packs) return ok;
  auto alone = try_lock(path(name, ".use"), LOCK_EX);
  if (!alone) return ok;  // it is read: another time
  // What no ref is on any more goes with it.
  const auto& limits = settings_.remote.limits;
  for (std::vector<std::string> words :
       {std::vector<std::string>{"repack", "-a", "-d", "-q"}, {"prune", "--expire=now"}}) {
    auto done =
        run_local(limits, mirror, std::move(words), request.remote.deadline, request.remote.stop);
    if (!done && done.error().code != Errc::unavailable) return done;
  }
  return ok;
}

Result<> Mirrors::remake(const FetchRequest& request, const std::string& name,
                         std::size_t hash_digits) const {
  auto mirror = path(name, ".git");
  auto alone = try_lock(path(name, ".use"), LOCK_EX);
  if (!alone)
    return fail(Errc::unavailable, "{} has to be made anew, and somebody reads it",
                mirror.string());
  std::error_code error;
  fs::remove_all(mirror, error);
  if (error) return fail(Errc::unavailable, "{}: {}", mirror.string(), error.message());
  auto format = fmt::format("--object-format={}", hash_digits == 64 ? "sha256" : "sha1");
  return run_local(settings_.remote.limits, mirror,
                   {"init", "--bare", "--quiet", "--template=", std::move(format)},
                   request.remote.deadline, request.remote.stop);
}

Result<> Mirrors::transfer(const FetchRequest& request, const RemoteUrl& url,
                           const std::string& name, const std::vector<std::string>& names) const {
  auto mirror = path(name, ".git");
  auto remote = request.remote;
  remote.url = url;
  auto done = fetch_remote(settings_.remote, remote, mirror, names, request.depth);
  if (done || done.error().code != Errc::protocol || !is_broken(request, name)) return done;
  log::warn("fetch.mirror_broken", "repo", request.remote.url.repo_id(), "what", done.error().what);
  if (auto made = remake(request, name, hash_digits_of(mirror)); !made) return made;
  return fetch_remote(settings_.remote, remote, mirror, names, request.depth);
}

bool Mirrors::is_broken(const FetchRequest& request, const std::string& name) const {
  auto checked = run_local(settings_.remote.limits, path(name, ".git"),
                           {"fsck", "--connectivity-only", "--no-progress"},
                           request.remote.deadline, request.remote.stop);
  return !checked && checked.error().code == Errc::unavailable;
}

// One process at a time; the others leave it to that one.
void Mirrors::trim() const {
  auto lock = try_lock(settings_.folder / ".trim", LOCK_EX);
  if (!lock) return;
  struct Candidate {
    timespec used{};
    std::string name;
    std::uint64_t bytes = 0;
    auto key() const { return std::tuple(used.tv_sec, used.tv_nsec, name); }
  };
  std::vector<Candidate> all;
  std::uint64_t total = 0;
  for (const auto& mirror : all_with(settings_.folder, ".git")) {
    Candidate candidate{{}, mirror.stem(), bytes_below(mirror)};
    struct stat facts{};
    if (lstat(path(candidate.name, ".use").c_str(), &facts) == 0) candidate.used = facts.st_mtim;
    total += candidate.bytes;
    all.push_back(std::move(candidate));
  }
  std::ranges::sort(all, {}, &Candidate::key);
  for (const auto& oldest : all) {
    if (total <= settings_.most_bytes) return;
    if (!remove(oldest.name)) continue;
    total -= oldest.bytes;
    log::info("fetch.mirror_evicted", "mirror", oldest.name, "bytes", oldest.bytes);
  }
}

bool Mirrors::remove(const std::string& name) const {
  auto lock = try_lock(path(name, ".lock"), LOCK_EX);
  if (!lock) return false;
  auto alone = try_lock(path(name, ".use"), LOCK_EX);
  if (!alone) return false;
  std::error_code error;
  fs::remove_all(path(name, ".git"), error);
  // The locks last, and while they are held: who opened them before looks whether they are there.
  for (const char* ending : {".use", ".lock"}) fs::remove(path(name, ending), error);
  return true;
}

}  // namespace warren::fleet
