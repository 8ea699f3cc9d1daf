// warren fleet node, warren fleet router: until they are told to stop.
#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>

#include "base/log.h"
#include "cli/causes.h"
#include "cli/fleet/fleet.h"
#include "cli/fleet/settings.h"
#include "cli/instance/instances.h"
#include "cli/instance/which.h"
#include "services/fleet/node/node.h"
#include "services/fleet/router/router.h"

namespace warren::cli {

namespace {

using namespace fleet;

constexpr auto router_drain_time = 10s;
constexpr auto last_spans_time = 5s;

// Code is read by whoever can ask for it.
Result<> check_is_guarded(const HttpTerms& http, const std::string& token) {
  if (!token.empty() || http.is_for_this_machine) return ok;
  return fail(Errc::invalid,
              "FLEET_TOKEN is not set: on an address that others reach ({}) everybody could read "
              "all code",
              http.address);
}

// Runs a part of the fleet until a signal comes, then lets it end in good order; at once with the
// second signal.
template <class Part>
Async<Exit> serve(Part& part, std::chrono::milliseconds drain_time) {
  auto executor = co_await asio::this_coro::executor;
  asio::signal_set signals(executor, SIGTERM, SIGINT);
  auto body = [](TaskGroup& tasks, Part& what, asio::signal_set& stops,
                 std::chrono::milliseconds& within) -> awaitable<bool> {
    using namespace asio::experimental::awaitable_operators;
    tasks.start("fleet.part", what.run());
    co_await interrupted(stops);
    co_await (what.drain(Clock::now() + within) || interrupted(stops));
    co_return true;
  };
  co_await with_group(body, part, signals, drain_time);
  co_return Exit::ok;
}

Async<Exit> run_traced_node(Catalog& catalog, NodeSettings settings,
                            std::chrono::milliseconds drain_time) {
  Metrics metrics;
  auto executor = co_await asio::this_coro::executor;
  auto node = FleetNode::create(executor, catalog, std::move(settings), metrics);
  if (!node) co_return std::unexpected(node.error());
  log::info("fleet.node_listening", "endpoint", (*node)->info().endpoint, "budget_bytes",
            (*node)->shelf().budget());
  co_return co_await serve(**node, drain_time);
}

Async<Exit> run_node(Catalog& catalog, NodeSettings settings, std::chrono::milliseconds drain_time,
                     std::map<std::string, std::string> environment) {
  if (auto good = check_is_guarded(settings.http, settings.token); !good)
    co_return std::unexpected(good.error());
  auto executor = co_await asio::this_coro::executor;
  auto tracer = Tracer::from_environment(executor, environment, "warren-fleet-node");
  if (!tracer) co_return std::unexpected(tracer.error());
  settings.tracer = tracer->get();
  auto ended = co_await run_traced_node(catalog, std::move(settings), drain_time);
  co_await (*tracer)->shutdown(Clock::now() + last_spans_time);
  co_return ended;
}

Async<Exit> run_router(Catalog& catalog, RouterSettings settings) {
  if (auto good = check_is_guarded(settings.http, settings.token); !good)
    co_return std::unexpected(good.error());
  Metrics metrics;
  auto executor = co_await asio::this_coro::executor;
  auto router = Router::create(executor, catalog, std::move(settings), metrics);
  if (!router) co_return std::unexpected(router.error());
  log::info("fleet.router_listening", "url", (*router)->url());
  co_return co_await serve(**router, router_drain_time);
}

}  // namespace

Context with_log(Context context) {
  auto config = load_config(context);
  if (config && !config->at("log.level").is_set) context.sources.flags["log.level"] = "info";
  return context;
}

namespace {

bool is_host(std::string_view text) {
  auto is_part = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) || std::string_view(".-:[]").contains(c);
  };
  return !text.empty() && !text.starts_with('-') && std::ranges::all_of(text, is_part);
}

Result<> add_variable(std::string_view word, CredentialSources& into) {
  auto middle = word.find('=');
  auto host = word.substr(0, middle);
  auto variable = middle == word.npos ? "" : word.substr(middle + 1);
  auto is_part = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; };
  if (!is_host(host) || variable.empty() || !std::ranges::all_of(variable, is_part))
    return fail(Errc::invalid, causes::bad_words, "--credential-env",
                "--credential-env {}: use HOST=VAR, as in github.com=GITHUB_TOKEN", word);
  into.variables[std::string(host)] = variable;
  return ok;
}

// A helper may contain "=" itself, so the text before it counts as a host only if it looks like one.
Result<> add_helper(std::string_view word, CredentialSources& into) {
  auto middle = word.find('=');
  bool has_host = middle != word.npos && is_host(word.substr(0, middle));
  auto helper = has_host ? word.substr(middle + 1) : word;
  if (helper.empty())
    return fail(Errc::invalid, causes::bad_words, "--credential-helper",
                "--credential-helper {}: use HOST=CMD, or CMD for all hosts", word);
  into.helpers[has_host ? std::string(word.substr(0, middle)) : "*"] = helper;
  return ok;
}

