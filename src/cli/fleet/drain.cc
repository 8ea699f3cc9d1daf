// warren fleet drain: has a node give its repositories to others, and waits until it has.
#include <fmt/format.h>

#include <map>

#include "cli/fleet/fleet.h"
#include "cli/say.h"
#include "services/fleet/plan/drain_request.h"
#include "services/fleet/plan/records.h"

namespace warren::cli {

namespace {

using namespace fleet;

constexpr auto catalog_time = 20s;
constexpr auto grace = 15s;  // for the node to hear of it

struct DrainOptions {
  std::string node;
  std::chrono::milliseconds within = 60s;
  bool waits = true;
};

bool is_named(std::string_view session, std::string_view node) {
  return node_name(session) == node || session == node;
}

Async<Exit> cancel_drain(Catalog& catalog, std::string node) {
  auto rows = co_await all_rows(catalog);
  if (!rows) co_return std::unexpected(rows.error());
  std::vector<std::string> keys;
  for (const auto& row : *rows) {
    auto session = session_of_drain(row.key);
    if (session && is_named(*session, node)) keys.push_back(row.key);
  }
  if (keys.empty())
    co_return fail(Errc::not_found, "{} is not asked to drain: there is nothing to cancel", node);
  auto removed = co_await catalog.remove(std::move(keys), Clock::now() + catalog_time);
  if (!removed) co_return std::unexpected(removed.error());
  fmt::print("{} claims repositories again.\n", printable(node));
  co_return Exit::ok;
}

// What there is to know of a drain before it begins.
struct Survey {
  std::vector<NodeSession> sessions;  // lives of the node: one, unless the name is used twice
  std::size_t others = 0;             // nodes that could take over
  std::vector<std::string> stale;     // wishes about lives that are over
  std::map<std::string, Row> rows;    // of repositories
};

Async<Survey> survey_drain(Catalog& catalog, std::string node) {
  auto nodes = co_await catalog.nodes(Clock::now() + catalog_time);
  if (!nodes) co_return std::unexpected(nodes.error());
  auto rows = co_await all_rows(catalog);
  if (!rows) co_return std::unexpected(rows.error());
  Survey found;
  for (const auto& one : *nodes) {
    auto info = parse_info(one.info);
    if (is_named(one.session, node))
      found.sessions.push_back(one.session);
    else if (info && !info->is_draining)
      ++found.others;
  }
  for (auto& row : *rows) {
    auto session = session_of_drain(row.key);
    if (session && std::ranges::find(*nodes, *session, &Node::session) == nodes->end())
      found.stale.push_back(row.key);
    if (parse_row_key(row.key)) found.rows[row.key] = std::move(row);
  }
  co_return found;
}

std::vector<std::string> rows_of_sessions(const std::map<std::string, Row>& rows,
                                          const std::vector<NodeSession>& sessions) {
  std::vector<std::string> keys;
  for (const auto& [key, row] : rows)
    if (std::ranges::find(sessions, row.owner) != sessions.end()) keys.push_back(key);
  return keys;
}

// Until the node has no row: then `rows` are as they are now.
Async<> until_empty(Catalog& catalog, const std::vector<NodeSession>& sessions,
                    std::map<std::string, Row>& rows, Clock::time_point deadline) {
  std::string position;
  for (;;) {
    auto now = Clock::now();
    auto changes = co_await catalog.changes(position, now + 1s, now + catalog_time);
    if (!changes) co_return std::unexpected(changes.error());
    position = changes->position;
    if (changes->is_everything) rows.clear();
    for (const auto& key : changes->removed) rows.erase(key);
    for (auto& row : changes->rows)
      if (parse_row_key(row.key)) rows[row.key] = std::move(row);
    if (rows_of_sessions(rows, sessions).empty()) co_return ok;
    if (Clock::now() > deadline) co_return fail(Errc::timeout, "the time for it is over");
  }
}

Exit tell_outcome(const std::string& node, const std::vector<std::string>& had,
                  const std::map<std::string, Row>& rows) {
  std::map<std::string, std::size_t> owners;
  std::vector<std::string> free;
  for (const auto& key : had) {
    auto found = rows.find(key);
    if (found == rows.end()) continue;  // removed meanwhile
    if (found->second.owner.empty())
      free.push_back(key);
    else
      ++owners[std::string(node_name(found->second.owner))];
  }
  fmt::print("{} is drained.\n", printable(node));
  for (const auto& [name, count] : owners)
    fmt::print("  {:<16} has {} of its repositories\n", printable(name), count);
  if (free.empty()) return Exit::ok;
  std::string names;
  for (std::size_t i = 0; i < free.size() && i < 10; ++i) names += " " + free[i];
  say("Nobody took over {} of them in time, and they are free for all:{}{}\n", free.size(),
      printable(names), free.size() > 10 ? " …" : "");
  return Exit::failed;
}

Async<Exit> drain_node(Catalog& catalog, DrainOptions options) {
  auto found = co_await survey_drain(catalog, options.node);
  if (!found) co_return std::unexpected(found.error());
  if (found->sessions.empty())
    co_return fail(Errc::not_found, "there is no node {}: `warren fleet nodes` lists them",
                   options.node);
  auto had = rows_of_sessions(found->rows, found->sessions);
  if (found->others == 0)
    co_return fail(Errc::refused,
                   "no other node takes repositories, so that nobody would serve the {} of {}: "
                   "start another node first",
                   had.size(), options.node);
  auto pruned = co_await catalog.remove(found->stale, Clock::now() + catalog_time);
  if (!pruned) co_return std::unexpected(pruned.error());
  std::vector<Row> wishes;
  for (const auto& session : found->sessions)
    wishes.push_back(row_of(session, {.within = options.within}));
  auto added = co_await catalog.add(std::move(wishes), Clock::now() + catalog_time);
  if (!added) co_return std::unexpected(added.error());
  if (!options.waits) {
    fmt::print("{} is asked to give {} repositories away.\n", printable(options.node), had.size());
    co_return Exit::ok;
  }
  auto emptied = co_await until_empty(catalog, found->sessions, found->rows,
                                      Clock::now() + options.within + grace);
  if (!emptied && emptied.error().code == Errc::timeout)
    co_return fail(Errc::timeout, "{} still has {} repositories: does it run?", options.node,
                   rows_of_sessions(found->rows, found->sessions).size());
  if (!emptied) co_return std::unexpected(emptied.error());
  co_return tell_outcome(options.node, had, found->rows);
}

}  // namespace

void add_fleet_drain(CLI::App& fleet, Action& chosen) {
  auto* app = add_command(fleet, "drain", "Have a node give its repositories to others");
  set_footer(
      *app,
      R"(Other nodes take them over from its memory, without a clone, and every query is answered meanwhile.
The node then claims nothing until it is started anew, or the drain is cancelled. What nobody has
taken in time is free for all, and the command ends with 1.

Examples
  warren fleet drain n1
  warren fleet drain n1 --cancel)");
  auto options = add_fleet_options(*app);
  auto* node = add_value(*app, "node", "NODE", "as `fleet nodes` shows it", nullptr);
  require(*node);
  auto* within = add_value(*app, "--within", "TIME", "for others to take over", duration(), "60s");
  auto* cancels = add_switch(*app, "--cancel", "have it claim repositories again");
  auto* no_wait = add_switch(*app, "--no-wait", "do not wait for the end");
  when_chosen(*app, [=, &chosen] {
    chosen = [=](const Context& context) {
      DrainOptions wanted{.node = value_of(*node)};
      wanted.within = *parse_duration(value_of(*within));
      wanted.waits = !is_given(*no_wait);
      bool is_cancelled = is_given(*cancels);
      return with_catalog(context, options, [=](Catalog& catalog, const Config&) {
        return is_cancelled ? cancel_drain(catalog, wanted.node) : drain_node(catalog, wanted);
      });
    };
  });
}

}  // namespace warren::cli
