#pragma once
// Events for an operator's timeline: what happened, then the facts.
//
//   log::warn("lease.lost", "name", name, "token", 41, "late_ms", 210);
//
//   2026-01-31T23:59:59.123Z warn lease.lost name=indexer token=41 late_ms=210
//   {"time":"2026-01-31T23:59:59.123Z","level":"warn","event":"lease.lost","name":"indexer",…}
//
// The module is what stands before the first dot of the event; levels can be set per module. Any
// thread may log. An event is one line whatever is in its facts: what could end a line, move a
// cursor, turn the direction of reading, hide, or break the encoding is escaped or replaced.
#include <fmt/format.h>

#include <array>
#include <cmath>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "base/error.h"

namespace warren::log {

enum class Level { debug, info, warn, error, off };
enum class Format { logfmt, json };

struct Options {
  Format format = Format::logfmt;
  // "info" or "info,redis=debug,lease=warn": one default, then exceptions by module.
  std::string levels = "info";
  bool colour = false;  // colours the level, in logfmt
  std::string file;     // appended to; empty for standard error
};

// Called by main before the first event. Errc::invalid names the wrong word, or the file that
// cannot be opened. Until then, events of level info and above go to standard error as logfmt.
Result<> configure(const Options& options);

// Takes no lock and allocates nothing.
bool enabled(Level level, std::string_view event);

struct Field {
  std::string_view key;
  std::string value;
  bool quoted;  // in JSON a string, rather than a number or a boolean
};

void write(Level level, std::string_view event, std::span<const Field> fields);

template <class T>
Field field(std::string_view key, const T& value) {
  if constexpr (std::is_same_v<T, bool>)
    return {key, value ? "true" : "false", false};
  else if constexpr (std::is_floating_point_v<T>)
    return {key, fmt::format("{}", value), !std::isfinite(value)};  // JSON cannot express infinity
  else
    return {key, fmt::format("{}", value), !std::is_integral_v<T> || std::is_same_v<T, char>};
}

template <class... Facts>
void event(Level level, std::string_view name, const Facts&... facts) {
  static_assert(sizeof...(facts) % 2 == 0, "facts are pairs: a key, then its value");
  if (!enabled(level, name)) return;
  auto all = std::forward_as_tuple(facts...);
  [&]<std::size_t... I>(std::index_sequence<I...>) {
    std::array<Field, sizeof...(I)> fields{
        field(std::get<2 * I>(all), std::get<2 * I + 1>(all))...};
    write(level, name, fields);
  }(std::make_index_sequence<sizeof...(facts) / 2>{});
}

// An event for an operator's timeline.
template <class... Facts>
void info(std::string_view name, const Facts&... facts) {
  event(Level::info, name, facts...);
}
// A problem that we recovered from.
template <class... Facts>
void warn(std::string_view name, const Facts&... facts) {
  event(Level::warn, name, facts...);
}
// A problem that a person must act on.
template <class... Facts>
void error(std::string_view name, const Facts&... facts) {
  event(Level::error, name, facts...);
}
template <class... Facts>
void debug(std::string_view name, const Facts&... facts) {
  event(Level::debug, name, facts...);
}

}  // namespace warren::log
