// warren orchestrate: what `warren up` starts. Holds the name of an instance and serves its page,
// until it is asked to stop or loses the name.
#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <boost/asio/redirect_error.hpp>
#include <boost/asio/signal_set.hpp>

#include "base/log.h"
#include "base/metrics.h"
#include "cli/instances.h"
#include "http/server.h"

namespace warren::cli {

using namespace asio::experimental::awaitable_operators;

namespace {

struct OrchestratorOptions {
  std::string prefix;
  InstanceTerms terms;
  int report_to = -1;  // where whoever started us reads how that went, or -1
};

// One line, and the end of the file. False: whoever started us is gone.
bool report(int& to, const std::string& line) {
  if (to < 0) return true;
  auto text = line + "\n";
  auto written = ::write(to, text.data(), text.size());
  ::close(std::exchange(to, -1));
  return written >= 0;
}

std::string escaped(std::string_view text) {
  std::string result;
  for (char c : text) {
    if (c == '&')
      result += "&amp;";
    else if (c == '<')
      result += "&lt;";
    else
      result += c;
  }
  return result;
}

std::string page_of(const std::string& prefix, const Instance& instance) {
  const auto& entry = instance.entry();
  auto age = std::chrono::duration_cast<std::chrono::seconds>(WallClock::now() - entry.started_at);
  std::string rows;
  for (const auto& [what, value] :
       {std::pair<std::string, std::string>{"workspace", entry.workspace_path},
        {"run", entry.run_id},
        {"started", age_text(age) + " ago"},
        {"process", fmt::format("{} on {}", entry.orchestrator_pid, entry.host)}})
    rows += fmt::format("<tr><th>{}</th><td>{}</td></tr>\n", what, escaped(value));
  return fmt::format(R"(<!doctype html>
<html lang="en"><meta charset="utf-8"><title>{0} - {1}</title>
<style>body{{font:16px/1.5 system-ui,sans-serif;margin:3rem auto;max-width:46rem;padding:0 1rem}}
th{{text-align:left;padding-right:2rem;font-weight:600}}td{{font-family:monospace}}</style>
<h1>{0}</h1><p>An instance of {1}, running.</p>
<table>
{2}</table>
</html>
)",
                     escaped(instance.name()), escaped(capitalised(prefix)), rows);
}

class Orchestrator {
 public:
  Orchestrator(std::string prefix, Instance instance)
      : prefix_(std::move(prefix)), instance_(std::move(instance)) {}

  Instance& instance() { return instance_; }
  HttpAnswer answer(const HttpRequest& request);

