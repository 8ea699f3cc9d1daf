// warren destroy: removes everything that an instance left behind.
#include <fmt/format.h>

#include <iostream>
#include <set>

#include "cli/instance/daemon_log.h"
#include "cli/instance/which.h"

namespace warren::cli {

namespace {

constexpr std::size_t at_once = 1000;
// A little more than the session of a dead process lasts, during which it still holds its board.
constexpr auto longest_session = 20s;

struct DestroyOptions {
  Which which;
  std::string yes_name;
  bool is_dry = false;
  std::filesystem::path logs;  // their folder
};

struct Removal {
  std::size_t keys = 0, artefacts = 0, claims = 0;
};

// All keys with the board's prefix belong to the instance. The locks on its name and its board are
// ours meanwhile. The fences stay, so that earlier holders stay locked out.
class Sweep {
 public:
  Sweep(redis::Client& client, const board::BoardKeys& keys, const std::string& lock)
      : client_(client),
        keys_(keys),
        kept_{lock, lock + ":fence", keys.orchestrator(), keys.orchestrator() + ":fence"} {}

  // Scans the server once and returns how many keys were found.
  Async<std::size_t> round(bool removes) {
    std::size_t found = 0;
    std::string cursor = "0";
    do {
      redis::Command scan("SCAN", cursor, "MATCH", keys_.all(), "COUNT", at_once);
      // The limit is per page: the number of pages depends on everything that the server stores.
      auto options = redis::CallOptions().idempotent().within(10s).where(keys_.root());
      auto reply = co_await client_.ask(std::move(scan), options);
      if (!reply) co_return std::unexpected(reply.error());
      if (reply->items.size() != 2) co_return fail(Errc::protocol, "SCAN: {}", to_string(*reply));
      cursor = reply->items[0].text;
      std::vector<std::string> words{"UNLINK"};
      for (auto& key : reply->items[1].items)
        if (key.text.starts_with(keys_.root()) && !is_kept(key.text)) words.push_back(key.text);
      if (words.size() == 1) continue;
      found += words.size() - 1;
      auto done = co_await take(std::move(words), removes);
      if (!done) co_return std::unexpected(done.error());
    } while (cursor != "0");
    co_return found;
  }
  const Removal& removal() const { return removal_; }

 private:
  bool is_kept(const std::string& key) const {
    return kept_.contains(key) || key.starts_with(keys_.sessions() + "warren:session:");
  }

  Async<> take(std::vector<std::string> words, bool removes) {
    for (const auto& key : words) {
      bool is_bids = key.ends_with(":bids");
      removal_.artefacts += key.starts_with(keys_.artefact(""));
      removal_.claims += key.starts_with(keys_.claim("")) && !is_bids;
    }
    removal_.keys += words.size() - 1;
    if (!removes) co_return ok;
    redis::Command unlink(words);
    auto options = redis::CallOptions().idempotent().within(10s);
    auto removed = co_await client_.ask(std::move(unlink), options);
    if (!removed) co_return std::unexpected(removed.error());
    co_return ok;
  }

