#include "base/log.h"

#include <spdlog/logger.h>
#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/basic_file_sink.h>
#include <spdlog/sinks/stdout_sinks.h>

#include <algorithm>
#include <atomic>
#include <iterator>
#include <memory>
#include <optional>
#include <vector>

#include "base/clock.h"
#include "base/nearest.h"
#include "base/printable.h"
#include "base/utf8.h"

namespace warren::log {

namespace {

struct LevelName {
  std::string_view name;
  std::string_view colour;
};
constexpr LevelName level_names[] = {{"debug", "\x1b[36m"},
                                     {"info", "\x1b[32m"},
                                     {"warn", "\x1b[33m"},
                                     {"error", "\x1b[31m"},
                                     {"off", ""}};

struct Levels {
  Level standard = Level::info;
  std::vector<std::pair<std::string, Level>> modules;  // few: a linear search is faster than a hash
};

// The result of configure(). It is never changed or freed, so any thread may read it without a
// lock, until the last destructor of the process has run.
struct State {
  Format format = Format::logfmt;
  bool colour = false;
  Levels levels;
  std::unique_ptr<spdlog::logger> output;
  const State* before = nullptr;  // the state it replaced
};

std::optional<Level> parse_level(std::string_view word) {
  for (std::size_t i = 0; i < std::size(level_names); ++i)
    if (level_names[i].name == word) return Level(i);
  return std::nullopt;
}

Result<Levels> parse_levels(std::string_view text) {
  Levels levels;
  bool has_standard = false;
  while (true) {
    auto word = text.substr(0, text.find(','));
    auto equals = word.find('=');
    auto name = equals == word.npos ? word : word.substr(equals + 1);
    auto level = parse_level(name);
    if (!level) {
      auto meant = nearest(name, {"debug", "info", "warn", "error", "off"});
      return fail(Errc::invalid, "log level \"{}\": use debug, info, warn, error or off{}", word,
                  meant ? fmt::format("; did you mean {}?", *meant) : "");
    }
    if (equals == 0)
      return fail(Errc::invalid, "log level \"{}\": name a module before the =", word);
    if (equals != word.npos)
      levels.modules.emplace_back(word.substr(0, equals), *level);
    else if (std::exchange(has_standard, true))
      return fail(Errc::invalid, "log level \"{}\": there is already one for all modules", word);
    else
      levels.standard = *level;
    if (word.size() == text.size()) return levels;
    text.remove_prefix(word.size() + 1);
  }
}

std::unique_ptr<spdlog::logger> make_output(spdlog::sink_ptr sink) {
  auto output = std::make_unique<spdlog::logger>("warren", std::move(sink));
  output->set_formatter(std::make_unique<spdlog::pattern_formatter>("%v"));
  output->set_level(spdlog::level::trace);
  output->flush_on(spdlog::level::trace);  // the last line before a crash matters most
  return output;
}

const State* unconfigured() {
  static const auto* state = new State{
      Format::logfmt, false, {}, make_output(std::make_shared<spdlog::sinks::stderr_sink_mt>())};
  return state;
}

std::atomic<const State*> configured = nullptr;

const State& current() {
  auto* state = configured.load(std::memory_order_acquire);
  return state ? *state : *unconfigured();
}

// As in JSON, also in logfmt: above U+FFFF there are two escapes.
void append_escaped(std::string& out, char32_t c) {
  auto unit = [&out](std::uint32_t half) {
    fmt::format_to(std::back_inserter(out), "\\u{:04x}", half);
  };
  if (c > 0xffff) unit(0xd800 + ((c - 0x10000) >> 10));
  unit(c > 0xffff ? 0xdc00 + ((c - 0x10000) & 0x3ff) : std::uint32_t(c));
}

void append_quoted(std::string& out, std::string_view text) {
  out += '"';
  while (!text.empty()) {
    auto [c, length] = first_code_point(text);
    if (c == '"' || c == '\\')
      (out += '\\') += char(c);
    else if (c == '\n')
      out += "\\n";
    else if (is_unprintable(c) || (c == 0xfffd && length == 1))
      append_escaped(out, c);
    else
      out += text.substr(0, length);
    text.remove_prefix(length);
  }
  out += '"';
}

bool is_plain(char c) { return c > ' ' && c < 0x7f && c != '"' && c != '='; }

// Writes a name. Names cannot be quoted in logfmt.
void append_name(std::string& out, std::string_view text) {
  for (char c : text) out += is_plain(c) ? c : '_';
}

void append_value(std::string& out, std::string_view text) {
  if (!text.empty() && std::ranges::all_of(text, is_plain))
    out += text;
  else
    append_quoted(out, text);
}

std::string logfmt_line(Level level, bool colour, std::string_view event,
                        std::span<const Field> fields) {
  auto& [name, code] = level_names[int(level)];
  auto line = iso8601(WallClock::now());
  line += colour ? fmt::format(" {}{}\x1b[0m ", code, name) : fmt::format(" {} ", name);
  append_name(line, event);
  for (auto& field : fields) {
    line += ' ';
    append_name(line, field.key);
    line += '=';
    append_value(line, field.value);
  }
  return line;
}

std::string json_line(Level level, std::string_view event, std::span<const Field> fields) {
  auto line = fmt::format(R"({{"time":"{}","level":"{}","event":)", iso8601(WallClock::now()),
                          level_names[int(level)].name);
  append_quoted(line, event);
  for (auto& field : fields) {
    line += ',';
    append_quoted(line, field.key);
    line += ':';
    if (field.quoted)
      append_quoted(line, field.value);
    else
      line += field.value;
  }
  line += '}';
  return line;
}

}  // namespace

Result<> configure(const Options& options) {
  auto levels = parse_levels(options.levels);
  if (!levels) return std::unexpected(levels.error());
  spdlog::sink_ptr sink;
  try {
    if (options.file.empty())
      sink = std::make_shared<spdlog::sinks::stderr_sink_mt>();
    else
      sink = std::make_shared<spdlog::sinks::basic_file_sink_mt>(options.file);
  } catch (const spdlog::spdlog_ex& error) {
    return fail(Errc::invalid, "log file {}: {}", options.file, error.what());
  }
  auto* state = new State{options.format, options.colour && options.format == Format::logfmt,
                          std::move(*levels), make_output(std::move(sink)), configured.load()};
  configured.store(state, std::memory_order_release);
  return ok;
}

bool enabled(Level level, std::string_view event) {
  auto& levels = current().levels;
  if (!levels.modules.empty()) {
    auto module = event.substr(0, event.find('.'));
    for (auto& [name, least] : levels.modules)
      if (name == module) return level >= least;
  }
  return level >= levels.standard;
}

void write(Level level, std::string_view event, std::span<const Field> fields) {
  auto& state = current();
  auto line = state.format == Format::json ? json_line(level, event, fields)
                                           : logfmt_line(level, state.colour, event, fields);
  state.output->log(spdlog::level::info, spdlog::string_view_t(line));
}

}  // namespace warren::log
