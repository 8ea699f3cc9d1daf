#include <fmt/format.h>

#include <algorithm>
#include <boost/json.hpp>

#include "services/fleet/simulate/simulate.h"

namespace warren::fleet_sim {

namespace {

namespace json = boost::json;

std::string grouped(std::uint64_t number) {
  if (number < 1000) return fmt::format("{}", number);
  return fmt::format("{},{:03}", grouped(number / 1000), number % 1000);
}

std::string percent(double part) { return fmt::format("{:.2f} %", 100 * part); }

std::string size(double bytes) {
  return bytes < 1e9 ? fmt::format("{:.1f} MB", bytes / 1e6)
                     : fmt::format("{:.2f} GB", bytes / 1e9);
}

double ratio(double a, double b) { return b > 0 ? a / b : 0; }
double ratio(std::uint64_t a, std::uint64_t b) {
  return ratio(static_cast<double>(a), static_cast<double>(b));
}

std::string show(const Spread& spread) {
  return fmt::format("p50 {:.1f} s, p95 {:.1f} s, p99 {:.1f} s, max {:.1f} s ({})", spread.p50,
                     spread.p95, spread.p99, spread.max, grouped(spread.count));
}

json::object object_of(const Spread& spread) {
  return {{"count", spread.count},
          {"p50_s", spread.p50},
          {"p95_s", spread.p95},
          {"p99_s", spread.p99},
          {"max_s", spread.max}};
}

std::string head(const Terms& terms, const Outcome& outcome) {
  auto text = fmt::format(
      "{} repositories ({} replicas), {} nodes, {} virtual minutes, seed {}\n"
      "ttl {} s, clones {} ({} of one host), builds {}, faults: {}\n",
      grouped(static_cast<std::uint64_t>(terms.repos)), terms.replicas, terms.nodes,
      std::chrono::duration<double, std::ratio<60>>(terms.length).count(), terms.seed,
      std::chrono::duration<double>(terms.ttl).count(), terms.clones, terms.clones_of_one_host,
      terms.builds, words_of(terms.faults));
  auto budget = static_cast<double>(outcome.budget_bytes);
  return text + fmt::format("budget {} a node, {:.2f} of what all take hot ({})\n\n", size(budget),
                            ratio(budget * terms.nodes, static_cast<double>(outcome.need_bytes)),
                            size(static_cast<double>(outcome.need_bytes)));
}

std::string recoveries(const Outcome& outcome) {
  if (outcome.recoveries.empty()) return "";
  auto text = fmt::format("\n{:<30}{:>8}{:>7}{:>12}{:>10}{:>9}{:>9}{:>9}\n", "fault", "at", "lost",
                          "recovered", "bound", "work", "clones", "missed");
  for (const auto& one : outcome.recoveries) {
    auto after = one.seconds < 0 ? std::string("never") : fmt::format("{:.1f} s", one.seconds);
    auto clones =
        one.lost == 0 ? std::string("-") : fmt::format("{:.2f}", ratio(one.clones, one.lost));
    text += fmt::format("{:<30}{:>6.0f} s{:>7}{:>12}{:>8.1f} s{:>7.1f} s{:>9}{:>9}\n", one.what,
                        one.at, one.lost, after, one.bound, one.work, clones, one.missed);
  }
  return text +
         "  recovered: until all that it served was served again; bound: ttl + 5 s + work;\n"
         "  clones: per lost row; missed: queries not answered in full until then\n";
}

}  // namespace

std::string report(const Terms& terms, const Outcome& outcome) {
  auto text = head(terms, outcome);
  auto line = [&](std::string_view name, const std::string& value) {
    text += fmt::format("{:<30}{}\n", name, value);
  };
  line("all ready after", outcome.all_ready >= 0
                              ? fmt::format("{:.1f} s", outcome.all_ready)
                              : fmt::format("never: {} of {} at most", grouped(outcome.most_ready),
                                            grouped(outcome.rows)));
  line("ready at the end",
       fmt::format("{} of {}", grouped(outcome.ready_at_end), grouped(outcome.rows)));
  line("from unclaimed to claimed", show(outcome.claimed));
  line("from unclaimed to ready", show(outcome.served));
  line("clones",
       fmt::format("{}, at most {} at once; {} too large for who made them",
                   grouped(outcome.clones), outcome.most_clones, grouped(outcome.brought_in_vain)));
  line("memory, fullest node",
       fmt::format("{} of its budget at worst", percent(outcome.worst_memory)));
  if (outcome.balance > 0) line("fullest node by the mean", fmt::format("{:.2f}", outcome.balance));
  line("demoted, evicted",
       fmt::format("{}, {}", grouped(outcome.demoted), grouped(outcome.evicted)));
  line("queries",
       fmt::format("{}, complete {}, at the second try {}", grouped(outcome.queries),
                   percent(ratio(outcome.complete, outcome.queries)), grouped(outcome.second_try)));
  for (const auto& [reason, count] : outcome.incomplete)
    line(fmt::format("  incomplete: {}", reason),
         fmt::format("{} ({})", grouped(count), percent(ratio(count, outcome.queries))));
  line("regret", fmt::format("{} ({})", percent(ratio(outcome.regretted, outcome.queries)),
                             grouped(outcome.regretted)));
  line("pinned, asked in vain", grouped(outcome.pinned_missed));
  if (terms.scaling.is_on) {
    const auto& scaled = outcome.scaled;
    line("nodes at most",
         fmt::format("{}, {} beyond what was needed", scaled.most, scaled.overshoot));
    line("flaps", fmt::format("{}, {:.2f} an hour", scaled.flaps, scaled.flaps_per_hour));
    line("after the step up, down", fmt::format("{:.0f} s, {:.0f} s until as many as needed",
                                                scaled.up_seconds, scaled.down_seconds));
    line("every processor busy", fmt::format("{:.0f} s", scaled.saturated_seconds));
    line("node hours", fmt::format("{:.1f}", scaled.node_hours));
  }
  line("claims, in vain",
       fmt::format("{}, {} ({})", grouped(outcome.claims), grouped(outcome.claims_in_vain),
                   percent(ratio(outcome.claims_in_vain, outcome.claims))));
  line("looks at offers, a second",
       fmt::format("{:.1f}", ratio(static_cast<double>(outcome.reads),
                                   static_cast<double>(terms.length.count()))));
  line("rows changed when idle",
       outcome.was_idle ? fmt::format("{:.2f} per node and interval", outcome.idle_writes)
                        : "it never was");
  for (const auto& [reason, count] : outcome.unserved)
    line("not served at the end", fmt::format("{}: {}", grouped(count), reason));
  text += recoveries(outcome);
  text += "\n";
  if (outcome.violations.empty())
    text += "one owner at a time, epochs grow, memory within 110 %, pinned never evicted: held\n";
  for (const auto& violation : outcome.violations) text += "VIOLATED  " + violation + "\n";
  return text;
}

std::string to_json(const Terms& terms, const Outcome& outcome) {
  json::object all{
      {"repos", terms.repos},
      {"nodes", terms.nodes},
      {"replicas", terms.replicas},
      {"seed", terms.seed},
      {"length_s", terms.length.count()},
      {"ttl_ms", terms.ttl.count()},
      {"faults", words_of(terms.faults)},
      {"budget_bytes", outcome.budget_bytes},
      {"need_bytes", outcome.need_bytes},
      {"rows", outcome.rows},
      {"all_ready_s", outcome.all_ready < 0 ? json::value() : json::value(outcome.all_ready)},
      {"ready_at_end", outcome.ready_at_end},
      {"claimed", object_of(outcome.claimed)},
      {"served", object_of(outcome.served)},
      {"clones", outcome.clones},
      {"clones_at_once", outcome.most_clones},
      {"brought_in_vain", outcome.brought_in_vain},
      {"worst_memory", outcome.worst_memory},
      {"memory_parts", json::value_from(outcome.memory_parts)},
      {"balance", outcome.balance},
      {"demoted", outcome.demoted},
      {"evicted", outcome.evicted},
      {"queries", outcome.queries},
      {"complete", outcome.complete},
      {"second_try", outcome.second_try},
      {"incomplete", json::value_from(outcome.incomplete)},
      {"regretted", outcome.regretted},
      {"regret", ratio(outcome.regretted, outcome.queries)},
      {"pinned_missed", outcome.pinned_missed},
      {"claims", outcome.claims},
      {"claims_in_vain", outcome.claims_in_vain},
      {"looks", outcome.reads},
      {"idle_rows_changed", outcome.was_idle ? json::value(outcome.idle_writes) : json::value()},
      {"unserved", json::value_from(outcome.unserved)},
      {"violations", json::value_from(outcome.violations)}};
  if (terms.scaling.is_on) {
    const auto& scaled = outcome.scaled;
    all["scaled"] = json::object{{"most_nodes", scaled.most},
                                 {"overshoot", scaled.overshoot},
                                 {"flaps", scaled.flaps},
                                 {"flaps_per_hour", scaled.flaps_per_hour},
                                 {"up_s", scaled.up_seconds},
                                 {"down_s", scaled.down_seconds},
                                 {"saturated_s", scaled.saturated_seconds},
                                 {"node_hours", scaled.node_hours}};
  }
  json::array faults;
  for (const auto& one : outcome.recoveries)
    faults.push_back(
        json::object{{"what", one.what},
                     {"at_s", one.at},
                     {"lost", one.lost},
                     {"recovered_s", one.seconds < 0 ? json::value() : json::value(one.seconds)},
                     {"bound_s", one.bound},
                     {"work_s", one.work},
                     {"clones", one.clones},
                     {"missed", one.missed}});
  all["recoveries"] = std::move(faults);
  return json::serialize(all) + "\n";
}

}  // namespace warren::fleet_sim
