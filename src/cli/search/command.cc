#include "cli/search/command.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <charconv>
#include <filesystem>

#include "base/host/child.h"
#include "cli/progress.h"
#include "cli/say.h"
#include "cli/search/fleet.h"
#include "search/causes.h"

namespace warren::cli {

Exit complain(const Paint& paint, const std::string& what, const std::string& hint) {
  say("{} {}\n", paint.red("error:"), safe_text(what));
  if (!hint.empty()) say("{} {}\n", paint.yellow("hint:"), safe_text(hint));
  return Exit::usage;
}

namespace {

// Prints the query, and marks the place of the error below it.
Exit complain_about_query(const Paint& paint, std::string_view query, const Error& error) {
  std::size_t column = 0;
  const auto& place = error.subject;
  if (error.cause == search::causes::bad_query)
    std::from_chars(place.data(), place.data() + place.size(), column);
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

bool asks_for_branch(const search::Query& query) {
  return query.kind == search::Query::Kind::branch ||
         std::ranges::any_of(query.parts, [](const auto& part) { return asks_for_branch(*part); });
}

// Clears our progress line on the terminal. On disk we have only unnamed files, which vanish.
void end_cleanly(int number) {
  constexpr std::string_view clear = "\r\x1b[K";
  if (isatty(STDERR_FILENO) != 0) {
    auto wrote = ::write(STDERR_FILENO, clear.data(), clear.size());
    static_cast<void>(wrote);
  }
  kill_children();
  signal(number, SIG_DFL);
  raise(number);
}

class SearchCommand {
 public:
  SearchCommand(SearchOptions options, const Context& context)
      : options_(std::move(options)), context_(context), out_(context.out), err_(context.err) {}

  Exit run() {
    for (int number : {SIGINT, SIGTERM, SIGHUP}) {
      struct sigaction before{};
      // If we were started with nohup or in the background, the signal must stay ignored.
      if (sigaction(number, nullptr, &before) == 0 && before.sa_handler != SIG_IGN)
        signal(number, end_cleanly);
    }
    if (!options_.fleet.empty()) return run_on_fleet();
    auto place = find_place(options_.where, options_.refs);
    if (!place) return complain(err_, place.error().what, hint_for_words());
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
  Exit run_on_fleet() {
    if (auto bad = read_query()) return *bad;
    index_.segments = std::make_shared<search::SegmentList>();
    place_.kind = SearchPlace::Kind::repository;  // paths are those of commits
    auto result = answer();
    for (const auto& one : missing_)
      note(fmt::format("{} was not searched: {}{}{}", safe_text(one.repo), safe_text(one.reason),
                       one.phase.empty() ? "" : " (" + safe_text(one.phase) + ")",
                       one.detail.empty() ? "" : ": " + safe_text(one.detail)));
    auto shown = output_.finish();
    if (!shown) return complain(err_, shown.error().what);
    // No match, but not everything was searched.
    return result == Exit::failed && !missing_.empty() ? Exit::usage : result;
  }

  Result<search::Answer> next_page() {
    if (options_.fleet.empty()) return search::search(*index_.segments, query_, options_.terms);
    missing_.clear();
    auto page = ask_fleet(context_, {options_.fleet, options_.fleet_token, options_.fleet_tls},
                          options_.query, options_.terms, options_.timeout, missing_);
    if (page && options_.show.form != SearchShow::Form::json)
      for (auto& file : page->files) file.path = file.repo + "/" + file.path;
    return page;
  }

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
    for (const auto& text : query_.notes) note(safe_text(text));
    if (query_.kinds.is_any() && options_.fleet.empty())
      note("only a fleet knows what is archived, a fork or public: that limits nothing here");
    if (options_.refs.empty() && asks_for_branch(*query_.root))
      note("without --ref no file belongs to a branch");
    options_.index.wants_symbols = options_.index.wants_symbols || needs_symbols(*query_.root) ||
                                   query_.select == search::Select::symbols;
    return std::nullopt;
  }

  std::optional<Exit> open() {
    Progress progress(err_);
    // Short operations need no bar.
    auto from = isatty(STDERR_FILENO) != 0 ? Clock::now() + 200ms : Clock::time_point::max();
    options_.index.progress = [&](double part, const std::string& text) {
      if (Clock::now() >= from) progress.show(part, text);
    };
    auto index = open_search_index(place_, options_.index);
    // Whatever git's problem is, or if it is not installed: we can still read the files.
    if (!index && place_.kind == SearchPlace::Kind::tree && index.error().code == Errc::refused) {
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

  // What two words may have been meant as, if the first is not a place.
  std::string hint_for_words() const {
    namespace fs = std::filesystem;
    std::error_code ignored;
    if (!options_.where || options_.lists_skipped || fs::is_directory(*options_.where, ignored))
      return "";
    if (fs::is_directory(options_.query, ignored))
      return fmt::format("the place comes first: warren search {} '{}'", options_.query,
                         *options_.where);
    if (fs::exists(*options_.where, ignored))
      return fmt::format("to look into one file: warren search '{} file:{}'", options_.query,
                         fs::path(*options_.where).filename().string());
    return fmt::format("to search for both words, quote them: '{} {}'", *options_.where,
                       options_.query);
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
    std::size_t shown = 0;
    bool has_cursor = !options_.terms.after.empty();
    auto found = print_pages(printer, shown);
    if (!found)
      return complain(
          err_, found.error().what,
          has_cursor ? "without --cursor it begins again" : "docs/query.md has the language");
    if (printer.cut_files() > 0 && found->is_complete) {
      found->is_complete = false;
      found->why_incomplete = "lines";
    }
    if (options_.show.form == SearchShow::Form::json)
      output_.write(json_summary(*found, index_) + '\n');
    output_.flush();
    tell(*found, shown);
    if (shown == 0 && found->is_complete)
      for (const auto& text : query_.guesses) note(safe_text(text));
    if (printer.cut_files() > 0)
      note(fmt::format("{}{} more matching lines than are shown; a pipe shows more",
                       printer.first_cut(),
                       printer.cut_files() == 1
                           ? " has"
                           : fmt::format(" and {} other files have", printer.cut_files() - 1)));
    if (options_.has_stats) say("{}", stats_text(*found, index_));
    return shown > 0 ? Exit::ok : Exit::failed;
  }

  // Shows one page after the other, so that not all are in memory at once. Returns the last page,
  // with totals as if it were the only one.
  Result<search::Answer> print_pages(SearchPrinter& printer, std::size_t& shown) {
    auto& terms = options_.terms;
    if (options_.timeout) terms.deadline = Clock::now() + *options_.timeout;
    query_.below = place_.below;  // one index serves all folders of a repository
    for (;;) {
      auto page = next_page();
      if (!page) return page;
      for (const auto& file : page->files)
        if (!output_.is_closed()) printer.print(file);
      shown += page->files.size();
      terms.most_files -= std::min(terms.most_files, page->files.size());
      terms.after = page->next;
      bool is_last = page->next.empty() || terms.most_files == 0;
      bool is_full = page->why_incomplete == "bytes" || (!options_.fleet.empty() && !is_last);
      if (is_full && !is_last && !output_.is_closed()) continue;
      if (is_full && is_last) {
        page->is_complete = true;
        page->why_incomplete.clear();
      }
      return page;
    }
  }

  void note(const std::string& text) const { say("{} {}\n", err_.yellow("note:"), text); }
  // Warns a person who might take this for the complete result.
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
        else if (options_.show.ends_names)
          output_.write(fmt::format("{}{}{}\n", shown_path(place_, skipped.path), '\0',
                                    safe_text(skipped.reason)));
        else
          output_.write(fmt::format("{}: {}\n", safe_path(shown_path(place_, skipped.path)),
                                    safe_text(skipped.reason)));
      }
    return count > 0 ? Exit::ok : Exit::failed;
  }

  // The reader sees the end of the output now, not only when the index is written.
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
  const Context& context_;
  Paint out_, err_;
  SearchPlace place_;
  search::ParsedQuery query_;
  SearchIndex index_;
  SearchOutput output_;
  std::vector<fleet::Missing> missing_;
};

}  // namespace

Exit run_search(SearchOptions options, const Context& context) {
  return SearchCommand(std::move(options), context).run();
}

}  // namespace warren::cli
