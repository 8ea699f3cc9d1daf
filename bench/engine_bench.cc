// What a query costs, beside a probe of what memory can do; run by hand:
//   engine_bench DIRECTORY [QUERY…]
#include <time.h>

#include <algorithm>

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

template <class Work>
double milliseconds(const Work& work) {
  std::vector<double> times;
  double spent = 0;
  auto now = [] {
    timespec time{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return static_cast<double>(time.tv_sec) * 1e3 + static_cast<double>(time.tv_nsec) / 1e6;
  };
  for (int i = 0; i < 31 && (i < 7 || spent < 2000); ++i) {
    auto start = now();
    work();
    times.push_back(now() - start);
    spent += times.back();
  }
  // The processor's time, and the least: others use the machine as well.
  return *std::ranges::min_element(times);
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

int run(int count, char** words) {
  if (count < 2) return fmt::print(stderr, "usage: engine_bench DIRECTORY [QUERY…]\n"), 2;
  SegmentBuilder builder;
  auto start = Clock::now();
  auto source = read_directory(words[1], {.file_bytes = 2u << 20}, [&](Document&& document) {
    return builder.add(std::move(document));
  });
  if (!source) return fmt::print(stderr, "{}\n", source.error().what), 1;
  auto segment = builder.build(std::move(*source));
  if (!segment) return fmt::print(stderr, "{}\n", segment.error().what), 1;
  fmt::print(stderr, "{} files, {} blocks, {} MB in {:.1f} s\n", (*segment)->file_count(),
             (*segment)->block_count(), (*segment)->memory().text >> 20, seconds_since(start));
  probe(**segment);
  std::vector<std::string_view> queries(words + 2, words + count);
  if (queries.empty()) queries.assign(std::begin(default_queries), std::end(default_queries));
  for (auto text : queries) {
    auto query = parse_query(text);
    if (!query) return fmt::print(stderr, "{}\n", query.error().what), 1;
    for (std::size_t files : {0u, 50u, 1000u}) {
      SearchTerms terms{.most_files = files};
      Answer answer;
      double time =
          milliseconds([&] { answer = *search::search(std::span(&*segment, 1), *query, terms); });
      fmt::print(stderr,
                 "{:9.3f} ms (plan {:.3f}, find {:.3f}, rank {:.3f}) {:>8} in {:>6}, shown {:>4}, "
                 "{:>6} blocks {:>4} keys  {}\n",
                 time, static_cast<double>(answer.stats.plan.count()) / 1e6,
                 static_cast<double>(answer.stats.find.count()) / 1e6,
                 static_cast<double>(answer.stats.rank.count()) / 1e6, answer.match_count,
                 answer.file_count, answer.files.size(), answer.stats.candidate_blocks,
                 answer.stats.keys, text);
    }
  }
  return 0;
}

}  // namespace
}  // namespace warren::bench

int main(int count, char** words) { return warren::bench::run(count, words); }
