// How fast a repository becomes searchable, how much memory it takes, and how fast it is scanned.
#include <sys/resource.h>

#include <array>
#include <charconv>
#include <thread>

#include "measure.h"
#include "search/literal.h"
#include "search/warm.h"
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

// As build_child prints it: since its start, and of the processor, git's part included.
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

template <class Work>
double milliseconds(const Work& work) {
  std::vector<Contender> one{{.once = [&]() -> Result<double> {
    auto start = Clock::now();
    work();
    return seconds_since(start) * 1e3;
  }}};
  take_turns(one);
  return one[0].p50();
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
  auto bytes = static_cast<double>(text.size());
  auto half = text.size() / 2;
  std::atomic<std::uint64_t> sum = 0;
  double one = milliseconds([&] { sum += search::sum_bytes(text); });
  double two = milliseconds([&] {
    std::jthread other([&] { sum += search::sum_bytes(text.substr(half)); });
    sum += search::sum_bytes(text.substr(0, half));
  });
  auto name = "search." + stage.corpus.package;
  print({.bench = name + ".probe_1", .value = gigabytes(bytes, one), .unit = "GB/s"});
  print({.bench = name + ".probe_2", .value = gigabytes(bytes, two), .unit = "GB/s"});
  auto row = [&](const std::string& what, double ms, double probe) {
    Row found{.bench = name + what,
              .value = gigabytes(bytes, ms),
              .unit = "GB/s",
              .peer = "read every byte",
              .peer_value = gigabytes(bytes, probe)};
    if (stage.corpus.is_linux()) found.bar = 0.7;
    judge(found);
  };
  for (bool ignores_case : {false, true}) {
    search::Literal literal("hrtimer_start_range_nz", ignores_case);
    row(ignores_case ? ".scan_any_case" : ".scan",
        milliseconds([&] { sum += literal.find(text) != text.npos; }), one);
  }
  // The same by the engine, before there is an index.
  auto query = search::parse_query("content:hrtimer_start_range_nz case:yes");
  ensure(query.has_value(), "the queries of a benchmark are sound");
  for (int threads : {1, 2}) {
    double ms = milliseconds([&] {
      auto answer = search::search({&stage.whole.scannable, 1}, *query, counting(threads));
      sum += answer ? answer->match_count + 1 : 0;
    });
    row(fmt::format(".scan_by_engine_{}", threads), ms, threads == 1 ? one : two);
  }
  if (sum == 0) fmt::print(stderr, "\n");
}

}  // namespace warren::bench
