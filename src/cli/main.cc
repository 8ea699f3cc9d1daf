// The program. Builds the parts, hands them to the command that was asked for, and reports.
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <filesystem>

#include "base/log.h"
#include "cli/cli.h"
#include "cli/fleet/fleet.h"
#include "cli/foghorn/foghorn.h"
#include "cli/say.h"
#include "cli/session/session.h"
#include "cli/terminal.h"
#include "proof/torture/worker.h"
#include "services/session/process/shim.h"

namespace warren::cli {

namespace {

using Environment = std::map<std::string, std::string>;

std::string variable(const Environment& environment, const std::string& name) {
  auto found = environment.find(name);
  return found == environment.end() ? "" : found->second;
}

// What a name stands for; what is not there yet is said to be so.
std::string description_of(const std::string& program) {
  std::string what =
      "Warren lets many copies of a program share one Redis without stepping on each other.\n"
      "It has instances of a project folder with agents that work on goals, a search for code in "
      "one\n"
      "repository or in a fleet of them, Foghorn, which finds the best edge for every viewer of a\n"
      "stream, sessions with one sandbox each, and tools to look at Redis and at this machine.";
  if (program == "foghorn")
    return "foghorn is another name of warren, for the service that finds the best edge for every\n"
           "viewer: `foghorn serve`. docs/foghorn.md is its guide.\n\n" +
           what;
  if (program == "warren") return what;
  return fmt::format(
      "{0} is another name of warren: the keys of its instances begin with {0}, and {0}.yml "
      "describes\n"
      "their agents.\n\n{1}",
      program, what);
}

constexpr auto root_footer = R"(Settings
  A value is taken from the first of: flag, environment, configuration file, default. X_FILE beside
  X in the environment names a file that holds the value. Secrets cannot be flags, since every user
  of the machine can read those: REDIS_PASSWORD, or REDIS_PASSWORD_FILE. The file is --config, else
  $WARREN_CONFIG, else warren.toml here, else in ~/.config/warren. What one that lies here says counts
  only once you have allowed its content with `warren config allow`.
    [redis]
    url = "redis://redis.example:6379"

Examples
  warren up
  warren list
  warren redis ping --redis-url redis://redis.example:6379
  warren redis info --json
  warren config show
  warren doctor
  warren torture lease --seconds 60
  source <(warren completion bash)

Exit codes
  0  it worked                             3  Redis cannot be reached, or not in time
  1  the operation failed                  4  denied: password, permission or certificate
  2  wrong usage or configuration)";

// What to write behind the flag of a setting.
std::string kind_of_setting(const std::string& name) {
  if (name == "redis.mode") return "single|sentinel|cluster";
  if (name == "redis.tls" || name == "redis.tls-verify") return "true|false";
  if (name == "log.format") return "logfmt|json";
  for (auto ending : {"-ca", "-cert", "-key"})
    if (name.ends_with(ending)) return "FILE";
  if (name.ends_with("-timeout")) return "TIME";
  if (name == "log.level") return "LEVEL";
  return name.ends_with(".db") ? "N" : name.ends_with(".url") ? "URL" : "TEXT";
}

void add_settings(CLI::App& root) {
  for (auto& setting : all_settings()) {
    if (setting.secret || is_of_foghorn(setting) || is_of_fleet(setting) || is_of_session(setting))
      continue;
    auto help =
        setting.help + (setting.environment.empty() ? "" : " [" + setting.environment + "]");
    add_value(root, flag_of(setting), kind_of_setting(setting.name), help, nullptr,
              setting.fallback)
        ->group(setting.name.starts_with("redis.") ? "Redis, with any command"
                                                   : "With any command");
  }
}

void add_everything(CLI::App& root, const std::string& program, Action& chosen) {
  root.fallthrough();
  root.require_subcommand(1);
  root.set_help_flag("-h,--help", "this text; also for each command")->group("With any command");
  auto version =
      program == "warren" ? "warren " WARREN_VERSION : program + " (warren) " WARREN_VERSION;
  root.set_version_flag("--version", version, "name and version")->group("With any command");
  add_value(root, "--config", "FILE", "the configuration file", nullptr)->group("With any command");
  add_value(root, "--color", "auto|always|never", "auto: on a terminal, unless NO_COLOR is set",
            one_of({"auto", "always", "never"}), "auto")
      ->group("With any command");
  add_settings(root);

  add_up(root, chosen);
  add_down(root, chosen);
  add_list(root, chosen);
  add_boards(root, chosen);
  add_status(root, chosen);
  add_logs(root, chosen);
  add_destroy(root, chosen);
  add_orchestrate(root, chosen);
  add_forage(root, chosen);
  add_watch(root, chosen);
  add_hoard(root, chosen);
  add_questions(root, chosen);
  add_answer(root, chosen);
  add_explain(root, chosen);
  add_cancel(root, chosen);
  add_retry(root, chosen);
  add_pause(root, chosen);
  add_resume(root, chosen);
  add_init(root, chosen);
  add_lint(root, chosen);
  add_agent(root, chosen);
  add_export(root, chosen);
  add_import(root, chosen);
  add_search(root, chosen);
  add_fleet(root, chosen);
  add_session(root, chosen);
  add_serve(root, chosen);
  add_foghorn_looks(root, chosen);
  auto* redis = add_command(root, "redis", "Look at Redis", "Look at Redis");
  need_command(*redis);
  add_redis_ping(*redis, chosen);
  add_redis_info(*redis, chosen);
  add_redis_private(*redis, chosen);
  add_config(root, chosen);
  add_doctor(root, chosen);
  add_torture(root, chosen);
  add_simulate(root, chosen);
  add_completion(root, chosen);
  root.footer(root_footer);
}

Paint paint_for(const CLI::App& root, const Environment& environment, int file) {
  auto when = value_of(*root.get_option("--color"));
  if (when == "always") return Paint(true);
  bool wanted = when != "never" && variable(environment, "NO_COLOR").empty() &&
                variable(environment, "TERM") != "dumb";
  return Paint(wanted && isatty(file));
}

// A file that was asked for must exist; one in the usual places may. `is_found`: it lies in the
// current folder and was not asked for.
std::string config_file(const CLI::App& root, const Environment& environment, bool& is_found) {
  auto* given = root.get_option("--config");
  if (is_given(*given)) return value_of(*given);
  if (auto file = variable(environment, "WARREN_CONFIG"); !file.empty()) return file;
  auto home = variable(environment, "HOME");
  auto folder = variable(environment, "XDG_CONFIG_HOME");
  if (folder.empty() && !home.empty()) folder = home + "/.config";
  std::error_code ignored;
  is_found = std::filesystem::exists(std::filesystem::symlink_status("warren.toml", ignored));
  if (is_found) return "warren.toml";
  auto file = folder + "/warren/warren.toml";
  return !folder.empty() && std::filesystem::exists(file, ignored) ? file : "";
}

ConfigSources sources_of(const CLI::App& root, Environment environment) {
  ConfigSources sources;
  sources.file = config_file(root, environment, sources.is_found);
  sources.environment = std::move(environment);
  for (auto& setting : all_settings()) {
    bool is_flag = !setting.secret && !is_of_foghorn(setting) && !is_of_fleet(setting) &&
                   !is_of_session(setting);
    auto* option = is_flag ? root.get_option(flag_of(setting)) : nullptr;
    if (option && is_given(*option)) sources.flags[setting.name] = value_of(*option);
  }
  return sources;
}

void report(const Paint& paint, const std::string& what, const std::string& hint) {
  say("{} {}\n", paint.red("error:"), printable(what));
  if (!hint.empty()) say("{} {}\n", paint.yellow("hint:"), printable(hint));
}

// CLI11 throws what it has to say; none of that leaves this function. No value: go on.
std::optional<Exit> parse(CLI::App& root, std::vector<std::string> words,
                          const Environment& environment) {
  try {
    parse_words(root, std::move(words));
    return std::nullopt;
  } catch (const CLI::CallForHelp&) {
    auto paint = paint_for(root, environment, STDOUT_FILENO);
    fmt::print("{}", help_of(asked_for(root), paint));
    return Exit::ok;
  } catch (const CLI::CallForVersion& version) {
    fmt::print("{}\n", version.what());
    return Exit::ok;
  } catch (const CLI::ParseError& error) {
    auto paint = paint_for(root, environment, STDERR_FILENO);
    auto& app = asked_for(root);
    bool is_incomplete = !commands_of(app).empty() && not_understood(root).empty() &&
                         dynamic_cast<const CLI::RequiredError*>(&error);
    if (is_incomplete) {
      say("{}", help_of(app, paint));
    } else {
      std::string says = error.what();
      if (dynamic_cast<const CLI::ArgumentMismatch*>(&error))
        says = says.substr(0, says.find(':')) + " needs a value";
      auto [what, hint] = explain_misuse(root, says);
      report(paint, what, hint);
    }
    return Exit::usage;
  }
}

// These run for long and start tools, or none at all; what they need is in the Context.
bool keeps_secrets_to_itself(const std::string& command) {
  for (std::string_view each : {" orchestrate", " agent run", " serve"})
    if (command.ends_with(each) && !command.ends_with(" session serve")) return true;
  return false;
}

Exit run(int argc, char** argv) {
  auto environment = process_environment();
  auto program = std::filesystem::path(argc > 0 ? argv[0] : "warren").filename().string();
  Action chosen;
  CLI::App root(description_of(program), program);
  add_everything(root, program, chosen);
  std::vector<std::string> words(argv + std::min(argc, 1), argv + argc);
  if (auto done = parse(root, std::move(words), environment)) return *done;
  if (keeps_secrets_to_itself(path_of(asked_for(root)))) hide_secrets(all_settings());

  asio::io_context io(1);
  auto out = paint_for(root, environment, STDOUT_FILENO);
  auto err = paint_for(root, environment, STDERR_FILENO);
  Context context{io, sources_of(root, std::move(environment)), out, err};
  auto result = chosen(context);
  if (result) return *result;
  std::fflush(stdout);  // what was found out before the error comes before it
  const auto& error = result.error();
  report(err, error.what, hint_for(error, path_of(asked_for(root))));
  return exit_for(error);
}

// A stream that was closed must not become the first file that is opened: what is meant for people
// would be written into it. Such a stream is one that cannot be used.
void fill_closed_streams() {
  for (int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
    if (fcntl(stream, F_GETFD) < 0)
      // The lowest number that is free, and so this one. Not closed on exec, as no stream is.
      static_cast<void>(open("/dev/null", stream == STDIN_FILENO ? O_WRONLY : O_RDONLY));
}

}  // namespace

}  // namespace warren::cli

// What escapes is a mistake of ours, and ends the process with its text, as `ensure` would.
// NOLINTNEXTLINE(bugprone-exception-escape)
int main(int argc, char** argv) {
  using namespace warren::cli;
  fill_closed_streams();
  // `warren torture` runs this program again, as processes that it can stop and kill.
  std::vector<std::string> words(argv + std::min(argc, 1), argv + argc);
  if (auto done = warren::torture::run_as_worker(words)) return *done;
  // A sandbox is kept by this program, run again.
  if (auto done = warren::session::run_as_shim(words)) return *done;
  guard_terminals();
  auto exit = Exit::failed;
  try {
    exit = run(argc, argv);
  } catch (const std::system_error&) {
    // fmt tells with this that it could not print; said below, if it was standard output.
    if (!std::ferror(stdout)) throw;
  }
  if (std::fflush(stdout) != 0 || std::ferror(stdout)) {
    say("error: standard output cannot be written\n");
    exit = Exit::failed;
  }
  return static_cast<int>(exit);
}
