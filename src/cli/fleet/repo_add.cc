// warren fleet repo add: from words, from a file, from folders.
#include <fmt/format.h>

#include <filesystem>
#include <fstream>
#include <map>

#include "cli/causes.h"
#include "cli/fleet/fleet.h"
#include "cli/fleet/settings.h"
#include "cli/progress.h"
#include "cli/say.h"
#include "services/fleet/fetch/folders.h"
#include "services/fleet/fetch/url.h"
#include "services/fleet/plan/records.h"

namespace warren::cli {

namespace {

using namespace fleet;

constexpr auto time_to_add = 20s;
constexpr std::size_t rows_at_once = 500;

// A repository to add, and its name in the fleet; empty: as its URL says.
struct Wanted {
  std::string url, name = {};
};

struct AddOptions {
  std::vector<Wanted> repositories;
  RepoSpec spec;  // of each, but for the URL
};

// One URL on each line; what begins with # is not one.
Result<> add_urls_in(const std::string& file, std::vector<Wanted>& wanted) {
  std::ifstream in(file);
  if (!in) return std::unexpected(file_error(file, errno));
  for (std::string line; std::getline(in, line);) {
    while (!line.empty() && (line.back() == '\r' || line.back() == ' ')) line.pop_back();
    if (!line.empty() && line[0] != '#') wanted.push_back({line});
  }
  return ok;
}

Result<> add_repositories_below(const std::string& folder, std::vector<Wanted>& wanted) {
  std::error_code error;
  auto real = std::filesystem::canonical(folder, error);
  if (error) return std::unexpected(file_error(folder, error.value()));
  auto found = repositories_below(real);
  if (found.empty())
    return fail(Errc::not_found, "there is no git repository in or below {}", folder);
  for (auto& each : found) wanted.push_back({each.path.string(), std::move(each.name)});
  return ok;
}

// A URL, a folder, or a pattern that names folders.
Result<> add_word(const std::string& word, std::vector<Wanted>& wanted) {
  bool is_pattern = word.find("://") == word.npos && word.find_first_of("*?[") != word.npos &&
                    !std::filesystem::exists(word);
  if (!is_pattern) {
    wanted.push_back({word});
    return ok;
  }
  auto found = repositories_matching(word);
  if (found.empty()) return fail(Errc::not_found, "no git repository matches {}", word);
  for (const auto& path : found) wanted.push_back({path.string()});
  return ok;
}

// The rows of these repositories, and nothing unless all of them can be added.
Result<std::vector<Row>> rows_of(const AddOptions& options) {
  // Nodes have rules of their own: here only what no node may ever run is refused.
  UrlRules rules{.allows_http = true, .allows_git = true, .folders = {"/"}};
  std::vector<Row> rows;
  std::map<std::string, std::string> urls;  // by name
  for (const auto& wanted : options.repositories) {
    auto remote = RemoteUrl::parse(wanted.url, rules);
    if (!remote) return std::unexpected(remote.error());
    if (remote->credential)
      return fail(
          Errc::invalid,
          "{} has a password in it, which the catalog would show to everybody: give it to the "
          "nodes (--credentials DIR)",
          remote->url.text());
    auto spec = options.spec;
    spec.url = remote->url.text();
    auto name = wanted.name.empty() ? remote->url.repo_id() : wanted.name;
    auto [known, is_new] = urls.try_emplace(name, spec.url);
    if (!is_new && known->second != spec.url)
      return fail(Errc::invalid, "{} and {} would both be called {}: add one of them with --as",
                  known->second, spec.url, name);
    if (!is_new) continue;
    for (int slot = 0; slot < spec.replicas; ++slot)
      rows.push_back(
          {.key = row_key(name, slot), .spec = to_json(spec), .rank = rank_of(spec, 0, 0)});
  }
  for (const auto& row : rows)
    if (auto good = check_row(row); !good) return std::unexpected(good.error());
  return rows;
}

Async<Exit> add(Catalog& catalog, AddOptions options, Paint paint) {
  auto rows = rows_of(options);
  if (!rows) co_return std::unexpected(rows.error());
  auto count = rows->size();
  std::size_t added = 0;
  Progress progress(paint);
  for (std::size_t from = 0; from < count; from += rows_at_once) {
    auto end = std::min(count, from + rows_at_once);
    std::vector<Row> some(rows->begin() + static_cast<std::ptrdiff_t>(from),
                          rows->begin() + static_cast<std::ptrdiff_t>(end));
    auto told = co_await catalog.add(std::move(some), Clock::now() + time_to_add);
    if (!told) co_return std::unexpected(told.error());
    added += *told;
    if (end < count)
      progress.show(static_cast<double>(end) / static_cast<double>(count),
                    fmt::format("{} of {}", end, count));
  }
  progress.clear();
  if (added == count)
    fmt::print("Added {}.\n", count / static_cast<std::size_t>(options.spec.replicas));
  else
    fmt::print("Added {} of {} replicas; the others were there already.\n", added, count);
  co_return Exit::ok;
}

// What the flags name, in the order of the help.
Result<std::vector<Wanted>> repositories_of(const std::vector<std::string>& words,
                                            const std::string& from, const std::string& below,
                                            const std::string& as) {
  std::vector<Wanted> wanted;
  for (const auto& word : words)
    if (auto added = add_word(word, wanted); !added) return std::unexpected(added.error());
  if (!from.empty())
    if (auto added = add_urls_in(from, wanted); !added) return std::unexpected(added.error());
  if (!below.empty())
    if (auto added = add_repositories_below(below, wanted); !added)
      return std::unexpected(added.error());
  if (wanted.empty())
    return fail(Errc::invalid,
                "name a repository, a file that lists some (--from FILE), or a folder with some in "
                "and below it (--below DIR)");
  if (!as.empty() && wanted.size() > 1)
    return fail(Errc::invalid, causes::bad_words, "--as",
                "--as names one repository, and there are {}", wanted.size());
  if (!as.empty()) wanted.front().name = as;
  return wanted;
}

}  // namespace

void add_fleet_repo_add(CLI::App& repo, Action& chosen) {
  auto* app = add_command(repo, "add", "Add repositories");
  set_footer(*app, R"(Folders are for nodes that have them too (fleet node --allow-folder).

Examples
  warren fleet repo add https://host/owner/name --ref main --replicas 2
  warren fleet repo add --from repositories.txt
  warren fleet repo add --below /srv/mirrors        # /srv/mirrors/host/a.git is called host/a
  warren fleet repo add '/srv/mirrors/*/*.git'      # called by their whole paths)");
  auto options = add_fleet_options(*app);
  auto* urls = add_list(*app, "urls", "URL",
                        "https://, ssh://, a folder that nodes may read, or a pattern of such", 0);
  auto* from = add_value(*app, "--from", "FILE", "with a URL on each line", nullptr);
  auto* below = add_value(*app, "--below", "DIR", "every git repository in and below it", nullptr);
  auto* as = add_value(*app, "--as", "NAME", "by default host/owner/name", nullptr);
  auto* refs =
      add_value(*app, "--ref", "LIST", "branches or tags, with commas; by default HEAD", nullptr);
  auto* replicas =
      add_value(*app, "--replicas", "N", "nodes that have it", whole_number(1, 16), "1");
  auto* priority = add_value(*app, "--priority", "N", "higher ones are served first",
                             whole_number(-1000, 1000), "0");
  auto* pinned = add_switch(*app, "--pin", "never evict it");
  auto* archived = add_switch(*app, "--archived", "a search may leave it out (archived:no)");
  auto* fork = add_switch(*app, "--fork", "likewise (fork:no)");
  auto* is_private = add_switch(*app, "--private", "likewise (public:yes)");
  when_chosen(*app, [=, &chosen] {
    chosen = [=](const Context& context) -> Result<Exit> {
      auto named =
          repositories_of(values_of(*urls), value_of(*from), value_of(*below), value_of(*as));
      if (!named) return std::unexpected(named.error());
      RepoSpec spec;
      spec.refs = words_of_list(value_of(*refs));
      spec.replicas = std::stoi(value_of(*replicas));
      spec.priority = std::stoll(value_of(*priority));
      spec.is_pinned = is_given(*pinned);
      spec.is_archived = is_given(*archived);
      spec.is_fork = is_given(*fork);
      spec.is_private = is_given(*is_private);
      AddOptions wanted{*std::move(named), std::move(spec)};
      return with_catalog(context, options,
                          [&, paint = context.err](Catalog& catalog, const Config&) {
                            return add(catalog, wanted, paint);
                          });
    };
  });
}

}  // namespace warren::cli
