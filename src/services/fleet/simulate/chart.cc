// Plots as SVG: lines over time, and how claims took.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "services/fleet/simulate/simulate.h"

namespace warren::fleet_sim {

namespace {

constexpr double width = 960, height = 420, left = 80, right = 150, top = 64, bottom = 52;
constexpr double across = width - left - right, down = height - top - bottom;
constexpr std::size_t most_lines = 12;
constexpr const char* colours[] = {"#1d4ed8", "#c2410c", "#15803d", "#a21caf",
                                   "#eab308", "#0e7490", "#be123c", "#4d7c0f",
                                   "#6d28d9", "#0f766e", "#9f1239", "#475569"};

struct Line {
  std::string name, colour;
  std::vector<std::pair<double, double>> points = {};
};
struct Mark {
  double x;
  std::string name;
};
struct Axis {
  std::string name;
  double least, most;
  bool is_logarithmic = false;
  std::function<std::string(double)> label;
};

std::string safe(std::string_view text) {
  std::string all;
  for (char letter : text) {
    if (letter == '<')
      all += "&lt;";
    else if (letter == '&')
      all += "&amp;";
    else
      all += letter;
  }
  return all;
}

std::string label(double x, double y, std::string_view text, std::string_view more) {
  return fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" {}>{}</text>\n", x, y, more, safe(text));
}
std::string stroke(double x1, double y1, double x2, double y2, std::string_view more) {
  return fmt::format("<line x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\" {}/>\n", x1, y1,
                     x2, y2, more);
}

// 1, 2 or 5 times a power of ten, about `count` of them; on a logarithmic axis all of these.
std::vector<double> ticks(const Axis& axis, int count) {
  std::vector<double> all;
  if (axis.is_logarithmic) {
    auto first = static_cast<int>(std::floor(std::log10(axis.least) + 1e-9));
    auto last = static_cast<int>(std::floor(std::log10(axis.most)));
    for (int exponent = first; exponent <= last; ++exponent)
      for (double factor : {1.0, 2.0, 5.0})
        if (auto at = factor * std::pow(10, exponent); at > 0.999 * axis.least && at <= axis.most)
          all.push_back(at);
    return all;
  }
  double raw = (axis.most - axis.least) / count;
  double power = std::pow(10, std::floor(std::log10(raw))), step = 10 * power;
  for (double factor : {5.0, 2.0, 1.0})
    if (raw <= factor * power) step = factor * power;
  auto steps = static_cast<int>((axis.most - axis.least) / step + 1e-9);
  for (int i = 0; i <= steps; ++i) all.push_back(axis.least + i * step);
  return all;
}

class Chart {
 public:
  Chart(std::string title, Axis x, Axis y)
      : title_(std::move(title)), x_(std::move(x)), y_(std::move(y)) {}

  void add(Line line) { lines_.push_back(std::move(line)); }
  void mark(double x, std::string name) { marks_.push_back({x, std::move(name)}); }
  std::string svg() const;

 private:
  static double part(const Axis& axis, double value) {
    if (axis.is_logarithmic)
      return std::log(std::max(value, axis.least) / axis.least) / std::log(axis.most / axis.least);
    return (value - axis.least) / (axis.most - axis.least);
  }
  double x(double value) const { return left + across * std::clamp(part(x_, value), 0.0, 1.0); }
  double y(double value) const { return top + down * (1 - std::clamp(part(y_, value), 0.0, 1.0)); }
  std::string grid() const;
  std::string faults() const;
  std::string drawn() const;

  std::string title_;
  Axis x_, y_;
  std::vector<Line> lines_;
  std::vector<Mark> marks_;
};

std::string Chart::grid() const {
  std::string all;
  for (double at : ticks(y_, 6)) {
    all += stroke(left, y(at), left + across, y(at), "stroke=\"#e5e7eb\"");
    all += label(left - 10, y(at) + 4, y_.label(at), "text-anchor=\"end\"");
  }
  for (double at : ticks(x_, 9)) {
    all += stroke(x(at), top + down, x(at), top + down + 5, "stroke=\"#6b7280\"");
    all += label(x(at), top + down + 20, x_.label(at), "text-anchor=\"middle\"");
  }
  all += stroke(left, top + down, left + across, top + down, "stroke=\"#6b7280\"");
  all += label(left + across / 2, height - 10, x_.name, "text-anchor=\"middle\" class=\"note\"");
  return all + label(left, top - 12, y_.name, "class=\"note\"");
}

// Numbered, since their names are longer than the room between them.
std::string Chart::faults() const {
  std::string all;
  double beside = top + 190, last = 0;
  for (std::size_t i = 0; i < marks_.size(); ++i) {
    auto at = x(marks_[i].x);
    all += stroke(at, top, at, top + down, "stroke=\"#9ca3af\" stroke-dasharray=\"3 3\"");
    if (at - last > 14) {
      all += label(at, top - 2, fmt::format("{}", i + 1), "text-anchor=\"middle\" class=\"note\"");
      last = at;
    }
    if (i < 14)
      all += label(left + across + 12, beside + 13 * static_cast<double>(i),
                   fmt::format("{} {}", i + 1, marks_[i].name), "class=\"small\"");
  }
  return all;
}

std::string Chart::drawn() const {
  std::string all;
  double beside = top + 10;
  for (const auto& line : lines_) {
    all += fmt::format(
        "<polyline fill=\"none\" stroke=\"{}\" stroke-width=\"1.6\" stroke-linejoin=\"round\" "
        "points=\"",
        line.colour);
    for (const auto& [at, value] : line.points)
      all += fmt::format("{:.1f},{:.1f} ", x(at), y(value));
    all += "\"/>\n";
    if (line.name.empty()) continue;
    all += stroke(left + across + 12, beside - 4, left + across + 30, beside - 4,
                  fmt::format("stroke=\"{}\" stroke-width=\"2.5\"", line.colour));
    all += label(left + across + 36, beside, line.name, "");
    beside += 15;
  }
  return all;
}

std::string Chart::svg() const {
  auto text = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0:.0f}\" height=\"{1:.0f}\" "
      "viewBox=\"0 0 {0:.0f} {1:.0f}\" font-family=\"Helvetica, Arial, sans-serif\" "
      "font-size=\"12\" fill=\"#374151\">\n<style>.note {{ font-size: 11px; fill: #6b7280; }} "
      ".small {{ font-size: 9px; fill: #6b7280; }}</style>\n"
      "<rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n",
      width, height);
  text += label(left, 26, title_, "font-size=\"16\" font-weight=\"bold\" fill=\"#111827\"");
  return text + grid() + faults() + drawn() + "</svg>\n";
}

