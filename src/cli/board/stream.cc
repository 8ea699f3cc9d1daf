#include "cli/board/stream.h"

#include "services/board/watch/lines.h"
#include "services/board/watch/text.h"
#include "services/board/watch/time_spec.h"

namespace warren::cli {

using namespace asio::experimental::awaitable_operators;

namespace {

board::UnixTime now() { return std::chrono::floor<std::chrono::milliseconds>(WallClock::now()); }

Result<> check_time(std::string_view text) {
  auto time = watch::parse_time_spec(text, now());
  if (time) return ok;
  return fail(Errc::invalid, "use a moment like 2026-01-31T23:59:59Z or a time ago like 1h30m");
}

std::string line_for_person(const watch::Happening& happening, const Paint& paint) {
  auto line = watch::line_of(happening);
  if (line.empty()) return line;
  return paint.dim("[" + watch::local_time(happening.at) + "]") + " " + line + "\n";
}

}  // namespace

CLI::Option* add_output(CLI::App& app) {
  return add_value(app, "-o,--output", "default|jsonl", "lines for people, or JSON for programs",
                   one_of({"default", "jsonl", "json"}), "default");
}

Output output_of(const CLI::Option& option) {
  return value_of(option) == "default" ? Output::lines : Output::jsonl;
}

FilterOptions add_filter(CLI::App& app) {
  return {add_value(app, "--since", "TIME", "not before this moment, or so long ago", check_time),
          add_value(app, "--until", "TIME", "not after this moment", check_time),
          add_value(app, "--type", "GLOB", "only artefacts of such types", nullptr),
          add_value(app, "--agent", "ROLE", "only what this role did", nullptr)};
}

Result<watch::Filter> filter_of(const FilterOptions& options) {
  auto type = value_of(*options.type);
  if (!watch::is_pattern(type))
    fmt::print(stderr, "warning: --type {}: a malformed pattern, which matches nothing\n",
               printable(type));
  return watch::parse_filter(value_of(*options.since), value_of(*options.until), std::move(type),
                             value_of(*options.agent), now());
}

void print(const watch::Happening& happening, Output output, const Paint& paint) {
  if (output == Output::jsonl)
    for (const auto& line : watch::json_lines(happening)) fmt::print("{}\n", line);
  else
    fmt::print("{}", line_for_person(happening, paint));
  std::fflush(stdout);
}

watch::Watcher::Tell notices(const Paint& paint) {
  return [paint](const std::string& notice) {
    fmt::print(stderr, "{} {}\n", paint.yellow("note:"), watch::shown(notice));
  };
}

Async<> watch_until_interrupted(watch::Watcher& watcher) {
  auto first = co_await (watcher.run() || interrupted());
  if (first.index() == 0) co_return std::get<0>(std::move(first));
  co_return ok;
}

}  // namespace warren::cli
