// warren up: starts an instance in the background, and returns when it is ready.
#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>

#include "base/causes.h"
#include "base/uuid.h"
#include "cli/board/crew_file.h"
#include "cli/causes.h"
#include "cli/instance/boards.h"
#include "cli/instance/daemon_log.h"
#include "cli/instance/instances.h"
#include "cli/redis/survey.h"
#include "cli/say.h"
#include "services/instance/causes.h"

extern char** environ;

namespace warren::cli {

namespace {

constexpr int report_descriptor = 3, use_descriptor = 4;

struct UpOptions {
  std::string prefix, name, ttl;
  bool is_forced = false, with_agents = true, resumes = false, is_replicated = true;
  std::chrono::milliseconds timeout{};
};

// The command line of the daemon: ours, as far as it says where Redis is.
std::vector<std::string> daemon_words(const Context& context, const UpOptions& options,
                                      const std::string& program) {
  std::vector<std::string> words{
      program, "orchestrate", "--prefix",    options.prefix,
      "--ttl", options.ttl,   "--report-to", std::to_string(report_descriptor)};
  if (!options.with_agents) words.emplace_back("--no-agents");
  if (!options.is_replicated) words.emplace_back("--unreplicated");
  if (!options.name.empty()) words.insert(words.end(), {"--name", options.name});
  if (options.is_forced) words.emplace_back("--force");
  // The daemon finds warren.toml of this folder by itself, and checks again that it is allowed.
  if (!context.sources.file.empty() && !context.sources.is_found)
    words.insert(words.end(), {"--config", context.sources.file});
  auto flags = context.sources.flags;
  auto config = load_config(context);
  if (config && !config->at("log.level").is_set) flags.try_emplace("log.level", "info");
  for (auto& setting : all_settings())
    if (flags.contains(setting.name))
      words.insert(words.end(), {flag_of(setting), flags[setting.name]});
  return words;
}

struct Daemon {
  pid_t pid = 0;
  int report = -1;
  std::filesystem::path log;
};

Result<Daemon> start_daemon(const Context& context, const UpOptions& options,
                            const std::string& program, int use) {
  auto folder = state_folder(context);
  if (!folder) return std::unexpected(folder.error());
  Daemon daemon;
  daemon.log = *folder / fmt::format("{}-{}.log", options.prefix, uuid4());
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0)
    return fail(Errc::unavailable, warren::causes::no_resources, "", "no pipe can be had");
  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  posix_spawn_file_actions_addopen(&files, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&files, 1, daemon.log.c_str(), O_WRONLY | O_CREAT | O_APPEND,
                                   0600);
  posix_spawn_file_actions_adddup2(&files, 1, 2);
  // Duplicates stay open for the daemon; from high numbers, lest one take the place of the other.
  auto report = fcntl(ends[1], F_DUPFD_CLOEXEC, 10), kept = fcntl(use, F_DUPFD_CLOEXEC, 10);
  posix_spawn_file_actions_adddup2(&files, report, report_descriptor);
  if (kept >= 0) posix_spawn_file_actions_adddup2(&files, kept, use_descriptor);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSID);
  auto words = daemon_words(context, options, program);
  std::vector<char*> argv;
  for (auto& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  int error = posix_spawn(&daemon.pid, "/proc/self/exe", &files, &attributes, argv.data(), environ);
  posix_spawn_file_actions_destroy(&files);
  posix_spawnattr_destroy(&attributes);
  for (int file : {ends[1], report, kept})
    if (file >= 0) ::close(file);
  daemon.report = ends[0];
  if (error != 0) {
    ::close(ends[0]);
    return fail(Errc::unavailable, warren::causes::no_resources, "",
                "the orchestrator cannot be started: {}", std::strerror(error));
  }
  return daemon;
}

// What the daemon says of its start; empty when it died, or says nothing in time.
std::string report_of(const Daemon& daemon, Clock::time_point deadline) {
  std::string line;
  while (!line.contains('\n')) {
    auto rest =
        std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count();
    pollfd waiting{daemon.report, POLLIN, 0};
    if (rest <= 0 || poll(&waiting, 1, static_cast<int>(rest)) <= 0) break;
    std::array<char, 512> bytes{};
    auto got = ::read(daemon.report, bytes.data(), bytes.size());
    if (got <= 0) break;
    line.append(bytes.data(), static_cast<std::size_t>(got));
  }
  ::close(daemon.report);
  return line.substr(0, line.find('\n'));
}

std::string end_of(const std::filesystem::path& file) {
  std::ifstream in(file);
  std::string line, last;
  while (std::getline(in, line)) last = line.empty() ? last : line;
  return last;
}

// As the documents print it.
Exit explain(const Error& error, const UpOptions& options, const std::string& program) {
  fmt::print(stderr, "Error: {}\n", printable(error.what));
  if (error.cause == instance::causes::name_taken) {
    fmt::print(stderr, "Try: {} list (to see active instances)\n", program);
    fmt::print(stderr, "Try: {} down --name {} (to stop existing instance)\n", program,
               options.name);
    fmt::print(stderr, "Try: {} up --name {}-2 (to use a different name)\n", program, options.name);
  } else if (error.cause == instance::causes::workspace_taken) {
    fmt::print(stderr, "Use --force to override this check, or run '{} down --name {}' first\n",
               program, printable(error.subject));
  }
  return Exit::failed;
}

// Whatever it is that keeps us from looking, the instance runs.
Async<Exit> warn_of_eviction(redis::Client& client, const Context& context) {
  auto warning = co_await eviction_warning(client, Clock::now() + 2s);
  if (!warning.empty()) say("{} {}\n", context.err.yellow("warning:"), printable(warning));
  co_return Exit::ok;
}

Async<Exit> collect_boards(redis::Client& client, std::string prefix, std::vector<Overview>& into) {
  auto found = co_await boards_left_in(client, std::move(prefix), workspace_here());
  if (!found) co_return std::unexpected(found.error());
  into = *std::move(found);
  co_return Exit::ok;
}

// The boards that were left in this folder.
Result<std::vector<Overview>> look_for_boards(const InstanceRedis& redis,
                                              const UpOptions& options) {
  std::vector<Overview> left;
  auto looked = with_instance_redis(redis, 5s, [&](redis::Client& client) {
    return collect_boards(client, options.prefix, left);
  });
  redis.context.io.restart();
  if (!looked) return std::unexpected(looked.error());
  return left;
}

// So that no work is forgotten. --resume chooses the board with open work, and an auto-named instance
// has none yet; one that was named may, so the other board has to be named, too.
void tell_of_boards(const std::vector<Overview>& left, const std::string& started,
                    const UpOptions& options, const std::string& program) {
  for (const auto& board : left) {
    if (open_work(board) == 0) continue;
    fmt::print("  A board with open work was left here: {} ({}).\n", board.instance.name,
               work_on(board));
  }
  if (!left.empty() && open_work(left.front()) > 0) {
    const auto& name = left.front().instance.name;
    auto way = options.name.empty() ? "--resume" : "--name " + name;
    fmt::print("  To go on with {0}: `{2} down --name {1}`, then `{2} up {3}`.\n", name, started,
               program, way);
  } else if (!left.empty() && left.front().artefacts.value_or(0) > 0) {
    fmt::print("  Boards were left here: `{} boards` lists them.\n", program);
  }
}

Result<Exit> up(InstanceRedis redis, UpOptions options, const std::string& program) {
  if (options.is_forced) fmt::print(stderr, "Warning: Overriding workspace path collision check\n");
  if (redis.is_embedded) {
    auto started = redis.embedded.start(Clock::now() + options.timeout);
    if (!started) return std::unexpected(started.error());
  }
  if (options.resumes) {
    auto left = look_for_boards(redis, options);
    if (!left) return std::unexpected(left.error());
    if (left->empty())
      return fail(Errc::not_found,
                  "no board was left in this folder: '{0} up' begins a new one, '{0} boards' lists "
                  "those of other folders",
                  program);
    options.name = left->front().instance.name;
  }
  // From its start on the daemon holds it, too: while anybody does, the private Redis runs.
  auto daemon = start_daemon(redis.context, options, program, redis.use.descriptor());
  if (!daemon) return std::unexpected(daemon.error());
  auto line = report_of(*daemon, Clock::now() + options.timeout);
  if (line.starts_with("ok ")) {
    auto space = line.find(' ', 3);
    auto name = line.substr(3, space - 3);
    auto log = daemon_log(daemon->log.parent_path(), options.prefix, name);
    place_daemon_log(daemon->log, log);
    fmt::print("Started instance: {}\n", name);
    fmt::print("  page  {}\n  log   {}\n", line.substr(space + 1), log.string());
    // Our own board is not among them: its instance runs.
    auto left = look_for_boards(redis, options);
    if (left) tell_of_boards(*left, name, options, program);
    auto look = [&](redis::Client& client) { return warn_of_eviction(client, redis.context); };
    if (!redis.is_embedded) (void)with_instance_redis(redis, 2s, look);
    return Exit::ok;
  }
  // It leaves no trace: what it holds in Redis it gives back when it ends.
  kill(daemon->pid, SIGTERM);
  int status = 0;
  waitpid(daemon->pid, &status, 0);
  auto last = end_of(daemon->log);
  std::error_code ignored;
  std::filesystem::remove(daemon->log, ignored);
  if (!line.starts_with("error "))
    return fail(Errc::timeout, causes::not_ready, "",
                "the orchestrator was not ready within {} ms. Its last words: {}",
                options.timeout.count(), last.empty() ? "none" : last);
  auto error = error_in(line.substr(6));
  if (error.code != Errc::held_elsewhere) return std::unexpected(error);
  return explain(error, options, program);
}

}  // namespace

