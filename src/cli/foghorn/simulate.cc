// foghorn simulate: predicts how viewers spread over nodes, under both policies.
#include "services/foghorn/simulate/simulate.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <fstream>

#include "cli/cli.h"

namespace warren::cli {

namespace {

struct SimulateOptions {
  simulate::Terms terms;
  std::string policy, svg;
};

std::vector<simulate::Run> runs_for(const SimulateOptions& options) {
  std::vector<simulate::Run> runs;
  auto add = [&](const char* name, balance::Policy policy, bool is_shared) {
    auto terms = options.terms;
    terms.policy = policy;
    terms.shares_penalties = is_shared;
    runs.push_back({name, terms, {}});
  };
  if (options.policy != "fair") add("compat", balance::Policy::compat, true);
  if (options.policy != "compat") add("fair", balance::Policy::fair, true);
  if (options.policy != "compat" && options.terms.instances > 1)
    add("fair, not shared", balance::Policy::fair, false);
  return runs;
}

Result<Exit> run_simulate(const SimulateOptions& options) {
  std::ofstream file;
  if (!options.svg.empty()) file.open(options.svg);
  if (!file) return fail(Errc::refused, "{}: {}", options.svg, std::strerror(errno));
  auto runs = runs_for(options);
  for (auto& run : runs) run.outcome = simulate::simulate(run.terms);
  fmt::print("{}", simulate::report(runs));
  if (options.svg.empty()) return Exit::ok;
  file << simulate::chart(runs);
  file.close();
  if (!file) return fail(Errc::refused, "{}: {}", options.svg, std::strerror(errno));
  return Exit::ok;
}

}  // namespace

void add_simulate(CLI::App& root, Action& chosen) {
  auto* app = add_command(root, "simulate", "How viewers would spread over the nodes of a cluster",
                          "Convince yourself");
  set_footer(
      *app,
      "Nodes, viewers and faults in virtual time, with the real decisions: no Redis, no server, "
      "and\n"
      "the same seed is the same run. \"not shared\": instances that do not know of each other's\n"
      "redirects.\n\n"
      "Faults: deaths (nodes die, their viewers come back), silence (nodes serve but do not "
      "report),\n"
      "drain (nodes take no more viewers), crowd (a quarter more viewers want one stream at "
      "once).\n\n"
      "Example\n"
      "  foghorn simulate --nodes 50 --faults deaths,crowd --svg load.svg");
  auto number = [app](const char* name, const char* help, std::int64_t most, const char* fallback) {
    return add_value(*app, name, "N", help, whole_number(1, most), fallback);
  };
  auto* nodes = number("--nodes", "how many nodes", 9'999, "100");
  auto* streams = number("--streams", "how many streams", 100'000, "1000");
  auto* viewers = number("--viewers", "how many viewers at a time", 1'000'000, "20000");
  auto* instances = number("--instances", "how many instances of Foghorn", 64, "3");
  auto* seconds = number("--seconds", "of virtual time", 86'400, "600");
  auto* seed = add_value(*app, "--seed", "N", "another one is another run",
                         whole_number(0, 1'000'000'000), "1");
  auto* policy = add_value(*app, "--policy", "compat|fair|both", "by which nodes are chosen",
                           one_of({"compat", "fair", "both"}), "both");
  auto* faults = add_value(
      *app, "--faults", "FAULTS", "none, all, or some of deaths,silence,drain,crowd",
      [](std::string_view words) -> Result<> {
        auto parsed = simulate::parse_faults(words);
        if (!parsed) return std::unexpected(parsed.error());
        return ok;
      },
      "all");
  auto* svg = add_value(*app, "--svg", "FILE", "also a chart of load over time", nullptr);
  when_chosen(*app, [=, &chosen] {
    chosen = [=](const Context&) -> Result<Exit> {
      SimulateOptions options;
      auto& terms = options.terms;
      terms.nodes = std::stoi(value_of(*nodes));
      terms.streams = std::stoi(value_of(*streams));
      terms.viewers = std::stoi(value_of(*viewers));
      terms.instances = std::stoi(value_of(*instances));
      terms.length = std::chrono::seconds(std::stoi(value_of(*seconds)));
      terms.seed = std::stoull(value_of(*seed));
      terms.faults = *simulate::parse_faults(value_of(*faults));
      options.policy = value_of(*policy);
      options.svg = value_of(*svg);
      return run_simulate(options);
    };
  });
}

}  // namespace warren::cli
