// warren torture: tests leases, mirrors, catalogs and once under faults, and checks their promises.
#include "proof/torture/torture.h"

#include <fmt/format.h>

#include <filesystem>
#include <random>
#include <set>

#include "cli/causes.h"
#include "cli/cli.h"
#include "cli/progress.h"
#include "cli/scratch.h"
#include "proof/testkit/failure.h"

namespace warren::cli {

namespace {

struct TortureOptions {
  std::string what;
  std::string engine;  // for a catalog
  bool is_sim = false;
  std::chrono::seconds length{};
  std::uint64_t schedules = 0;
  std::uint64_t seed = 0;
};

std::uint64_t random_seed() { return std::random_device()() % 1'000'000; }

// What was done and checked, over all rounds.
struct Tally {
  void add_checked(const std::vector<std::string>& invariants) {
    for (auto& invariant : invariants) checked.emplace(invariant.size(), invariant);
  }
  std::map<std::string, std::size_t> runs, counts, faults;
  std::map<std::string, std::string> coverage;  // by target: the simulated faults
  // Sorts I2 before I12.
  std::set<std::pair<std::size_t, std::string>> checked;

  void add(const torture::RoundReport& report) {
    ++runs[report.topology];
    for (auto& [name, count] : report.counts) counts[name] += count;
    for (auto& [name, count] : report.faults) faults[name] += count;
    add_checked(report.checked);
  }
};

std::string listed(const std::map<std::string, std::size_t>& things) {
  std::vector<std::string> parts;
  for (auto& [name, count] : things)
    if (count > 0) parts.push_back(fmt::format("{} {}", name, count));
  return parts.empty() ? "none" : fmt::format("{}", fmt::join(parts, ", "));
}

// In how many of the schedules each kind of fault occurred.
std::string coverage(const torture::SimulationResult& result) {
  std::vector<std::string> parts;
  for (auto& [name, count] : result.faults)
    parts.push_back(
        fmt::format("{} {:.1f} %", name, 100.0 * double(count) / double(result.schedules)));
  return fmt::format("{}", fmt::join(parts, ", "));
}

std::string repeat_with(const TortureOptions& options, const std::string& what,
                        std::uint64_t seed) {
  bool has_engine = what == "catalog" && options.engine != "redis";
  return fmt::format(
      "warren torture {}{}{} --seed {} {}", what, has_engine ? " --catalog " + options.engine : "",
      options.is_sim ? " --sim" : "", seed, options.is_sim ? "--schedules 1" : "--seconds 1");
}

struct Failure {
  std::string what;
  std::uint64_t seed;
  history::Violation violation;
};

void print_verdict(const TortureOptions& options, const Tally& tally, Clock::duration took,
                   const std::optional<Failure>& failure, const Paint& paint) {
  auto line = [&](const char* name, const std::string& text) {
    fmt::print("{}  {}\n", paint.bold(fmt::format("{:<10}", name)), text);
  };
  line("ran", fmt::format("{} in {:.1f} s from seed {}", listed(tally.runs),
                          std::chrono::duration<double>(took).count(), options.seed));
  line("operations", listed(tally.counts));
  if (!options.is_sim) line("faults", listed(tally.faults));
  const char* title = "faults";
  for (auto& [target, faults] : tally.coverage) {
    line(title, fmt::format("{}: {}", target, faults.empty() ? "none" : faults));
    title = "";
  }
  title = "checked";
  for (auto& [size, invariant] : tally.checked) {
    line(title, fmt::format("{:<4}{}", invariant, torture::meaning_of(invariant)));
    title = "";
  }
  if (!failure) return line("result", paint.green("every promise was kept"));
  line("result", paint.red("a promise was broken"));
  fmt::print("\n{}\n\nseed {} shows it again: {}\n", failure->violation.text(), failure->seed,
             repeat_with(options, failure->what, failure->seed));
}

// Rounds on real servers, all targets in turn, until the time is up.
std::optional<Failure> run_rounds(const TortureOptions& options,
                                  const std::vector<torture::Target>& targets, Tally& tally,
                                  Progress& progress) {
  auto began = Clock::now();
  auto end = began + options.length;
  for (auto seed = options.seed;; ++seed) {
    for (auto& target : targets) {
      auto report = target.run_round(seed, [&] {
        auto part = std::chrono::duration<double>(Clock::now() - began) / options.length;
        progress.show(part, fmt::format("{} round with seed {}", target.name, seed));
      });
      tally.add(report);
      if (report.violation) return Failure{target.name, seed, *report.violation};
    }
    if (Clock::now() >= end) return std::nullopt;
  }
}

std::optional<Failure> run_schedules(const TortureOptions& options,
                                     const std::vector<torture::Target>& targets, Tally& tally,
                                     Progress& progress) {
  for (auto& target : targets) {
    torture::SimulationOptions simulation{options.seed, options.schedules, options.length};
    auto result = torture::simulate_many(target, simulation, [&](double part, std::uint64_t done) {
      progress.show(part, fmt::format("{}: {} schedules", target.name, done));
    });
    tally.runs[fmt::format("{} schedules", target.name)] += result.schedules;
    tally.counts["events judged"] += result.events;
    tally.coverage[target.name] = coverage(result);
    tally.add_checked(target.checked);
    if (result.violation) return Failure{target.name, result.seed, *result.violation};
  }
  return std::nullopt;
}

// If the servers do not start, that says nothing about us, and no caller is left to return it to.
[[noreturn]] void give_up(const std::string& what) {
  fmt::print(stderr, "\nerror: the servers for the test failed: {}\n", printable(what));
  std::_Exit(static_cast<int>(Exit::unreachable));
}

Result<Exit> torture_all(const TortureOptions& options, const Context& context) {
  auto config = load_config(context);
  if (!config) return std::unexpected(config.error());
  auto engine = torture::parse_engine(options.engine);
  ensure(engine.has_value(), "the words of --catalog are those of engines");
  auto targets = torture::targets_for(options.what, options.is_sim, *engine);
  if (!targets) return std::unexpected(targets.error());
  std::optional<Scratch> scratch;
  if (!options.is_sim) {
    auto made = Scratch::create();
    if (!made) return std::unexpected(made.error());
    scratch.emplace(*std::move(made));
  }
  failure_hooks.on_failure = [](const std::string& what) { give_up(what); };
  Tally tally;
  auto began = Clock::now();
  Progress progress(context.err);
  auto failure = options.is_sim ? run_schedules(options, *targets, tally, progress)
                                : run_rounds(options, *targets, tally, progress);
  progress.clear();
  print_verdict(options, tally, Clock::now() - began, failure, context.out);
  return failure ? Exit::failed : Exit::ok;
}

}  // namespace

void add_torture(CLI::App& root, Action& chosen) {
  auto* app = add_command(root, "torture",
                          "Leases, mirrors, catalogs and once under faults: are promises kept?",
                          "Convince yourself");
  set_footer(
      *app,
      "Starts private servers (Redis: single, Sentinel, Cluster) and processes that use them, "
      "kills,\n"
      "stops and cuts them off, steps their clocks, and judges what happened. Your own servers are "
      "not\n"
      "touched. With --sim the protocol runs against a model of Redis instead, on all cores.\n\n"
      "Examples\n"
      "  warren torture lease --seconds 60\n"
      "  warren torture catalog --catalog postgres\n"
      "  warren torture all --sim --schedules 1000000\n\n"
      "The exit code is 1 when a promise was broken; then the seed that shows it again is "
      "printed.");
  auto* what = add_value(*app, "what", "lease|mirror|catalog|once|all", "what to torture",
                         one_of({"lease", "mirror", "catalog", "once", "all"}), "all");
  auto* engine = add_value(*app, "--catalog", "redis|postgres|etcd", "what keeps the catalog",
                           one_of({"redis", "postgres", "etcd"}), "redis");
  auto* is_sim = add_switch(*app, "--sim", "in a simulation instead of on real servers");
  auto* seconds = add_value(*app, "--seconds", "N", "how long; begun rounds are finished",
                            whole_number(1, 1'000'000), "60");
  auto* schedules =
      add_value(*app, "--schedules", "N", "with --sim: how many of each, however long",
                whole_number(1, 1'000'000'000));
  auto* seed = add_value(*app, "--seed", "N", "where chance begins; by default a new one",
                         whole_number(0, 1'000'000'000));
  when_chosen(*app, [=, &chosen] {
    chosen = [=](const Context& context) -> Result<Exit> {
      TortureOptions options{.what = value_of(*what),
                             .engine = value_of(*engine),
                             .is_sim = is_given(*is_sim),
                             .length = std::chrono::seconds(std::stoll(value_of(*seconds)))};
      options.schedules = is_given(*schedules) ? std::stoull(value_of(*schedules)) : 0;
      if (options.engine != "redis" && options.what != "catalog")
        return fail(Errc::invalid, causes::bad_words, "--catalog",
                    "--catalog is for warren torture catalog; all is with Redis");
      if (options.engine != "redis" && options.is_sim)
        return fail(Errc::invalid, causes::bad_words, "--sim",
                    "--sim has a model of Redis only: leave out --catalog");
      if (options.schedules > 0 && !options.is_sim)
        return fail(Errc::invalid, causes::bad_words, "--schedules",
                    "--schedules is for --sim; real rounds have --seconds");
      options.seed = is_given(*seed) ? std::stoull(value_of(*seed)) : random_seed();
      return torture_all(options, context);
    };
  });
}

}  // namespace warren::cli
