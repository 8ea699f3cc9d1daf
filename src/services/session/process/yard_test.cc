#include "services/session/process/yard.h"

#include <doctest/doctest.h>

#include <filesystem>

#include "proof/testkit/temp_folder.h"

using namespace warren;
using namespace warren::session;

TEST_CASE("the time of a use is kept to the fraction of a second") {
  testkit::TempFolder folder;
  auto yard = Yard::open(folder.path());
  REQUIRE(yard);
  CHECK(!yard->touched_at("unknown"));
  std::filesystem::create_directories(yard->sandbox("a"));
  auto before = WallClock::now();
  yard->touch("a");
  auto touched = yard->touched_at("a");
  REQUIRE(touched);
  // The kernel stamps files by its tick, which may be some milliseconds old.
  CHECK(*touched > before - 100ms);

  auto file = yard->sandbox("a") / "active";
  auto half = std::chrono::floor<std::chrono::seconds>(before) - 10s + 500ms;
  std::filesystem::last_write_time(file, std::chrono::file_clock::from_sys(half));
  CHECK(yard->touched_at("a") == half);
}
