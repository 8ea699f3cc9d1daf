// Every class of queries: checks the answer first, then the time, compared with ripgrep and git
// grep.
#include "measure.h"
#include "search_measure.h"

namespace warren::bench {

namespace {

using search::Answer, search::ParsedQuery;

struct Line {  // of the table for people
  std::string name;
  std::uint64_t matches = 0;
  std::size_t files = 0;
  std::optional<double> one = {}, two = {}, bounded = {}, process = {}, rg = {}, git = {};
};

Result<Answer> ask(const Stage& stage, const QueryClass& of, const ParsedQuery& query,
                   const search::SearchTerms& terms) {
  return search::search(stage.segments(of), query, terms);
}

// All lines of all files.
Result<Counts> counts_of_ours(const Stage& stage, const QueryClass& of, const ParsedQuery& query) {
  constexpr std::size_t all = SIZE_MAX / 2;
  auto answer = ask(stage, of, query,
                    {.most_matches = 0,
                     .most_files = all,
                     .lines_per_file = all,
                     .answer_bytes = all,
                     .line_bytes = 16,
                     .threads = 2});
  if (!answer) return std::unexpected(answer.error());
  if (!answer->is_complete) return fail(Errc::timeout, "incomplete: {}", answer->why_incomplete);
  Counts counts;
  bool is_path = of.rg && of.rg->prints == Command::Prints::paths;
  for (const auto& file : answer->files) {
    std::uint64_t count = is_path ? 1 : of.counts_matches ? file.match_count : file.lines.size();
    if (count > 0) counts[file.path] = count;  // 0: only the path matches
  }
  return counts;
}

std::string compare(const Counts& ours, const std::optional<Command>& command) {
  auto theirs = run_command(*command);
  if (!theirs) return theirs.error().what;
  return difference(ours, read_counts(*command, theirs->output));
}

// A short query right after another program finds cold caches, unlike in a server that answers one
// query after the other. So it runs twice, and the first time is recorded separately.
Contender in_process(const Stage& stage, const QueryClass& of, const ParsedQuery& query,
                     const search::SearchTerms& terms, std::vector<double>* cold = nullptr) {
  return {.once = [&stage, &of, &query, terms, cold]() -> Result<double> {
    constexpr double short_ms = 5;
    double ms = 0;
    for (int turn = 0; turn < 2; ++turn) {
      auto start = Clock::now();
      auto answer = ask(stage, of, query, terms);
      if (!answer) return std::unexpected(answer.error());
      ms = seconds_since(start) * 1e3;
      if (turn == 0 && cold) cold->push_back(ms);
      if (ms > short_ms) break;
    }
    return ms;
  }};
}

Contender process(const Command& command) {
  return {.once = [&command]() -> Result<double> {
    auto outcome = run_command(command);
    if (!outcome) return std::unexpected(outcome.error());
    return outcome->seconds * 1e3;
  }};
}

class ClassBench {
 public:
  ClassBench(const Stage& stage, const QueryClass& of) : stage_(stage), of_(of) {
    name_ = fmt::format("search.{}.{}", stage.corpus.package, of.name);
  }

  Line run() {
    auto query = search::parse_query(of_.query);
    ensure(query.has_value(), "the queries of a benchmark are sound");
    query->count = {};
    if (of_.is_refused) return refused(*query);
    std::vector<Contender> all{in_process(stage_, of_, *query, counting(1), &cold_),
                               in_process(stage_, of_, *query, counting(2)),
                               in_process(stage_, of_, *query, bounded())};
    // report() relies on this order.
    for (const auto& command : {&of_.rg, &of_.git, &of_.ours})
      all.push_back(*command ? process(**command) : Contender{});
    Line line{.name = of_.name};
    std::optional<std::string> from_rg, from_git;
    auto ours = counts_of_ours(stage_, of_, *query);
    if (!ours) {
      from_rg = ours.error().what;
    } else {
      for (const auto& [path, count] : *ours) line.matches += count;
      line.files = ours->size();
      if (of_.rg) from_rg = compare(*ours, of_.rg);
      if (of_.git) from_git = compare(*ours, of_.git);
    }
    take_turns(all);
    report(all, from_rg, from_git, line);
    return line;
  }