  redis::Client& client_;
  const board::BoardKeys& keys_;
  std::set<std::string> kept_;
  Removal removal_;
};

Error still_running(const std::string& name, const std::string& program) {
  return {Errc::held_elsewhere,
          fmt::format("instance '{0}' is running: stop it first with '{1} down --name {0}'", name,
                      program)};
}

std::string summary(const Removal& removal, std::size_t logs) {
  return fmt::format("{} keys ({} artefacts, {} claims), {} log{}", removal.keys, removal.artefacts,
                     removal.claims, logs, logs == 1 ? "" : "s");
}

Result<> confirm(const std::string& name, const std::string& yes_name) {
  auto typed = yes_name;
  if (typed.empty()) {
    fmt::print(stderr, "All that is on the board of '{0}' will be gone. Type {0} to go on: ", name);
    if (!std::getline(std::cin, typed)) fmt::print(stderr, "\n");
  }
  if (typed == name) return ok;
  return fail(Errc::refused, "\"{}\" is not \"{}\": nothing was removed", printable(typed), name);
}

// After a reconnection a lease is uncertain until the server has confirmed it.
awaitable<bool> is_certain(const Lease& lease) {
  while (lease.state() == LeaseState::uncertain) co_await sleep_for(10ms);
  co_return lease.is_held();
}

// While we hold the name, no instance of it can start. By becoming the orchestrator of its board
// with a newer token, we lock out the previous one: its late writes are refused.
Async<Exit> remove_all(LeaseSession& names, LeaseSession& boards, Registry& registry,
                       const Board& board, std::string name, DestroyOptions& options) {
  LeaseTerms terms{registry.keys().lock(name), "destroying", 60s};
  auto lease = co_await names.try_acquire(std::move(terms));
  if (!lease && lease.error().code == Errc::held_elsewhere)
    co_return std::unexpected(still_running(name, options.which.program));
  if (!lease) co_return std::unexpected(lease.error());
  LeaseTerms work{board.keys().orchestrator(), "destroying"};
  auto office = co_await boards.acquire(std::move(work), Clock::now() + longest_session);
  if (!office && office.error().code == Errc::timeout)
    co_return fail(Errc::held_elsewhere,
                   "the orchestrator of '{0}' works without its name: it stops soon, try again",
                   name);
  if (!office) co_return std::unexpected(office.error());
  Sweep sweep(board.client(), board.keys(), registry.keys().lock(name));
  std::size_t found = 1;
  // Repeat until a round finds nothing: a slot may have moved, or a process wrote once more before
  // it ended.
  for (int round = 0; found > 0 && round < 5; ++round) {
    auto counted = co_await sweep.round(true);
    if (!counted) co_return std::unexpected(counted.error());
    auto is_ours = co_await is_certain(*lease);
    if (is_ours) is_ours = co_await is_certain(*office);
    if (!is_ours)
      co_return fail(Errc::lease_lost,
                     "the name is not certain to be ours any more, so not all of it was removed: "
                     "try again");
    found = *counted;
  }
  redis::Command forget("HDEL", registry.keys().list(), name);
  auto forgotten = co_await board.client().ask(std::move(forget));
  redis::Command forget_board("HDEL", registry.keys().boards(), name);
  if (forgotten) forgotten = co_await board.client().ask(std::move(forget_board));
  auto left = co_await office->release();
  auto released = co_await lease->release();
  for (auto* done : {&left, &released})
    if (!*done) co_return std::unexpected(done->error());
  if (!forgotten) co_return std::unexpected(forgotten.error());
  if (found > 0) co_return fail(Errc::refused, "somebody keeps writing to the board of {}", name);
  auto logs = daemon_logs(daemon_log(options.logs, options.which.prefix, name));
  std::error_code ignored;
  for (const auto& log : logs) std::filesystem::remove(log, ignored);
  fmt::print("Destroyed instance {}: {}\n", name, summary(sweep.removal(), logs.size()));
  co_return Exit::ok;
}

// Reports a mistyped name before the user has to type it again.
Async<> check_anything(Registry& registry, const Board& board, std::string name,
                       const DestroyOptions& options) {
  auto logs = daemon_logs(daemon_log(options.logs, options.which.prefix, name));
  Sweep sweep(board.client(), board.keys(), registry.keys().lock(name));
  auto counted = co_await sweep.round(false);
  if (!counted) co_return std::unexpected(counted.error());
  if (*counted > 0 || !logs.empty()) co_return ok;
  co_return fail(Errc::not_found, "there is no instance '{}', and nothing that it left", name);
}

Async<Exit> pretend(Registry& registry, const Board& board, std::string name, bool is_dead,
                    DestroyOptions& options) {
  auto lock = registry.keys().lock(name);
  auto held = co_await board.client().ask(redis::Command("EXISTS", lock));
  if (!held) co_return std::unexpected(held.error());
  if (held->number == 1 && !is_dead)
    co_return std::unexpected(still_running(name, options.which.program));
  Sweep sweep(board.client(), board.keys(), lock);
  auto counted = co_await sweep.round(false);
  if (!counted) co_return std::unexpected(counted.error());
  auto logs = daemon_logs(daemon_log(options.logs, options.which.prefix, name));
  fmt::print("Would destroy instance {}: {}\n", name, summary(sweep.removal(), logs.size()));
  co_return Exit::ok;
}

Async<Exit> destroy(redis::Client& client, DestroyOptions options) {
  Registry registry(client, options.which.prefix);
  auto instances = co_await registry.boards();
  if (!instances) co_return std::unexpected(instances.error());
  auto chosen = choose_instance(*instances, options.which, workspace_here(), Need::data);
  if (!chosen) co_return std::unexpected(chosen.error());
  // The lock of a process that is known to be dead protects nobody.
  bool is_dead = chosen->state != InstanceState::stale && is_known_dead(chosen->entry);
  if (chosen->state != InstanceState::stale && !is_dead)
    co_return std::unexpected(still_running(chosen->name, options.which.program));
  auto board = Board::open(client, options.which.prefix, chosen->name);
  if (!board) co_return std::unexpected(board.error());
  if (chosen->entry.run_id.empty()) {
    auto there = co_await check_anything(registry, *board, chosen->name, options);
    if (!there) co_return std::unexpected(there.error());
  }
  if (options.is_dry) co_return co_await pretend(registry, *board, chosen->name, is_dead, options);
  auto confirmed = confirm(chosen->name, options.yes_name);
  if (!confirmed) co_return std::unexpected(confirmed.error());
  if (is_dead) {
    auto buried = co_await registry.bury(*chosen);
    if (!buried) co_return std::unexpected(buried.error());
  }
  LeaseSession names(client, 15s, registry.room());
  LeaseRoom room{board->keys().sessions(), board->keys().sessions()};
  LeaseSession boards(client, 15s, std::move(room));
  auto removed = co_await remove_all(names, boards, registry, *board, chosen->name, options);
  co_await boards.close();
  co_await names.close();
  co_return removed;
}

}  // namespace

void add_destroy(CLI::App& root, Action& chosen) {
  auto* app = add_command(root, "destroy", "Remove what an instance left: its board and its logs",
                          "Instances");
  set_footer(
      *app,
      "Not while it runs, and not before its name was typed. What guards against a late write of "
      "its\n"
      "last orchestrator stays for a day, and then goes by itself.\n\n"
      "Examples\n"
      "  warren destroy --name myproject --dry-run\n"
      "  warren destroy --name myproject --yes-name myproject");
  auto which = add_which(*app);
  auto* is_dry = add_switch(*app, "--dry-run", "only say what would be removed");
  auto* yes_name =
      add_value(*app, "--yes-name", "NAME", "the name once more, instead of typing it", nullptr);
  when_chosen(*app, [=, &chosen] {
    chosen = [=](const Context& context) -> Result<Exit> {
      auto logs = state_folder(context);
      if (!logs) return std::unexpected(logs.error());
      DestroyOptions options{which_of(which), value_of(*yes_name), is_given(*is_dry),
                             *std::move(logs)};
      return with_registry(context, which.program, [&](redis::Client& client) {
        return destroy(client, std::move(options));
      });
    };
  });
}

}  // namespace warren::cli
