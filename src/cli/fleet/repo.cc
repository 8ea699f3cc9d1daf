// warren fleet repo: which repositories the fleet has.
#include <fmt/format.h>

#include <charconv>
#include <map>
#include <set>

#include "cli/fleet/fleet.h"
#include "cli/say.h"
#include "services/fleet/plan/gone.h"
#include "services/fleet/plan/records.h"

namespace warren::cli {

namespace {

using namespace fleet;

constexpr auto patience = 20s;

// The rows of these repositories. Errc::not_found: one of them is not there.
Async<std::map<std::string, std::vector<Row>>> rows_of_repos(Catalog& catalog,
                                                             std::vector<std::string> names) {
  auto rows = co_await all_rows(catalog);
  if (!rows) co_return std::unexpected(rows.error());
  std::map<std::string, std::vector<Row>> found;
  for (auto& row : *rows) {
    auto parts = parse_row_key(row.key);
    if (parts) found[std::string(parts->repo)].push_back(std::move(row));
  }
  std::map<std::string, std::vector<Row>> wanted;
  for (const auto& name : names) {
    if (!found.contains(name))
      co_return fail(Errc::not_found,
                     "there is no repository {}: `warren fleet repo ls` lists them", name);
    wanted[name] = found[name];
  }
  co_return wanted;
}

Async<Exit> remove(Catalog& catalog, std::vector<std::string> names) {
  auto repos = co_await rows_of_repos(catalog, std::move(names));
  if (!repos) co_return std::unexpected(repos.error());
  std::vector<std::string> keys;
  for (const auto& [name, rows] : *repos) {
    for (const auto& row : rows) keys.push_back(row.key);
    keys.push_back(gone_key(name));
  }
  auto removed = co_await catalog.remove(std::move(keys), Clock::now() + patience);
  if (!removed) co_return std::unexpected(removed.error());
  fmt::print("Removed {}.\n", repos->size());
  co_return Exit::ok;
}

// Changes the spec of each row, and with it where it stands in the order of offers.
Async<Exit> change(Catalog& catalog, std::vector<std::string> names,
                   std::function<void(RepoSpec&)> edit, bool ends_wait) {
  auto repos = co_await rows_of_repos(catalog, std::move(names));
  if (!repos) co_return std::unexpected(repos.error());
  for (const auto& [name, rows] : *repos) {
    for (const auto& row : rows) {
      auto spec = parse_spec(row.spec);
      if (!spec) co_return std::unexpected(spec.error());
      edit(*spec);
      auto note = parse_note(row.note);
      RowChange wanted;
      wanted.spec = to_json(*spec);
      wanted.rank = rank_of(*spec, 0, note ? note->size_bytes : 0);
      wanted.ends_wait = ends_wait;
      auto changed = co_await catalog.change(row.key, std::move(wanted), Clock::now() + patience);
      if (!changed) co_return std::unexpected(changed.error());
    }
  }
  co_return Exit::ok;
}

Async<Exit> set_replicas(Catalog& catalog, std::vector<std::string> words) {
  int count = 0;
  auto& last = words.back();
  auto [end, error] = std::from_chars(last.data(), last.data() + last.size(), count);
  if (words.size() < 2 || error != std::errc() || end != last.data() + last.size() || count < 1 ||
      count > 16)
    co_return fail(Errc::invalid, "say how many behind the names, 1 to 16: replicas NAME 2");
  words.pop_back();
  auto repos = co_await rows_of_repos(catalog, words);
  if (!repos) co_return std::unexpected(repos.error());
  std::vector<Row> more;
  std::vector<std::string> fewer;
  for (const auto& [name, rows] : *repos) {
    auto spec = parse_spec(rows.front().spec);
    if (!spec) co_return std::unexpected(spec.error());
    spec->replicas = count;
    for (int slot = 0; slot < count; ++slot)
      more.push_back(
          {.key = row_key(name, slot), .spec = to_json(*spec), .rank = rank_of(*spec, 0, 0)});
    for (const auto& row : rows)
      if (parse_row_key(row.key)->slot >= count) fewer.push_back(row.key);
  }
  auto added = co_await catalog.add(std::move(more), Clock::now() + patience);
  if (!added) co_return std::unexpected(added.error());
  auto removed = co_await catalog.remove(std::move(fewer), Clock::now() + patience);
  if (!removed) co_return std::unexpected(removed.error());
  auto edit = [count](RepoSpec& spec) { spec.replicas = count; };
  co_return co_await change(catalog, std::move(words), edit, false);
}

// What is out of the ordinary.
std::string remark_on(const Row& row, bool is_gone) {
  std::string remark;
  auto spec = parse_spec(row.spec);
  if (is_gone) remark += "  gone at its origin";
  if (spec && !spec->moved_from.empty()) remark += "  moved to " + spec->url;
  if (!row.error.empty()) remark += "  " + row.error;
  return printable(remark);
}

Async<Exit> list(Catalog& catalog, bool in_json) {
  auto rows = co_await all_rows(catalog);
  if (!rows) co_return std::unexpected(rows.error());
  std::set<std::string> gone;
  for (const auto& row : *rows)
    if (auto repo = repo_of_gone(row.key)) gone.emplace(*repo);
  if (!in_json)
    fmt::print("{:<40}  {:<8}  {:<12}  {:>10}  {}\n", "REPOSITORY", "STATE", "NODE", "MEMORY",
               "COMMIT");
  for (const auto& row : *rows) {
    auto parts = parse_row_key(row.key);
    if (!parts) continue;  // of no repository
    bool is_gone = gone.contains(std::string(parts->repo));
    auto note = parse_note(row.note);
    if (!note) note = RepoNote();
    if (in_json) {
      fmt::print(
          "{{\"key\":\"{}\",\"state\":\"{}\",\"owner_id\":\"{}\",\"epoch\":\"{}\",\"gone\":{},"
          "\"spec\":{},\"note\":{}}}\n",
          row.key, name(row.state), row.owner, to_string(row.epoch), is_gone, row.spec,
          row.note.empty() ? "null" : row.note);
      continue;
    }
    fmt::print("{:<40}  {:<8}  {:<12}  {:>10}  {}{}\n", printable(row.key), name(row.state),
               printable(std::string(row.owner.empty() ? "-" : node_name(row.owner))),
               note->memory_bytes, printable(note->commit_hash.substr(0, 12)),
               remark_on(row, is_gone));
  }
  co_return Exit::ok;
}

using Words = std::vector<std::string>;
void add_on_names(CLI::App& repo, Action& chosen, const char* name, const char* help,
                  std::function<Async<Exit>(Catalog&, Words)> work) {
  auto* app = add_command(repo, name, help);
  auto options = add_fleet_options(*app);
  auto* names = add_list(*app, "names", "NAME", "as `repo ls` shows them, without #0", 1);
  when_chosen(*app, [=, &chosen] {
    chosen = [=](const Context& context) {
      return with_catalog(context, options, [=](Catalog& catalog, const Config&) {
        return work(catalog, values_of(*names));
      });
    };
  });
}

// What a repository is, as filters of a search ask for it. Whatever is not given stays.
void add_mark(CLI::App& repo, Action& chosen) {
  auto* app = add_command(repo, "mark", "Say what these are, for the filters of a search");
  set_footer(*app, "Example\n  warren fleet repo mark host/owner/name --archived yes --fork no");
  auto options = add_fleet_options(*app);
  auto* names = add_list(*app, "names", "NAME", "as `repo ls` shows them, without #0", 1);
  auto yes_or_no = one_of({"yes", "no"});
  auto* archived = add_value(*app, "--archived", "yes|no", "", yes_or_no);
  auto* fork = add_value(*app, "--fork", "yes|no", "", yes_or_no);
  auto* is_private = add_value(*app, "--private", "yes|no", "", yes_or_no);
  when_chosen(*app, [=, &chosen] {
    chosen = [=](const Context& context) -> Result<Exit> {
      if (!is_given(*archived) && !is_given(*fork) && !is_given(*is_private))
        return fail(Errc::invalid, "say what they are: --archived, --fork or --private");
      auto edit = [=](RepoSpec& spec) {
        if (is_given(*archived)) spec.is_archived = value_of(*archived) == "yes";
        if (is_given(*fork)) spec.is_fork = value_of(*fork) == "yes";
        if (is_given(*is_private)) spec.is_private = value_of(*is_private) == "yes";
      };
      return with_catalog(context, options, [=](Catalog& catalog, const Config&) {
        return change(catalog, values_of(*names), edit, false);
      });
    };
  });
}

}  // namespace

void add_fleet_repo(CLI::App& fleet, Action& chosen) {
  auto* repo = add_command(fleet, "repo", "Which repositories the fleet has");
  need_command(*repo);
  add_fleet_repo_add(*repo, chosen);
  add_on_names(*repo, chosen, "rm", "Remove repositories", remove);
  add_on_names(*repo, chosen, "pin", "Never evict these", [](Catalog& catalog, Words names) {
    return change(catalog, std::move(names), [](RepoSpec& spec) { spec.is_pinned = true; }, false);
  });
  add_on_names(*repo, chosen, "unpin", "Evict these again when memory is short",
               [](Catalog& catalog, Words names) {
                 return change(
                     catalog, std::move(names), [](RepoSpec& spec) { spec.is_pinned = false; },
                     false);
               });
  add_on_names(*repo, chosen, "reindex", "Build these anew, and now if they have failed",
               [](Catalog& catalog, Words names) {
                 return change(
                     catalog, std::move(names), [](RepoSpec& spec) { ++spec.reindex; }, true);
               });
  add_on_names(*repo, chosen, "replicas", "How many nodes have each: replicas NAME… N",
               set_replicas);
  add_mark(*repo, chosen);
  auto* ls = add_command(*repo, "ls", "List repositories, with who has them");
  auto ls_options = add_fleet_options(*ls);
  auto* in_json = add_json(*ls);
  when_chosen(*ls, [=, &chosen] {
    chosen = [=](const Context& context) {
      return with_catalog(context, ls_options, [=](Catalog& catalog, const Config&) {
        return list(catalog, is_given(*in_json));
      });
    };
  });
}

}  // namespace warren::cli
