// warren search: code, from memory, the best first.
#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <charconv>
#include <thread>

#include "base/utf8.h"
#include "cli/progress.h"
#include "cli/say.h"
#include "cli/search_output.h"
#include "search/process.h"

namespace warren::cli {

namespace {

constexpr std::size_t files_on_terminal = 100;
constexpr std::size_t page_bytes = 64u << 20;
constexpr int most_words = 100'000;  // that are counted before they are refused

struct SearchOptions {
  std::optional<std::string> where;
  std::string query;
  SearchShow show;
  search::SearchTerms terms;
  std::optional<std::chrono::milliseconds> timeout;
  SearchIndexTerms index;
  std::vector<std::string> refs;
  bool has_stats = false, lists_skipped = false;
};

// 512, 64K, 4M, 8G
Result<std::size_t> parse_bytes(std::string_view text) {
  std::size_t number = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  std::string_view unit(end, static_cast<std::size_t>(text.data() + text.size() - end));
  constexpr std::string_view units = "KMG";
  auto place = unit.size() == 1 ? units.find(unit[0]) : unit.empty() ? units.npos : 9;
  if (error != std::errc() || place == 9 || (!unit.empty() && place == units.npos) || number == 0 ||
      number > std::size_t{1} << 33)
    return fail(Errc::invalid, "use a number of bytes such as 65536, 64K, 4M or 8G");
  return number << (unit.empty() ? 0 : 10 * (place + 1));
}

Check bytes_check() {
  return [](std::string_view text) -> Result<> {
    auto parsed = parse_bytes(text);
    return parsed ? Result<>(ok) : std::unexpected(parsed.error());
  };
}

// As grep: 0 found, 1 nothing, 2 an error.
Exit complain(const Paint& paint, const std::string& what, const std::string& hint = "") {
  say("{} {}\n", paint.red("error:"), safe_text(what));
  if (!hint.empty()) say("{} {}\n", paint.yellow("hint:"), safe_text(hint));
  return Exit::usage;
}

// The query again, and below it the place where it cannot be read.
Exit complain_about_query(const Paint& paint, std::string_view query, const Error& error) {
  std::size_t column = 0;
  std::string_view what = error.what;
  if (what.starts_with("column "))
    std::from_chars(what.data() + 7, what.data() + what.size(), column);
  if (column == 0) return complain(paint, error.what, "docs/query.md has the language");
  std::string before = safe_text(query.substr(0, std::min(column - 1, query.size())));
  std::size_t width = 0;
  for (char c : before) width += (std::uint8_t(c) & 0xc0) == 0x80 ? 0 : 1;
  say("{} {}\n  {}\n  {}{}\n", paint.red("error:"), safe_text(error.what), safe_text(query),
      std::string(width, ' '), paint.red("^"));
  return Exit::usage;
}

bool needs_symbols(const search::Query& query) {
  if (query.kind == search::Query::Kind::pattern)
    return query.pattern.field == search::Field::symbol;
  return std::ranges::any_of(query.parts, [](const auto& part) { return needs_symbols(*part); });
}

// Nothing of ours may stay behind on the terminal; on the disk there is nothing without a name.
void end_cleanly(int number) {
  constexpr std::string_view clear = "\r\x1b[K";
  if (isatty(STDERR_FILENO) != 0) {
    auto wrote = ::write(STDERR_FILENO, clear.data(), clear.size());
    static_cast<void>(wrote);
  }
  search::kill_children();
  signal(number, SIG_DFL);
  raise(number);
}

class SearchCommand {
 public:
  SearchCommand(SearchOptions options, const Context& context)
      : options_(std::move(options)), out_(context.out), err_(context.err) {}

