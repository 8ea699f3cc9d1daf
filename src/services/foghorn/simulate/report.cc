#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <span>

#include "services/foghorn/simulate/simulate.h"

namespace warren::simulate {

namespace {

// When the cluster is full.
std::span<const Moment> full(const Outcome& outcome) {
  return std::span(outcome.moments).subspan(outcome.moments.size() / 4);
}

double average(const Outcome& outcome, const std::function<double(const Moment&)>& value) {
  double sum = 0;
  for (const auto& moment : full(outcome)) sum += value(moment);
  return outcome.moments.empty() ? 0 : sum / static_cast<double>(full(outcome).size());
}

double highest(const Outcome& outcome, const std::function<double(const Moment&)>& value) {
  double most = 0;
  for (const auto& moment : full(outcome)) most = std::max(most, value(moment));
  return most;
}

std::string percent(double part) { return fmt::format("{:.1f} %", 100 * part); }

std::string grouped(std::uint64_t number) {
  if (number < 1000) return fmt::format("{}", number);
  return fmt::format("{},{:03}", grouped(number / 1000), number % 1000);
}

std::string words(const Faults& faults) {
  std::string all;
  auto add = [&](bool is_on, const char* word) {
    if (is_on) all += (all.empty() ? "" : ", ") + std::string(word);
  };
  add(faults.deaths, "deaths");
  add(faults.silence, "silence");
  add(faults.drain, "drain");
  add(faults.crowd, "crowd");
  return all.empty() ? "none" : all;
}

}  // namespace

Moment Outcome::typical() const {
  Moment all;
  all.mean = average(*this, [](const Moment& moment) { return moment.mean; });
  all.p99 = average(*this, [](const Moment& moment) { return moment.p99; });
  all.max = average(*this, [](const Moment& moment) { return moment.max; });
  return all;
}

double Outcome::worst() const {
  return highest(*this, [](const Moment& moment) { return moment.max; });
}

double Outcome::herding() const {
  return average(*this, [](const Moment& moment) { return moment.max - moment.mean; });
}

double Outcome::worst_herding() const {
  return highest(*this, [](const Moment& moment) { return moment.max - moment.mean; });
}

std::string report(const std::vector<Run>& runs) {
  if (runs.empty()) return "";
  const auto& terms = runs.front().terms;
  auto text = fmt::format(
      "{} nodes, {} streams, {} viewers at a time, {} {} of Foghorn, {} s, seed {}\nfaults: {}\n\n",
      grouped(static_cast<std::uint64_t>(terms.nodes)),
      grouped(static_cast<std::uint64_t>(terms.streams)),
      grouped(static_cast<std::uint64_t>(terms.viewers)), terms.instances,
      terms.instances == 1 ? "instance" : "instances", terms.length.count(), terms.seed,
      words(terms.faults));
  auto line = [&](std::string_view name, const std::function<std::string(const Run&)>& value) {
    text += fmt::format("{:<34}", name);
    for (const auto& run : runs) text += fmt::format("{:>22}", value(run));
    text += '\n';
  };
  line("", [](const Run& run) { return run.name; });
  line("viewers sent", [](const Run& run) { return grouped(run.outcome.sent); });
  line("viewers refused", [](const Run& run) {
    auto asked = std::max<std::uint64_t>(1, run.outcome.sent + run.outcome.refused);
    return fmt::format(
        "{} ({})", grouped(run.outcome.refused),
        percent(static_cast<double>(run.outcome.refused) / static_cast<double>(asked)));
  });
  line("viewing at nodes above their limit",
       [](const Run& run) { return percent(run.outcome.short_time); });
  text += "load, as part of a node's limit\n";
  line("  mean over nodes", [](const Run& run) { return percent(run.outcome.typical().mean); });
  line("  p99 of nodes", [](const Run& run) { return percent(run.outcome.typical().p99); });
  line("  fullest node", [](const Run& run) { return percent(run.outcome.typical().max); });
  line("  fullest node, at worst", [](const Run& run) { return percent(run.outcome.worst()); });
  text += "herding: fullest node above mean\n";
  line("  on average", [](const Run& run) { return percent(run.outcome.herding()); });
  line("  at worst", [](const Run& run) { return percent(run.outcome.worst_herding()); });
  return text +
         "\nLoads and herding are of the time after the first quarter, averages over time.\n";
}

}  // namespace warren::simulate
