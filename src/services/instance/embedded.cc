#include "services/instance/embedded.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <fstream>
#include <thread>
#include <vector>

#include "base/causes.h"

extern char** environ;

namespace warren {

namespace {

constexpr auto look_again = 5ms;

class File {
 public:
  explicit File(int descriptor) : descriptor_(descriptor) {}
  ~File() {
    if (descriptor_ >= 0) ::close(descriptor_);
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  int get() const { return descriptor_; }
  int release() { return std::exchange(descriptor_, -1); }

 private:
  int descriptor_;
};

Result<> make_folder(const std::filesystem::path& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (!error) std::filesystem::permissions(folder, std::filesystem::perms::owner_all, error);
  if (error) return fail(Errc::denied, "{}: {}", folder.string(), error.message());
  return ok;
}

int open_lock(const std::filesystem::path& file) {
  return ::open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
}

// Of what was added behind `begin`: what stands before is of an earlier run.
std::string last_line(const std::filesystem::path& file, std::uintmax_t begin) {
  std::ifstream in(file);
  in.seekg(static_cast<std::streamoff>(begin));
  std::string line, last;
  while (std::getline(in, line))
    if (!line.empty()) last = line;
  return last;
}

// For the server: what must not be lost is on disk within a second, and nothing is evicted.
// A server that is given a part of it would listen on the usual port, for everybody.
Result<> write_config(const std::filesystem::path& folder, const std::filesystem::path& socket) {
  auto path = folder / "redis.conf";
  std::ofstream file(path, std::ios::trunc);
  file << "port 0\nunixsocket \"" << socket.string() << "\"\nunixsocketperm 700\ndir \""
       << folder.string() << "\"\nappendonly yes\nappendfsync everysec\nsave \"\"\n"
       << "maxmemory-policy noeviction\nlogfile \"" << (folder / "redis.log").string() << "\"\n";
  errno = 0;
  file.close();
  if (file) return ok;
  auto why = errno != 0 ? std::strerror(errno) : "it cannot be written";
  return fail(errno == EACCES || errno == EPERM ? Errc::denied : Errc::unavailable,
              warren::causes::no_resources, path.string(), "{}: {}", path.string(), why);
}

}  // namespace

EmbeddedRedis::Use::~Use() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

Result<EmbeddedRedis::Use> EmbeddedRedis::use() const {
  auto made = make_folder(folder_);
  if (!made) return std::unexpected(made.error());
  File file(open_lock(folder_ / "users"));
  if (file.get() < 0 || flock(file.get(), LOCK_SH) != 0)
    return fail(Errc::denied, "{}: {}", (folder_ / "users").string(), std::strerror(errno));
  return Use(file.release());
}

// One command and its answer, within a second.
Result<std::string> EmbeddedRedis::ask(std::string_view command) const {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  auto path = socket().string();
  if (path.size() >= sizeof address.sun_path)
    return fail(Errc::invalid, "{} is too long for a socket: set XDG_STATE_HOME, or REDIS_URL",
                path);
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  File file(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  timeval second{1, 0};
  ::setsockopt(file.get(), SOL_SOCKET, SO_RCVTIMEO, &second, sizeof second);
  ::setsockopt(file.get(), SOL_SOCKET, SO_SNDTIMEO, &second, sizeof second);
  std::array<char, 128> answer{};
  if (::connect(file.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) != 0 ||
      ::send(file.get(), command.data(), command.size(), MSG_NOSIGNAL) < 0)
    return fail(errno == ECONNREFUSED || errno == ENOENT ? Errc::unavailable : Errc::timeout,
                "{}: {}", path, std::strerror(errno));
  auto got = ::recv(file.get(), answer.data(), answer.size(), 0);
  if (got < 0) return fail(Errc::timeout, "{} does not answer", path);
  return std::string(answer.data(), static_cast<std::size_t>(got));
}

bool EmbeddedRedis::is_running() const {
  auto answer = ask("PING\r\n");
  return answer || answer.error().code == Errc::timeout;
}

bool EmbeddedRedis::has_data() const {
  std::error_code ignored;
  return std::filesystem::exists(folder_ / "appendonlydir", ignored) ||
         std::filesystem::exists(folder_ / "appendonly.aof", ignored);
}

Result<> EmbeddedRedis::start(Clock::time_point deadline) const {
  auto made = make_folder(folder_);
  if (!made) return made;
  // One at a time, so that nobody takes away the socket of another one's server.
  File lock(open_lock(folder_ / "starting"));
  while (flock(lock.get(), LOCK_EX | LOCK_NB) != 0) {
    if (lock.get() < 0 || Clock::now() > deadline)
      return fail(Errc::timeout, "somebody else has been starting {} for long", folder_.string());
    std::this_thread::sleep_for(look_again);
  }
  for (;;) {
    auto answer = ask("PING\r\n");
    if (answer && answer->starts_with("+PONG")) return ok;
    if (!answer && answer.error().code == Errc::invalid) return std::unexpected(answer.error());
    // Only where nobody is: a second server on the files of one that is slow would spoil them.
    if (!answer && answer.error().code == Errc::unavailable) return start_server(deadline);
    if (Clock::now() > deadline)
      return fail(Errc::timeout, "the private Redis of {} is there and does not answer",
                  folder_.string());
    std::this_thread::sleep_for(look_again);
  }
}

Result<> EmbeddedRedis::start_server(Clock::time_point deadline) const {
  std::error_code ignored;
  std::filesystem::remove(socket(), ignored);
  if (auto written = write_config(folder_, socket()); !written) return written;
  auto log = folder_ / "redis.log";
  auto begin = std::filesystem::file_size(log, ignored);
  if (ignored) begin = 0;
  auto config = (folder_ / "redis.conf").string();
  std::vector<std::string> words{"redis-server", config};
  std::vector<char*> argv;
  for (auto& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  posix_spawn_file_actions_addopen(&files, 0, "/dev/null", O_RDWR, 0);
  posix_spawn_file_actions_adddup2(&files, 0, 1);
  posix_spawn_file_actions_addopen(&files, 2, log.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSID);
  pid_t pid = 0;
  int error = posix_spawnp(&pid, argv[0], &files, &attributes, argv.data(), environ);
  posix_spawn_file_actions_destroy(&files);
  posix_spawnattr_destroy(&attributes);
  if (error != 0)
    return fail(Errc::unavailable,
                "no Redis is configured, and a private one cannot be started: redis-server: {}",
                std::strerror(error));
  int status = 0;
  auto answers = [this] {
    auto answer = ask("PING\r\n");
    return answer && answer->starts_with("+PONG");
  };
  while (!answers()) {
    bool has_ended = waitpid(pid, &status, WNOHANG) == pid;
    if (has_ended || Clock::now() > deadline) {
      // It has served nobody; and the next start would be a second server in this folder.
      if (!has_ended) {
        kill(pid, SIGKILL);
        waitpid(pid, &status, 0);
      }
      auto why = last_line(log, begin);
      return fail(Errc::unavailable, "the private Redis of {} {}: {}", folder_.string(),
                  has_ended ? "does not start" : "does not start in time",
                  why.empty() ? "it says nothing" : why);
    }
    std::this_thread::sleep_for(look_again);
  }
  return ok;
}

Result<bool> EmbeddedRedis::stop_if_unused(Clock::time_point deadline) const {
  File lock(open_lock(folder_ / "users"));
  if (lock.get() < 0) return false;
  // Whoever has just left may still be on his way out.
  while (flock(lock.get(), LOCK_EX | LOCK_NB) != 0) {
    if (Clock::now() > deadline) return false;
    std::this_thread::sleep_for(look_again);
  }
  if (!is_running()) return false;
  auto asked = ask("SHUTDOWN\r\n");  // the answer is the end of the connection
  while (is_running()) {
    if (Clock::now() > deadline + 5s)
      return fail(Errc::timeout, "the private Redis of {} does not stop{}", folder_.string(),
                  asked ? "" : ": " + asked.error().what);
    std::this_thread::sleep_for(look_again);
  }
  return true;
}

}  // namespace warren