  Exit run() {
    for (int number : {SIGINT, SIGTERM}) {
      struct sigaction before{};
      // Whoever started us with nohup, or in the background, has a reason to have it ignored.
      if (sigaction(number, nullptr, &before) == 0 && before.sa_handler != SIG_IGN)
        signal(number, end_cleanly);
    }
    auto place = find_place(options_.where, options_.refs);
    if (!place && options_.where)
      return complain(err_, place.error().what,
                      fmt::format("to search for both words, quote them: '{} {}'", *options_.where,
                                  options_.query));
    if (!place) return complain(err_, place.error().what);
    place_ = std::move(*place);
    if (auto bad = read_query()) return *bad;
    if (auto bad = open()) return *bad;
    auto result = options_.lists_skipped ? list_skipped() : answer();
    auto shown = output_.finish();
    if (!shown) return complain(err_, shown.error().what);
    close_output();
    keep();
    return result;
  }

 private:
  std::optional<Exit> read_query() {
    if (options_.lists_skipped) return std::nullopt;
    auto parsed = search::parse_query(options_.query);
    if (!parsed) return complain_about_query(err_, options_.query, parsed.error());
    query_ = std::move(*parsed);
    if (options_.show.explains) say("query: {}\n", safe_text(search::to_string(*query_.root)));
    if (options_.show.form == SearchShow::Form::files && query_.select == search::Select::lines)
      query_.select = search::Select::files;
    if (query_.select == search::Select::repos || query_.select == search::Select::files ||
        query_.select == search::Select::paths) {
      if (options_.show.form == SearchShow::Form::lines)
        options_.show.form = SearchShow::Form::files;
    }
    options_.index.wants_symbols = options_.index.wants_symbols || needs_symbols(*query_.root) ||
                                   query_.select == search::Select::symbols;
    return std::nullopt;
  }

  std::optional<Exit> open() {
    Progress progress(err_);
    // What is done in a moment needs no bar.
    auto from = isatty(STDERR_FILENO) != 0 ? Clock::now() + 200ms : Clock::time_point::max();
    options_.index.progress = [&](double part, const std::string& text) {
      if (Clock::now() >= from) progress.show(part, text);
    };
    auto index = open_search_index(place_, options_.index);
    if (!index && place_.kind != SearchPlace::Kind::folder && options_.refs.empty() &&
        is_no_repository(index.error())) {
      progress.clear();
      note(fmt::format("the folder is searched as it is: {}", safe_text(index.error().what)));
      place_ = plain_place(options_.where);
      index = open_search_index(place_, options_.index);
    }
    progress.clear();
    if (!index) return complain(err_, index.error().what, hint_of(index.error()));
    index_ = std::move(*index);
    if (!index_.warning.empty()) warn(index_.warning);
    return std::nullopt;
  }

  static std::string hint_of(const Error& error) {
    return error.code == Errc::overloaded ? "--memory allows more, --max-file-size leaves out more"
                                          : "";
  }
  void warn(const std::string& what) const {
    say("{} nothing is kept for the next time: {}\n", err_.yellow("warning:"), safe_text(what));
  }

  Exit answer() {
    SearchPrinter printer(output_, place_, options_.show, out_);
    auto& terms = options_.terms;
    if (options_.timeout) terms.deadline = Clock::now() + *options_.timeout;
    std::optional<search::Answer> last;
    std::size_t shown = 0, left = terms.most_files;
    for (;;) {
      terms.most_files = left;
      query_.below = place_.below;  // one index serves all folders of a repository
      auto page = search::search(*index_.segments, query_, terms);
      if (!page) return complain(err_, page.error().what, "docs/query.md has the language");
      for (const auto& file : page->files) {
        if (output_.is_closed()) break;
        printer.print(file);
      }
      shown += page->files.size();
      left -= std::min(left, page->files.size());
      bool has_more = page->why_incomplete == "bytes" && !page->next.empty() && left > 0;
      terms.after = page->next;
      last = std::move(*page);
      if (!has_more || output_.is_closed()) break;
    }
    // Pages were full, and the next one had the rest.
    if (last->why_incomplete == "bytes" && (last->next.empty() || left == 0)) {
      last->is_complete = true;
      last->why_incomplete.clear();
    }
    if (printer.cut_files() > 0 && last->is_complete) {
      last->is_complete = false;
      last->why_incomplete = "lines";
    }
    if (options_.show.form == SearchShow::Form::json)
      output_.write(json_summary(*last, index_) + '\n');
    output_.flush();
    tell(*last, shown);
    if (printer.cut_files() > 0)
      note(fmt::format("{}{} more matching lines than are shown; a pipe shows more",
                       printer.first_cut(),
                       printer.cut_files() == 1
                           ? " has"
                           : fmt::format(" and {} other files have", printer.cut_files() - 1)));
    if (options_.has_stats) say("{}", stats_text(*last, index_));
    return shown > 0 ? Exit::ok : Exit::failed;
  }

