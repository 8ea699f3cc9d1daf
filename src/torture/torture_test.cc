#include "torture/torture.h"

#include <doctest/doctest.h>

#include <fstream>

#include "testkit/temp_folder.h"
#include "torture/journal.h"
#include "torture/lease_torture.h"
#include "torture/mirror_torture.h"
#include "torture/worker.h"

using namespace warren;
using namespace warren::torture;

namespace {

Clock::time_point at(Clock::duration time) { return Clock::time_point(1h + time); }

Target simulation(std::function<Schedule(std::uint64_t)> run) {
  return {.name = "lease", .checked = {"I1"}, .run_round = nullptr, .run_schedule = std::move(run)};
}

RoundOptions round_options(std::uint64_t seed) {
  return {.seed = seed,
          .binary = WARREN_BINARY,
          .clock_shim = std::filesystem::path(WARREN_BINARY).parent_path() / "warren-clock.so"};
}

}  // namespace

TEST_CASE("a journal is read as it was written, up to where its writer was killed") {
  TempFolder folder;
  auto file = folder.path() / "journal";
  history::LeaseHistory written;
  {
    Journal journal(file);
    auto& note = journal.lease();
    auto attempt = note.begun(at(1ms), 3, 1, at(9s));
    note.enqueued(at(2ms), attempt, {1, 2});
    journal.write();
    note.granted(at(3ms), attempt, {.token = {4, 5}, .since = at(1ms), .deadline = at(1s)});
    note.renewed(at(4ms), attempt, at(2s));
    note.raised(at(5ms), attempt, {5, 1}, at(4ms));
    note.accepted(at(6ms), attempt, {5, 1}, at(5ms));
    note.rejected(at(7ms), attempt, {4, 5}, at(6ms));
    note.lost(at(8ms), attempt);
    note.released(at(9ms), attempt);
    note.ended(at(9ms), note.begun(at(9ms), 3, 0));
    journal.write();
    written = note;
  }
  std::ofstream(file, std::ios::app) << "2 360000001 36000";
  auto read = load_lease_history(file);
  REQUIRE(read);
  REQUIRE(read->events().size() == written.events().size());
  for (std::size_t i = 0; i < written.events().size(); ++i)
    CHECK(describe(read->events()[i], at(0ms)) == describe(written.events()[i], at(0ms)));
}

TEST_CASE("the journal of a mirror is read as it was written") {
  TempFolder folder;
  auto file = folder.path() / "journal";
  history::MirrorHistory written;
  {
    Journal journal(file);
    auto& note = journal.mirror();
    note.acknowledged(at(1ms), 3, {1, 2}, history::Durability::replicated);
    note.applied(at(2ms), 3, {1, 2});
    note.resynced(at(2ms), 3, {1, 2});
    note.read(at(3ms), 3, {1, 2}, 7ms);
    note.session_read(at(4ms), 3, {1, 2}, 8ms);
    note.history_rewritten(at(5ms), 3, {1, 1});
    note.data_lost(at(6ms));
    note.logged(at(7ms), {1, 1});
    note.contents(at(8ms), 3, 0xfedcba9876543210);
    note.server_contents(at(9ms), 5);
    journal.write();
    written = note;
  }
  auto read = load_mirror_history(file);
  REQUIRE(read);
  REQUIRE(read->events().size() == written.events().size());
  for (std::size_t i = 0; i < written.events().size(); ++i)
    CHECK(describe(read->events()[i], at(0ms)) == describe(written.events()[i], at(0ms)));
}

TEST_CASE("what is no journal is refused") {
  TempFolder folder;
  auto file = folder.path() / "journal";
  std::ofstream(file) << "hello\nworld\n";
  CHECK(load_lease_history(file).error().code == Errc::invalid);
  std::ofstream(file) << "2 1 1 1 1 1 7 1 1 .\n";  // granted, and never begun
  CHECK(load_lease_history(file).error().code == Errc::invalid);
}

