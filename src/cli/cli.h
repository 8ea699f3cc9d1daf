#pragma once
// Shared by the commands. main.cc builds the tree of commands and a Context. The file of each
// command adds its branch to the tree, and the chosen branch stores its action.
//
// Results go to standard output, messages to standard error.
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/config.h"
#include "base/printable.h"
#include "base/task.h"
#include "cli/hints.h"
#include "redis/client.h"

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace warren::cli {

class Paint {
 public:
  explicit Paint(bool is_on) : is_on_(is_on) {}
  bool is_on() const { return is_on_; }
  std::string bold(std::string_view text) const { return in("1", text); }
  std::string dim(std::string_view text) const { return in("2", text); }
  std::string red(std::string_view text) const { return in("31", text); }
  std::string green(std::string_view text) const { return in("32", text); }
  std::string yellow(std::string_view text) const { return in("33", text); }

 private:
  std::string in(std::string_view code, std::string_view text) const {
    return is_on_ ? fmt::format("\x1b[{}m{}\x1b[0m", code, text) : std::string(text);
  }
  bool is_on_;
};

struct Context {
  asio::io_context& io;
  ConfigSources sources;
  Paint out, err;  // for standard output and standard error
};
using Action = std::function<Result<Exit>(const Context& context)>;

// All settings. Those that are not secret are flags of every command.
std::vector<Setting> all_settings();
// Reads the settings and configures the log accordingly.
Result<Config> load_config(const Context& context);

void add_up(CLI::App& root, Action& chosen);
void add_down(CLI::App& root, Action& chosen);
void add_list(CLI::App& root, Action& chosen);
void add_boards(CLI::App& root, Action& chosen);
void add_status(CLI::App& root, Action& chosen);
void add_logs(CLI::App& root, Action& chosen);
void add_destroy(CLI::App& root, Action& chosen);
void add_orchestrate(CLI::App& root, Action& chosen);
void add_forage(CLI::App& root, Action& chosen);
void add_watch(CLI::App& root, Action& chosen);
void add_hoard(CLI::App& root, Action& chosen);
void add_lint(CLI::App& root, Action& chosen);
void add_questions(CLI::App& root, Action& chosen);
void add_answer(CLI::App& root, Action& chosen);
void add_explain(CLI::App& root, Action& chosen);
void add_cancel(CLI::App& root, Action& chosen);
void add_retry(CLI::App& root, Action& chosen);
void add_pause(CLI::App& root, Action& chosen);
void add_resume(CLI::App& root, Action& chosen);
void add_init(CLI::App& root, Action& chosen);
void add_agent(CLI::App& root, Action& chosen);
void add_export(CLI::App& root, Action& chosen);
void add_import(CLI::App& root, Action& chosen);
void add_search(CLI::App& root, Action& chosen);
void add_redis_ping(CLI::App& redis, Action& chosen);
void add_redis_info(CLI::App& redis, Action& chosen);
void add_redis_private(CLI::App& redis, Action& chosen);  // status, start, stop
void add_config(CLI::App& root, Action& chosen);
void add_doctor(CLI::App& root, Action& chosen);
void add_torture(CLI::App& root, Action& chosen);
void add_simulate(CLI::App& root, Action& chosen);
void add_completion(CLI::App& root, Action& chosen);
void add_serve(CLI::App& root, Action& chosen);
void add_foghorn_looks(CLI::App& root, Action& chosen);
void add_fleet(CLI::App& root, Action& chosen);

// Building blocks of the command line. Only the files that parse and explain words include CLI11,
// because its headers take longer to compile than most commands. Options are declared only in
// options.cc, where each word is read as it was typed.
CLI::App* add_command(CLI::App& parent, const std::string& name, const std::string& help,
                      const std::string& group = "");
void set_footer(CLI::App& app, const std::string& text);  // below the options in its help
void need_command(CLI::App& app);                         // it requires a subcommand
void when_chosen(CLI::App& app, std::function<void()> action);
std::string program_of(const CLI::App& app);  // the name under which the program was called

// An option with a value of this kind ("TIME", "FILE", "a|b|c"), which is checked when it is
// parsed.
using Check = std::function<Result<>(std::string_view value)>;
CLI::Option* add_value(CLI::App& app, const std::string& name, const std::string& kind,
                       const std::string& help, Check check, const std::string& fallback = "");
std::string value_of(const CLI::Option& option);
// An option that may be repeated. values_of returns all of its values.
CLI::Option* add_repeated(CLI::App& app, const std::string& name, const std::string& kind,
                          const std::string& help);
// Words after the command, at least `least` of them (0 or 1). After a "--" among them, no word is
// an option.
CLI::Option* add_list(CLI::App& app, const std::string& name, const std::string& kind,
                      const std::string& help, int least);
std::vector<std::string> values_of(const CLI::Option& option);
// An option without a value.
CLI::Option* add_switch(CLI::App& app, const std::string& name, const std::string& help);
CLI::Option* add_json(CLI::App& app);  // --json
bool is_given(const CLI::Option& option);
void require(CLI::Option& option);
void hide(CLI::Option& option);  // from help

std::string flag_of(const Setting& setting);     // --redis-url
std::string path_of(const CLI::App& app);        // warren redis ping
std::string kind_of(const CLI::Option& option);  // empty if it takes no value
std::vector<const CLI::App*> commands_of(const CLI::App& app);
const CLI::App& root_of(const CLI::App& app);
// Throws what CLI11 throws, so only main and tests of options call it. `words` excludes the
// program's name.
void parse_words(CLI::App& root, std::vector<std::string> words);
std::vector<std::string> not_understood(const CLI::App& root);
const CLI::App& asked_for(const CLI::App& root);  // the innermost command that was given
std::string help_of(const CLI::App& app, const Paint& paint);
// Why the words were not understood, with the nearest valid ones, and what to do.
struct Misuse {
  std::string what, hint;
};
Misuse explain_misuse(const CLI::App& root, const std::string& parser_says);

// Runs the body with a client for the configured Redis, and closes the client afterwards.
Result<Exit> with_client(const Context& context, const Config& config,
                         std::chrono::milliseconds timeout,
                         const std::function<Async<Exit>(redis::Client&)>& body);

// 65536, 64K, 4M, 8G
Result<std::size_t> parse_bytes(std::string_view text);
Check bytes_check();

// Why a file cannot be opened or written, from errno.
Error file_error(const std::string& path, int number);

void raise_file_limit();  // to the highest number of connections that the system allows

}  // namespace warren::cli
