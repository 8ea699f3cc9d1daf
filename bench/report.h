#pragma once
// Prints one JSON line per measurement to standard output. Messages for people go to standard
// error.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <optional>
#include <string>
#include <vector>

namespace warren::bench {

enum class Better { higher, lower };

struct Row {
  std::string bench;
  double value;
  std::string unit;
  std::string peer = "";  // what we compare with, measured in the same run
  std::optional<double> peer_value = {};
  // For the ratio if there is a peer, otherwise for the value.
  std::optional<double> bar = {};
  Better better = Better::higher;
  std::optional<double> p99 = {}, peer_p99 = {};  // if the values are medians
  // How our answer differs from the peer's. If it does, the measurement has failed.
  std::optional<std::string> difference = {};
};

inline bool is_met(const Row& row) {
  double judged = row.peer_value ? row.value / *row.peer_value : row.value;
  if (row.difference && !row.difference->empty()) return false;
  return row.better == Better::higher ? judged >= *row.bar : judged <= *row.bar;
}

inline double median(std::vector<double> values) {
  auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::ranges::nth_element(values, middle);
  return *middle;
}

// The value that 99 of 100 do not exceed.
inline double percentile_99(std::vector<double> values) {
  auto place = static_cast<std::ptrdiff_t>((values.size() * 99 + 99) / 100 - 1);
  std::ranges::nth_element(values, values.begin() + place);
  return values[static_cast<std::size_t>(place)];
}

inline std::string more_of(const Row& row) {
  std::string more;
  if (row.p99) more += fmt::format(R"(,"p99":{:.6g})", *row.p99);
  if (row.peer_p99) more += fmt::format(R"(,"peer_p99":{:.6g})", *row.peer_p99);
  if (!row.difference) return more;
  more += fmt::format(R"(,"equal":{})", row.difference->empty());
  if (row.difference->empty()) return more;
  std::string words;
  for (char c : *row.difference) {
    if (c == '"' || c == '\\') words += '\\';
    words += c;
  }
  return more + fmt::format(R"(,"difference":"{}")", words);
}

inline void print(const Row& row) {
  auto number = [](std::optional<double> n) { return n ? fmt::format("{:.4g}", *n) : "null"; };
  std::optional<double> ratio;
  if (row.peer_value) ratio = row.value / *row.peer_value;
  bool differs = row.difference && !row.difference->empty();
  std::string ok = row.bar || differs ? (row.bar && is_met(row) ? "true" : "false") : "null";
  fmt::print(
      R"({{"bench":"{}","value":{:.6g},"unit":"{}","peer":{},"peer_value":{},"ratio":{},"bar":{},"ok":{}{}}})"
      "\n",
      row.bench, row.value, row.unit, row.peer.empty() ? "null" : "\"" + row.peer + "\"",
      row.peer_value ? fmt::format("{:.6g}", *row.peer_value) : "null", number(ratio),
      number(row.bar), ok, more_of(row));
  std::fflush(stdout);
}

}  // namespace warren::bench
