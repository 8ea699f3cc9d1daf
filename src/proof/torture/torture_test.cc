#include "proof/torture/torture.h"

#include <doctest/doctest.h>

#include <fstream>

#include "proof/testkit/temp_folder.h"
#include "proof/torture/journal.h"
#include "proof/torture/worker.h"

using namespace warren;
using namespace warren::torture;

namespace {

Clock::time_point at(Clock::duration time) { return Clock::time_point(1h + time); }

Target simulation(std::function<Schedule(std::uint64_t)> run) {
  return {.name = "lease", .checked = {"I1"}, .run_round = nullptr, .run_schedule = std::move(run)};
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
    note.acknowledged(at(1ms), 3, {1, 2});
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

TEST_CASE("the journal of a catalog's node is read as it was written") {
  TempFolder folder;
  auto file = folder.path() / "journal";
  history::CatalogEvent event{.at = at(5ms),
                              .kind = history::CatalogEvent::Kind::claimed,
                              .row = 3,
                              .process = 4,
                              .life = 5,
                              .token = {1, 0xfedcba9876543210},
                              .number = 7,
                              .since = at(1ms),
                              .deadline = at(9ms)};
  {
    Journal journal(file);
    journal.catalog().note(event);
    journal.write();
    journal.write();
  }
  auto read = load_catalog_history(file);
  REQUIRE(read);
  REQUIRE(read->events().size() == 1);
  CHECK(describe(read->events()[0], at(0ms)) == describe(event, at(0ms)));
}

TEST_CASE("what is no journal is refused") {
  TempFolder folder;
  auto file = folder.path() / "journal";
  std::ofstream(file) << "hello\nworld\n";
  CHECK(load_lease_history(file).error().code == Errc::invalid);
  std::ofstream(file) << "2 1 1 1 1 1 7 1 1 .\n";  // granted, but never begun
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
                     .catalog = "postgres://warren@127.0.0.1/warren",
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
  CHECK(told->catalog == worker.catalog);
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

TEST_CASE("kinds of faults that no schedule had are counted, as none") {
  auto target = simulation(
      [](std::uint64_t) { return Schedule{.events = 1, .violation = {}, .faults = {"rain"}}; });
  target.faults = {"rain", "snow"};
  auto result = simulate_many(target, {.schedules = 10}, [](double, std::uint64_t) {});
  CHECK(result.faults == std::map<std::string, std::uint64_t>{{"rain", 10}, {"snow", 0}});
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
  CHECK(result.seed < 500 + 64);  // other threads may have begun a little later
  CHECK(result.schedules < 1'000'000);
  // The seed alone reproduces it.
  auto again = simulate_many(target, {.first_seed = result.seed, .schedules = 1},
                             [](double, std::uint64_t) {});
  CHECK(again.violation);
}
