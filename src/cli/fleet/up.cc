// warren fleet up: a whole fleet in one process, for the repositories below a folder.
#include <fmt/format.h>
#include <signal.h>

#include <filesystem>
#include <list>

#include "cli/fleet/fleet.h"
#include "cli/fleet/settings.h"
#include "cli/instance/instances.h"
#include "cli/instance/which.h"
#include "cli/progress.h"
#include "primitives/catalog/redis.h"
#include "services/fleet/fetch/folders.h"
#include "services/fleet/node/node.h"
#include "services/fleet/router/router.h"

namespace warren::cli {

namespace fs = std::filesystem;

std::vector<std::string> words_of_list(std::string_view list) {
  std::vector<std::string> words;
  while (!list.empty()) {
    auto word = list.substr(0, list.find(','));
    list.remove_prefix(std::min(list.size(), word.size() + 1));
    if (!word.empty()) words.emplace_back(word);
  }
  return words;
}

Result<fs::path> mirrors_folder(const Context& context, const std::string& given) {
  fs::path folder = given;
  if (folder.empty()) {
    const auto& environment = context.sources.environment;
    auto of = [&](const char* name) {
      auto found = environment.find(name);
      return found == environment.end() ? std::string() : found->second;
    };
    auto cache = of("XDG_CACHE_HOME");
    if (!cache.starts_with('/')) cache = of("HOME").starts_with('/') ? of("HOME") + "/.cache" : "";
    if (cache.empty())
      return fail(Errc::invalid, "neither HOME nor XDG_CACHE_HOME is set: use --mirrors DIR");
    folder = fs::path(cache) / "warren" / "mirrors";
  }
  std::error_code error;
  fs::create_directories(folder.parent_path(), error);
  return folder;
}

namespace {

using namespace fleet;

struct UpOptions {
  fs::path folder, mirrors;
  std::size_t budget = 0;
  int nodes = 2;
  unsigned short port = 0;
};

std::vector<Row> rows_of(const std::vector<FoundRepository>& repositories) {
  std::vector<Row> rows;
  for (const auto& [path, name] : repositories) {
    RepoSpec spec{.url = path.string()};
    Row row{.key = row_key(name, 0), .spec = to_json(spec), .rank = rank_of(spec, 0, 0)};
    if (check_row(row)) rows.push_back(std::move(row));
  }
  return rows;
}

struct Fleet {
  std::list<std::unique_ptr<FleetNode>> nodes;
  std::unique_ptr<Router> router;
};

Result<Fleet> build(const asio::any_io_executor& executor, Catalog& catalog,
                    const UpOptions& options, Metrics& metrics) {
  Fleet fleet;
  for (int i = 1; i <= options.nodes; ++i) {
    NodeSettings settings;
    settings.lease = {fmt::format("local-{}", i), 30s};
    settings.shelf.budget_bytes = options.budget / static_cast<std::size_t>(options.nodes);
    settings.rules.folders = {options.folder};
    settings.fetching.mirrors.folder = options.mirrors;
    settings.fetching.mirrors.remote.rules = settings.rules;
    settings.poll = 5s;
    auto node = FleetNode::create(executor, catalog, std::move(settings), metrics);
    if (!node) return std::unexpected(node.error());
    fleet.nodes.push_back(*std::move(node));
  }
  RouterSettings settings;
  settings.http.port = options.port;
  settings.http.most_connections = 256;
  auto router = Router::create(executor, catalog, std::move(settings), metrics);
  if (!router) return std::unexpected(router.error());
  fleet.router = *std::move(router);
  return fleet;
}

// Until all of them are served, or have failed.
awaitable<void> show_progress(Router& router, std::size_t count, const Paint& paint) {
  Progress progress(paint);
  for (;;) {
    std::size_t done = 0, failed = 0;
    for (const auto& [name, repo] : router.table().repos()) {
      const auto& slot = repo.slots.begin()->second;
      if (slot.row.state == RowState::failed) ++failed;
      if (slot.row.state == RowState::ready && slot.note.has_index) ++done;
    }
    if (count > 0 && done + failed >= count) co_return;
    progress.show(
        static_cast<double>(done + failed) / static_cast<double>(std::max<std::size_t>(count, 1)),
        fmt::format("{} of {} repositories", done, count));
    co_await sleep_for(200ms);
  }
}

Async<Exit> stay(Catalog& catalog, UpOptions options, Paint paint) {
  auto executor = co_await asio::this_coro::executor;
  asio::signal_set signals(executor, SIGTERM, SIGINT);
  auto repositories = repositories_below(options.folder);
  if (repositories.empty())
    co_return fail(Errc::not_found, "there is no git repository in or below {}",
                   options.folder.string());
  // What was there the last time is not what is there now.
  auto old = co_await all_rows(catalog);
  if (!old) co_return std::unexpected(old.error());
  std::vector<std::string> keys;
  for (const auto& row : *old) keys.push_back(row.key);
  auto removed = co_await catalog.remove(std::move(keys), Clock::now() + 20s);
  if (!removed) co_return std::unexpected(removed.error());
  auto rows = rows_of(repositories);
  auto count = rows.size();
  auto added = co_await catalog.add(std::move(rows), Clock::now() + 20s);
  if (!added) co_return std::unexpected(added.error());

  Metrics metrics;
  auto fleet = build(executor, catalog, options, metrics);
  if (!fleet) co_return std::unexpected(fleet.error());
  fmt::print(
      "Searching {} repositories below {}\n  url    {}\n  try    warren search --fleet {} QUERY\n",
      count, options.folder.string(), fleet->router->url(), fleet->router->url());
  std::fflush(stdout);
  struct All {
    Fleet& fleet;
    std::size_t count;
    Paint paint;
    asio::signal_set& signals;
  } all{*fleet, count, paint, signals};
  auto body = [](TaskGroup& tasks, All& parts) -> awaitable<bool> {
    using namespace asio::experimental::awaitable_operators;
    tasks.start("fleet.router", parts.fleet.router->run());
    for (auto& node : parts.fleet.nodes) tasks.start("fleet.node", node->run());
    auto watch = [](All& of) -> awaitable<void> {
      co_await show_progress(*of.fleet.router, of.count, of.paint);
      fmt::print("All of them are indexed. Ctrl-C ends it.\n");
      std::fflush(stdout);
      co_await sleep_until(Clock::time_point::max());
    };
    co_await (interrupted(parts.signals) || watch(parts));
    for (auto& node : parts.fleet.nodes) co_await node->leave(Clock::now() + 5s);
    co_return true;
  };
  co_await with_group(body, all);
  co_return Exit::ok;
}

// Folders have catalogs of their own: one fleet does not index what another was started for.
std::string prefix_for(const fs::path& folder) {
  std::uint64_t hash = 14695981039346656037u;
  for (unsigned char c : folder.string()) hash = (hash ^ c) * 1099511628211u;
  return fmt::format("warren:fleet:{:016x}", hash);
}

Async<Exit> stay_on(redis::Client& client, UpOptions options, Paint paint) {
  RedisCatalog catalog(client, prefix_for(options.folder));
  auto stayed = co_await stay(catalog, std::move(options), paint);
  co_await catalog.close();
  co_return stayed;
}

Result<Exit> up(const Context& context, const UpOptions& options) {
  auto redis = find_instance_redis(context);
  if (!redis) return std::unexpected(redis.error());
  if (redis->is_embedded) {
    auto started = redis->embedded.start(Clock::now() + 10s);
    if (!started) return std::unexpected(started.error());
  }
  auto ran = with_instance_redis(
      *redis, 10s, [&](redis::Client& client) { return stay_on(client, options, context.err); });
  redis->use = EmbeddedRedis::Use(-1);
  if (redis->is_embedded) (void)redis->embedded.stop_if_unused(Clock::now() + 5s);
  return ran;
}

}  // namespace

void add_fleet_up(CLI::App& fleet, Action& chosen) {
  auto* app =
      add_command(fleet, "up", "A fleet on this machine, for the repositories below a folder");
  set_footer(
      *app,
      R"(Indexes what HEAD of each repository is, and follows new commits. Needs nothing: where no Redis is
configured it uses the private one of this user. Runs until Ctrl-C.

Example
  warren fleet up --dir ~/src)");
  auto* dir = add_value(*app, "--dir", "DIR", "repositories in and below it", nullptr, ".");
  auto* port = add_value(*app, "--port", "PORT", "of the router; 0: any that is free",
                         whole_number(0, 65535), "7200");
  auto* nodes = add_value(*app, "--nodes", "N", "how many", whole_number(1, 16), "2");
  auto* budget =
      add_value(*app, "--budget", "SIZE", "of memory, for all of them", bytes_check(), "4G");
  auto* mirrors = add_value(*app, "--mirrors", "DIR",
                            "where copies are kept; by default below ~/.cache", nullptr);
  when_chosen(*app, [=, &chosen] {
    chosen = [=](const Context& context) -> Result<Exit> {
      UpOptions options;
      std::error_code error;
      options.folder = fs::canonical(value_of(*dir), error);
      if (error) return std::unexpected(file_error(value_of(*dir), error.value()));
      options.port = static_cast<unsigned short>(std::stoi(value_of(*port)));
      options.nodes = std::stoi(value_of(*nodes));
      options.budget = *parse_bytes(value_of(*budget));
      auto kept = mirrors_folder(context, value_of(*mirrors));
      if (!kept) return std::unexpected(kept.error());
      options.mirrors = *kept;
      signal(SIGPIPE, SIG_IGN);
      raise_file_limit();
      return up(context, options);
    };
  });
}

}  // namespace warren::cli