Axis time_axis(const Terms& terms) {
  auto minutes = std::chrono::duration<double, std::ratio<60>>(terms.length).count();
  return {"virtual minutes", 0, minutes, false, [](double at) { return fmt::format("{:g}", at); }};
}

void mark_faults(Chart& chart, const Outcome& outcome) {
  for (const auto& one : outcome.recoveries) chart.mark(one.at / 60, one.what);
}

std::string ready_chart(const Terms& terms, const Outcome& outcome) {
  Chart chart("Rows that are ready", time_axis(terms),
              {"rows", 0, 1.05 * static_cast<double>(std::max<std::size_t>(outcome.rows, 1)), false,
               [](double at) { return fmt::format("{:.0f}", at); }});
  Line ready{"ready", colours[0]}, unclaimed{"unclaimed", colours[1]};
  for (const auto& moment : outcome.moments) {
    ready.points.emplace_back(moment.second / 60, static_cast<double>(moment.ready));
    unclaimed.points.emplace_back(moment.second / 60, static_cast<double>(moment.unclaimed));
  }
  chart.add(std::move(ready));
  chart.add(std::move(unclaimed));
  mark_faults(chart, outcome);
  return chart.svg();
}

// Each node if there are few; else the fullest, the mean and the emptiest.
std::string memory_chart(const Terms& terms, const Outcome& outcome) {
  auto budget = static_cast<double>(std::max<std::uint64_t>(outcome.budget_bytes, 1));
  Chart chart("Memory of nodes, as part of their budget", time_axis(terms),
              {"part of the budget", 0, std::max(1.1, outcome.worst_memory), false,
               [](double at) { return fmt::format("{:.0f} %", 100 * at); }});
  auto count = static_cast<std::size_t>(terms.nodes);
  std::vector<Line> lines;
  bool is_few = count <= most_lines;
  if (is_few)
    for (std::size_t i = 0; i < count; ++i) lines.push_back({fmt::format("n{}", i), colours[i]});
  else
    lines = {{"fullest", colours[1]}, {"mean", colours[0]}, {"emptiest", colours[2]}};
  for (const auto& moment : outcome.moments) {
    std::vector<double> values;
    for (auto bytes : moment.memory) values.push_back(static_cast<double>(bytes) / budget);
    if (!is_few) {
      double sum = 0;
      for (auto value : values) sum += value;
      values = {std::ranges::max(values), sum / static_cast<double>(count),
                std::ranges::min(values)};
    }
    for (std::size_t i = 0; i < values.size(); ++i)
      lines[i].points.emplace_back(moment.second / 60, values[i]);
  }
  for (auto& line : lines) chart.add(std::move(line));
  chart.add({"budget", "#111827", {{0, 1}, {1e9, 1}}});
  mark_faults(chart, outcome);
  return chart.svg();
}

std::string claims_chart(const Outcome& outcome) {
  auto values = outcome.served_seconds;
  std::ranges::sort(values);
  double most = values.empty() ? 10 : std::max(10.0, values.back());
  Chart chart(
      "From unclaimed to ready: the part that took no longer",
      {"seconds", 0.1, most, true, [](double at) { return fmt::format("{:g} s", at); }},
      {"part of all", 0, 1, false, [](double at) { return fmt::format("{:.0f} %", 100 * at); }});
  Line line{"all rows", colours[0]};
  auto step = std::max<std::size_t>(1, values.size() / 500);
  for (std::size_t i = 0; i < values.size(); i += step)
    line.points.emplace_back(values[i],
                             static_cast<double>(i + 1) / static_cast<double>(values.size()));
  if (!values.empty()) line.points.emplace_back(values.back(), 1);
  chart.add(std::move(line));
  return chart.svg();
}

}  // namespace

std::vector<Plot> plots(const Terms& terms, const Outcome& outcome) {
  return {{"ready.svg", ready_chart(terms, outcome)},
          {"memory.svg", memory_chart(terms, outcome)},
          {"claims.svg", claims_chart(outcome)}};
}

}  // namespace warren::fleet_sim
