#pragma once
// One JSON line per measurement, on standard output; words for people go to standard error.
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
  std::string peer = "";  // whom we compare with, measured in the same run
  std::optional<double> peer_value = {};
  // Of the ratio where there is a peer, of the value where there is none.
  std::optional<double> bar = {};
  Better better = Better::higher;
};

inline double median(std::vector<double> values) {
  auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::ranges::nth_element(values, middle);
  return *middle;
}

inline void print(const Row& row) {
  auto number = [](std::optional<double> n) { return n ? fmt::format("{:.4g}", *n) : "null"; };
  std::optional<double> ratio;
  if (row.peer_value) ratio = row.value / *row.peer_value;
  double judged = ratio.value_or(row.value);
  std::string ok = "null";
  if (row.bar)
    ok =
        (row.better == Better::higher ? judged >= *row.bar : judged <= *row.bar) ? "true" : "false";
  fmt::print(
      R"({{"bench":"{}","value":{:.6g},"unit":"{}","peer":{},"peer_value":{},"ratio":{},"bar":{},"ok":{}}})"
      "\n",
      row.bench, row.value, row.unit, row.peer.empty() ? "null" : "\"" + row.peer + "\"",
      row.peer_value ? fmt::format("{:.6g}", *row.peer_value) : "null", number(ratio),
      number(row.bar), ok);
  std::fflush(stdout);
}

}  // namespace warren::bench
