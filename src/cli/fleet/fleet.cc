#include "cli/fleet/fleet.h"

#include <cerrno>
#include <fstream>
#include <iterator>

#include "cli/fleet/settings.h"
#include "primitives/catalog/open.h"

namespace warren::cli {

std::vector<Setting> fleet_settings() {
  return {{"fleet.catalog", "FLEET_CATALOG", "",
           "where rows are kept: redis://, postgres:// or etcd://; by default the Redis of the "
           "settings"},
          {"fleet.prefix", "FLEET_PREFIX", "warren:fleet", "of all keys of the catalog"},
          {"fleet.token", "FLEET_TOKEN", "", "that clients show to routers, and routers to nodes",
           true},
          {"fleet.ca", "FLEET_CA", "",
           "file of the CA that signed the certificates of https:// in the fleet; by default those "
           "that the system trusts"},
          {"fleet.hook_secret", "FLEET_HOOK_SECRET", "", "that push hooks are signed with", true}};
}

Result<TlsContext> tls_of(const Config& config) {
  auto path = config.text("fleet.ca");
  if (path.empty()) return tls_for_client();
  std::ifstream file(path, std::ios::binary);
  if (!file) return std::unexpected(file_error(path, errno));
  std::string pem{std::istreambuf_iterator<char>(file), {}};
  auto tls = tls_for_client(pem);
  if (!tls) return fail(tls.error().code, "{}: {}", path, tls.error().what);
  return tls;
}

bool is_of_fleet(const Setting& setting) { return setting.name.starts_with("fleet."); }

FleetOptions add_fleet_options(CLI::App& app) {
  return {add_value(app, "--catalog", "URL",
                    "where rows are kept; by default the Redis of the settings [FLEET_CATALOG]",
                    nullptr),
          add_value(app, "--prefix", "TEXT", "of all keys of the catalog [FLEET_PREFIX]", nullptr,
                    "warren:fleet")};
}

Result<Exit> with_catalog(const Context& given, const FleetOptions& options,
                          const CatalogWork& body) {
  auto context = given;
  if (is_given(*options.catalog))
    context.sources.flags["fleet.catalog"] = value_of(*options.catalog);
  if (is_given(*options.prefix)) context.sources.flags["fleet.prefix"] = value_of(*options.prefix);
  auto config = load_config(context);
  if (!config) return std::unexpected(config.error());
  CatalogPlace place{.url = config->text("fleet.catalog"), .prefix = config->text("fleet.prefix")};
  if (place.url.empty()) {
    auto settings = redis::settings_from(*config);
    if (!settings) return std::unexpected(settings.error());
    place.redis = *std::move(settings);
  }
  Result<Exit> result = Exit::failed;
  auto all = [](CatalogPlace where, const Config& of, const CatalogWork& work,
                Result<Exit>& into) -> awaitable<void> {
    auto catalog = co_await open_catalog(std::move(where), Clock::now() + 10s);
    if (!catalog) {
      into = std::unexpected(catalog.error());
      co_return;
    }
    into = co_await work(**catalog, of);
    co_await (*catalog)->close();
  };
  asio::co_spawn(
      context.io, all(std::move(place), *config, body, result),
      [](std::exception_ptr thrown) { ensure(!thrown, "a command returns its errors"); });
  context.io.run();
  return result;
}

Async<std::vector<Row>> all_rows(Catalog& catalog) {
  auto now = Clock::now();
  auto changes = co_await catalog.changes("", now, now + 20s);
  if (!changes) co_return std::unexpected(changes.error());
  co_return std::move(changes->rows);
}

void add_fleet(CLI::App& root, Action& chosen) {
  auto* app = add_command(root, "fleet",
                          "Search many repositories from memory, on any number of nodes", "Search");
  need_command(*app);
  set_footer(
      *app,
      R"(Nodes claim repositories in a catalog, bring them into memory and answer for them; a router asks all
of them. When a node is gone the others take over what it had.

Examples
  warren fleet up --dir ~/src              # all of it on this machine, for what is below a folder
  warren fleet repo add https://host/a/b   # then, on any number of machines:
  warren fleet node --budget 4G
  warren fleet router --port 7200
  curl 'http://127.0.0.1:7200/v1/search?q=mutex_lock')");
  add_fleet_up(*app, chosen);
  add_fleet_node(*app, chosen);
  add_fleet_router(*app, chosen);
  add_fleet_repo(*app, chosen);
  add_fleet_drain(*app, chosen);
  add_fleet_looks(*app, chosen);
  add_fleet_autoscale(*app, chosen);
  add_fleet_simulate(*app, chosen);
}

}  // namespace warren::cli
