#include "services/session/process/yard.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <set>

#include "base/host/folder.h"
#include "services/session/drivers/spec_json.h"

namespace warren::session {

namespace fs = std::filesystem;

namespace {

constexpr std::size_t most_record = 4u << 20;
constexpr std::string_view going_end = ".going";  // of folders that are being removed

flock whole_file(short type) {
  flock lock{};
  lock.l_type = type;
  lock.l_whence = SEEK_SET;
  return lock;
}

// The file that has this name and is locked by us. Whoever forgets a lock removes its file, so one
// that was opened before may not be the one that others find.
Result<FileLock> lock_file(const fs::path& path) {
  for (;;) {
    FileLock lock(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
    if (lock.descriptor() < 0)
      return fail(Errc::refused, "{}: {}", path.string(), std::strerror(errno));
    auto all = whole_file(F_WRLCK);
    if (::fcntl(lock.descriptor(), F_OFD_SETLK, &all) != 0)
      return fail(Errc::held_elsewhere, "{} is locked", path.string());
    struct stat ours{}, named{};
    bool is_named = ::fstat(lock.descriptor(), &ours) == 0 && ::stat(path.c_str(), &named) == 0 &&
                    ours.st_ino == named.st_ino && ours.st_dev == named.st_dev;
    if (is_named) return lock;
  }
}

std::uint64_t number_of(std::string_view text) {
  std::uint64_t number = 0;
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

std::uint64_t generation_in(int descriptor) {
  std::array<char, 24> text{};
  auto count = ::pread(descriptor, text.data(), text.size(), 0);
  return count > 0 ? number_of({text.data(), static_cast<std::size_t>(count)}) : 0;
}

WallClock::time_point from_ms(std::optional<std::int64_t> ms) {
  return WallClock::time_point(std::chrono::milliseconds(ms.value_or(0)));
}

std::int64_t ms_of(WallClock::time_point time) {
  return std::chrono::duration_cast<std::chrono::milliseconds>(time.time_since_epoch()).count();
}

Result<std::string> read_in(const fs::path& folder, const std::string& file) {
  auto opened = Folder::open(folder);
  if (!opened) return std::unexpected(opened.error());
  return opened->read(file, most_record);
}

Result<> write_in(const fs::path& folder, const std::string& file, std::string_view text) {
  auto opened = Folder::open(folder);
  if (!opened) return std::unexpected(opened.error());
  return opened->replace(file, text, 0600);
}

// Without what is being written or removed.
std::vector<std::string> entries_of(const fs::path& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (auto entry = fs::directory_iterator(folder, error);
       !error && entry != fs::directory_iterator(); entry.increment(error))
    if (auto file = entry->path().filename().string(); !file.starts_with('.'))
      names.push_back(std::move(file));
  return names;
}

std::optional<WallClock::time_point> written_at(const fs::path& file) {
  struct stat found{};
  if (::stat(file.c_str(), &found) != 0) return std::nullopt;
  // Not from_time_t(st_mtime): whole seconds put a use before the start that it follows.
  auto since_epoch =
      std::chrono::seconds(found.st_mtim.tv_sec) + std::chrono::nanoseconds(found.st_mtim.tv_nsec);
  return WallClock::time_point(std::chrono::duration_cast<WallClock::duration>(since_epoch));
}

}  // namespace

FileLock::~FileLock() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

std::string to_json(const ShimState& state) {
  json::object ports;
  for (const auto& [door, endpoint] : state.endpoints)
    ports[std::string(name(door))] = endpoint.port;
  json::object object{{"incarnation", state.incarnation},
                      {"phase", std::string(name(state.phase))},
                      {"reason", state.reason},
                      {"was_asked", state.was_asked},
                      {"restarts", state.restarts},
                      {"pid", state.pid},
                      {"began", state.began},
                      {"main_pid", state.main_pid},
                      {"main_began", state.main_began},
                      {"ports", std::move(ports)},
                      {"created_ms", ms_of(state.created_at)},
                      {"started_ms", ms_of(state.started_at)}};
  if (state.exit_code) object["exit_code"] = *state.exit_code;
  return json::serialize(object);
}

Result<ShimState> state_from(std::string_view text) {
  auto value = parse_json(text);
  if (!value) return std::unexpected(value.error());
  const auto* object = value->if_object();
  if (!object) return fail(Errc::protocol, "the state of a sandbox is an object");
  ShimState state{
      .incarnation = text_in(*object, "incarnation"),
      .reason = text_in(*object, "reason"),
      .restarts = static_cast<int>(number_in(*object, "restarts").value_or(0)),
      .pid = static_cast<int>(number_in(*object, "pid").value_or(0)),
      .began = static_cast<std::uint64_t>(number_in(*object, "began").value_or(0)),
      .main_pid = static_cast<int>(number_in(*object, "main_pid").value_or(0)),
      .main_began = static_cast<std::uint64_t>(number_in(*object, "main_began").value_or(0)),
      .created_at = from_ms(number_in(*object, "created_ms")),
      .started_at = from_ms(number_in(*object, "started_ms"))};
  auto phase = text_in(*object, "phase");
  bool is_known = false;
  for (auto one : {Phase::starting, Phase::running, Phase::ending, Phase::paused, Phase::ended})
    if (phase == name(one)) {
      state.phase = one;
      is_known = true;
    }
  if (!is_known || state.incarnation.empty())
    return fail(Errc::protocol, "the state of a sandbox has a phase and an incarnation");
  const auto* asked = object->if_contains("was_asked");
  state.was_asked = asked && asked->is_bool() && asked->get_bool();
  if (auto code = number_in(*object, "exit_code")) state.exit_code = static_cast<int>(*code);
  if (const auto* ports = object->if_contains("ports"); ports && ports->is_object())
    for (auto door : all_doors)
      if (auto port = number_in(ports->get_object(), name(door));
          port && *port > 0 && *port < 65536)
        state.endpoints[door] = {"127.0.0.1", static_cast<unsigned short>(*port)};
  return state;
}

Result<Yard> Yard::open(const fs::path& root) {
  std::error_code error;
  for (const auto* part : {"", "locks", "sandboxes", "states", "control", "ports"}) {
    fs::create_directories(root / part, error);
    if (!error) fs::permissions(root / part, fs::perms::owner_all, error);
    if (error) return fail(Errc::denied, "{}: {}", (root / part).string(), error.message());
  }
  auto real = fs::canonical(root, error);
  if (error) return fail(Errc::denied, "{}: {}", root.string(), error.message());
  return Yard(std::move(real));
}

Result<FileLock> Yard::lock(const std::string& name) const {
  return lock_file(root_ / "locks" / name);
}

Result<FileLock> Yard::lock_port(unsigned short port, std::string_view incarnation) const {
  auto lock = lock_file(root_ / "ports" / std::to_string(port));
  if (!lock) return lock;
  bool is_written = ::ftruncate(lock->descriptor(), 0) == 0 &&
                    ::pwrite(lock->descriptor(), incarnation.data(), incarnation.size(), 0) ==
                        ssize_t(incarnation.size());
  if (!is_written) return fail(Errc::refused, "port {}: {}", port, std::strerror(errno));
  return lock;
}

// Looks at the lock first and at the text second, which is the order in which a shim makes them.
Result<std::string> Yard::port_owner(unsigned short port) const {
  auto path = root_ / "ports" / std::to_string(port);
  FileLock file(::open(path.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW));
  auto all = whole_file(F_WRLCK);
  bool is_held = file.descriptor() >= 0 && ::fcntl(file.descriptor(), F_OFD_GETLK, &all) == 0 &&
                 all.l_type != F_UNLCK;
  if (!is_held) return fail(Errc::not_found, "nobody has port {}", port);
  std::array<char, 64> text{};
  auto count = ::pread(file.descriptor(), text.data(), text.size(), 0);
  return std::string(text.data(), count > 0 ? static_cast<std::size_t>(count) : 0);
}

bool Yard::is_locked(const std::string& name) const {
  FileLock file(::open((root_ / "locks" / name).c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW));
  if (file.descriptor() < 0) return false;
  auto all = whole_file(F_WRLCK);
  // Only asks: to take it for a moment could keep a shim out.
  return ::fcntl(file.descriptor(), F_OFD_GETLK, &all) == 0 && all.l_type != F_UNLCK;
}

std::uint64_t Yard::generation(const FileLock& lock) { return generation_in(lock.descriptor()); }

std::uint64_t Yard::generation(const std::string& name) const {
  FileLock file(::open((root_ / "locks" / name).c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
  return file.descriptor() < 0 ? 0 : generation_in(file.descriptor());
}

Result<> Yard::set_generation(const FileLock& lock, std::uint64_t generation) {
  auto text = fmt::format("{:020}", generation);
  if (::pwrite(lock.descriptor(), text.data(), text.size(), 0) != ssize_t(text.size()))
    return fail(Errc::refused, "a lock cannot be written: {}", std::strerror(errno));
  return ok;
}

void Yard::forget(const std::string& name, FileLock lock) const {
  ensure(lock.descriptor() >= 0, "whoever forgets a lock holds it");
  ::unlink((root_ / "locks" / name).c_str());
}

Result<ShimState> Yard::state(const std::string& name) const {
  auto text = read_in(states(), name + ".json");
  if (!text) return std::unexpected(text.error());
  return state_from(*text);
}

Result<> Yard::put_state(const std::string& name, const ShimState& state) const {
  return write_in(states(), name + ".json", to_json(state));
}

Result<SandboxSpec> Yard::spec(const std::string& name) const {
  auto text = read_in(sandbox(name), "spec.json");
  if (!text) return std::unexpected(text.error());
  auto value = parse_json(*text);
  if (!value) return std::unexpected(value.error());
  return spec_from(*value);
}

Result<> Yard::put_spec(const SandboxSpec& spec) const {
  auto folder = sandbox(spec.name);
  if (::mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST)
    return fail(Errc::refused, "{}: {}", folder.string(), std::strerror(errno));
  return write_in(folder, "spec.json", json::serialize(to_json(spec)));
}

std::vector<std::string> Yard::names() const {
  std::set<std::string> names;
  for (auto& folder : entries_of(root_ / "sandboxes")) names.insert(std::move(folder));
  for (auto& file : entries_of(states()))
    if (file.ends_with(".json")) names.insert(file.substr(0, file.size() - 5));
  return {names.begin(), names.end()};
}

std::optional<WallClock::time_point> Yard::stopped_at(const std::string& name) const {
  return written_at(root_ / "locks" / name);
}

void Yard::touch(const std::string& name) const {
  FileLock file(::open((sandbox(name) / "active").c_str(),
                       O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (file.descriptor() >= 0) ::futimens(file.descriptor(), nullptr);
}

std::optional<WallClock::time_point> Yard::touched_at(const std::string& name) const {
  return written_at(sandbox(name) / "active");
}

std::vector<std::string> Yard::locked_names() const { return entries_of(root_ / "locks"); }

Result<> Yard::remove(const std::string& name) const {
  std::error_code error;
  fs::remove(control(name), error);
  // Renamed first, so that nobody takes half of a folder for a sandbox.
  auto going = going_folder(name);
  fs::remove_all(going, error);
  fs::rename(sandbox(name), going, error);
  bool was_there = !error;
  fs::remove(states() / (name + ".json"), error);
  if (!was_there) return ok;
  fs::remove_all(going, error);
  if (error) return fail(Errc::refused, "{}: {}", going.string(), error.message());
  return ok;
}

std::vector<std::string> Yard::half_removed() const {
  std::set<std::string> names;
  std::error_code error;
  for (auto entry = fs::directory_iterator(root_ / "sandboxes", error);
       !error && entry != fs::directory_iterator(); entry.increment(error)) {
    auto file = entry->path().filename().string();
    bool is_going =
        file.size() > 1 + going_end.size() && file.starts_with('.') && file.ends_with(going_end);
    if (is_going) names.insert(file.substr(1, file.size() - 1 - going_end.size()));
  }
  for (auto& name : this->names())
    if (!fs::exists(sandbox(name), error)) names.insert(std::move(name));
  return {names.begin(), names.end()};
}

// Another sandbox of that name may have begun since: a shim makes the folder before the state.
Result<> Yard::finish_removal(const std::string& name) const {
  std::error_code error;
  fs::remove_all(going_folder(name), error);
  if (error) return fail(Errc::refused, "{}: {}", name, error.message());
  if (!fs::exists(sandbox(name), error)) fs::remove(states() / (name + ".json"), error);
  return ok;
}

std::string Yard::log_tail(const std::string& name, std::size_t bytes) const {
  FileLock file(::open(log(name).c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
  if (file.descriptor() < 0) return "";
  auto size = ::lseek(file.descriptor(), 0, SEEK_END);
  auto begin = std::max<off_t>(0, size - static_cast<off_t>(bytes));
  std::string text(static_cast<std::size_t>(std::max<off_t>(0, size - begin)), '\0');
  auto count = ::pread(file.descriptor(), text.data(), text.size(), begin);
  text.resize(count > 0 ? static_cast<std::size_t>(count) : 0);
  return text;
}

bool Yard::tell(const std::string& name, std::string_view line) const {
  // Nobody reads: ENXIO.
  FileLock pipe(::open(control(name).c_str(), O_WRONLY | O_NONBLOCK | O_CLOEXEC | O_NOFOLLOW));
  if (pipe.descriptor() < 0) return false;
  return ::write(pipe.descriptor(), line.data(), line.size()) == ssize_t(line.size());
}

}  // namespace warren::session
