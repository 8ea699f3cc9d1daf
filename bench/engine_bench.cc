// What a query costs, beside a probe of what memory can do; run by hand:
//   engine_bench DIRECTORY|REPOSITORY [QUERY…]
#include <sys/resource.h>
#include <time.h>

#include <algorithm>
#include <filesystem>

#include "measure.h"
#include "report.h"
#include "search/document.h"
#include "search/literal.h"
#include "search/search.h"

namespace warren::bench {
namespace {

using namespace warren::search;

constexpr std::string_view default_queries[] = {
    "content:zqxjkvbnw case:yes count:all",
    "zqxjkvbnw case:yes count:all",
    "hrtimer_start_range_ns case:yes count:all",
    "copy_from_user case:yes count:all",
    "spin_lock_irqsave case:yes count:all",
    "return case:yes count:all",
    "return case:yes",
    "mutex_lock case:no count:all",
    "linus case:no count:all",
    "fo case:yes count:all",
    "(read|write)_seq(lock|unlock) case:yes count:all",
    "kmalloc\\([^,]+,\\s*GFP_ATOMIC\\) case:yes count:all",
    "struct\\s+\\w+_operations\\s+\\w+\\s*= case:yes count:all",
    "^#define\\s+[A-Z_]+_MAX\\b case:yes count:all",
    "[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4} case:yes count:all",
    "\\bint\\s+\\w+\\s*=\\s*0; case:yes count:all",
    "mutex_lock mutex_trylock case:yes count:all",
    "netif_rx file:drivers/net/.*\\.c$ case:yes count:all",
    "kmalloc -file:drivers case:yes count:all",
    "file:sched.*\\.c$",
    "{\\n\\s*return\\s0;\\n} case:yes count:all",
};

double now_of(clockid_t clock) {
  timespec time{};
  clock_gettime(clock, &time);
  return static_cast<double>(time.tv_sec) * 1e3 + static_cast<double>(time.tv_nsec) / 1e6;
}

// The least of several runs: others use the machine as well.
template <class Work>
double milliseconds(const Work& work, clockid_t clock = CLOCK_THREAD_CPUTIME_ID) {
  double least = 1e9, spent = 0;
  for (int i = 0; i < 31 && (i < 7 || spent < 1500); ++i) {
    auto start = now_of(clock);
    work();
    double time = now_of(clock) - start;
    least = std::min(least, time);
    spent += time;
  }
  return least;
}

void probe(const Segment& segment) {
  auto text = segment.arena();
  std::uint64_t sum = 0;
  double bandwidth = milliseconds([&] { sum += sum_bytes(text); });
  for (std::string_view needle : {"zqxjkvbnw", "\x01\x02", "hrtimer_start_range_nz"}) {
    for (bool ignores_case : {false, true}) {
      Literal literal(needle, ignores_case);
      double time = milliseconds([&] { sum += literal.find(text) != std::string_view::npos; });
      print({.bench = fmt::format("search.scan {} bytes{}", needle.size(),
                                  ignores_case ? " any case" : ""),
             .value = static_cast<double>(text.size()) / time / 1e6,
             .unit = "GB/s",
             .peer = "read every byte",
             .peer_value = static_cast<double>(text.size()) / bandwidth / 1e6,
             .bar = 0.7});
    }
  }
  if (sum == 0) fmt::print(stderr, "\n");
}

// What the process and git, its child, have used so far.
double cpu_seconds() {
  double sum = 0;
  for (int who : {RUSAGE_SELF, RUSAGE_CHILDREN}) {
    rusage used{};
    getrusage(who, &used);
    sum += static_cast<double>(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
           static_cast<double>(used.ru_utime.tv_usec + used.ru_stime.tv_usec) / 1e6;
  }
  return sum;
}

Result<std::shared_ptr<const Segment>> build(const std::string& path) {
  SegmentBuilder builder;
  SourceLimits limits{.file_bytes = 2u << 20};
  auto start = Clock::now();
  auto take = [&](Document&& document) { return builder.add(std::move(document)); };
  auto say = [&](std::string_view what, std::size_t bytes) {
    fmt::print(stderr, "{}: {:.2f} s, {:.2f} s of processors, {:.0f} MB/s per core\n", what,
               seconds_since(start), cpu_seconds(),
               static_cast<double>(bytes) / cpu_seconds() / 1e6);
  };
  bool is_git = std::filesystem::exists(path + "/objects");
  auto source =
      is_git ? read_repository(path, {}, limits, take) : read_directory(path, limits, take);
  if (!source) return std::unexpected(source.error());
  auto scannable = builder.scannable(std::move(*source));
  if (!scannable) return scannable;
  say("searchable", (*scannable)->arena().size());
  auto segment = SegmentBuilder::with_index(**scannable, {});
  if (!segment) return segment;
  say("with index", (*segment)->arena().size());
  fmt::print(stderr, "{} files, {} blocks, {} MB, {:.3f} bytes kept per byte\n",
             (*segment)->file_count(), (*segment)->block_count(), (*segment)->memory().text >> 20,
             static_cast<double>((*segment)->memory().total()) /
                 static_cast<double>((*segment)->arena().size()));
  return segment;
}

void measure(const std::shared_ptr<const Segment>& segment, const ParsedQuery& query,
             std::string_view text) {
  for (std::size_t files : {0u, 50u}) {
    Answer answer;
    for (int threads : {1, 2}) {
      SearchTerms terms{.most_files = files, .threads = threads};
      double time =
          milliseconds([&] { answer = *search::search(std::span(&segment, 1), query, terms); },
                       threads == 1 ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC);
      fmt::print(stderr, "{:9.3f} {}", time, threads == 1 ? "ms cpu," : "ms wall of 2 ");
    }
    fmt::print(stderr,
               "(plan {:.3f}, find {:.3f}, rank {:.3f}) {:>8} in {:>6}, shown {:>4}, "
               "{:>6} blocks {:>4} keys  {}\n",
               static_cast<double>(answer.stats.plan.count()) / 1e6,
               static_cast<double>(answer.stats.find.count()) / 1e6,
               static_cast<double>(answer.stats.rank.count()) / 1e6, answer.match_count,
               answer.file_count, answer.files.size(), answer.stats.candidate_blocks,
               answer.stats.keys, text);
  }
}

int run(int count, char** words) {
  if (count < 2)
    return fmt::print(stderr, "usage: engine_bench DIRECTORY|REPOSITORY [QUERY…]\n"), 2;
  auto segment = build(words[1]);
  if (!segment) return fmt::print(stderr, "{}\n", segment.error().what), 1;
  std::vector<std::string_view> queries(words + 2, words + count);
  if (queries.empty()) {
    queries.assign(std::begin(default_queries), std::end(default_queries));
    probe(**segment);
  }
  for (auto text : queries) {
    auto query = parse_query(text);
    if (!query) return fmt::print(stderr, "{}\n", query.error().what), 1;
    measure(*segment, *query, text);
  }
  return 0;
}

}  // namespace
}  // namespace warren::bench

int main(int count, char** words) { return warren::bench::run(count, words); }
