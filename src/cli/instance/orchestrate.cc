// warren orchestrate: what `warren up` starts. Holds the name of an instance and works for it,
// until it is asked to stop or loses the name.
#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include "base/log.h"
#include "base/printable.h"
#include "cli/board/crew_file.h"
#include "cli/causes.h"
#include "cli/hints.h"
#include "cli/instance/daemon.h"
#include "cli/instance/daemon_log.h"
#include "cli/instance/which.h"
#include "cli/say.h"

namespace warren::cli {

using namespace asio::experimental::awaitable_operators;

namespace {

struct OrchestratorOptions {
  std::string prefix;
  InstanceTerms terms;
  bool stands_by = false, with_agents = true;
  std::optional<Crew> crew = {};
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

// Tells the world, and whoever started it, once all of it is at work; then looks after the log.
Async<> tell_when_ready(Daemon& daemon, std::string url, int& report_to) {
  auto& instance = daemon.instance();
  co_await daemon.ready();
  auto announced = co_await instance.announce(url);
  if (!announced) co_return announced;
  log::info("instance.ready", "name", instance.name(), "url", url);
  if (!report(report_to, fmt::format("ok {} {}", instance.name(), url)))
    co_return fail(Errc::cancelled, "whoever started it did not wait for it");
  for (;;) {
    bound_daemon_log(STDERR_FILENO);
    co_await sleep_for(1min);
  }
}

// Until somebody wants the end, or it cannot go on.
Async<> stay(Daemon& daemon, LeaseSession& session, redis::Subscriber& orders,
             asio::signal_set& signals, OrchestratorOptions& options) {
  auto& instance = daemon.instance();
  auto handler = reading([&daemon](const HttpRequest& request) { return daemon.answer(request); });
  auto executor = co_await asio::this_coro::executor;
  auto page = HttpServer::listen(executor, HttpTerms{}, std::move(handler));
  if (!page) co_return std::unexpected(page.error());
  // Who asks it to stop as soon as it is there is to be heard.
  orders.subscribe(instance.control_channel());
  auto heard = co_await orders.settled(Clock::now() + 10s);
  if (!heard) co_return heard;
  auto first = co_await (instance.keep() || daemon.work(session, options.with_agents) ||
                         tell_when_ready(daemon, (*page)->url(), options.report_to) ||
                         (*page)->run() || interrupted(signals) || instance.stop_requested(orders));
  if (first.index() == 0) co_return std::get<0>(std::move(first));
  if (first.index() == 1) co_return std::get<1>(std::move(first));
  if (first.index() == 2) co_return std::get<2>(std::move(first));
  co_return ok;
}

// None: somebody wanted the end before the name was free.
Async<std::optional<Instance>> join(LeaseSession& session, Registry& registry,
                                    redis::Subscriber& orders, asio::signal_set& signals,
                                    const OrchestratorOptions& options) {
  if (!options.stands_by) {
    auto joined = co_await registry.join(session, options.terms);
    if (!joined) co_return std::unexpected(joined.error());
    co_return std::move(*joined);
  }
  log::info("instance.stands_by", "name", options.terms.name);
  Registry::Tell tell = [&options](const Error& why) {
    auto hint = hint_for(why, "warren orchestrate");
    say("The name '{}' cannot be taken yet: {}\n{}", options.terms.name, printable(why.what),
        hint.empty() ? "" : fmt::format("  {}\n", hint));
  };
  auto waiting = registry.stand_by(session, options.terms, orders, std::move(tell));
  auto first = co_await (std::move(waiting) || interrupted(signals));
  auto* joined = std::get_if<0>(&first);
  if (!joined || (!*joined && joined->error().code == Errc::cancelled)) co_return std::nullopt;
  if (!*joined) co_return std::unexpected(joined->error());
  co_return std::move(**joined);
}

Async<Exit> run_instance(Registry& registry, LeaseSession& names, redis::Subscriber& orders,
                         asio::signal_set& signals, OrchestratorOptions& options) {
  auto joined = co_await join(names, registry, orders, signals, options);
  if (!joined) co_return std::unexpected(joined.error());
  if (!*joined) co_return Exit::ok;
  auto board = Board::open(names.client(), options.prefix, (*joined)->name());
  if (!board) co_return std::unexpected(board.error());
  // So that who takes over after a crash need not wait longer for the board than for the name.
  auto ttl = std::min<std::chrono::milliseconds>(15s, options.terms.ttl);
  LeaseRoom room{board->keys().sessions(), board->keys().sessions()};
  LeaseSession session(names.client(), ttl, std::move(room));
  Daemon daemon(options.prefix, *std::move(*joined), *std::move(board), std::move(options.crew));
  auto& instance = daemon.instance();
  log::info("instance.started", "name", instance.name(), "run_id", instance.entry().run_id);
  auto stayed = co_await stay(daemon, session, orders, signals, options);
  co_await session.close();
  if (!stayed && stayed.error().code == Errc::lease_lost) {
    log::error("instance.lost", "name", instance.name(), "why", stayed.error().what);
    co_return std::unexpected(stayed.error());
  }
  auto left = co_await instance.leave();
  if (!left) log::warn("instance.left_late", "why", left.error().what);
  log::info("instance.stopped", "name", instance.name());
  if (!stayed) co_return std::unexpected(stayed.error());
  co_return Exit::ok;
}

Async<Exit> orchestrate(redis::Client& client, OrchestratorOptions& options) {
  asio::signal_set signals(co_await asio::this_coro::executor, SIGTERM, SIGINT);
  Registry registry(client, options.prefix);
  LeaseSession names(client, 15s, registry.room());
  redis::Subscriber orders(client);
  Result<Exit> result = Exit::failed;
  auto ready = co_await client.ready(Clock::now() + 5s);
  if (ready)
    result = co_await run_instance(registry, names, orders, signals, options);
  else
    result = std::unexpected(ready.error());
  co_await orders.close();
  co_await names.close();
  co_return result;
}

Result<Exit> orchestrate(const Context& context, const std::string& crew_file,
                         OrchestratorOptions& options) {
  if (options.stands_by && options.terms.name.empty())
    return fail(Errc::invalid, causes::bad_words, "--standby",
                "--standby needs --name: whose place is it to take?");
  if (auto there = check_workspace_here(); !there) return std::unexpected(there.error());
  auto crew = find_crew(context, crew_file);
  if (!crew) return std::unexpected(crew.error());
  options.crew = *std::move(crew);
  auto redis = find_instance_redis(context);
  if (!redis) return std::unexpected(redis.error());
  if (redis->is_embedded) {
    auto started = redis->embedded.start(Clock::now() + 10s);
    if (!started) return std::unexpected(started.error());
  }
  return with_instance_redis(*redis, 10s,
                             [&](redis::Client& client) { return orchestrate(client, options); });
}

}  // namespace

void add_orchestrate(CLI::App& root, Action& chosen) {
  auto* app =
      add_command(root, "orchestrate", "Run an instance here, not as a daemon", "Instances");
  set_footer(
      *app,
      "`warren up` starts this in the background. It ends with SIGTERM, with `warren down`, or "
      "when it\n"
      "loses its name; then it says so and ends with 1. With --standby it waits for a running\n"
      "instance to die or to leave, and takes over its name and its work; `warren down` ends "
      "both.\n"
      "Where Redis has replicas, the name counts when all of them have it, except those that most\n"
      "sentinels consider down. Until then it waits, says why, and tries again every second;\n"
      "--unreplicated does not wait for replicas.");
  auto crew_file = crew_file_name(*app);
  auto* prefix = add_prefix(*app);
  auto* name = add_name(*app, "by default the next of default-1, default-2, …");
  auto* force = add_switch(*app, "--force", "although another instance has this workspace");
  auto* ttl = add_ttl(*app);
  auto* no_agents = add_no_agents(*app);
  auto* unreplicated = add_unreplicated(*app);
  auto* standby = add_switch(*app, "--standby", "wait until the instance of this name is gone");
  auto* report_to =
      add_value(*app, "--report-to", "N", "a descriptor for one line about how the start went",
                whole_number(0, 1'000'000), "");
  hide(*report_to);  // between `up` and us
  when_chosen(*app, [=, &chosen] {
    chosen = [=](const Context& context) -> Result<Exit> {
      OrchestratorOptions options{.prefix = value_of(*prefix),
                                  .terms = {.name = value_of(*name),
                                            .workspace = workspace_here(),
                                            .is_forced = is_given(*force),
                                            .pid = getpid(),
                                            .host = host_name(),
                                            .user = user_name(),
                                            .ttl = *parse_duration(value_of(*ttl))}};
      options.stands_by = is_given(*standby);
      options.with_agents = !is_given(*no_agents);
      options.terms.is_replicated = !is_given(*unreplicated);
      if (is_given(*report_to)) options.report_to = std::stoi(value_of(*report_to));
      signal(SIGPIPE, SIG_IGN);
      auto ended = orchestrate(context, crew_file, options);
      if (!ended) report(options.report_to, "error " + line_of(ended.error()));
      return ended;
    };
  });
}

}  // namespace warren::cli
