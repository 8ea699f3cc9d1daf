#pragma once
// What the commands of the fleet share: its settings and its catalog.
#include "cli/cli.h"
#include "primitives/catalog/catalog.h"

namespace warren::cli {

// They are not flags of every command; those of the fleet have flags for what one types.
std::vector<Setting> fleet_settings();
bool is_of_fleet(const Setting& setting);

struct FleetOptions {
  CLI::Option *catalog = nullptr, *prefix = nullptr;
};
FleetOptions add_fleet_options(CLI::App& app);  // --catalog and --prefix

// Runs the body with the catalog that the settings name, and closes that afterwards.
using CatalogWork = std::function<Async<Exit>(Catalog& catalog, const Config& config)>;
Result<Exit> with_catalog(const Context& context, const FleetOptions& options,
                          const CatalogWork& body);

// Rows of the catalog, all of them.
Async<std::vector<Row>> all_rows(Catalog& catalog);

void add_fleet_node(CLI::App& fleet, Action& chosen);
void add_fleet_router(CLI::App& fleet, Action& chosen);
void add_fleet_up(CLI::App& fleet, Action& chosen);
void add_fleet_repo(CLI::App& fleet, Action& chosen);
void add_fleet_repo_add(CLI::App& repo, Action& chosen);
void add_fleet_drain(CLI::App& fleet, Action& chosen);
void add_fleet_autoscale(CLI::App& fleet, Action& chosen);
void add_fleet_simulate(CLI::App& fleet, Action& chosen);
void add_fleet_looks(CLI::App& fleet, Action& chosen);  // nodes, status, explain

}  // namespace warren::cli
