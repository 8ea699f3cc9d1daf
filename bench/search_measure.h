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

// Who takes turns with others; `once` does it and gives the milliseconds.
struct Contender {
  std::function<Result<double>()> once = {};
  std::vector<double> times = {};
  double p50() const { return median(times); }
  double p99() const { return percentile_99(times); }
};
// One run of each, again and again: 5 to warm up, then 30, or as many as fit into 4 s, but 7.
// Whoever fails, or has nothing to do, is out with no times.
void take_turns(std::vector<Contender>& contenders);

// All matches are counted and none is shown; or 50 files with two lines around each match.
search::SearchTerms counting(int threads);
search::SearchTerms bounded();

// A corpus in memory, and what is asked about it.
struct Stage {
  Corpus corpus;
  Whole whole = {};
  std::vector<SegmentPtr> repos = {};
  SegmentPtr with_symbols = {};
  std::vector<QueryClass> classes = {};

  std::span<const SegmentPtr> segments(const QueryClass& of) const;
};
Result<Stage> set_up(const std::string& package, bool with_all);

// Prints the row, and keeps it for the summary when it has a bar or has failed.
void judge(const Row& row);
// The bars, as lines of a table.
void print_summary();

// A child process of ours: loads the repository and prints how long it took. See bench_build.
int build_child(const std::string& repository, const std::string& start, bool is_at_once);

void bench_build(const Corpus& corpus);
void bench_memory(const Stage& stage);
void bench_scan(const Stage& stage);
void bench_classes(const Stage& stage);
void bench_clients(const Stage& stage);
// Beside a server that speaks zoekt's JSON.
Result<> bench_peer(const Stage& stage, const std::string& url);

// Asks one question after the other, as many at once as there are clients, each of them `asker(n)`
// with a number of its own, for so many seconds. All times, in ms.
using Ask = std::function<Result<>(std::size_t question)>;
Result<std::vector<double>> closed_loop(int clients, double seconds,
                                        const std::function<Ask(int client)>& asker);
// Through search::Lanes with two threads.
Result<std::vector<double>> loop_of_ours(const Stage& stage,
                                         const std::vector<const QueryClass*>& classes, int clients,
                                         double seconds);
// Those that are asked about the whole and not refused.
std::vector<const QueryClass*> mixed(const Stage& stage);

}  // namespace warren::bench
