// warren fleet simulate: what a fleet would do, in virtual time.
#include "services/fleet/simulate/simulate.h"

#include <fmt/format.h>

#include <cerrno>
#include <filesystem>
#include <fstream>

#include "base/config.h"
#include "cli/fleet/fleet.h"

namespace warren::cli {

namespace {

using fleet_sim::Outcome;
using fleet_sim::Terms;

Check positive_number(double most) {
  return [most](std::string_view text) -> Result<> {
    char* end = nullptr;
    std::string copy(text);
    auto number = std::strtod(copy.c_str(), &end);
    if (copy.empty() || *end != '\0' || !(number > 0) || number > most)
      return fail(Errc::invalid, "use a number above 0, at most {}", most);
    return ok;
  };
}

// A word on the command line, and the figure that it sets.
struct Knob {
  CLI::Option* option;
  std::function<void(Terms&, const std::string&)> set;
};

std::vector<Knob> add_fleet_knobs(CLI::App& app) {
  std::vector<Knob> all;
  auto add = [&](const char* name, const char* kind, const char* help, Check check,
                 const std::string& fallback, std::function<void(Terms&, const std::string&)> set) {
    all.push_back({add_value(app, name, kind, help, std::move(check), fallback), std::move(set)});
  };
  auto number = [&](const char* name, const char* help, int most, int Terms::* member) {
    add(name, "N", help, whole_number(1, most), fmt::format("{}", Terms().*member),
        [=](Terms& terms, const std::string& text) { terms.*member = std::stoi(text); });
  };
  number("--repos", "how many repositories", 50'000, &Terms::repos);
  number("--nodes", "how many nodes", 200, &Terms::nodes);
  number("--replicas", "of each repository", 8, &Terms::replicas);
  add("--seed", "N", "another one is another run", whole_number(0, 1'000'000'000), "1",
      [](Terms& terms, const std::string& text) { terms.seed = std::stoull(text); });
  add("--length", "TIME", "of virtual time", duration(), "45m",
      [](Terms& terms, const std::string& text) {
        terms.length = std::chrono::duration_cast<std::chrono::seconds>(*parse_duration(text));
      });
  add(
      "--faults", "FAULTS", "none, all, or some of kill,pause,cut,restart,stall,slow,drain",
      [](std::string_view words) -> Result<> {
        auto parsed = fleet_sim::parse_faults(words);
        if (!parsed) return std::unexpected(parsed.error());
        return ok;
      },
      "all",
      [](Terms& terms, const std::string& text) { terms.faults = *fleet_sim::parse_faults(text); });
  add("--ttl", "TIME", "of the nodes' leases", duration(), "30s",
      [](Terms& terms, const std::string& text) { terms.ttl = *parse_duration(text); });
  number("--clones", "at once, of a node", 64, &Terms::clones);
  number("--clones-of-one-host", "at once, of a node", 64, &Terms::clones_of_one_host);
  number("--builds", "at once, of a node", 64, &Terms::builds);
  add("--unready", "N", "rows that a node has claimed and does not serve yet, at most",
      whole_number(1, 1'000'000), fmt::format("{}", Terms().claims.most_unready),
      [](Terms& terms, const std::string& text) { terms.claims.most_unready = std::stoull(text); });
  add("--budget", "SIZE", "of memory of a node; by default by --budget-part", bytes_check(), "",
      [](Terms& terms, const std::string& text) {
        if (!text.empty()) terms.budget_bytes = *parse_bytes(text);
      });
  add("--budget-part", "PART", "budget of all nodes, by what all repositories take",
      positive_number(100), "1.2",
      [](Terms& terms, const std::string& text) { terms.budget_part = std::stod(text); });
  add("--eviction", "value|lru", "what goes first", one_of({"value", "lru"}), "value",
      [](Terms& terms, const std::string& text) {
        if (text == "lru") terms.shelf.policy = fleet::EvictionPolicy::lru;
      });
  add("--cool-down", "TIME", "between two evictions of a node", duration(), "30s",
      [](Terms& terms, const std::string& text) {
        terms.shelf.cool_down =
            std::chrono::duration_cast<std::chrono::seconds>(*parse_duration(text));
      });
  add("--admit-at", "PART", "of the budget: what nobody waits for is taken up to here",
      positive_number(1), fmt::format("{:g}", Terms().shelf.admit_at),
      [](Terms& terms, const std::string& text) { terms.shelf.admit_at = std::stod(text); });
  add("--demand", "on|off", "queries for what nobody has are told to the catalog",
      one_of({"on", "off"}), "on",
      [](Terms& terms, const std::string& text) { terms.records_demand = text == "on"; });
  return all;
}

std::vector<Knob> add_scale_knobs(CLI::App& app) {
  std::vector<Knob> all;
  using fleet_sim::Scaling;
  auto add_time = [&](const char* name, const char* help, const char* fallback, auto set) {
    all.push_back({add_value(app, name, "TIME", help, duration(), fallback),
                   [=](Terms& terms, const std::string& text) {
                     set(terms.scaling, *parse_duration(text));
                   }});
  };
  auto add_part = [&](const char* name, const char* kind, const char* help, double most,
                      double usual, auto set) {
    all.push_back(
        {add_value(app, name, kind, help, positive_number(most), fmt::format("{:g}", usual)),
         [=](Terms& terms, const std::string& text) { set(terms.scaling, std::stod(text)); }});
  };
  all.push_back(
      {add_value(app, "--autoscale", "on|off",
                 "nodes come and go with a load that steps up and down", one_of({"on", "off"}),
                 "off"),
       [](Terms& terms, const std::string& text) { terms.scaling.is_on = text == "on"; }});
  add_time("--scale-up-after", "of the router", "3m",
           [](Scaling& to, auto given) { to.terms.up_after = given; });
  add_time("--scale-down-after", "of the router", "15m",
           [](Scaling& to, auto given) { to.terms.down_after = given; });
  add_time("--scale-settle", "of the router", "45s",
           [](Scaling& to, auto given) { to.terms.settle = given; });
  add_time("--node-start", "from the advice until a new node claims", "30s",
           [](Scaling& to, auto given) {
             to.node_start = std::chrono::duration_cast<std::chrono::seconds>(given);
           });
  const Scaling usual;
  add_part("--scale-fill", "PART", "of the budgets", 1, usual.terms.fill,
           [](Scaling& to, double given) { to.terms.fill = given; });
  add_part("--load-low", "NODES", "that queries keep busy, before and after the steps", 100,
           usual.low, [](Scaling& to, double given) { to.low = given; });
  add_part("--load-high", "NODES", "that queries keep busy in between", 100, usual.high,
           [](Scaling& to, double given) { to.high = given; });
  add_part("--load-noise", "PART", "of the load, by chance", 1, usual.noise,
           [](Scaling& to, double given) { to.noise = given; });
  return all;
}

std::vector<Knob> add_world_knobs(CLI::App& app) {
  std::vector<Knob> all;
  auto figure = [&](const char* name, const char* kind, const char* help,
                    double fleet_sim::World::* member, double unit) {
    auto fallback = fmt::format("{:g}", fleet_sim::World().*member / unit);
    all.push_back({add_value(app, name, kind, help, positive_number(1e9), fallback),
                   [=](Terms& terms, const std::string& text) {
                     terms.world.*member = std::stod(text) * unit;
                   }});
  };
  using fleet_sim::World;
  figure("--median", "MB", "of text, of a repository", &World::median_bytes, 1e6);
  figure("--sigma", "S", "of the logarithm of sizes", &World::sigma, 1);
  figure("--largest", "MB", "of text", &World::largest_bytes, 1e6);
  figure("--host-speed", "MB/s", "of a git host, to all", &World::host_mb_s, 1);
  figure("--clone-speed", "MB/s", "of one clone", &World::clone_mb_s, 1);
  figure("--symbols-speed", "MB/s", "at which a core finds symbols", &World::symbols_mb_s, 1);
  figure("--queries", "N", "a second", &World::queries_per_second, 1);
  figure("--zipf", "S", "how unevenly repositories are asked for", &World::zipf, 1);
  all.push_back(
      {add_value(app, "--hosts", "N", "git hosts", whole_number(1, 1000), "4"),
       [](Terms& terms, const std::string& text) { terms.world.hosts = std::stoi(text); }});
  return all;
}

Result<> write_plots(const std::string& folder, const Terms& terms, const Outcome& outcome) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  for (const auto& plot : fleet_sim::plots(terms, outcome)) {
    auto path = (std::filesystem::path(folder) / plot.file).string();
    std::ofstream file(path);
    file << plot.svg;
    file.close();
    if (!file) return std::unexpected(file_error(path, errno));
  }
  return ok;
}

}  // namespace

void add_fleet_simulate(CLI::App& fleet, Action& chosen) {
  auto* app = add_command(fleet, "simulate", "What a fleet would do, in virtual time");
  set_footer(
      *app,
      R"(Nodes, a catalog, git hosts, queries and faults in virtual time, with the real decisions: no server
is started, and the same seed is the same run. docs/fleet-tuning.md says what is assumed.

Faults: kill (a node dies), pause (it stands still past its lease), cut (it cannot reach the catalog),
restart (the catalog is away for 20 s), stall (it does not answer for 10 s), slow (git has a tenth of its
speed, and a node dies), drain (nodes are replaced one after the other).

Examples
  warren fleet simulate --repos 500 --nodes 6 --seed 1 --plots /tmp/plots
  warren fleet simulate --budget-part 0.3 --faults none --json)");
  auto knobs = add_fleet_knobs(*app);
  auto scale = add_scale_knobs(*app);
  auto world = add_world_knobs(*app);
  knobs.insert(knobs.end(), scale.begin(), scale.end());
  knobs.insert(knobs.end(), world.begin(), world.end());
  auto* folder =
      add_value(*app, "--plots", "DIR", "also ready.svg, memory.svg, claims.svg", nullptr);
  auto* in_json = add_json(*app);
  when_chosen(*app, [=, &chosen] {
    chosen = [=](const Context&) -> Result<Exit> {
      Terms terms;
      for (const auto& knob : knobs) knob.set(terms, value_of(*knob.option));
      auto outcome = fleet_sim::simulate(terms);
      fmt::print("{}", is_given(*in_json) ? to_json(terms, outcome) : report(terms, outcome));
      if (auto plots = value_of(*folder); !plots.empty())
        if (auto written = write_plots(plots, terms, outcome); !written)
          return std::unexpected(written.error());
      return outcome.violations.empty() ? Exit::ok : Exit::failed;
    };
  });
}

}  // namespace warren::cli
