#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "services/foghorn/simulate/simulate.h"

namespace warren::simulate {

namespace {

constexpr double width = 960, left = 70, right = 24;
constexpr double head = 76, panel = 230, gap = 74, foot = 36;
constexpr double plot = width - left - right;

struct Line {
  const char *name, *colour;
  double stroke;
  double (*value)(const Moment&);
};
constexpr Line lines[] = {
    {"fullest node", "#c2410c", 1.4, [](const Moment& moment) { return moment.max; }},
    {"p99 of nodes", "#d9a406", 1.4, [](const Moment& moment) { return moment.p99; }},
    {"mean of nodes", "#1d4ed8", 2.2, [](const Moment& moment) { return moment.mean; }},
};

std::string escaped(std::string_view text) {
  std::string safe;
  for (char letter : text) {
    if (letter == '<')
      safe += "&lt;";
    else if (letter == '&')
      safe += "&amp;";
    else
      safe += letter;
  }
  return safe;
}

// A step of 1, 2 or 5 times a power of ten, so that there are about `count` of them.
double step_for(double range, int count) {
  double raw = range / count;
  double power = std::pow(10, std::floor(std::log10(raw)));
  for (double factor : {1.0, 2.0, 5.0})
    if (raw <= factor * power) return factor * power;
  return 10 * power;
}

std::string word(double x, double y, std::string_view text, std::string_view more) {
  return fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" {}>{}</text>\n", x, y, more, escaped(text));
}
std::string rule(double x1, double y1, double x2, double y2, std::string_view more) {
  return fmt::format("<line x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\" {}/>\n", x1, y1,
                     x2, y2, more);
}

// One run: its grid, its faults and its lines.
class Panel {
 public:
  Panel(const Run& run, double top, double highest)
      : run_(run),
        top_(top),
        highest_(highest),
        length_(static_cast<double>(run.terms.length.count())) {}

  std::string draw() const {
    return fault_bands() + grid() + load_lines() +
           word(left, top_ - 26, run_.name, "class=\"name\"") + refusals();
  }

 private:
  double x(double second) const { return left + plot * second / length_; }
  double y(double load) const { return top_ + panel * (1 - load / highest_); }

  std::string grid() const {
    std::string all;
    double step = step_for(highest_, 5);
    for (int i = 0; i * step <= highest_ + 1e-9; ++i) {
      double load = i * step;
      all += rule(left, y(load), left + plot, y(load), "stroke=\"#e5e7eb\"");
      all +=
          word(left - 10, y(load) + 4, fmt::format("{:.0f} %", 100 * load), "text-anchor=\"end\"");
    }
    step = step_for(length_, 10);
    for (int i = 0; i * step <= length_ + 1e-9; ++i) {
      double second = i * step;
      all += rule(x(second), top_ + panel, x(second), top_ + panel + 5, "stroke=\"#6b7280\"") +
             word(x(second), top_ + panel + 20, fmt::format("{:.0f} s", second),
                  "text-anchor=\"middle\"");
    }
    all += rule(left, top_ + panel, left + plot, top_ + panel, "stroke=\"#6b7280\"");
    all += rule(left, y(1), left + plot, y(1),
                "stroke=\"#111827\" stroke-width=\"1\" stroke-dasharray=\"6 4\"");
    return all;
  }

  std::string fault_bands() const {
    std::string all;
    for (const auto& fault : run_.outcome.faults) {
      all += fmt::format(
          "<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\" "
          "fill=\"#f3f4f6\"/>\n",
          x(fault.from), top_, x(std::min<double>(fault.to, length_)) - x(fault.from), panel);
      all += word(x(fault.from) + 2, top_ - 6, fault.what, "class=\"note\"");
    }
    return all;
  }

  std::string load_lines() const {
    std::string all;
    for (const auto& line : lines) {
      all += fmt::format(
          "<polyline fill=\"none\" stroke=\"{}\" stroke-width=\"{}\" stroke-linejoin=\"round\" "
          "points=\"",
          line.colour, line.stroke);
      for (const auto& moment : run_.outcome.moments)
        all += fmt::format("{:.1f},{:.1f} ", x(moment.second),
                           y(std::min(highest_, line.value(moment))));
      all += "\"/>\n";
    }
    return all;
  }

  std::string refusals() const {
    auto text = fmt::format("{} viewers refused", run_.outcome.refused);
    return word(left + plot, top_ - 26, text, "text-anchor=\"end\" class=\"note\"");
  }

  const Run& run_;
  double top_, highest_, length_;
};

std::string legend() {
  std::string all;
  double at = left;
  for (const auto& line : lines) {
    all += rule(at, 44, at + 24, 44,
                fmt::format("stroke=\"{}\" stroke-width=\"{}\"", line.colour, line.stroke + 1));
    all += word(at + 30, 48, line.name, "");
    at += 140;
  }
  all += rule(at, 44, at + 24, 44, "stroke=\"#111827\" stroke-dasharray=\"6 4\"");
  return all + word(at + 30, 48, "limit of a node", "");
}

}  // namespace

std::string chart(const std::vector<Run>& runs) {
  double highest = 1;
  for (const auto& run : runs)
    for (const auto& moment : run.outcome.moments) highest = std::max(highest, moment.max);
  highest = std::min(3.0, 1.05 * highest);  // what is above is cut off
  auto count = static_cast<double>(runs.size());
  double height = head + 40 + count * (panel + gap) - gap + foot;
  auto text = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0:.0f}\" height=\"{1:.0f}\" "
      "viewBox=\"0 0 {0:.0f} {1:.0f}\" font-family=\"Helvetica, Arial, sans-serif\" "
      "font-size=\"12\" fill=\"#374151\">\n<style>.name {{ font-size: 15px; font-weight: bold; "
      "fill: #111827; }} .note {{ font-size: 11px; fill: #6b7280; }}</style>\n"
      "<rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n",
      width, height);
  text += word(left, 24, "Load of nodes, as part of their limit, over time",
               "font-size=\"17\" font-weight=\"bold\" fill=\"#111827\"");
  text += legend();
  double top = head + 40;
  for (const auto& run : runs) {
    text += Panel(run, top, highest).draw();
    top += panel + gap;
  }
  return text + "</svg>\n";
}

}  // namespace warren::simulate
