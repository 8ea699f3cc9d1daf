#pragma once
// The parts of `make bench PART=search`, and what they share.
#include <functional>
#include <string>
#include <vector>

#include "base/error.h"
#include "report.h"
#include "search/query/search.h"
#include "search_corpus.h"
#include "search_queries.h"

namespace warren::bench {

// One of several that take turns. `once` runs it and returns the milliseconds.
struct Contender {
  std::function<Result<double>()> once = {};
  std::vector<double> times = {};
  double p50() const { return median(times); }
  double p99() const { return percentile_99(times); }
};
// Runs each once per round: 5 rounds to warm up, then 30, or as many as fit into 4 s, but at least
// 7. A contender that fails, or has nothing to do, drops out without times.
void take_turns(std::vector<Contender>& contenders);

// Counts all matches and shows none; or shows 50 files with two lines around each match.
search::SearchTerms counting(int threads);
search::SearchTerms bounded();

// A corpus in memory, and the queries about it.
struct Stage {
  Corpus corpus;
  Whole whole = {};
  std::vector<SegmentPtr> repos = {};
  SegmentPtr with_symbols = {};
  std::vector<QueryClass> classes = {};

  std::span<const SegmentPtr> segments(const QueryClass& of) const;
};
Result<Stage> set_up(const std::string& package, bool with_all);

// Prints the row. Keeps it for the summary if it has a bar or has failed.
void judge(const Row& row);
// The bars, as lines of a table.
void print_summary();

// Runs as a child process: loads the repository and prints how long that took. See bench_build.
int build_child(const std::string& repository, const std::string& start, bool is_at_once);

void bench_build(const Corpus& corpus);
void bench_memory(const Stage& stage);
void bench_scan(const Stage& stage);
void bench_classes(const Stage& stage);
void bench_clients(const Stage& stage);
// Compares with a server that speaks zoekt's JSON.
Result<> bench_peer(const Stage& stage, const std::string& url);

// Asks one question after the other for this many seconds, with this many clients in parallel. Each
// uses its own `asker(n)`. Returns all times, in ms.
using Ask = std::function<Result<>(std::size_t question)>;
Result<std::vector<double>> closed_loop(int clients, double seconds,
                                        const std::function<Ask(int client)>& asker);
// Through search::Lanes with two threads.
Result<std::vector<double>> loop_of_ours(const Stage& stage,
                                         const std::vector<const QueryClass*>& classes, int clients,
                                         double seconds);
// The classes that search the whole corpus and are not refused.
std::vector<const QueryClass*> mixed(const Stage& stage);

}  // namespace warren::bench