  void note(const std::string& text) const { say("{} {}\n", err_.yellow("note:"), text); }
  // What a person must know who takes this for all there is.
  void tell(const search::Answer& answer, std::size_t shown) const {
    if (!answer.is_complete && answer.why_incomplete == "time")
      note(
          fmt::format("the time was over: {} matches found, about {} in all; --timeout allows more",
                      answer.match_count, answer.estimated_matches));
    else if (!answer.is_complete && answer.why_incomplete == "matches")
      note(fmt::format("the query's count: was reached: {} matches found, about {} in all",
                       answer.match_count, answer.estimated_matches));
    else if (!answer.is_complete && answer.why_incomplete == "symbols")
      note("ctags is not there, so that nothing is known of definitions (sym:)");
    else if (!answer.is_complete && answer.why_incomplete != "lines")
      note(fmt::format("not all is shown: {}", answer.why_incomplete));
    if (!answer.next.empty() && !output_.is_closed())
      note(
          fmt::format("{} of {} files shown ({} matches in all); --limit 0 shows all of them, "
                      "--cursor {} the next",
                      shown, answer.file_count, answer.match_count, answer.next));
  }

  Exit list_skipped() {
    std::size_t count = 0;
    for (const auto& segment : *index_.segments)
      for (const auto& skipped : segment->skipped()) {
        if (!skipped.path.starts_with(place_.below)) continue;
        ++count;
        if (options_.show.form == SearchShow::Form::json)
          output_.write(json_of(skipped) + '\n');
        else
          output_.write(fmt::format("{}: {}\n", safe_path(shown_path(place_, skipped.path)),
                                    safe_text(skipped.reason)));
      }
    return count > 0 ? Exit::ok : Exit::failed;
  }

  // Whoever reads sees the end now, not when the index is written.
  static void close_output() {
    int nothing = ::open("/dev/null", O_WRONLY | O_CLOEXEC);
    if (nothing < 0) return;
    dup2(nothing, STDOUT_FILENO);
    ::close(nothing);
  }
  void keep() const {
    if (!index_.keep) return;
    auto kept = index_.keep();
    if (!kept) warn(kept.error().what);
  }

  SearchOptions options_;
  Paint out_, err_;
  SearchPlace place_;
  search::ParsedQuery query_;
  SearchIndex index_;
  SearchOutput output_;
};

// Empty: there is no place for it.
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
  warren search -l --limit 0 'old_name' | xargs sed -i s/old_name/new_name/

Exit codes
  0  found    1  nothing    2  an error)";

}  // namespace

