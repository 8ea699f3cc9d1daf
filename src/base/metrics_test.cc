#include "base/metrics.h"

#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmath>
#include <csignal>
#include <iostream>
#include <thread>

using namespace warren;

namespace {

// Runs the function in a child process and returns whether it aborted.
template <class Function>
bool aborts(Function function) {
  std::cout.flush();  // or the child prints it again
  pid_t child = fork();
  if (child == 0) {
    close(STDERR_FILENO);
    signal(SIGABRT, SIG_DFL);
    function();
    _exit(0);
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  return WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT;
}

}  // namespace

TEST_CASE("a counter appears in the text format with its help, type and labels") {
  Metrics metrics;
  auto lost = metrics.counter("warren_lease_renewals_total", "Renewals.", {{"outcome", "lost"}});
  lost.add();
  lost.add(2);
  CHECK(metrics.exposition() ==
        "# HELP warren_lease_renewals_total Renewals.\n"
        "# TYPE warren_lease_renewals_total counter\n"
        "warren_lease_renewals_total{outcome=\"lost\"} 3\n");
}

TEST_CASE("the same name and labels give the same metric, other labels another") {
  Metrics metrics;
  metrics.counter("a_total", "A.", {{"k", "1"}}).add(1);
  metrics.counter("a_total", "A.", {{"k", "1"}}).add(1);
  metrics.counter("a_total", "A.", {{"k", "2"}}).add(5);
  CHECK(metrics.counter("a_total", "A.", {{"k", "1"}}).value() == 2);
  CHECK(metrics.counter("a_total", "A.", {{"k", "2"}}).value() == 5);
}

TEST_CASE("a label's value may hold anything, and is escaped") {
  Metrics metrics;
  metrics.gauge("g", "G.", {{"k", "a\"b\\c\nd"}}).set(1);
  CHECK(metrics.exposition().contains(R"(g{k="a\"b\\c\nd"} 1)"));
}

TEST_CASE("a gauge goes up and down") {
  Metrics metrics;
  auto gauge = metrics.gauge("warren_election_is_leader", "Leading.");
  gauge.set(1.5);
  gauge.add(-0.5);
  CHECK(gauge.value() == 1);
  CHECK(metrics.exposition().contains("\nwarren_election_is_leader 1\n"));
}

TEST_CASE("a histogram counts each value in all buckets that hold it") {
  Metrics metrics;
  auto seconds = metrics.histogram("h_seconds", "H.", {0.1, 1});
  seconds.observe(0.05);
  seconds.observe(0.1);
  seconds.observe(0.5);
  seconds.observe(7);
  auto text = metrics.exposition();
  CHECK(text.contains("h_seconds_count 4\n"));
  CHECK(text.contains("h_seconds_sum 7.65"));
  CHECK(text.contains("h_seconds_bucket{le=\"0.1\"} 2\n"));
  CHECK(text.contains("h_seconds_bucket{le=\"1\"} 3\n"));
  CHECK(text.contains("h_seconds_bucket{le=\"+Inf\"} 4\n"));
}

TEST_CASE("a histogram takes counts that were made elsewhere") {
  Metrics metrics;
  auto seconds = metrics.histogram("h_seconds", "H.", {0.1, 1});
  std::uint64_t counts[] = {3, 0, 1};
  seconds.add(counts, 5.5);
  seconds.add(counts, 5.5);
  auto text = metrics.exposition();
  CHECK(text.contains("h_seconds_bucket{le=\"1\"} 6\n"));
  CHECK(text.contains("h_seconds_count 8\n"));
  CHECK(text.contains("h_seconds_sum 11\n"));
}

TEST_CASE("plain integers are copied at each exposition for as long as their owner lives") {
  Metrics metrics;
  auto counter = metrics.counter("sent_total", "Sent.");
  std::uint64_t sent = 0;
  auto collecting = metrics.on_collect([&, counter]() mutable { counter.raise_to(double(sent)); });
  sent = 7;
  CHECK(metrics.exposition().contains("sent_total 7\n"));
  sent = 9;
  CHECK(metrics.exposition().contains("sent_total 9\n"));
  sent = 3;  // a counter never falls
  CHECK(metrics.exposition().contains("sent_total 9\n"));
  collecting.reset();
  sent = 100;
  CHECK(metrics.exposition().contains("sent_total 9\n"));
}

TEST_CASE("what collects may register further metrics and collectors") {
  Metrics metrics;
  std::vector<std::shared_ptr<void>> kept;
  kept.push_back(metrics.on_collect([&] {
    metrics.gauge("late", "L.").set(2);
    if (kept.size() < 50) kept.push_back(metrics.on_collect([] {}));
  }));
  CHECK(metrics.exposition().contains("late 2\n"));
}

TEST_CASE("metrics count right when many threads use them") {
  Metrics metrics;
  auto counter = metrics.counter("n_total", "N.");
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < 4; ++t)
      threads.emplace_back([counter]() mutable {
        for (int i = 0; i < 10000; ++i) counter.add();
      });
  }
  CHECK(counter.value() == 40000);
}

TEST_CASE("a name that Prometheus would not take is our mistake, and ends the process") {
  CHECK_FALSE(aborts([] { Metrics().counter("ok_total", "", {{"ok", ""}}); }));
  CHECK(aborts([] { Metrics().counter("with-dash", ""); }));
  CHECK(aborts([] { Metrics().counter("", ""); }));
  CHECK(aborts([] { Metrics().gauge("ok", "", {{"with-dash", ""}}); }));
  CHECK(aborts([] { Metrics().gauge("ok", "", {{"__reserved", ""}}); }));
  CHECK(aborts([] { Metrics().histogram("ok", "", {1}, {{"le", ""}}); }));
}

TEST_CASE("a name has one type, a histogram one list of ascending bounds, a counter only grows") {
  CHECK(aborts([] {
    Metrics metrics;
    metrics.counter("twice", "");
    metrics.gauge("twice", "");
  }));
  CHECK(aborts([] {
    Metrics metrics;
    metrics.histogram("h", "", {1, 2});
    metrics.histogram("h", "", {1, 3}, {{"k", "v"}});
  }));
  CHECK(aborts([] { Metrics().histogram("h", "", {2, 1}); }));
  CHECK(aborts([] { Metrics().histogram("h", "", {1, 1}); }));
  CHECK(aborts([] { Metrics().histogram("h", "", {}); }));
  CHECK(aborts([] { Metrics().histogram("h", "", {1, NAN}); }));
  CHECK(aborts([] { Metrics().counter("c", "").add(-1); }));
}