TEST_CASE("a worker is told on its command line who and where it is") {
  WorkerTerms worker{.what = lease_worker,
                     .servers = {},
                     .process = 7,
                     .seed = 99,
                     .locks = 3,
                     .ttl = 250ms,
                     .replicated = true,
                     .is_reckless = true,
                     .journal = "/tmp/journal"};
  worker.servers.mode = redis::Mode::sentinel;
  worker.servers.master_name = "warren";
  worker.servers.addresses = {{"127.0.0.1", 1, ""}, {"127.0.0.1", 2, ""}};
  auto words = words_of(worker);
  auto told = worker_from(words);
  REQUIRE(told);
  CHECK(words_of(*told) == words);
  CHECK(told->servers.addresses == worker.servers.addresses);
  CHECK(told->ttl == 250ms);
  words.pop_back();
  CHECK(worker_from(words).error().code == Errc::invalid);
}

TEST_CASE("as many schedules are simulated as were asked for, each seed once") {
  std::array<std::atomic<int>, 1000> seen{};
  auto target = simulation([&](std::uint64_t seed) {
    ++seen.at(seed - 50);
    return Schedule{.events = 3, .violation = {}};
  });
  auto result =
      simulate_many(target, {.first_seed = 50, .schedules = 1000}, [](double, std::uint64_t) {});
  CHECK(result.schedules == 1000);
  CHECK(result.events == 3000);
  CHECK(!result.violation);
  CHECK(std::ranges::all_of(seen, [](auto& count) { return count == 1; }));
}

TEST_CASE("without a number of schedules the time decides, and progress is told") {
  double last = 0;
  auto target = simulation([](std::uint64_t) { return Schedule{}; });
  auto began = Clock::now();
  auto result =
      simulate_many(target, {.length = 200ms}, [&](double part, std::uint64_t) { last = part; });
  CHECK(Clock::now() - began >= 200ms);
  CHECK(result.schedules > 0);
  CHECK(last > 0);
}

TEST_CASE("a violation ends the simulation and names its seed") {
  auto target = simulation([](std::uint64_t seed) {
    Schedule schedule;
    if (seed >= 500) schedule.violation = history::Violation{"I1", "planted", {}};
    return schedule;
  });
  auto result = simulate_many(target, {.schedules = 1'000'000}, [](double, std::uint64_t) {});
  REQUIRE(result.violation);
  CHECK(result.seed >= 500);
  CHECK(result.seed < 500 + 64);  // others may have begun a little later
  CHECK(result.schedules < 1'000'000);
  // The seed alone shows it again.
  auto again = simulate_many(target, {.first_seed = result.seed, .schedules = 1},
                             [](double, std::uint64_t) {});
  CHECK(again.violation);
}

TEST_CASE("leases keep their promises on real servers that fail") {
  for (std::uint64_t seed : {1, 2, 3}) {
    CAPTURE(seed);
    auto report = torture_lease(round_options(seed));
    REQUIRE_MESSAGE(!report.violation, report.violation->text());
    CHECK(report.counts["grants"] > 0);
    CHECK(report.counts["writes in the log"] > 0);
    CHECK(!report.faults.empty());
  }
}

TEST_CASE("mirrors keep their promises on real servers that fail") {
  for (std::uint64_t seed : {1, 2, 3}) {
    CAPTURE(seed);
    auto report = torture_mirror(round_options(seed));
    REQUIRE_MESSAGE(!report.violation, report.violation->text());
    CHECK(report.counts["writes acknowledged"] > 0);
    CHECK(report.counts["reads of own writes"] > 0);
    CHECK(report.counts["contents compared"] == 4);
    CHECK(!report.faults.empty());
  }
}

TEST_CASE("workers that write without showing their token are caught") {
  bool is_caught = false;
  for (std::uint64_t seed = 0; seed < 30 && !is_caught; seed += 3) {
    auto options = round_options(seed);
    options.is_reckless = true;
    auto report = torture_lease(options);
    is_caught = report.violation && report.violation->invariant == "I1";
  }
  CHECK(is_caught);
}