 private:
  // A query that would list everything is rejected.
  Line refused(const ParsedQuery& query) {
    std::vector<Contender> all{{.once = [&]() -> Result<double> {
      auto start = Clock::now();
      auto answer = ask(stage_, of_, query, counting(1));
      if (answer) return fail(Errc::invalid, "{} was answered", of_.name);
      return seconds_since(start) * 1e3;
    }}};
    take_turns(all);
    Line line{.name = of_.name + " (refused)"};
    if (all[0].times.empty()) return line;
    line.one = all[0].p50();
    print({.bench = name_ + ".refused", .value = all[0].p50(), .unit = "ms", .p99 = all[0].p99()});
    return line;
  }

  void report(const std::vector<Contender>& all, const std::optional<std::string>& from_rg,
              const std::optional<std::string>& from_git, Line& line) {
    auto known = [&](std::size_t place) {
      return all[place].times.empty() ? nullptr : &all[place];
    };
    const Contender *rg = known(3), *git = known(4), *ours_whole = known(5);
    auto beside = [&](const char* variant, const Contender& ours, const char* peer,
                      const Contender* theirs, const std::optional<std::string>& differs) {
      if (ours.times.empty()) return;
      Row row{.bench = name_ + variant, .value = ours.p50(), .unit = "ms", .p99 = ours.p99()};
      if (theirs) {
        row.peer = peer;
        row.peer_value = theirs->p50();
        row.peer_p99 = theirs->p99();
      }
      row.difference = differs;
      row.better = Better::lower;
      if (of_.name == "03_rare_identifier" && stage_.corpus.is_linux() && theirs == rg &&
          &ours != ours_whole)
        row.bar = 1.0 / 500;
      judge(row);
    };
    beside(".engine_1", all[0], "rg -j2", rg, from_rg);
    beside(".engine_2", all[1], "rg -j2", rg, from_rg);
    if (git) beside(".engine_2.git", all[1], "git grep", git, from_git);
    beside(".bounded", all[2], "", nullptr, {});
    if (ours_whole) beside(".process", *ours_whole, "rg -j2", rg, {});
    if (!cold_.empty())
      print({.bench = name_ + ".engine_1.after_others", .value = median(cold_), .unit = "ms"});
    if (of_.target_ms)
      judge({.bench = name_ + ".target",
             .value = all[1].p50(),
             .unit = "ms",
             .bar = of_.target_ms,
             .better = Better::lower,
             .p99 = all[1].p99()});
    line.one = all[0].p50();
    line.two = all[1].p50();
    line.bounded = all[2].p50();
    if (ours_whole) line.process = ours_whole->p50();
    if (rg) line.rg = rg->p50();
    if (git) line.git = git->p50();
  }

  const Stage& stage_;
  const QueryClass& of_;
  std::string name_;
  std::vector<double> cold_;
};

void print_table(const Stage& stage, const std::vector<Line>& lines) {
  auto ms = [](std::optional<double> time) {
    if (!time) return std::string();
    return *time >= 100 ? fmt::format("{:.0f}", *time) : fmt::format("{:.3g}", *time);
  };
  fmt::print(stderr,
             "\n| {}, ms p50 | lines / files | 1 thread | 2 threads | bounded | process | rg -j2 | "
             "git grep | "
             "rg / ours |\n|---|---|---|---|---|---|---|---|---|\n",
             stage.corpus.package);
  for (const auto& line : lines) {
    auto times = line.rg && line.two ? fmt::format("{:.0f}", *line.rg / *line.two) : "";
    fmt::print(stderr, "| `{}` | {} / {} | {} | {} | {} | {} | {} | {} | {} |\n", line.name,
               line.matches, line.files, ms(line.one), ms(line.two), ms(line.bounded),
               ms(line.process), ms(line.rg), ms(line.git), times);
  }
}

}  // namespace

void bench_classes(const Stage& stage) {
  std::vector<Line> lines;
  for (const auto& of : stage.classes) {
    fmt::print(stderr, "search: {} {}\n", stage.corpus.package, of.name);
    lines.push_back(ClassBench(stage, of).run());
  }
  print_table(stage, lines);
}

}  // namespace warren::bench