struct ListenOptions {
  CLI::Option *address, *port;
};
ListenOptions add_listen(CLI::App& app, const char* port) {
  return {add_value(app, "--listen", "ADDRESS", "to listen on", nullptr, "127.0.0.1"),
          add_value(app, "--port", "PORT", "0: any that is free", whole_number(0, 65535), port)};
}
HttpTerms http_of(const ListenOptions& options) {
  HttpTerms terms;
  terms.address = value_of(*options.address);
  terms.port = static_cast<unsigned short>(std::stoi(value_of(*options.port)));
  terms.most_connections = 1024;
  terms.is_for_this_machine = terms.address == "127.0.0.1";
  return terms;
}

}  // namespace

void add_fleet_node(CLI::App& fleet, Action& chosen) {
  auto* app = add_command(fleet, "node", "Claim repositories, and answer for them from memory");
  set_footer(
      *app,
      R"(SIGTERM ends it: other nodes take its repositories over from its memory, and it answers for each
until then; a second one ends it at once. FLEET_TOKEN (or FLEET_TOKEN_FILE) is what routers and other
nodes show. Credentials for git are looked up for every fetch: in a file for each host in --credentials
with a token in it, in a variable, or by a credential helper of git; the first that has one counts.
OTEL_EXPORTER_OTLP_ENDPOINT names a collector for traces.

Examples
  FLEET_TOKEN_FILE=/run/secrets/fleet warren fleet node --listen 10.0.0.7 --budget 8G
  warren fleet node --credential-env github.com=GITHUB_TOKEN --credential-helper store)");
  auto options = add_fleet_options(*app);
  auto listen = add_listen(*app, "0");
  auto* name =
      add_value(*app, "--name", "NAME", "by default the host's name and the port", nullptr);
  auto* endpoint = add_value(*app, "--endpoint", "URL", "where routers reach it", nullptr);
  auto* zone = add_value(*app, "--zone", "NAME", "replicas are spread over zones", nullptr);
  auto* budget = add_value(*app, "--budget", "SIZE", "of memory for indexes", bytes_check(), "4G");
  auto* ttl = add_value(*app, "--ttl", "TIME", "of its lease", duration(), "30s");
  auto* poll = add_value(*app, "--poll", "TIME", "for new commits", duration(), "30s");
  auto* gone_after = add_value(
      *app, "--gone-after", "TIME",
      "a repository leaves that its host says is gone for so long; 0s: never", duration(), "24h");
  auto* verify = add_value(*app, "--verify", "TIME",
                           "in which all memory is compared with its checksums", duration(), "5m");
  auto* drain_time = add_value(*app, "--drain-time", "TIME",
                               "for others to take over, after SIGTERM", duration(), "60s");
  auto* mirrors =
      add_value(*app, "--mirrors", "DIR",
                "where fetched repositories are kept; by default below ~/.cache", nullptr);
  auto* credentials = add_value(*app, "--credentials", "DIR", "a file for each host", nullptr);
  auto* variables = add_repeated(*app, "--credential-env", "HOST=VAR",
                                 "the variable that has the token for this host");
  auto* helpers = add_repeated(*app, "--credential-helper", "[HOST=]CMD",
                               "a credential helper of git, for this host or for all");
  auto* clones = add_value(*app, "--clones", "N", "fetches at once", whole_number(1, 256), "4");
  auto* clones_of_host = add_value(*app, "--clones-of-one-host", "N",
                                   "fetches at once from one host", whole_number(1, 256), "2");
  auto* folders = add_value(*app, "--allow-folder", "LIST",
                            "local repositories below these, with commas", nullptr);
  auto* http = add_switch(*app, "--allow-http", "fetch over http://, which anybody can read");
  auto* threads =
      add_value(*app, "--threads", "N", "that look for matches", whole_number(1, 256), "2");
  auto* builds = add_value(*app, "--builds", "N", "repositories that are built at once",
                           whole_number(1, 64), "1");
  auto* snapshots = add_value(
      *app, "--snapshots", "DIR",
      "keep very large repositories on disk, for the next start; by default none", nullptr);
  auto* snapshot_over = add_value(*app, "--snapshot-over", "SIZE",
                                  "of memory that such a repository takes", bytes_check(), "1G");
  auto* snapshot_space =
      add_value(*app, "--snapshot-space", "SIZE", "of all snapshots at most", bytes_check(), "20G");
  auto* policy = add_value(*app, "--eviction", "value|lru", "what goes first",
                           one_of({"value", "lru"}), "value");
  when_chosen(*app, [=, &chosen] {
    chosen = [=](const Context& given) -> Result<Exit> {
      NodeSettings settings;
      settings.http = http_of(listen);
      settings.lease = {value_of(*name), *parse_duration(value_of(*ttl))};
      if (settings.lease.name.empty())
        settings.lease.name = fmt::format("{}-{}", host_name(), getpid());
      settings.endpoint = value_of(*endpoint);
      // Through whatever listens there: requests do not name where this one does.
      if (!settings.endpoint.empty()) settings.http.is_for_this_machine = false;
      settings.zone = value_of(*zone);
      settings.shelf.budget_bytes = *parse_bytes(value_of(*budget));
      if (value_of(*policy) == "lru") settings.shelf.policy = EvictionPolicy::lru;
      settings.poll = *parse_duration(value_of(*poll));
      settings.gone_after = *parse_duration(value_of(*gone_after));
      if (settings.gone_after > most_grace)
        return fail(Errc::invalid, causes::bad_words, "--gone-after",
                    "--gone-after {}: use at most {}h, or 0s for never", value_of(*gone_after),
                    most_grace / 1h);
      settings.verify = *parse_duration(value_of(*verify));
      settings.threads = std::stoi(value_of(*threads));
      settings.builds = std::stoi(value_of(*builds));
      settings.rules.allows_http = is_given(*http);
      for (auto& folder : words_of_list(value_of(*folders)))
        settings.rules.folders.emplace_back(std::move(folder));
      if (is_given(*snapshots))
        settings.snapshots = SnapshotTerms{.folder = value_of(*snapshots),
                                           .over_bytes = *parse_bytes(value_of(*snapshot_over)),
                                           .most_bytes = *parse_bytes(value_of(*snapshot_space))};
      else if (is_given(*snapshot_over) || is_given(*snapshot_space))
        return fail(Errc::invalid, "say where snapshots are kept: --snapshots DIR");
      settings.fetching.credentials.folder = value_of(*credentials);
      for (const auto& word : values_of(*variables)) {
        auto named = add_variable(word, settings.fetching.credentials);
        if (!named) return std::unexpected(named.error());
      }
      for (const auto& word : values_of(*helpers)) {
        auto named = add_helper(word, settings.fetching.credentials);
        if (!named) return std::unexpected(named.error());
      }
      settings.fetching.slots.running = std::stoul(value_of(*clones));
      settings.fetching.slots.of_one_host = std::stoul(value_of(*clones_of_host));
      auto kept = mirrors_folder(given, value_of(*mirrors));
      if (!kept) return std::unexpected(kept.error());
      settings.fetching.mirrors.folder = *kept;
      settings.fetching.mirrors.remote.rules = settings.rules;
      signal(SIGPIPE, SIG_IGN);
      raise_file_limit();
      auto config = load_config(given);
      if (!config) return std::unexpected(config.error());
      auto tls = tls_of(*config);
      if (!tls) return std::unexpected(tls.error());
      settings.peer_tls = *std::move(tls);
      settings.token = config->text("fleet.token");
      return with_catalog(with_log(given), options, [&](Catalog& catalog, const Config&) {
        return run_node(catalog, settings, *parse_duration(value_of(*drain_time)),
                        given.sources.environment);
      });
    };
  });
}

