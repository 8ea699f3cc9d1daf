// warren fleet nodes, status, explain: what the catalog says of the fleet.
#include <fmt/format.h>

#include <algorithm>

#include "cli/fleet/fleet.h"
#include "services/fleet/plan/claims.h"
#include "services/fleet/router/table.h"

namespace warren::cli {

namespace {

using namespace fleet;

std::string megabytes(std::uint64_t bytes) {
  return fmt::format("{:.1f} MB", static_cast<double>(bytes) / 1e6);
}

Async<Table> read_table(Catalog& catalog) {
  auto now = Clock::now();
  auto changes = co_await catalog.changes("", now, now + 20s);
  if (!changes) co_return std::unexpected(changes.error());
  auto nodes = co_await catalog.nodes(now + 20s);
  if (!nodes) co_return std::unexpected(nodes.error());
  Table table;
  table.on_changes(*changes);
  table.on_nodes(*nodes);
  co_return table;
}

Async<Exit> show_nodes(Catalog& catalog, bool in_json) {
  auto table = co_await read_table(catalog);
  if (!table) co_return std::unexpected(table.error());
  if (!in_json)
    fmt::print("{:<16}  {:<24}  {:>6}  {:>12}  {:>12}  {:>6}  {}\n", "NODE", "ENDPOINT", "REPOS",
               "USED", "BUDGET", "LEFT", "STATE");
  for (const auto& [session, member] : table->nodes()) {
    const auto& info = member.info;
    auto left = std::chrono::duration_cast<std::chrono::seconds>(member.node.left).count();
    if (in_json)
      fmt::print("{{\"session\":\"{}\",\"lease_left_ms\":{},\"info\":{}}}\n", session,
                 member.node.left.count(), member.node.info);
    else
      fmt::print("{:<16}  {:<24}  {:>6}  {:>12}  {:>12}  {:>5}s  {}\n",
                 printable(std::string(node_name(session))), printable(info.endpoint), info.repos,
                 megabytes(info.used_bytes), megabytes(info.budget_bytes), left,
                 info.is_draining ? "draining" : "serving");
  }
  if (table->nodes().empty() && !in_json)
    fmt::print("No node is running: `warren fleet node` starts one.\n");
  co_return Exit::ok;
}

struct Totals {
  std::size_t ready = 0, warming = 0, unclaimed = 0, failed = 0, silent = 0;
  std::uint64_t text = 0, memory = 0;
};

Totals totals_of(const Table& table) {
  Totals totals;
  for (const auto& [name, repo] : table.repos()) {
    for (const auto& [number, slot] : repo.slots) {
      bool has_owner = !slot.row.owner.empty();
      if (slot.row.state == RowState::failed)
        ++totals.failed;
      else if (!has_owner)
        ++totals.unclaimed;
      else if (!table.nodes().contains(slot.row.owner))
        ++totals.silent;
      else if (slot.row.state == RowState::claimed)
        ++totals.warming;
      else
        ++totals.ready;
      if (!has_owner || slot.row.state == RowState::claimed) continue;
      totals.text += slot.note.size_bytes;
      totals.memory += slot.note.memory_bytes;
    }
  }
  return totals;
}

Async<Exit> show_status(Catalog& catalog, bool in_json) {
  auto table = co_await read_table(catalog);
  if (!table) co_return std::unexpected(table.error());
  auto totals = totals_of(*table);
  if (in_json) {
    fmt::print(
        "{{\"repos\":{},\"ready\":{},\"warming\":{},\"unclaimed\":{},\"failed\":{},\"silent\":{},"
        "\"nodes\":{},\"text_bytes\":{},\"memory_bytes\":{}}}\n",
        table->repos().size(), totals.ready, totals.warming, totals.unclaimed, totals.failed,
        totals.silent, table->nodes().size(), totals.text, totals.memory);
    co_return Exit::ok;
  }
  fmt::print("{} repositories on {} nodes\n", table->repos().size(), table->nodes().size());
  fmt::print("  ready      {}\n  warming    {}\n  unclaimed  {}\n", totals.ready, totals.warming,
             totals.unclaimed);
  if (totals.failed > 0)
    fmt::print("  failed     {}   (warren fleet repo ls says why)\n", totals.failed);
  if (totals.silent > 0)
    fmt::print("  silent     {}   (their node does not answer)\n", totals.silent);
  fmt::print("  {} of text in {} of memory\n", megabytes(totals.text), megabytes(totals.memory));
  co_return Exit::ok;
}

// Who refuses it, and why; empty: one of them does not.
std::string refusals_of(const Table& table, const Offer& offer) {
  std::string all;
  const auto& slots = table.repos().at(offer.repo).slots;
  for (const auto& [session, member] : table.nodes()) {
    bool has_other = std::ranges::any_of(
        slots, [&](const auto& slot) { return slot.second.row.owner == session; });
    auto refused = has_other ? "has another replica" : why_refused(member.info, offer);
    if (refused.empty()) return "";
    all += fmt::format("{}{} {}", all.empty() ? "" : ", ", node_name(session), refused);
  }
  return all;
}

std::string why(const Table& table, const std::string& repo, const Table::Slot& slot) {
  const auto& row = slot.row;
  auto wait = std::chrono::duration_cast<std::chrono::seconds>(row.wait).count();
  if (row.state == RowState::failed)
    return fmt::format("failed {} times, is tried again in {} s: {}", row.attempts, wait,
                       row.error);
  if (row.owner.empty() && row.wait > 0s) return fmt::format("waits for {} s more", wait);
  if (row.owner.empty() && table.nodes().empty()) return "is unclaimed, and no node is running";
  if (row.owner.empty()) {
    auto offer = offer_of(row.key, repo, row.rank, slot.note);
    offer.is_pinned = table.repos().at(repo).spec.is_pinned;
    auto refusals = refusals_of(table, offer);
    return refusals.empty() ? "is unclaimed, and a node has room: it will be claimed in a moment"
                            : fmt::format("is unclaimed: it needs {} to be built; {}",
                                          megabytes(offer.bytes), refusals);
  }
  auto node = std::string(node_name(row.owner));
  if (!table.nodes().contains(row.owner))
    return fmt::format("is owned by {}, which is silent: the next one takes it over", node);
  // Until the new owner writes its own note, the phase is that of the previous owner.
  bool is_told = slot.note.phase < Phase::indexing;
  if (row.state == RowState::claimed && (!is_told || slot.note.phase == Phase::waiting))
    return fmt::format("is at {}, where it waits to be fetched", node);
  if (row.state == RowState::claimed && slot.note.phase == Phase::fetched)
    return fmt::format("is at {}, fetched, and waits to be read", node);
  if (row.state == RowState::claimed)
    return fmt::format("is at {}, which is {} it", node, name(slot.note.phase));
  auto served = fmt::format("is served by {} under epoch {}, commit {}", node, to_string(row.epoch),
                            slot.note.commit_hash);
  if (!slot.note.has_index) served += ", by scanning until its index is built";
  if (slot.note.lacks_bytes == 0) return served;
  const auto& info = table.nodes().at(row.owner).info;
  return fmt::format("{}; it is behind: a newer commit needs {} to be built, and {} of {} are free",
                     served, megabytes(slot.note.lacks_bytes), megabytes(info.free_bytes()),
                     megabytes(info.budget_bytes));
}

// "23 h 59 min", "40 s"
std::string in_words(std::chrono::milliseconds time) {
  auto seconds = std::chrono::ceil<std::chrono::seconds>(time).count();
  if (seconds >= 3600) return fmt::format("{} h {} min", seconds / 3600, seconds / 60 % 60);
  if (seconds >= 60) return fmt::format("{} min", seconds / 60);
  return fmt::format("{} s", seconds);
}

void explain_origin(const Table& table, const std::string& repo, const RepoSpec& spec) {
  fmt::print("  comes from {}\n", printable(spec.url));
  if (!spec.moved_from.empty())
    fmt::print("  was at {}, until its host said that it moved for good\n",
               printable(spec.moved_from));
  auto leaving = table.leaving().find(repo);
  if (leaving == table.leaving().end()) return;
  const auto& [gone, left] = leaving->second;
  fmt::print("  is gone, says its host: {}\n", printable(gone.why));
  if (left > 0ms)
    fmt::print("  leaves the fleet in {}, unless a look before then says otherwise\n",
               in_words(left));
  else
    fmt::print("  leaves the fleet when the next look says the same\n");
}

Async<Exit> explain(Catalog& catalog, std::string repo) {
  auto table = co_await read_table(catalog);
  if (!table) co_return std::unexpected(table.error());
  auto found = table->repos().find(repo);
  if (found == table->repos().end())
    co_return fail(Errc::not_found, "there is no repository {}: `warren fleet repo ls` lists them",
                   repo);
  fmt::print("{}\n", printable(repo));
  explain_origin(*table, repo, found->second.spec);
  for (const auto& [number, slot] : found->second.slots)
    fmt::print("  replica {} {}\n", number, printable(why(*table, repo, slot)));
  co_return Exit::ok;
}

void add_look(CLI::App& fleet, Action& chosen, const char* name, const char* help,
              Async<Exit> (*show)(Catalog&, bool)) {
  auto* app = add_command(fleet, name, help);
  auto options = add_fleet_options(*app);
  auto* in_json = add_json(*app);
  when_chosen(*app, [=, &chosen] {
    chosen = [=](const Context& context) {
      return with_catalog(context, options, [=](Catalog& catalog, const Config&) {
        return show(catalog, is_given(*in_json));
      });
    };
  });
}

}  // namespace

void add_fleet_looks(CLI::App& fleet, Action& chosen) {
  add_look(fleet, chosen, "nodes", "Nodes that run, and what they hold", show_nodes);
  add_look(fleet, chosen, "status", "How many repositories are served", show_status);
  auto* app = add_command(fleet, "explain", "Why a repository is served, or not");
  auto options = add_fleet_options(*app);
  auto* repo = add_value(*app, "repo", "NAME", "as `repo ls` shows it, without #0", nullptr);
  require(*repo);
  when_chosen(*app, [=, &chosen] {
    chosen = [=](const Context& context) {
      return with_catalog(context, options, [=](Catalog& catalog, const Config&) {
        return explain(catalog, value_of(*repo));
      });
    };
  });
}

}  // namespace warren::cli
