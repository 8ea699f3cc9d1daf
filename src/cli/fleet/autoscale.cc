// warren fleet autoscale: as many nodes as a router says.
#include <signal.h>

#include <filesystem>

#include "base/log.h"
#include "cli/fleet/fleet.h"
#include "cli/fleet/settings.h"
#include "cli/instance/which.h"
#include "services/fleet/autoscale/local.h"

namespace warren::cli {

namespace {

using namespace fleet;

std::vector<std::string> split(std::string_view text) {
  std::vector<std::string> words;
  while (!text.empty()) {
    auto word = text.substr(0, text.find(' '));
    text.remove_prefix(std::min(text.size(), word.size() + 1));
    if (!word.empty()) words.emplace_back(word);
  }
  return words;
}

struct Drivers {
  PrintDriver print;
  std::optional<LocalDriver> local = {};
};

awaitable<void> run_autoscale(AutoscaleTerms terms, Drivers& drivers) {
  auto executor = co_await asio::this_coro::executor;
  asio::signal_set signals(executor, SIGTERM, SIGINT);
  auto body = [](TaskGroup& tasks, AutoscaleTerms& what, Drivers& all,
                 asio::signal_set& stops) -> awaitable<bool> {
    ScaleDriver& driver = all.local ? static_cast<ScaleDriver&>(*all.local) : all.print;
    tasks.start("fleet.autoscale", autoscale(std::move(what), driver));
    co_await interrupted(stops);
    co_return true;
  };
  co_await with_group(body, terms, drivers, signals);
  while (drivers.local && !drivers.local->end()) co_await sleep_for(100ms);
}

}  // namespace

void add_fleet_autoscale(CLI::App& fleet, Action& chosen) {
  auto* app = add_command(fleet, "autoscale", "Start and end nodes as a router advises");
  set_footer(
      *app,
      R"(A router says at /v1/scale how many nodes there should be, from memory, processors and work that
waits; docs/fleet.md says how. `print` tells changes on standard output. `local` runs nodes as processes
of this machine, with --node-flags, in which {} is the number of the node. They leave one at a time, with
SIGTERM.

Examples
  warren fleet autoscale --router http://127.0.0.1:7200
  warren fleet autoscale --router http://127.0.0.1:7200 --driver local --most 4 \
      --node-flags '--name n{} --budget 2G')");
  auto* router = add_value(*app, "--router", "URL", "to ask", nullptr, "http://127.0.0.1:7200");
  auto* kind = add_value(*app, "--driver", "print|local", "who starts and ends nodes",
                         one_of({"print", "local"}), "print");
  auto* least = add_value(*app, "--least", "N", "nodes", whole_number(0, 10'000), "1");
  auto* most = add_value(*app, "--most", "N", "nodes", whole_number(1, 10'000), "10");
  auto* words = add_value(*app, "--node-flags", "WORDS",
                          "of `warren fleet node`, with spaces between them", nullptr);
  when_chosen(*app, [=, &chosen] {
    chosen = [=](const Context& given) -> Result<Exit> {
      AutoscaleTerms terms;
      auto url = parse_http_url(value_of(*router));
      if (!url) return std::unexpected(url.error());
      terms.router = *std::move(url);
      terms.least = std::stoul(value_of(*least));
      terms.most = std::stoul(value_of(*most));
      if (terms.least > terms.most)
        return fail(Errc::invalid, "--least {} is more than --most {}", terms.least, terms.most);
      auto config = load_config(with_log(given));
      if (!config) return std::unexpected(config.error());
      terms.token = config->text("fleet.token");
      Drivers drivers;
      auto flags = split(value_of(*words));
      if (value_of(*kind) == "local") {
        std::error_code error;
        auto self = std::filesystem::read_symlink("/proc/self/exe", error);
        if (error) return fail(Errc::unavailable, "/proc/self/exe: {}", error.message());
        std::vector<std::string> argv{self.string(), "fleet", "node"};
        argv.insert(argv.end(), flags.begin(), flags.end());
        drivers.local.emplace(std::move(argv));
      } else if (!flags.empty()) {
        return fail(Errc::invalid, "--node-flags is for --driver local");
      }
      asio::co_spawn(
          given.io, run_autoscale(std::move(terms), drivers),
          [](std::exception_ptr thrown) { ensure(!thrown, "a command returns its errors"); });
      given.io.run();
      return Exit::ok;
    };
  });
}

}  // namespace warren::cli