void add_up(CLI::App& root, Action& chosen) {
  auto* app = add_command(root, "up", "Start an instance for this folder", "Instances");
  set_footer(
      *app,
      "Returns when the instance is ready; it goes on in the background. Where no Redis is "
      "configured,\n"
      "and none listens on port 6379 here, all instances of a user share a private one, which is\n"
      "started with the first and stopped with the last. A new instance begins an empty board; "
      "--resume\n"
      "goes on with the one that was left here, the latest with open work.\n\n"
      "Examples\n"
      "  warren up\n"
      "  warren up --name myproject");
  auto program = program_of(root);
  auto crew_file = crew_file_name(*app);
  auto* prefix = add_prefix(*app);
  auto* name = add_name(*app, "by default the next of default-1, default-2, …");
  auto* force = add_switch(*app, "--force", "although another instance has this folder");
  auto* resume = add_switch(*app, "--resume", "go on with the board that was left in this folder");
  auto* ttl = add_ttl(*app);
  auto* no_agents = add_no_agents(*app);
  auto* unreplicated = add_unreplicated(*app);
  auto* timeout = add_value(*app, "--timeout", "TIME", "until it must be ready", duration(), "30s");
  when_chosen(*app, [=, &chosen] {
    chosen = [=](const Context& context) -> Result<Exit> {
      if (auto there = check_workspace_here(); !there) return std::unexpected(there.error());
      // What is wrong with it is told here, and not in the log of a daemon.
      auto crew = find_crew(context, crew_file);
      if (!crew) return std::unexpected(crew.error());
      if (*crew)
        for (const auto& each : missing_tools(context, **crew, workspace_here()))
          fmt::print(stderr, "{} {}: {}\n", context.err.yellow("warning:"), crew_file,
                     printable(each));
      auto redis = find_instance_redis(context);
      if (!redis) return std::unexpected(redis.error());
      UpOptions options{value_of(*prefix),        value_of(*name),
                        value_of(*ttl),           is_given(*force),
                        !is_given(*no_agents),    is_given(*resume),
                        !is_given(*unreplicated), *parse_duration(value_of(*timeout))};
      if (options.resumes && !options.name.empty())
        return fail(Errc::invalid, causes::bad_words, "--resume",
                    "--resume finds the name itself; with --name it is not needed");
      auto started = up(std::move(*redis), std::move(options), program);
      if (!*crew && started && *started == Exit::ok)
        fmt::print("  There is no {} here, so nobody works on goals: `{} init` writes one.\n",
                   crew_file, program);
      return started;
    };
  });
}

}  // namespace warren::cli
