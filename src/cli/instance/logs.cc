// warren logs: shows what the orchestrator of an instance wrote.
#include <fmt/format.h>
#include <sys/stat.h>

#include <fstream>
#include <set>

#include "cli/instance/daemon_log.h"
#include "cli/instance/which.h"

namespace warren::cli {

using namespace asio::experimental::awaitable_operators;

namespace {

constexpr auto look_again = 100ms;

// Whether a line is about this agent, in either log format.
bool is_about(std::string_view line, const std::string& agent) {
  if (agent.empty()) return true;
  if (line.contains(fmt::format("\"role\":\"{}\"", agent))) return true;
  auto word = fmt::format(" role={}", agent);
  for (auto at = line.find(word); at != line.npos; at = line.find(word, at + 1)) {
    auto end = at + word.size();
    if (end == line.size() || line[end] == ' ') return true;
  }
  return false;
}

// The word after role=, or after "role": in JSON.
void note_role(std::string_view line, std::set<std::string>& roles) {
  for (std::string_view before : {" role=", "\"role\":\""}) {
    auto at = line.find(before);
    if (at == line.npos) continue;
    auto word = line.substr(at + before.size());
    roles.emplace(word.substr(0, word.find_first_of(" \"")));
  }
}

// A file that grows, read line by line.
class GrowingFile {
 public:
  explicit GrowingFile(std::filesystem::path path) : path_(std::move(path)), in_(path_) {
    inode_ = inode_now();
  }
  // Prints the added lines. An incomplete last line is printed only when the file has ended.
  void print_new(const std::string& agent, bool has_ended) {
    in_.clear();
    std::string bytes(64u << 10, '\0');
    while (in_.read(bytes.data(), static_cast<std::streamsize>(bytes.size())), in_.gcount() > 0) {
      rest_.append(bytes, 0, static_cast<std::size_t>(in_.gcount()));
      read_ += in_.gcount();
      print_lines(agent);
    }
    if (has_ended && !rest_.empty()) print_line(rest_, agent);
    if (has_ended) rest_.clear();
    std::fflush(stdout);
  }
  // The file was truncated or replaced, so read it from the beginning.
  bool begins_anew() {
    struct stat status{};
    if (::stat(path_.c_str(), &status) != 0) return false;  // a new file will appear soon
    if (status.st_ino == inode_ && status.st_size >= read_) return false;
    return true;
  }

  // The roles that its lines mention.
  const std::set<std::string>& roles() const { return roles_; }

 private:
  void print_lines(const std::string& agent) {
    std::size_t begin = 0;
    for (auto end = rest_.find('\n'); end != rest_.npos; end = rest_.find('\n', begin)) {
      print_line(std::string_view(rest_).substr(begin, end - begin), agent);
      begin = end + 1;
    }
    rest_.erase(0, begin);
  }
  void print_line(std::string_view line, const std::string& agent) {
    note_role(line, roles_);
    if (is_about(line, agent)) fmt::print("{}\n", printable(line));
  }
  ino_t inode_now() const {
    struct stat status{};
    return ::stat(path_.c_str(), &status) == 0 ? status.st_ino : 0;
  }

  std::filesystem::path path_;
  std::ifstream in_;
  ino_t inode_ = 0;
  std::int64_t read_ = 0;
  std::string rest_;
  std::set<std::string> roles_;
};

awaitable<void> follow(std::filesystem::path path, std::string agent) {
  auto file = std::make_unique<GrowingFile>(path);
  for (;;) {
    bool is_old = file->begins_anew();
    file->print_new(agent, is_old);
    if (is_old) file = std::make_unique<GrowingFile>(path);
    co_await sleep_for(look_again);
    auto state = co_await asio::this_coro::cancellation_state;
    if (is_cancelled(state)) co_return;
  }
}

Result<Exit> print_logs(const std::filesystem::path& place, const std::string& agent,
                        bool follows) {
  auto files = daemon_logs(place);
  if (files.empty())
    return fail(Errc::not_found,
                "there is no {}: the instance was started by somebody else, on "
                "another machine, or never",
                place.string());
  bool has_current = files.back() == place;
  std::set<std::string> roles;
  for (const auto& file : files) {
    if (follows && has_current && file == place) continue;
    GrowingFile log(file);
    log.print_new(agent, true);
    roles.insert(log.roles().begin(), log.roles().end());
  }
  if (!follows && !agent.empty() && !roles.contains(agent)) {
    auto known = roles.empty() ? "no role" : fmt::format("{}", fmt::join(roles, ", "));
    return fail(Errc::not_found, "no line of the log is about a role '{}': it knows {}", agent,
                known);
  }
  if (!follows) return Exit::ok;
  asio::io_context io(1);
  auto until_interrupted = [](std::filesystem::path path, std::string of) -> awaitable<void> {
    co_await (follow(std::move(path), std::move(of)) || interrupted());
  };
  asio::co_spawn(io, until_interrupted(place, agent), [](std::exception_ptr thrown) {
    ensure(!thrown, "a command returns its errors");
  });
  io.run();
  return Exit::ok;
}

// The name of the instance of this folder.
Result<std::string> name_here(const Context& context, const Which& which) {
  std::string found;
  auto look = [](redis::Client& client, Which wanted, std::string& into) -> Async<Exit> {
    Registry registry(client, wanted.prefix);
    auto instances = co_await registry.boards();
    if (!instances) co_return std::unexpected(instances.error());
    auto instance = choose_instance(*instances, wanted, workspace_here(), Need::data);
    if (!instance) co_return std::unexpected(instance.error());
    into = instance->name;
    co_return Exit::ok;
  };
  auto looked = with_registry(context, which.program,
                              [&](redis::Client& client) { return look(client, which, found); });
  if (!looked) return std::unexpected(looked.error());
  return found;
}

}  // namespace

void add_logs(CLI::App& root, Action& chosen) {
  auto* app = add_command(root, "logs", "What the orchestrator of an instance wrote", "Instances");
  set_footer(
      *app,
      "This run, and a few before it. Of an instance that was started on this machine, by this "
      "user.\n\n"
      "Examples\n"
      "  warren logs -f\n"
      "  warren logs --name myproject coder");
  auto which = add_which(*app);
  auto* agent = add_value(*app, "agent", "AGENT", "only lines about this agent", nullptr);
  auto* follows = add_switch(*app, "-f,--follow", "go on with what it writes from now on");
  when_chosen(*app, [=, &chosen] {
    chosen = [=](const Context& context) -> Result<Exit> {
      auto meant = which_of(which);
      if (meant.name.empty()) {
        auto name = name_here(context, meant);
        if (!name) return std::unexpected(name.error());
        meant.name = *std::move(name);
      }
      auto folder = state_folder(context);
      if (!folder) return std::unexpected(folder.error());
      return print_logs(daemon_log(*folder, meant.prefix, meant.name), value_of(*agent),
                        is_given(*follows));
    };
  });
}

}  // namespace warren::cli
