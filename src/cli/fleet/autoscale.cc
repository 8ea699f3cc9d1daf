// warren fleet autoscale: as many nodes as a router says.
#include <signal.h>

#include <filesystem>

#include "base/log.h"
#include "cli/causes.h"
#include "cli/fleet/fleet.h"
#include "cli/fleet/settings.h"
#include "cli/instance/which.h"
#include "services/fleet/autoscale/kubernetes.h"
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

awaitable<void> run_autoscale(AutoscaleTerms terms, ScaleDriver& driver) {
  auto executor = co_await asio::this_coro::executor;
  asio::signal_set signals(executor, SIGTERM, SIGINT);
  auto body = [](TaskGroup& tasks, AutoscaleTerms& what, ScaleDriver& by,
                 asio::signal_set& stops) -> awaitable<bool> {
    tasks.start("fleet.autoscale", autoscale(std::move(what), by));
    co_await interrupted(stops);
    co_return true;
  };
  co_await with_group(body, terms, driver, signals);
}

awaitable<void> run_local(AutoscaleTerms terms, LocalDriver& driver) {
  co_await run_autoscale(std::move(terms), driver);
  while (!driver.end()) co_await sleep_for(100ms);
}

Result<LocalDriver> local_driver(const std::vector<std::string>& flags) {
  std::error_code error;
  auto self = std::filesystem::read_symlink("/proc/self/exe", error);
  if (error) return fail(Errc::unavailable, "/proc/self/exe: {}", error.message());
  std::vector<std::string> argv{self.string(), "fleet", "node"};
  argv.insert(argv.end(), flags.begin(), flags.end());
  return LocalDriver(std::move(argv));
}

Async<Exit> run_kubernetes(Catalog& catalog, AutoscaleTerms terms, KubernetesTerms where,
                           kube::Access access) {
  auto executor = co_await asio::this_coro::executor;
  kube::Client client(executor, std::move(access));
  KubernetesDriver driver(client, catalog, std::move(where));
  auto may = co_await driver.check(Clock::now() + 30s);
  if (!may) co_return std::unexpected(may.error());
  co_await run_autoscale(std::move(terms), driver);
  co_return Exit::ok;
}

}  // namespace

void add_fleet_autoscale(CLI::App& fleet, Action& chosen) {
  auto* app = add_command(fleet, "autoscale", "Start and end nodes as a router advises");
  set_footer(
      *app,
      R"(A router says at /v1/scale how many nodes there should be, from memory, processors and work that
waits; docs/fleet.md says how. `print` tells changes on standard output. `local` runs nodes as processes
of this machine, with --node-flags, in which {} is the number of the node. They leave one at a time, with
SIGTERM. `kubernetes` scales a StatefulSet whose nodes are called as their pods (--name $(POD_NAME)): the
node of its highest pod drains before there is one replica less. The API server is that of KUBECONFIG, of
the pod it runs in, or of ~/.kube/config.

Examples
  warren fleet autoscale --router http://127.0.0.1:7200
  warren fleet autoscale --router http://127.0.0.1:7200 --driver local --most 4 \
      --node-flags '--name n{} --budget 2G'
  warren fleet autoscale --router http://fleet:7200 --driver kubernetes --statefulset fleet)");
  auto options = add_fleet_options(*app);
  auto* router = add_value(*app, "--router", "URL", "to ask", nullptr, "http://127.0.0.1:7200");
  auto* kind = add_value(*app, "--driver", "print|local|kubernetes", "who starts and ends nodes",
                         one_of({"print", "local", "kubernetes"}), "print");
  auto* least = add_value(*app, "--least", "N", "nodes", whole_number(0, 10'000), "1");
  auto* most = add_value(*app, "--most", "N", "nodes", whole_number(1, 10'000), "10");
  auto* words = add_value(*app, "--node-flags", "WORDS",
                          "of `warren fleet node`, with spaces between them", nullptr);
  auto* set = add_value(*app, "--statefulset", "NAME", "whose pods are the nodes", nullptr);
  auto* space =
      add_value(*app, "--namespace", "NAME", "of it; by default that of the kubeconfig", nullptr);
  auto* context = add_value(*app, "--context", "NAME", "of the kubeconfig", nullptr);
  auto* within = add_value(*app, "--drain-time", "TIME",
                           "for others to take over, before a pod goes", duration(), "60s");
  when_chosen(*app, [=, &chosen] {
    chosen = [=](const Context& given) -> Result<Exit> {
      AutoscaleTerms terms;
      auto url = parse_web_url(value_of(*router));
      if (!url) return std::unexpected(url.error());
      terms.router = *std::move(url);
      terms.least = std::stoul(value_of(*least));
      terms.most = std::stoul(value_of(*most));
      if (terms.least > terms.most)
        return fail(Errc::invalid, causes::bad_words, "--least",
                    "--least {} is more than --most {}", terms.least, terms.most);
      auto config = load_config(with_log(given));
      if (!config) return std::unexpected(config.error());
      terms.token = config->text("fleet.token");
      if (terms.router.is_tls) {
        auto tls = tls_of(*config);
        if (!tls) return std::unexpected(tls.error());
        terms.tls = *std::move(tls);
      }
      auto flags = split(value_of(*words));
      auto kind_of = value_of(*kind);
      if (kind_of != "local" && !flags.empty())
        return fail(Errc::invalid, causes::bad_words, "--node-flags",
                    "--node-flags is for --driver local");
      if ((kind_of == "kubernetes") != is_given(*set))
        return fail(Errc::invalid, causes::bad_words, "--statefulset",
                    "--statefulset NAME and --driver kubernetes go together");
      if (kind_of == "kubernetes") {
        auto access = kube::find_access(given.sources.environment, value_of(*context));
        if (!access) return std::unexpected(access.error());
        KubernetesTerms where{value_of(*space), value_of(*set), *parse_duration(value_of(*within))};
        if (where.space.empty()) where.space = access->space;
        return with_catalog(with_log(given), options, [=](Catalog& catalog, const Config&) {
          return run_kubernetes(catalog, terms, where, *access);
        });
      }
      PrintDriver print;
      auto local = local_driver(flags);
      if (!local) return std::unexpected(local.error());
      auto run = kind_of == "local" ? run_local(std::move(terms), *local)
                                    : run_autoscale(std::move(terms), print);
      asio::co_spawn(given.io, std::move(run), [](std::exception_ptr thrown) {
        ensure(!thrown, "a command returns its errors");
      });
      given.io.run();
      return Exit::ok;
    };
  });
}

}  // namespace warren::cli