 private:
  std::string prefix_;
  Instance instance_;
  Metrics metrics_;
};

HttpAnswer Orchestrator::answer(const HttpRequest& request) {
  bool holds = instance_.lease().is_held();
  if (request.path == "/")
    return {.type = "text/html; charset=utf-8", .body = page_of(prefix_, instance_)};
  if (request.path == "/healthz") return {.body = "ok\n"};
  if (request.path == "/readyz")
    return holds ? HttpAnswer{.body = "ok\n"}
                 : HttpAnswer{.status = 503, .body = "the name is not certain to be ours\n"};
  if (request.path == "/metrics")
    return {.type = "text/plain; version=0.0.4", .body = metrics_.exposition()};
  return {.status = 404, .body = "there is /, /healthz, /readyz and /metrics\n"};
}

awaitable<void> signalled() {
  asio::signal_set signals(co_await asio::this_coro::executor, SIGTERM, SIGINT);
  boost::system::error_code ignored;
  co_await signals.async_wait(asio::redirect_error(asio::use_awaitable, ignored));
}

// Until somebody wants the end, or the name is lost.
Async<> stay(Instance& instance, HttpServer& page, redis::Subscriber& orders) {
  auto first =
      co_await (instance.keep() || page.run() || signalled() || instance.stop_requested(orders));
  if (first.index() == 0) co_return std::get<0>(std::move(first));
  co_return ok;
}

Async<> serve(Orchestrator& self, redis::Subscriber& orders, int& report_to) {
  auto& instance = self.instance();
  auto page =
      HttpServer::listen(co_await asio::this_coro::executor, "127.0.0.1", 0,
                         [&self](const HttpRequest& request) { return self.answer(request); });
  if (!page) co_return std::unexpected(page.error());
  // Who asks it to stop as soon as it is there is to be heard.
  orders.subscribe(instance.control_channel());
  auto heard = co_await orders.settled(Clock::now() + 10s);
  if (!heard) co_return heard;
  auto announced = co_await instance.announce((*page)->url());
  if (!announced) co_return announced;
  if (!report(report_to, fmt::format("ok {} {}", instance.name(), (*page)->url())))
    co_return fail(Errc::cancelled, "whoever started it did not wait for it");
  auto stayed = co_await stay(instance, **page, orders);
  co_return stayed;
}

Async<Exit> run_instance(LeaseSession& session, OrchestratorOptions& options) {
  Registry registry(session.client(), options.prefix);
  auto joined = co_await registry.join(session, options.terms);
  if (!joined) co_return std::unexpected(joined.error());
  Orchestrator self(options.prefix, std::move(*joined));
  auto& instance = self.instance();
  log::info("instance.started", "name", instance.name(), "run_id", instance.entry().run_id);
  redis::Subscriber orders(session.client());
  auto served = co_await serve(self, orders, options.report_to);
  co_await orders.close();
  if (!served && served.error().code == Errc::lease_lost) {
    log::error("instance.lost", "name", instance.name(), "why", served.error().what);
    co_return std::unexpected(served.error());
  }
  auto left = co_await instance.leave();
  if (!left) log::warn("instance.left_late", "why", left.error().what);
  log::info("instance.stopped", "name", instance.name());
  if (!served) co_return std::unexpected(served.error());
  co_return Exit::ok;
}

Async<Exit> orchestrate(redis::Client& client, OrchestratorOptions options) {
  LeaseSession session(client);
  Result<Exit> result = Exit::failed;
  auto ready = co_await client.ready(Clock::now() + 5s);
  if (ready)
    result = co_await run_instance(session, options);
  else
    result = std::unexpected(ready.error());
  co_await session.close();
  if (!result)
    report(options.report_to, fmt::format("error {} {}", static_cast<int>(result.error().code),
                                          printable(result.error().what)));
  co_return result;
}

}  // namespace

void add_orchestrate(CLI::App& root, Action& chosen) {
  auto* app = root.add_subcommand("orchestrate", "Run an instance here, not as a daemon")
                  ->group("Instances");
  app->footer(
      "`warren up` starts this in the background. It ends with SIGTERM, with `warren down`, or "
      "when it\n"
      "loses its name; then it says so and ends with 1.");
  auto* prefix = add_prefix(*app);
  auto* name = add_name(*app, "by default the next of default-1, default-2, …");
  auto* force = add_switch(*app, "--force", "although another instance has this workspace");
  auto* ttl = add_ttl(*app);
  auto* report_to =
      add_value(*app, "--report-to", "N", "a descriptor for one line about how the start went",
                whole_number(0, 1'000'000), "");
  app->callback([=, &chosen] {
    chosen = [=](const Context& context) -> Result<Exit> {
      auto config = load_config(context);
      if (!config) return std::unexpected(config.error());
      OrchestratorOptions options{.prefix = value_of(*prefix),
                                  .terms = {.name = value_of(*name),
                                            .workspace = workspace_here(),
                                            .is_forced = force->count() > 0,
                                            .pid = getpid(),
                                            .host = host_name(),
                                            .user = user_name(),
                                            .ttl = *parse_duration(value_of(*ttl))}};
      if (report_to->count() > 0) options.report_to = std::stoi(value_of(*report_to));
      signal(SIGPIPE, SIG_IGN);
      return with_client(context, *config, 10s, [&](redis::Client& client) {
        return orchestrate(client, std::move(options));
      });
    };
  });
}

}  // namespace warren::cli