void add_search(CLI::App& root, Action& chosen) {
  auto* app = root.add_subcommand("search", "Code, in a folder or a git repository, the best first")
                  ->group("Search");
  app->footer(footer);
  auto* first = app->add_option("place", "where to look, if not here")->type_name("PLACE");
  auto* others = app->add_option("query", "what to look for")
                     ->type_name("QUERY")
                     ->expected(1, most_words)
                     ->allow_extra_args();
  // "--" is for us only while an option waits for a word. This one does to the end, for the query
  // takes all of them.
  app->add_option("more")->group("");
  auto* refs =
      app->add_option("--ref", "a branch, tag or commit instead of files on disk; repeatable")
          ->type_name("REF")
          ->take_all();
  auto* context_lines =
      add_value(*app, "-C,--context", "N", "lines around each match", whole_number(0, 1000), "0");
  auto* files_only = add_switch(*app, "-l,--files", "names of files only");
  auto* counts = add_switch(*app, "-c,--count", "names of files, and how many lines match");
  auto* limit = add_value(*app, "--limit", "N",
                          "files shown, 0 for all; by default 100 on a terminal, otherwise all",
                          whole_number(0, 1'000'000'000));
  auto* cursor =
      add_value(*app, "--cursor", "TEXT", "go on behind the page that ended there", nullptr);
  auto* timeout = add_value(*app, "--timeout", "TIME", "what is found by then", duration());
  auto* in_json = add_switch(*app, "--json", "a line of JSON for each file, then one that sums up");
  auto* stats = add_switch(*app, "--stats", "what was searched and how long it took");
  auto* explain =
      add_switch(*app, "--explain", "how the query was read, and why files are where they are");
  auto* skipped = add_switch(*app, "--skipped", "no query: files that are not searched, and why");
  auto* symbols =
      add_switch(*app, "--symbols", "find definitions, to show them first; done for sym: anyway");
  auto* file_size =
      add_value(*app, "--max-file-size", "SIZE", "larger files are left out", bytes_check(), "4M");
  auto* memory = add_value(*app, "--memory", "SIZE", "no more than this", bytes_check(), "8G");
  auto* no_cache = add_switch(*app, "--no-cache", "use no index that was kept, and keep none");
  app->callback([=, &chosen] {
    chosen = [=](const Context& context) -> Result<Exit> {
      signal(SIGPIPE, SIG_IGN);
      SearchOptions options;
      auto given = first->results();
      std::ranges::copy(others->results(), std::back_inserter(given));
      if (given.size() > 2)
        return complain(context.err,
                        fmt::format("{} words: a place and a query are two", given.size()),
                        "quote a query of several words");
      options.lists_skipped = skipped->count() > 0;
      if (!options.lists_skipped && given.empty())
        return complain(context.err, "what is looked for?", "warren search QUERY; see --help");
      if (!options.lists_skipped) {
        options.query = given.back();
        given.pop_back();
      }
      if (given.size() > 1) return complain(context.err, "--skipped takes no query");
      if (!given.empty()) options.where = given[0];
      options.refs = refs->count() > 0 ? refs->results() : std::vector<std::string>();
      auto& show = options.show;
      using Form = SearchShow::Form;
      show.form = in_json->count() > 0      ? Form::json
                  : files_only->count() > 0 ? Form::files
                  : counts->count() > 0     ? Form::counts
                                            : Form::lines;
      show.is_terminal = isatty(STDOUT_FILENO) != 0;
      show.explains = explain->count() > 0;
      show.has_headings = show.is_terminal || show.explains;
      auto& terms = options.terms;
      terms.context_lines = std::stoi(value_of(*context_lines));
      show.has_context = terms.context_lines > 0;
      terms.explains = show.explains;
      terms.most_matches = 0;
      auto most = limit->count() > 0 ? std::stoull(value_of(*limit))
                  : show.is_terminal ? files_on_terminal
                                     : 0;
      terms.most_files = most == 0 ? SIZE_MAX : most;
      // One more than is shown, to know that there are more.
      show.lines_per_file = show.is_terminal && show.form == Form::lines ? 1000 : SIZE_MAX - 1;
      terms.lines_per_file = show.lines_per_file + 1;
      terms.line_bytes = show.is_terminal || show.form == Form::json ? 512 : SIZE_MAX;
      terms.answer_bytes = page_bytes;
      terms.counts_lines = show.form == Form::counts;
      auto threads = std::clamp(static_cast<int>(std::thread::hardware_concurrency()), 1, 16);
      terms.threads = threads;
      terms.after = value_of(*cursor);
      if (timeout->count() > 0) options.timeout = *parse_duration(value_of(*timeout));
      auto& index = options.index;
      index.wants_symbols = symbols->count() > 0;
      index.uses_cache = no_cache->count() == 0;
      index.cache_folder = cache_folder(context);
      index.update.build.threads = threads;
      index.update.build.memory_bytes = *parse_bytes(value_of(*memory));
      index.update.limits.file_bytes = *parse_bytes(value_of(*file_size));
      index.update.delta_from = 1u << 20;
      options.has_stats = stats->count() > 0;
      return SearchCommand(std::move(options), context).run();
    };
  });
}

}  // namespace warren::cli
