#include "services/session/process/kin.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <set>
#include <string>
#include <thread>

namespace warren::session {

namespace fs = std::filesystem;

namespace {

constexpr auto look_at_rest = 5ms;

std::string read_all(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

std::optional<pid_t> pid_called(std::string_view name) {
  pid_t pid = 0;
  auto read = std::from_chars(name.data(), name.data() + name.size(), pid);
  if (read.ec != std::errc() || read.ptr != name.data() + name.size()) return std::nullopt;
  return pid;
}

std::vector<pid_t> all_processes() {
  std::vector<pid_t> all;
  std::error_code error;
  for (auto entry = fs::directory_iterator("/proc", error);
       !error && entry != fs::directory_iterator(); entry.increment(error))
    if (auto pid = pid_called(entry->path().filename().string())) all.push_back(*pid);
  return all;
}

// Signals what was looked at, or nobody.
template <class IsOurs>
bool kill_if(pid_t pid, IsOurs is_ours) {
  int opened = static_cast<int>(::syscall(SYS_pidfd_open, pid, 0));
  if (opened < 0) return false;
  bool ours = is_ours(pid);
  if (ours) ::syscall(SYS_pidfd_send_signal, opened, SIGKILL, nullptr, 0);
  ::close(opened);
  return ours;
}

bool has_variable(pid_t pid, std::string_view wanted) {
  auto environment = read_all("/proc/" + std::to_string(pid) + "/environ");
  std::string_view rest = environment;
  while (!rest.empty()) {
    auto one = rest.substr(0, rest.find('\0'));
    if (one == wanted) return true;
    rest.remove_prefix(std::min(rest.size(), one.size() + 1));
  }
  return false;
}

// Sockets that listen on this port, of those in one of the kernel's tables.
void add_listeners(const char* table, unsigned short port, std::set<std::string>& inodes) {
  std::ifstream in(table);
  std::string line;
  std::getline(in, line);
  auto wanted = fmt::format(":{:04X}", port);
  while (std::getline(in, line)) {
    // sl local remote state queues timer retransmits uid timeout inode
    std::vector<std::string_view> words;
    std::string_view rest = line;
    while (!rest.empty() && words.size() < 10) {
      rest.remove_prefix(std::min(rest.size(), rest.find_first_not_of(' ')));
      auto word = rest.substr(0, rest.find(' '));
      if (word.empty()) break;
      words.push_back(word);
      rest.remove_prefix(word.size());
    }
    if (words.size() == 10 && words[3] == "0A" && words[1].ends_with(wanted))
      inodes.insert(fmt::format("socket:[{}]", words[9]));
  }
}

bool has_open(pid_t pid, const std::set<std::string>& inodes) {
  std::error_code error;
  for (auto entry = fs::directory_iterator(fmt::format("/proc/{}/fd", pid), error);
       !error && entry != fs::directory_iterator(); entry.increment(error)) {
    std::error_code ignored;
    if (inodes.contains(fs::read_symlink(entry->path(), ignored).string())) return true;
  }
  return false;
}

}  // namespace

std::uint64_t began_at(pid_t pid) {
  if (pid <= 0) return 0;
  auto text = read_all("/proc/" + std::to_string(pid) + "/stat");
  // The name of the program is in parentheses, and may have any of its own.
  auto end = text.rfind(')');
  if (end == text.npos || text.size() < end + 4) return 0;
  if (text[end + 2] == 'Z' || text[end + 2] == 'X') return 0;
  std::string_view rest = std::string_view(text).substr(end + 2);
  for (int field = 3; field < 22; ++field)
    rest.remove_prefix(std::min(rest.size(), rest.find(' ') + 1));
  std::uint64_t ticks = 0;
  std::from_chars(rest.data(), rest.data() + rest.size(), ticks);
  return ticks;
}

std::vector<pid_t> children_of(pid_t pid) {
  std::vector<pid_t> children;
  std::error_code error;
  for (auto task = fs::directory_iterator(fmt::format("/proc/{}/task", pid), error);
       !error && task != fs::directory_iterator(); task.increment(error)) {
    std::ifstream in(task->path() / "children");
    for (pid_t child = 0; in >> child;) children.push_back(child);
  }
  return children;
}

std::vector<pid_t> descendants_of(pid_t pid) {
  auto found = children_of(pid);
  for (std::size_t next = 0; next < found.size(); ++next) {
    auto more = children_of(found[next]);
    found.insert(found.end(), more.begin(), more.end());
  }
  return found;
}

bool listens(const std::vector<pid_t>& processes, unsigned short port) {
  std::set<std::string> inodes;
  add_listeners("/proc/self/net/tcp", port, inodes);
  add_listeners("/proc/self/net/tcp6", port, inodes);
  if (inodes.empty()) return false;
  return std::ranges::any_of(processes, [&](pid_t pid) { return has_open(pid, inodes); });
}

bool end_leftovers(pid_t main, std::uint64_t began, std::string_view incarnation,
                   Clock::time_point deadline) {
  auto wanted = fmt::format("{}={}", incarnation_variable, incarnation);
  for (;;) {
    bool is_left = began != 0 && began_at(main) == began;
    if (is_left) kill_if(main, [&](pid_t pid) { return began_at(pid) == began; });
    for (auto pid : all_processes())
      if (kill_if(pid, [&](pid_t one) { return began_at(one) != 0 && has_variable(one, wanted); }))
        is_left = true;
    if (!is_left) return true;
    if (Clock::now() > deadline) return false;
    std::this_thread::sleep_for(look_at_rest);
  }
}

}  // namespace warren::session
