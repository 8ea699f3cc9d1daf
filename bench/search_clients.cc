// Many concurrent clients.
#include <future>
#include <mutex>
#include <thread>

#include "measure.h"
#include "search/query/lanes.h"
#include "search_measure.h"

namespace warren::bench {

std::vector<const QueryClass*> mixed(const Stage& stage) {
  std::vector<const QueryClass*> classes;
  for (const auto& one : stage.classes)
    if (one.over == Over::one && !one.is_refused) classes.push_back(&one);
  return classes;
}

Result<std::vector<double>> closed_loop(int clients, double seconds,
                                        const std::function<Ask(int client)>& asker) {
  std::vector<double> times;
  Result<> outcome = ok;
  std::mutex mutex;
  auto start = Clock::now();
  auto client = [&](int number) {
    Ask ask = asker(number);
    std::vector<double> own;
    Result<> answered = ok;
    // Each starts at a different query, so that they do not all send the same one.
    for (std::size_t i = static_cast<std::size_t>(number) * 5; seconds_since(start) < seconds;
         ++i) {
      auto begin = Clock::now();
      answered = ask(i);
      if (!answered) break;
      own.push_back(seconds_since(begin) * 1e3);
    }
    std::lock_guard guard(mutex);
    times.insert(times.end(), own.begin(), own.end());
    if (!answered) outcome = answered;
  };
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < clients; ++i) threads.emplace_back(client, i);
  }
  if (!outcome) return std::unexpected(outcome.error());
  return times;
}

Result<std::vector<double>> loop_of_ours(const Stage& stage,
                                         const std::vector<const QueryClass*>& classes, int clients,
                                         double seconds) {
  std::vector<search::ParsedQuery> queries;
  for (const auto* one : classes) {
    auto query = search::parse_query(one->query);
    ensure(query.has_value(), "the queries of a benchmark are sound");
    queries.push_back(std::move(*query));
  }
  search::Lanes lanes(2);
  auto ask = [&](std::size_t question) -> Result<> {
    const auto& query = queries[question % queries.size()];
    std::promise<Result<>> done;
    auto answered = done.get_future();
    auto terms = bounded();
    terms.deadline = Clock::now() + 10s;
    search::Search searching({stage.whole.indexed}, query, terms);
    auto submitted = lanes.submit([&](Clock::time_point until) {
      if (!searching.run(until)) return false;
      auto answer = searching.answer();
      if (!answer)
        done.set_value(std::unexpected(answer.error()));
      else if (answer->why_incomplete == "time")
        done.set_value(fail(Errc::timeout, "not done within 10 s"));
      else
        done.set_value(ok);
      return true;
    });
    if (!submitted) return std::unexpected(submitted.error());
    return answered.get();
  };
  return closed_loop(clients, seconds, [&](int) -> Ask { return ask; });
}

void bench_clients(const Stage& stage) {
  fmt::print(stderr, "search: {} clients at once\n", stage.corpus.package);
  constexpr double seconds = 10;
  for (int clients : {1, 8}) {
    auto times = loop_of_ours(stage, mixed(stage), clients, seconds);
    if (!times || times->empty()) {
      fmt::print(stderr, "search: {}\n", times ? "no answer" : times.error().what);
      continue;
    }
    auto name = fmt::format("search.{}.clients_{}", stage.corpus.package, clients);
    Row row{.bench = name + ".p99",
            .value = percentile_99(*times),
            .unit = "ms",
            .better = Better::lower};
    if (clients == 8) row.bar = 300;
    judge(row);
    print({.bench = name + ".p50", .value = median(*times), .unit = "ms"});
    print({.bench = name + ".rate",
           .value = static_cast<double>(times->size()) / seconds,
           .unit = "1/s"});
  }
}

}  // namespace warren::bench
