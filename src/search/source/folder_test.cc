#include "search/source/folder.h"

#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <map>

#include "proof/testkit/temp_folder.h"
#include "search/index/test_texts.h"

namespace warren::search {
namespace {

namespace fs = std::filesystem;

void put(const fs::path& path, const std::string& text) {
  fs::create_directories(path.parent_path());
  std::ofstream(path, std::ios::binary) << text;
}

// Long enough for changes to settle: an id is kept only for a file that has settled.
void wait_until_settled() { ::sleep(3); }

std::map<std::string, std::string> ids_of(const Listing& listing) {
  std::map<std::string, std::string> ids;
  for (const auto& entry : listing.entries) ids[entry.path] = entry.blob;
  return ids;
}

TEST_CASE("a folder's listing names each file, and changes with any of them") {
  TempFolder folder;
  put(folder.path() / "a.c", "one\n");
  put(folder.path() / "deep/er/b.c", "two\n");
  put(folder.path() / ".git/config", "no\n");
  put(folder.path() / "large", std::string(2000, 'x'));
  fs::create_symlink("a.c", folder.path() / "link");
  REQUIRE(mkfifo((folder.path() / "pipe").c_str(), S_IRUSR | S_IWUSR) == 0);
  wait_until_settled();
  SourceLimits limits{.file_bytes = 1000, .files = 100};
  auto first = list_folder(folder.path().string(), limits);
  REQUIRE(first);
  auto ids = ids_of(*first);
  CHECK(ids.size() == 2);
  CHECK(ids.contains("a.c"));
  CHECK(ids.contains("deep/er/b.c"));
  REQUIRE(first->source.skipped.size() == 3);
  CHECK(first->source.skipped[0].path == "large");
  CHECK(first->source.skipped[1].reason == "a symbolic link");
  CHECK(first->source.skipped[2].reason == "not a regular file");
  auto again = list_folder(folder.path().string(), limits);
  REQUIRE(again);
  CHECK(again->source.version == first->source.version);
  CHECK(ids_of(*again) == ids);

  put(folder.path() / "a.c", "ONE\n");
  auto changed = list_folder(folder.path().string(), limits);
  REQUIRE(changed);
  CHECK(changed->source.version != first->source.version);
  CHECK(ids_of(*changed)["a.c"] != ids["a.c"]);
  CHECK(ids_of(*changed)["deep/er/b.c"] == ids["deep/er/b.c"]);
  // It may change again within the same tick of the clock.
  auto soon = list_folder(folder.path().string(), limits);
  REQUIRE(soon);
  CHECK(ids_of(*soon)["a.c"] != ids_of(*changed)["a.c"]);

  limits.files = 1;
  auto many = list_folder(folder.path().string(), limits);
  REQUIRE(!many);
  CHECK(many.error().code == Errc::overloaded);
  auto none = list_folder((folder.path() / "none").string(), limits);
  REQUIRE(!none);
  CHECK(none.error().code == Errc::not_found);
}

TEST_CASE("what a listing names is read, and no link leads out of the folder") {
  TempFolder folder, other;
  put(other.path() / "secret", "secret\n");
  put(folder.path() / "a.c", "one\n");
  put(folder.path() / "b.bin", std::string("x\0y", 3));
  fs::create_symlink(other.path(), folder.path() / "way");
  std::vector<TreeEntry> entries{{"a.c", "01", 4, {}},
                                 {"b.bin", "02", 3, {}},
                                 {"way/secret", "03", 7, {}},
                                 {"gone", "04", 1, {}}};
  std::vector<Skipped> skipped;
  std::vector<Document> taken;
  auto read = read_folder(folder.path().string(), entries, {}, skipped, [&](Document&& document) {
    taken.push_back(std::move(document));
    return Result<>(ok);
  });
  REQUIRE(read);
  REQUIRE(taken.size() == 1);
  CHECK(taken[0].text == "one\n");
  CHECK(taken[0].blob == "01");
  REQUIRE(skipped.size() == 2);
  CHECK(skipped[0].reason == "binary");
  CHECK(skipped[0].blob == "02");
  CHECK(skipped[1].reason == "a symbolic link");
  auto refused = read_folder(folder.path().string(), entries, {}, skipped,
                             [](Document&&) -> Result<> { return fail(Errc::overloaded, "no"); });
  REQUIRE(!refused);
  CHECK(refused.error().code == Errc::overloaded);
}

}  // namespace
}  // namespace warren::search
