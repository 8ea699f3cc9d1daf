#include "services/session/process/enclosure.h"

#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <linux/mount.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <climits>
#include <cstring>
#include <optional>
#include <set>

#include "base/error.h"

namespace warren::session {

namespace fs = std::filesystem;

namespace {

// Whom root gives the sandbox's files and processes to.
constexpr int nobody = 65534;
constexpr const char* new_root =
    "/tmp";  // it is private to the child, and every user may look there
constexpr std::array system_folders{"/usr",   "/bin",    "/sbin", "/lib", "/lib32",
                                    "/lib64", "/libx32", "/opt",  "/etc"};
constexpr std::array devices{"null", "zero", "full", "random", "urandom", "tty"};

struct Pipe {
  int read_end = -1, write_end = -1;
  bool open() {
    std::array<int, 2> ends{};
    if (::pipe2(ends.data(), O_CLOEXEC) != 0) return false;
    read_end = ends[0];
    write_end = ends[1];
    return true;
  }
  void close_read() { close_one(read_end); }
  void close_write() { close_one(write_end); }
  static void close_one(int& end) {
    if (end >= 0) ::close(std::exchange(end, -1));
  }
};

// ---- In the child. Errors are told through a pipe, and end it.

int problems = -1;  // of the child, where it says what is wrong; one process has one

[[noreturn]] void give_up(const std::string& what) {
  auto text = what + ": " + std::strerror(errno);
  std::ignore = ::write(problems, text.data(), text.size());
  ::_exit(127);
}

void must(bool is_good, const std::string& what) {
  if (!is_good) give_up(what);
}

void make_folders(const fs::path& path) {
  fs::path made;
  for (const auto& part : path) {
    made /= part;
    if (::mkdir(made.c_str(), 0755) != 0 && errno != EEXIST && errno != EROFS) return;
  }
}

// What is at the descriptor appears at the path.
void bind(int from, const fs::path& to, bool is_read_only) {
  auto source = "/proc/self/fd/" + std::to_string(from);
  must(::mount(source.c_str(), to.c_str(), nullptr, MS_BIND | MS_REC, nullptr) == 0,
       "cannot show " + to.string());
  mount_attr attributes{};
  attributes.attr_set = MOUNT_ATTR_NOSUID | (is_read_only ? std::uint64_t{MOUNT_ATTR_RDONLY} : 0);
  must(::syscall(SYS_mount_setattr, AT_FDCWD, to.c_str(), AT_RECURSIVE, &attributes,
                 sizeof attributes) == 0,
       "cannot limit " + to.string());
}

void make_devices() {
  auto dev = std::string(new_root) + "/dev";
  ::mkdir(dev.c_str(), 0755);
  for (const auto* name : devices) {
    auto from = std::string("/dev/") + name;
    auto to = dev + "/" + name;
    int file = ::open(to.c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0666);
    if (file >= 0) ::close(file);
    must(::mount(from.c_str(), to.c_str(), nullptr, MS_BIND, nullptr) == 0, "cannot show " + from);
  }
  std::ignore = ::symlink("/proc/self/fd", (dev + "/fd").c_str());
  std::ignore = ::symlink("/proc/self/fd/0", (dev + "/stdin").c_str());
  std::ignore = ::symlink("/proc/self/fd/1", (dev + "/stdout").c_str());
  std::ignore = ::symlink("/proc/self/fd/2", (dev + "/stderr").c_str());
  ::mkdir((dev + "/shm").c_str(), 01777);
  ::chmod((dev + "/shm").c_str(), 01777);
  // Terminals; a machine without them has sandboxes without them.
  ::mkdir((dev + "/pts").c_str(), 0755);
  if (::mount("devpts", (dev + "/pts").c_str(), "devpts", MS_NOSUID | MS_NOEXEC,
              "newinstance,ptmxmode=0666,mode=620") == 0)
    std::ignore = ::symlink("pts/ptmx", (dev + "/ptmx").c_str());
}

// Opened while the paths may still be followed: as the sandbox's user they may not.
struct Sources {
  int work = -1;
  std::map<fs::path, int> shown = {};
};

int open_path(const fs::path& path) { return ::open(path.c_str(), O_PATH | O_CLOEXEC); }

Sources open_sources(const Enclosure& enclosure) {
  Sources sources;
  sources.work = open_path(enclosure.work);
  must(sources.work >= 0, enclosure.work.string());
  for (const auto* folder : system_folders)
    if (int opened = open_path(folder); opened >= 0) sources.shown[folder] = opened;
  for (const auto& folder : enclosure.shown) {
    int opened = open_path(folder);
    must(opened >= 0, folder.string());
    sources.shown[folder] = opened;
  }
  return sources;
}

// A link of the system, such as /bin -> usr/bin, stays one.
void show(const fs::path& path, int opened) {
  auto to = fs::path(new_root) / path.relative_path();
  std::error_code error;
  if (fs::is_symlink(path, error)) {
    auto target = fs::read_symlink(path, error);
    if (!error && target.is_relative() && ::symlink(target.c_str(), to.c_str()) == 0) return;
  }
  make_folders(to);
  bind(opened, to, true);
}

void build_root(const Enclosure& enclosure, const Sources& sources) {
  must(::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0,
       "namespaces are not permitted here: mount");
  must(::mount("tmpfs", new_root, "tmpfs", MS_NOSUID | MS_NODEV, "mode=0755,size=64m") == 0,
       "namespaces are not permitted here: tmpfs");
  auto root = fs::path(new_root);
  for (const auto* name : {"proc", "tmp", "workspace"}) ::mkdir((root / name).c_str(), 0755);
  must(::mount("tmpfs", (root / "tmp").c_str(), "tmpfs", MS_NOSUID | MS_NODEV,
               "mode=1777,size=256m") == 0,
       "cannot make /tmp");
  for (const auto& [path, opened] : sources.shown) show(path, opened);
  make_devices();
  must(::mount("proc", (root / "proc").c_str(), "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC,
               nullptr) == 0,
       "namespaces are not permitted here: proc");
  bind(sources.work, root / "workspace", false);
  // Where a pod has its files, the sandbox has them too.
  auto wanted = fs::path(enclosure.working_dir).lexically_normal();
  auto inside = root / wanted.relative_path();
  struct stat found{};
  bool is_elsewhere = wanted.is_absolute() && wanted != "/" && ::stat(inside.c_str(), &found) != 0;
  if (!is_elsewhere) return;
  make_folders(inside);
  if (::stat(inside.c_str(), &found) == 0) bind(sources.work, inside, false);
}

void enter_root() {
  must(::chdir(new_root) == 0 && ::syscall(SYS_pivot_root, ".", ".") == 0 &&
           ::umount2(".", MNT_DETACH) == 0 && ::chdir("/") == 0,
       "namespaces are not permitted here: pivot_root");
}

void drop_capabilities() {
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  std::array<__user_cap_data_struct, 2> none{};
  must(::syscall(SYS_capset, &header, none.data()) == 0, "capabilities cannot be dropped");
}

void limit(decltype(RLIMIT_CORE) what, std::uint64_t most) {
  rlimit now{};
  if (::getrlimit(what, &now) != 0) return;
  now.rlim_max = std::min<rlim_t>(now.rlim_max, most);
  now.rlim_cur = now.rlim_max;
  ::setrlimit(what, &now);
}

void apply_limits(const Enclosure& enclosure) {
  limit(RLIMIT_CORE, 0);
  limit(RLIMIT_NOFILE, static_cast<std::uint64_t>(enclosure.most_files));
  if (enclosure.most_memory > 0) limit(RLIMIT_DATA, enclosure.most_memory);
  if (enclosure.most_processes > 0)
    limit(RLIMIT_NPROC, static_cast<std::uint64_t>(enclosure.most_processes));
}

[[noreturn]] void execute(const Enclosure& enclosure) {
  std::vector<std::string> variables;
  for (const auto& [name, value] : enclosure.environment) variables.push_back(name + "=" + value);
  std::vector<char*> argv, environment;
  auto words = enclosure.argv;
  for (auto& word : words) argv.push_back(word.data());
  for (auto& variable : variables) environment.push_back(variable.data());
  argv.push_back(nullptr);
  environment.push_back(nullptr);
  auto folder = enclosure.is_isolated ? enclosure.working_dir : enclosure.work.string();
  if (folder.empty()) folder = "/workspace";
  must(::chdir(folder.c_str()) == 0, folder);
  int nothing = ::open("/dev/null", O_RDONLY);
  ::dup2(nothing, STDIN_FILENO);
  ::dup2(enclosure.output, STDOUT_FILENO);
  ::dup2(enclosure.output, STDERR_FILENO);
  ::syscall(SYS_close_range, 3u, UINT_MAX, 4u /* close on exec */);
  sigset_t none;
  sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  for (int number = 1; number < NSIG; ++number) ::signal(number, SIG_DFL);
  ::umask(022);
  ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
  ::environ = environment.data();  // the new PATH counts
  ::execvp(argv[0], argv.data());
  give_up(enclosure.argv[0]);
}

// The first process of the namespace: buries everybody, and ends with the one that matters.
[[noreturn]] void keep_house(const Enclosure& enclosure) {
  ::signal(SIGTERM, [](int) { ::kill(-1, SIGTERM); });
  pid_t main = ::fork();
  must(main >= 0, "fork");
  if (main == 0) {
    ::setsid();
    apply_limits(enclosure);
    execute(enclosure);
  }
  // What it holds open, others would wait for.
  int nothing = ::open("/dev/null", O_RDWR | O_CLOEXEC);
  for (int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) ::dup2(nothing, stream);
  ::close(problems);
  ::close(enclosure.output);
  for (;;) {
    int status = 0;
    pid_t ended = ::waitpid(-1, &status, 0);
    if (ended < 0 && errno != EINTR) ::_exit(127);
    if (ended == main) ::_exit(WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
  }
}

void wait_for_word(int from) {
  char word = 0;
  while (::read(from, &word, 1) != 1)
    if (errno != EINTR) ::_exit(127);  // whoever started us is gone
}

[[noreturn]] void run_isolated(const Enclosure& enclosure, int words, int answers) {
  wait_for_word(words);  // the users are mapped
  auto sources = open_sources(enclosure);
  auto user = static_cast<uid_t>(enclosure.user);
  auto group = static_cast<gid_t>(enclosure.group);
  must(::setresgid(group, group, group) == 0 && ::setresuid(user, user, user) == 0,
       "namespaces are not permitted here: setresuid");
  ::prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
  std::ignore = ::write(answers, "r", 1);
  wait_for_word(words);  // it lived when we had asked to die with it
  build_root(enclosure, sources);
  enter_root();
  ::sethostname(enclosure.host_name.data(), enclosure.host_name.size());
  drop_capabilities();
  keep_house(enclosure);
}

[[noreturn]] void run_open(const Enclosure& enclosure, int words, int answers) {
  wait_for_word(words);
  ::setsid();
  ::prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
  std::ignore = ::write(answers, "r", 1);
  wait_for_word(words);
  apply_limits(enclosure);
  execute(enclosure);
}

// ---- In the parent.

bool write_word(int to) { return ::write(to, "w", 1) == 1; }

Result<> map_users(pid_t child, const Enclosure& enclosure) {
  bool is_root = ::geteuid() == 0;
  auto put = [&](const char* file, const std::string& text) {
    auto path = fmt::format("/proc/{}/{}", child, file);
    int opened = ::open(path.c_str(), O_WRONLY | O_CLOEXEC);
    bool is_written =
        opened >= 0 && ::write(opened, text.data(), text.size()) == ssize_t(text.size());
    if (opened >= 0) ::close(opened);
    return is_written;
  };
  int user = is_root ? nobody : static_cast<int>(::geteuid());
  int group = is_root ? nobody : static_cast<int>(::getegid());
  bool are_mapped = put("setgroups", "deny") &&
                    put("uid_map", fmt::format("{} {} 1", enclosure.user, user)) &&
                    put("gid_map", fmt::format("{} {} 1", enclosure.group, group));
  if (!are_mapped)
    return fail(Errc::denied, "namespaces are not permitted here: {}", std::strerror(errno));
  return ok;
}

// Its files belong to whom it is.
Result<> give_away(const fs::path& work) {
  // Groups stay through all that follows, and root's may read what others may not.
  if (::geteuid() == 0) ::setgroups(0, nullptr);
  struct stat found{};
  if (::geteuid() != 0 || (::stat(work.c_str(), &found) == 0 && found.st_uid == nobody)) return ok;
  if (::chown(work.c_str(), nobody, nobody) != 0)
    return fail(Errc::denied, "{}: {}", work.string(), std::strerror(errno));
  return ok;
}

std::string read_to_end(int from) {
  std::string text;
  std::array<char, 512> part{};
  for (;;) {
    auto count = ::read(from, part.data(), part.size());
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return text;
    text.append(part.data(), static_cast<std::size_t>(count));
  }
}

// What the child says before it is what it should be: 'r', and then nothing, or what is wrong.
Result<> see_it_start(pid_t child, const Enclosure& enclosure, int words, int answers) {
  if (enclosure.is_isolated)
    if (auto mapped = map_users(child, enclosure); !mapped) return mapped;
  char answer = 0;
  bool is_there = write_word(words) && ::read(answers, &answer, 1) == 1;
  std::string problem;
  if (!is_there || answer != 'r') {
    problem = std::string(1, answer) + read_to_end(answers);
  } else {
    write_word(words);
    problem = read_to_end(answers);
  }
  if (is_there && problem.empty()) return ok;
  auto code = problem.starts_with("namespaces") ? Errc::denied : Errc::invalid;
  return fail(code, "{}", problem.empty() || problem[0] == '\0' ? "it ended at once" : problem);
}

}  // namespace

Result<pid_t> enclose(const Enclosure& enclosure) {
  if (enclosure.is_isolated)
    if (auto given = give_away(enclosure.work); !given) return std::unexpected(given.error());
  Pipe words, answers;
  if (!words.open() || !answers.open())
    return fail(Errc::overloaded, "pipe: {}", std::strerror(errno));
  unsigned long flags = SIGCHLD;
  if (enclosure.is_isolated)
    flags |= CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWIPC | CLONE_NEWUTS;
  auto child = static_cast<pid_t>(::syscall(SYS_clone, flags, nullptr, nullptr, nullptr, nullptr));
  if (child == 0) {
    problems = answers.write_end;
    words.close_write();
    answers.close_read();
    if (enclosure.is_isolated) run_isolated(enclosure, words.read_end, answers.write_end);
    run_open(enclosure, words.read_end, answers.write_end);
  }
  int error = errno;
  words.close_read();
  answers.close_write();
  Result<> started = ok;
  if (child < 0)
    started = fail(enclosure.is_isolated ? Errc::denied : Errc::overloaded, "{}: {}",
                   enclosure.is_isolated ? "namespaces are not permitted here" : "fork",
                   std::strerror(error));
  else
    started = see_it_start(child, enclosure, words.write_end, answers.read_end);
  words.close_write();
  answers.close_read();
  if (started) return child;
  if (child > 0) {
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
  }
  return std::unexpected(started.error());
}

Result<> check_isolation() {
  auto folder = fs::temp_directory_path() / ("warren-isolation-" + std::to_string(::getpid()));
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) return fail(Errc::denied, "{}: {}", folder.string(), error.message());
  Enclosure trial{.work = folder, .host_name = "trial", .argv = {"true"}};
  trial.environment["PATH"] = "/usr/local/bin:/usr/bin:/bin";
  trial.output = ::open("/dev/null", O_WRONLY | O_CLOEXEC);
  auto child = enclose(trial);
  ::close(trial.output);
  int status = 0;
  if (child) ::waitpid(*child, &status, 0);
  fs::remove_all(folder, error);
  if (!child) return std::unexpected(child.error());
  if (status != 0) return fail(Errc::denied, "namespaces are not permitted here");
  return ok;
}

}  // namespace warren::session
