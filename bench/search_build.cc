// How fast a repository becomes searchable, how much memory it takes, and how fast it is scanned.
#include <sys/resource.h>

#include <array>
#include <atomic>
#include <charconv>
#include <thread>

#include "measure.h"
#include "search/index/warm.h"
#include "search/text/literal.h"
#include "search_measure.h"

namespace warren::bench {

namespace {

using search::SegmentBuilder;

double processor_seconds(int whose) {
  rusage used{};
  getrusage(whose, &used);
  auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
  };
  return seconds(used.ru_utime) + seconds(used.ru_stime);
}

std::int64_t now_ns() { return Clock::now().time_since_epoch().count(); }

// As build_child prints it: time since its start, and processor time, including git's.
struct Built {
  double bytes = 0, scannable = 0, scannable_cpu = 0, indexed = 0, indexed_cpu = 0;
};

Result<Built> build_once(const Corpus& corpus, bool is_at_once) {
  Command command{.argv = {"/proc/self/exe", is_at_once ? "--build" : "--build-in-steps",
                           corpus.repository, std::to_string(now_ns())}};
  auto outcome = run_command(command);
  if (!outcome) return std::unexpected(outcome.error());
  std::array<double, 5> n{};
  const char* at = outcome->output.data();
  const char* end = at + outcome->output.size();
  for (double& number : n) {
    while (at < end && *at == ' ') ++at;
    auto read = std::from_chars(at, end, number);
    if (read.ec != std::errc()) return fail(Errc::protocol, "building {} failed", corpus.package);
    at = read.ptr;
  }
  return Built{n[0], n[1], n[2], n[3], n[4]};
}

Contender contender(std::function<void()> work) {
  return {.once = [work = std::move(work)]() -> Result<double> {
    auto start = Clock::now();
    work();
    return seconds_since(start) * 1e3;
  }};
}

double gigabytes(double bytes, double ms) { return bytes / ms / 1e6; }

}  // namespace

int build_child(const std::string& repository, const std::string& start, bool is_at_once) {
  std::int64_t began = 0;
  std::from_chars(start.data(), start.data() + start.size(), began);
  Built built;
  auto stop = [&](double& wall, double& cpu) {
    wall = static_cast<double>(now_ns() - began) / 1e9;
    cpu = processor_seconds(RUSAGE_SELF) + processor_seconds(RUSAGE_CHILDREN);
  };
  SegmentBuilder builder;
  auto source =
      search::read_repository(repository, {}, file_limits, [&](search::Document&& document) {
        built.bytes += static_cast<double>(document.text.size());
        return builder.add(std::move(document));
      });
  if (!source) return fmt::print(stderr, "{}\n", source.error().what), 1;
  auto segment =
      is_at_once ? builder.build(std::move(*source)) : builder.scannable(std::move(*source));
  if (!segment) return fmt::print(stderr, "{}\n", segment.error().what), 1;
  stop(built.scannable, built.scannable_cpu);
  if (!is_at_once) segment = SegmentBuilder::with_index(**segment, {});
  if (!segment) return fmt::print(stderr, "{}\n", segment.error().what), 1;
  stop(built.indexed, built.indexed_cpu);
  fmt::print("{} {} {} {} {}\n", built.bytes, built.scannable, built.scannable_cpu, built.indexed,
             built.indexed_cpu);
  return 0;
}

void bench_build(const Corpus& corpus) {
  fmt::print(stderr, "search: building {} from its pack\n", corpus.package);
  std::vector<double> scan, scan_core, index, index_core;
  for (int round = 0; round < 4; ++round) {  // the first one warms up
    auto steps = build_once(corpus, false), whole = build_once(corpus, true);
    if (!steps || !whole) {
      fmt::print(stderr, "search: {}\n", (steps ? whole : steps).error().what);
      return;
    }
    if (round == 0) continue;
    double mb = steps->bytes / 1e6;
    scan.push_back(mb / steps->scannable);
    scan_core.push_back(mb / steps->scannable_cpu);
    index.push_back(mb / whole->indexed);
    index_core.push_back(mb / whole->indexed_cpu);
  }
  auto name = fmt::format("search.{}.build", corpus.package);
  print({.bench = name + ".scannable.wall", .value = median(scan), .unit = "MB/s"});
  judge(
      {.bench = name + ".scannable", .value = median(scan_core), .unit = "MB/s/core", .bar = 100});
  print({.bench = name + ".indexed.wall", .value = median(index), .unit = "MB/s"});
  judge({.bench = name + ".indexed", .value = median(index_core), .unit = "MB/s/core", .bar = 100});
}

void bench_memory(const Stage& stage) {
  auto bytes = static_cast<double>(stage.whole.text_bytes);
  auto name = fmt::format("search.{}.bytes_per_byte", stage.corpus.package);
  auto row = [&](const char* tier, const SegmentPtr& segment, std::optional<double> bar) {
    judge({.bench = name + tier,
           .value = static_cast<double>(segment->memory().total()) / bytes,
           .unit = "bytes",
           .bar = bar,
           .better = Better::lower});
  };
  row(".hot", stage.whole.indexed, 1.25);
  auto warm = search::cooled(*stage.whole.indexed, {});
  if (warm) row(".warm", *warm, 0.5);
  if (stage.with_symbols) row(".hot_with_symbols", stage.with_symbols, {});
}

void bench_scan(const Stage& stage) {
  fmt::print(stderr, "search: {} scans\n", stage.corpus.package);
  auto text = stage.whole.indexed->arena();
  auto half = text.size() / 2;
  std::atomic<std::uint64_t> sum = 0;  // prevents the compiler from removing the work
  constexpr std::string_view needle = "hrtimer_start_range_nz";
  search::Literal literal(needle, false), any_case(needle, true);
  auto query = search::parse_query(fmt::format("content:{} case:yes", needle));
  ensure(query.has_value(), "the queries of a benchmark are sound");
  // By the search engine, before there is an index.
  auto by_engine = [&](int threads) {
    auto answer = search::search({&stage.whole.scannable, 1}, *query, counting(threads));
    sum += answer ? answer->match_count + 1 : 0;
  };
  std::vector<Contender> all{
      contender([&] { sum += search::sum_bytes(text); }),
      contender([&] {
        std::jthread other([&] { sum += search::sum_bytes(text.substr(half)); });
        sum += search::sum_bytes(text.substr(0, half));
      }),
      contender([&] { sum += literal.find(text); }),
      contender([&] { sum += any_case.find(text); }),
      contender([&] { by_engine(1); }),
      contender([&] { by_engine(2); })};
  take_turns(all);
  auto name = "search." + stage.corpus.package;
  auto rate = [&](std::size_t place) {
    return gigabytes(static_cast<double>(text.size()), all[place].p50());
  };
  print({.bench = name + ".probe_1", .value = rate(0), .unit = "GB/s"});
  print({.bench = name + ".probe_2", .value = rate(1), .unit = "GB/s"});
  auto row = [&](const char* what, std::size_t place, std::size_t probe) {
    Row found{.bench = name + what,
              .value = rate(place),
              .unit = "GB/s",
              .peer = "read every byte",
              .peer_value = rate(probe)};
    if (stage.corpus.is_linux()) found.bar = 0.7;
    judge(found);
  };
  row(".scan", 2, 0);
  row(".scan_any_case", 3, 0);
  row(".scan_by_engine_1", 4, 0);
  row(".scan_by_engine_2", 5, 1);
  if (sum == 0) fmt::print(stderr, "\n");
}

}  // namespace warren::bench
