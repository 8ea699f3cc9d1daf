#include "services/fleet/node/snapshots.h"

#include <sys/stat.h>

#include <fstream>

#include "proof/testkit/temp_folder.h"
#include "search/index/test_texts.h"
#include "search/query/search.h"
#include "search/store/verify.h"

namespace warren::fleet {

namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t plenty = 1u << 30;

Held held_with(const std::string& name, unsigned seed = 1, int segments = 2) {
  std::mt19937 random(seed);
  auto list = std::make_shared<search::SegmentList>();
  for (int i = 0; i < segments; ++i) {
    search::SegmentBuilder builder;
    for (auto& document : search::random_documents(random, 30, 5'000))
      REQUIRE(builder.add(std::move(document)));
    auto made = builder.build({.name = name, .version = "1", .branches = {}, .skipped = {}});
    REQUIRE(made);
    list->push_back(search::sealed(*made));
  }
  Held held{.segments = std::move(list), .commits = {{"HEAD", std::string(40, 'a')}}};
  held.reindex = 3;
  held.has_index = held.has_symbols = true;
  held.text_bytes = 1234;
  held.indexed_at = "2026-01-31T23:59:59.123Z";
  held.fetch_time = 5ms;
  held.index_time = 7ms;
  return held;
}

struct Place {
  TempFolder temporary;
  fs::path folder = temporary.path() / "snapshots";
  Snapshots snapshots = open({.folder = folder});

  static Snapshots open(SnapshotTerms terms) {
    auto opened = Snapshots::open(std::move(terms));
    REQUIRE_MESSAGE(opened, (opened ? "" : opened.error().what));
    return *std::move(opened);
  }
  fs::path file(const std::string& name) const { return folder / (name + ".snapshot"); }
  std::string bytes(const std::string& name) const {
    std::ifstream in(file(name), std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  void put(const std::string& name, const std::string& bytes) const {
    std::ofstream(file(name), std::ios::binary | std::ios::trunc) << bytes;
    chmod(file(name).c_str(), 0600);
  }
  bool is_refused(const std::string& repo) const {
    auto held = snapshots.load(repo, plenty);
    return !held && held.error().code == Errc::invalid;
  }
  std::size_t files() const {
    return static_cast<std::size_t>(
        std::distance(fs::directory_iterator(folder), fs::directory_iterator()));
  }
};

}  // namespace

TEST_CASE("a repository is the same after it was on disk, and the file is for its owner alone") {
  Place place;
  auto held = held_with("host/a");
  auto none = place.snapshots.load("host/a", plenty);
  REQUIRE(!none);
  CHECK(none.error().code == Errc::not_found);
  REQUIRE(place.snapshots.save("host/a", held));
  CHECK(place.files() == 1);
  struct stat what{};
  REQUIRE(lstat(place.file("host+a").c_str(), &what) == 0);
  CHECK((what.st_mode & 0777) == 0600);
  auto facts = place.snapshots.facts_of("host/a");
  REQUIRE(facts);
  CHECK(facts->commits == held.commits);
  CHECK(facts->sizes.size() == 2);
  auto again = place.snapshots.load("host/a", plenty);
  REQUIRE_MESSAGE(again, (again ? "" : again.error().what));
  CHECK(again->commits == held.commits);
  CHECK(again->reindex == 3);
  CHECK(again->has_index);
  CHECK(again->has_symbols);
  CHECK_FALSE(again->is_warm);
  CHECK(again->text_bytes == 1234);
  CHECK(again->indexed_at == held.indexed_at);
  CHECK(again->fetch_time == 5ms);
  CHECK(again->index_time == 7ms);
  REQUIRE(again->segments->size() == 2);
  for (std::size_t i = 0; i < 2; ++i) {
    const auto &before = *(*held.segments)[i], &after = *(*again->segments)[i];
    REQUIRE(after.file_count() == before.file_count());
    for (std::uint32_t file = 0; file < before.file_count(); ++file)
      CHECK(after.text(file) == before.text(file));
  }
  auto small = place.snapshots.load("host/a", 1000);
  REQUIRE(!small);
  CHECK(small.error().code == Errc::overloaded);
  REQUIRE(place.snapshots.save("host/a", held_with("host/a", 2)));
  CHECK(place.files() == 1);
  place.snapshots.remove("host/a");
  CHECK(place.files() == 0);
}

TEST_CASE("a flipped byte is found, wherever it is, and so is a file that is cut off or goes on") {
  Place place;
  REQUIRE(place.snapshots.save("a", held_with("a")));
  auto good = place.bytes("a");
  // The end of the first page means nothing; all others are counted.
  std::vector<std::size_t> places{0, 9, 13, 17, 4096, 4200};
  std::mt19937 random(3);
  for (int i = 0; i < 40; ++i) places.push_back(4096 + random() % (good.size() - 4096));
  for (auto at : places) {
    CAPTURE(at);
    auto bad = good;
    bad[at] = static_cast<char>(bad[at] ^ 0x10);
    place.put("a", bad);
    CHECK(place.is_refused("a"));
  }
  for (std::size_t size :
       {std::size_t{0}, std::size_t{100}, std::size_t{4096}, good.size() / 2, good.size() - 1}) {
    place.put("a", good.substr(0, size));
    CHECK(place.is_refused("a"));
  }
  place.put("a", good + "x");
  CHECK(place.is_refused("a"));
  place.put("a", good);
  CHECK(place.snapshots.load("a", plenty));
}

TEST_CASE("a snapshot of another repository, format or user is none") {
  Place place;
  REQUIRE(place.snapshots.save("a", held_with("a")));
  auto good = place.bytes("a");
  place.put("b", good);
  CHECK(place.is_refused("b"));
  // Its facts say that it is of c, and its segments do not.
  REQUIRE(place.snapshots.save("c", held_with("a")));
  CHECK(place.is_refused("c"));
  auto older = good;
  older[8] = 0;
  place.put("a", older);
  auto refused = place.snapshots.load("a", plenty);
  REQUIRE(!refused);
  CHECK(refused.error().code == Errc::invalid);
  CHECK(refused.error().what.contains("format 0"));
  place.put("a", good);
  chmod(place.file("a").c_str(), 0644);
  CHECK(place.is_refused("a"));
  fs::remove(place.file("a"));
  auto elsewhere = place.temporary.path() / "elsewhere";
  std::ofstream(elsewhere, std::ios::binary) << good;
  chmod(elsewhere.c_str(), 0600);
  fs::create_symlink(elsewhere, place.file("a"));
  CHECK(place.is_refused("a"));
  // A new one takes the place of the link, and not of what it leads to.
  REQUIRE(place.snapshots.save("a", held_with("a", 9)));
  CHECK(fs::is_regular_file(fs::symlink_status(place.file("a"))));
  CHECK(fs::file_size(elsewhere) == good.size());
  CHECK(place.snapshots.load("a", plenty));
}

TEST_CASE("all snapshots together have a bound, and those not used for longest go") {
  Place place;
  REQUIRE(place.snapshots.save("a", held_with("a")));
  auto one = place.bytes("a").size();
  auto bounded = Place::open({.folder = place.folder, .most_bytes = 2 * one + one / 2});
  REQUIRE(bounded.save("b", held_with("b")));
  auto age = [&](const char* name, int hours) {
    fs::last_write_time(place.file(name), fs::file_time_type::clock::now() - hours * 1h);
  };
  age("a", 5);
  age("b", 3);
  REQUIRE(bounded.load("a", plenty));  // which is use
  REQUIRE(bounded.save("c", held_with("c")));
  CHECK(fs::exists(place.file("a")));
  CHECK_FALSE(fs::exists(place.file("b")));
  CHECK(fs::exists(place.file("c")));
  auto tiny = Place::open({.folder = place.folder, .most_bytes = one / 2});
  auto refused = tiny.save("d", held_with("d"));
  REQUIRE(!refused);
  CHECK(refused.error().code == Errc::overloaded);
  CHECK(place.files() == 2);
}

TEST_CASE("what a process left that died while it wrote is removed, and counts for nothing") {
  Place place;
  std::ofstream(place.folder / "a.snapshot.1.unfinished") << "half";
  CHECK(place.files() == 1);
  auto again = Place::open({.folder = place.folder});
  CHECK(place.files() == 0);
}

TEST_CASE("a folder of snapshots is a folder, and for its owner alone") {
  TempFolder temporary;
  auto code = [](const fs::path& folder) {
    auto opened = Snapshots::open({.folder = folder});
    return opened ? std::optional<Errc>() : opened.error().code;
  };
  auto open = temporary.path() / "open";
  fs::create_directory(open);
  chmod(open.c_str(), 0755);
  CHECK(code(open) == Errc::denied);
  chmod(open.c_str(), 0700);
  CHECK_FALSE(code(open));
  fs::create_directory_symlink(open, temporary.path() / "link");
  CHECK(code(temporary.path() / "link") == Errc::denied);
  std::ofstream(temporary.path() / "file") << "x";
  CHECK(code(temporary.path() / "file") == Errc::denied);
}

}  // namespace warren::fleet
