// warren search: searches code in memory, the best results first.
#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <thread>

#include "cli/fleet/settings.h"
#include "cli/search/command.h"

namespace warren::cli {

namespace {

constexpr std::size_t files_on_terminal = 100;
constexpr std::size_t lines_on_terminal = 1000;  // per file
constexpr std::size_t page_bytes = 64u << 20;

// Returns "" if there is no place for it.
std::string cache_folder(const Context& context) {
  const auto& environment = context.sources.environment;
  auto of = [&](const std::string& name) {
    auto found = environment.find(name);
    return found == environment.end() ? std::string() : found->second;
  };
  auto folder = of("XDG_CACHE_HOME");
  if (!folder.starts_with('/')) {
    if (!of("HOME").starts_with('/')) return {};
    folder = of("HOME") + "/.cache";
  }
  return folder + "/warren/search";
}

constexpr auto footer =
    R"(Searches the repository around this folder, or this folder: files as they are on disk, new and
changed ones too, but not what git ignores. The first search makes an index and keeps it in
~/.cache/warren/search; later ones read only what has changed since. With --ref commits are
searched, and the files on disk are not looked at.

The query
  mutex_lock                      any case: it has no capital      "a b("        as it stands
  (read|write)_lock               a regular expression             foo or bar    either
  file:\.cc$ -file:test lang:c    where                            sym:Lease     where it is defined
  docs/query.md has the rest.

Examples
  warren search 'mutex_lock file:drivers/'
  warren search ~/src/linux 'sym:mutex_lock'
  warren search --ref v1.0 --ref main 'TODO -file:test'
  warren search -l -0 --limit 0 'old_name' | xargs -0 -r sed -i s/old_name/new_name/

Exit codes
  0  found    1  nothing    2  an error)";

struct Flags {
  CLI::Option *place, *query, *refs, *context, *files, *counts, *null, *limit, *cursor, *timeout,
      *json, *stats, *explain, *skipped, *symbols, *file_size, *memory, *no_cache, *fleet;
};

Flags add_flags(CLI::App& app) {
  Flags flags{};
  flags.place = add_value(app, "place", "PLACE", "where to look, if not here", nullptr);
  // Accepts any number of words, so that we can explain how to pass several as one query.
  flags.query = add_list(app, "query", "QUERY", "what to look for", 0);
  flags.refs = add_repeated(app, "--ref", "REF",
                            "a branch, tag or commit instead of files on disk; repeatable");
  flags.context =
      add_value(app, "-C,--context", "N", "lines around each match", whole_number(0, 1000), "0");
  flags.files = add_switch(app, "-l,--files", "names of files only");
  flags.counts = add_switch(app, "-c,--count", "names of files, and how many lines match");
  flags.null =
      add_switch(app, "-0,--null", "names as they are and a NUL behind each: for xargs -0");
  flags.limit = add_value(app, "--limit", "N",
                          "files shown, 0 for all; by default 100 on a terminal, otherwise all",
                          whole_number(0, 1'000'000'000));
  flags.cursor =
      add_value(app, "--cursor", "TEXT", "go on behind the page that ended there", nullptr);
  flags.timeout =
      add_value(app, "--timeout", "TIME",
                "what is found by then; an index that has to be made takes longer", duration());
  flags.json = add_switch(app, "--json", "a line of JSON for each file, then one that sums up");
  flags.stats = add_switch(app, "--stats", "what was searched and how long it took");
  flags.explain =
      add_switch(app, "--explain", "how the query was read, and why files are where they are");
  flags.skipped = add_switch(app, "--skipped", "no query: files that are not searched, and why");
  flags.symbols =
      add_switch(app, "--symbols", "find definitions, to show them first; done for sym: anyway");
  flags.file_size =
      add_value(app, "--max-file-size", "SIZE", "larger files are left out", bytes_check(), "4M");
  flags.memory = add_value(app, "--memory", "SIZE", "no more than this", bytes_check(), "8G");
  flags.no_cache = add_switch(app, "--no-cache", "use no index that was kept, and keep none");
  flags.fleet =
      add_value(app, "--fleet", "URL",
                "all repositories of a fleet, through its router; FLEET_TOKEN is shown", nullptr);
  return flags;
}

// Reads the place and the query. Otherwise reports what is wrong with them.
std::optional<Exit> take_words(const Flags& flags, const Paint& paint, SearchOptions& options) {
  auto given = values_of(*flags.place);
  std::ranges::copy(values_of(*flags.query), std::back_inserter(given));
  if (given.size() > 2)
    return complain(paint, fmt::format("{} words: a place and a query are two", given.size()),
                    "quote a query of several words");
  options.lists_skipped = is_given(*flags.skipped);
  if (!options.lists_skipped && given.empty())
    return complain(paint, "what is looked for?", "warren search QUERY; see --help");
  if (!options.lists_skipped) {
    options.query = given.back();
    given.pop_back();
  }
  if (given.size() > 1) return complain(paint, "--skipped takes no query");
  if (!given.empty()) options.where = given[0];
  return std::nullopt;
}

SearchShow show_of(const Flags& flags) {
  SearchShow show;
  using Form = SearchShow::Form;
  show.form = is_given(*flags.json)     ? Form::json
              : is_given(*flags.files)  ? Form::files
              : is_given(*flags.counts) ? Form::counts
                                        : Form::lines;
  show.is_terminal = isatty(STDOUT_FILENO) != 0;
  show.explains = is_given(*flags.explain);
  show.ends_names = is_given(*flags.null) && !show.is_terminal;
  show.has_headings = show.is_terminal || (show.explains && !show.ends_names);
  show.has_context = std::stoi(value_of(*flags.context)) > 0;
  show.lines_per_file =
      show.is_terminal && show.form == Form::lines ? lines_on_terminal : SIZE_MAX - 1;
  return show;
}

search::SearchTerms terms_of(const Flags& flags, const SearchShow& show, int threads) {
  search::SearchTerms terms;
  terms.context_lines = std::stoi(value_of(*flags.context));
  terms.explains = show.explains;
  terms.most_matches = 0;
  auto most = is_given(*flags.limit) ? std::stoull(value_of(*flags.limit))
              : show.is_terminal     ? files_on_terminal
                                     : 0;
  terms.most_files = most == 0 ? SIZE_MAX : most;
  terms.lines_per_file = show.lines_per_file + 1;  // one more, to detect that there are more
  bool is_cut = show.is_terminal || show.form == SearchShow::Form::json;
  terms.line_bytes = is_cut ? 512 : SIZE_MAX;
  terms.answer_bytes = page_bytes;
  terms.counts_lines = show.form == SearchShow::Form::counts;
  terms.threads = threads;
  terms.after = value_of(*flags.cursor);
  return terms;
}

Result<Exit> read_and_run(const Flags& flags, const Context& context) {
  signal(SIGPIPE, SIG_IGN);
  SearchOptions options;
  if (auto bad = take_words(flags, context.err, options)) return *bad;
  auto threads = std::clamp(static_cast<int>(std::thread::hardware_concurrency()), 1, 16);
  options.show = show_of(flags);
  options.terms = terms_of(flags, options.show, threads);
  if (is_given(*flags.refs)) options.refs = values_of(*flags.refs);
  if (is_given(*flags.timeout)) options.timeout = *parse_duration(value_of(*flags.timeout));
  auto& index = options.index;
  index.wants_symbols = is_given(*flags.symbols);
  index.uses_cache = !is_given(*flags.no_cache);
  index.cache_folder = cache_folder(context);
  index.update.build.threads = threads;
  index.update.build.memory_bytes = *parse_bytes(value_of(*flags.memory));
  index.update.limits.memory_bytes = index.update.build.memory_bytes;
  index.update.limits.file_bytes = *parse_bytes(value_of(*flags.file_size));
  index.update.delta_from = 1u << 20;
  options.has_stats = is_given(*flags.stats);
  options.fleet = value_of(*flags.fleet);
  if (!options.fleet.empty()) {
    if (options.where || !options.refs.empty() || options.lists_skipped)
      return complain(context.err,
                      "--fleet searches what the fleet has: no place, --ref or --skipped");
    auto config = load_config(context);
    if (!config) return std::unexpected(config.error());
    options.fleet_token = config->text("fleet.token");
    if (options.fleet.starts_with("https://")) {
      auto tls = tls_of(*config);
      if (!tls) return std::unexpected(tls.error());
      options.fleet_tls = *std::move(tls);
    }
  }
  return run_search(std::move(options), context);
}

}  // namespace

void add_search(CLI::App& root, Action& chosen) {
  auto* app = add_command(root, "search", "Code, in a folder or a git repository, the best first",
                          "Search");
  set_footer(*app, footer);
  when_chosen(*app, [flags = add_flags(*app), &chosen] {
    chosen = [flags](const Context& context) { return read_and_run(flags, context); };
  });
}

}  // namespace warren::cli