void add_fleet_router(CLI::App& fleet, Action& chosen) {
  auto* app = add_command(fleet, "router", "Answer queries for all repositories");
  set_footer(*app,
             R"(Any number of them may run. docs/fleet.md has the routes. With FLEET_HOOK_SECRET (or
FLEET_HOOK_SECRET_FILE) a git host may tell of pushes: POST /hooks/push.

Examples
  warren fleet router --port 7200
  curl 'http://127.0.0.1:7200/v1/search?q=mutex_lock'
  curl -d '{"q":"mutex_lock file:\\.c$","limit":10}' http://127.0.0.1:7200/v1/search)");
  auto options = add_fleet_options(*app);
  auto listen = add_listen(*app, "7200");
  auto* zone = add_value(*app, "--zone", "NAME", "nodes in it are asked first", nullptr);
  auto* up_after =
      add_value(*app, "--scale-up-after", "TIME",
                "in which more nodes are needed before they are advised", duration(), "3m");
  auto* down_after =
      add_value(*app, "--scale-down-after", "TIME",
                "in which fewer are needed before one less is advised", duration(), "15m");
  auto* settle = add_value(*app, "--scale-settle", "TIME",
                           "after a change, in which nothing is judged", duration(), "45s");
  auto* metrics = add_value(*app, "--repo-metrics", "N", "of the largest repositories, in /metrics",
                            whole_number(0, 1'000'000), "1000");
  when_chosen(*app, [=, &chosen] {
    chosen = [=](const Context& given) -> Result<Exit> {
      RouterSettings settings;
      settings.http = http_of(listen);
      settings.zone = value_of(*zone);
      settings.scale.up_after = *parse_duration(value_of(*up_after));
      settings.scale.down_after = *parse_duration(value_of(*down_after));
      settings.scale.settle = *parse_duration(value_of(*settle));
      settings.repo_metrics = std::stoul(value_of(*metrics));
      signal(SIGPIPE, SIG_IGN);
      raise_file_limit();
      auto config = load_config(given);
      if (!config) return std::unexpected(config.error());
      auto tls = tls_of(*config);
      if (!tls) return std::unexpected(tls.error());
      settings.node_tls = *std::move(tls);
      settings.token = settings.node_token = config->text("fleet.token");
      settings.hook_secret = config->text("fleet.hook_secret");
      return with_catalog(with_log(given), options, [&](Catalog& catalog, const Config&) {
        return run_router(catalog, settings);
      });
    };
  });
}

}  // namespace warren::cli
