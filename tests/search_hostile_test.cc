// Broken and hostile repositories, full disks: a clear error or a listed skip, nothing left behind,
// and the next one is served as if nothing had been.
#include <sched.h>
#include <sys/mount.h>
#include <unistd.h>

#include <random>

#include "search/store/cache.h"
#include "search_robust.h"

namespace warren::search {
namespace {

fs::path only_file(const fs::path& folder, const std::string& extension) {
  for (const auto& entry : fs::directory_iterator(folder))
    if (entry.path().extension() == extension) return entry.path();
  return {};
}

std::string read_whole(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

TEST_CASE("a pack that is damaged anywhere is an error or read as it was, and never a wrong text") {
  Repository repository;
  std::mt19937 random(4);
  std::map<std::string, std::string> texts;
  for (int i = 0; i < 40; ++i) {
    std::string text;
    for (int line = 0; line < 60; ++line)
      text += fmt::format("line {} of {}\n", random() % 1000, i);
    repository.write(fmt::format("f{}.c", i), text);
    texts[fmt::format("f{}.c", i)] = text;
  }
  repository.commit();
  repository.run({"gc", "-q"});
  auto packs = repository.path / ".git/objects/pack";
  auto pack = only_file(packs, ".pack"), index = only_file(packs, ".idx");
  for (const auto& file : {pack, index}) fs::permissions(file, fs::perms::all);
  auto files_before = open_files();
  int errors = 0, rounds_done = 0;
  auto look = [&] {
    auto got = read_all(repository.path);
    ++rounds_done;
    if (!got) {
      ++errors;
      CHECK(!got.error().what.empty());
      CHECK((got.error().code == Errc::refused || got.error().code == Errc::not_found));
      return;
    }
    for (const auto& document : got->documents) CHECK(texts[document.path] == document.text);
  };
  for (const auto& file : {pack, index}) {
    auto good = read_whole(file);
    for (int i = 0; i < 24; ++i) {
      auto bad = good;
      if (i % 3 == 0)
        bad.resize(random() % bad.size());
      else
        for (int times = i % 3; times > 0; --times) {
          auto& byte = bad[random() % bad.size()];
          byte = static_cast<char>(byte ^ static_cast<char>(1 + random() % 255));
        }
      std::ofstream(file, std::ios::binary) << bad;
      look();
    }
    std::ofstream(file, std::ios::binary) << good;
  }
  MESSAGE(rounds_done, " damaged packs, ", errors, " refused");
  CHECK(errors > rounds_done / 2);
  CHECK(open_files() == files_before);
  CHECK(!has_children());
  auto again = read_all(repository.path);
  REQUIRE(again);
  CHECK(again->documents.size() == 40);
}

// A loose object as git writes it, but not compressed and with a size of our choice.
std::string loose_object(std::size_t said, std::string_view text) {
  std::string body = fmt::format("blob {}", said) + '\0' + std::string(text);
  auto size = static_cast<std::uint32_t>(body.size());
  std::uint32_t a = 1, b = 0;
  for (unsigned char c : body) a = (a + c) % 65521, b = (b + a) % 65521;
  std::string out = "\x78\x01\x01";
  for (unsigned value : {size & 0xffu, size >> 8, ~size & 0xffu, ~size >> 8 & 0xffu})
    out += static_cast<char>(value);
  out += body;
  for (unsigned value : {b >> 8, b & 0xff, a >> 8, a & 0xff}) out += static_cast<char>(value);
  return out;
}

TEST_CASE("an object that is missing, garbage or lies about its size is an error that says so") {
  Repository repository;
  std::string text = "int a;\nint b;\n";
  repository.write("a.c", text);
  repository.write("b.c", "another\n");
  repository.commit();
  auto blob = repository.run({"rev-parse", "HEAD:a.c"});
  auto object = repository.path / ".git/objects" / blob.substr(0, 2) / blob.substr(2, 38);
  fs::permissions(object, fs::perms::all);
  auto good = read_whole(object);
  auto before = open_files();
  // A text that does not fit its id is not among them: git does not look.
  std::vector<std::pair<std::string, std::string>> bad{
      {"garbage", std::string(100, 'g')},
      {"cut", good.substr(0, good.size() / 2)},
      {"empty", ""},
      {"smaller", loose_object(5, text)},
      {"larger", loose_object(5000, text)},
      {"huge", loose_object(1'000'000, text)},
      {"beyond", loose_object(std::size_t{1} << 60, text)}};
  for (const auto& [name, bytes] : bad) {
    CAPTURE(name);
    std::ofstream(object, std::ios::binary) << bytes;
    auto got = read_all(repository.path);
    // Larger than any limit, as it says: left out, and not believed any further.
    if (got && got->skipped.contains("a.c")) continue;
    CHECK_MESSAGE(!got, "it was read");
    if (!got) CHECK(got.error().code == Errc::refused);
  }
  fs::remove(object);
  auto missing = read_all(repository.path);
  REQUIRE(!missing);
  CHECK(missing.error().code == Errc::refused);
  std::ofstream(object, std::ios::binary) << good;
  REQUIRE(read_all(repository.path));
  CHECK(open_files() == before);
  CHECK(!has_children());
}

TEST_CASE("paths are text: none leads anywhere, whatever it says") {
  Repository repository;
  repository.write("a.c", "inside\n");
  repository.commit();
  std::ofstream(repository.folder.path() / "secret") << "outside\n";
  auto blob = repository.run({"rev-parse", "HEAD:a.c"}).substr(0, 40);
  std::string raw;
  for (std::size_t i = 0; i < 40; i += 2)
    raw += static_cast<char>(std::stoi(blob.substr(i, 2), nullptr, 16));
  std::string tree;
  std::vector<std::string> names{"\n", "\"quoted\"", "..",          "../secret", "/etc/passwd",
                                 "\\", "\xff\xfe.c", "new\nline.c", "-rf",       "日本.c"};
  std::ranges::sort(names);
  for (const auto& name : names) tree += "100644 " + name + '\0' + raw;
  ChildTerms terms;
  terms.argv = {"git",         "-C",      repository.path.string(),
                "hash-object", "-t",      "tree",
                "-w",          "--stdin", "--literally"};
  terms.environment = {std::string("PATH=") + std::getenv("PATH"), "HOME=/nonexistent"};
  auto id = run_child(terms, tree, 1000);
  REQUIRE_MESSAGE(id, (id ? "" : id.error().what));
  auto commit = repository.run({"commit-tree", id->substr(0, 40), "-m", "x"}).substr(0, 40);
  repository.run({"update-ref", "refs/heads/main", commit});
  auto got = read_all(repository.path);
  if (!got) {
    CHECK(got.error().code == Errc::refused);  // git does not list such a tree
    MESSAGE(got.error().what);
    return;
  }
  for (const auto& document : got->documents) CHECK(document.text == "inside\n");
  auto segment = segment_of(got->documents, {});
  REQUIRE(segment);
  auto answer = timed({*segment}, "inside", {}, 10s).answer;
  CHECK(answer.file_count == got->documents.size());
  MESSAGE(got->documents.size(), " of ", names.size(), " such paths");
}

// In a child that has mounts of its own.
bool mount_small_disk(const std::string& folder, const char* size) {
  return unshare(geteuid() == 0 ? CLONE_NEWNS : CLONE_NEWUSER | CLONE_NEWNS) == 0 &&
         mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
         mount("tmpfs", folder.c_str(), "tmpfs", 0, size) == 0;
}
constexpr int not_allowed = 77;

// The exit code of a child that does this: 0 when all is as it should be.
int in_child(const std::function<int()>& work) {
  auto child = fork();
  REQUIRE(child >= 0);
  if (child == 0) _exit(work());
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  REQUIRE(WIFEXITED(status));
  if (WEXITSTATUS(status) != not_allowed) return WEXITSTATUS(status);
  MESSAGE("no mounts are allowed here; save_test limits the size of files instead");
  return 0;
}

int save_to_full_disk(const Segment& segment, const Segment& small, const std::string& folder) {
  if (!mount_small_disk(folder, "size=256k")) return not_allowed;
  auto path = folder + "/segment";
  if (!small.save(path)) return 1;
  auto saved = segment.save(path);
  if (saved || saved.error().code != Errc::overloaded) return 2;
  if (!saved.error().what.contains("No space left on device")) return 3;
  if (std::distance(fs::directory_iterator(folder), {}) != 1) return 4;  // no half of a file
  auto old = Segment::load(path);
  return old && (*old)->file_count() == 1 ? 0 : 5;
}

TEST_CASE("a disk that is really full leaves the old segment, and says why") {
  TempFolder folder;
  std::mt19937 random(3);
  auto large = build(random_documents(random, 60, 40'000)), small = build({doc("a.c", "old\n")});
  CHECK(in_child([&] { return save_to_full_disk(*large, *small, folder.path().string()); }) == 0);
}

// The disk has room for two of them, and never for the large one.
int keep_on_full_disk(const Segment& segment, const Segment& large, const std::string& folder) {
  auto size = fmt::format("size={}k", (segment.memory().total() >> 10) * 5 / 2 + 200);
  if (!mount_small_disk(folder, size.c_str())) return not_allowed;
  auto cache = SegmentCache::open(folder + "/cache");
  if (!cache) return 1;
  if (!cache->save_base("one", segment) || !cache->save_base("two", segment)) return 2;
  // Used last, also by the clock of the file system.
  auto used = [&](const char* key) {
    return fs::last_write_time(folder + "/cache/" + key + ".seen");
  };
  while (used("one") <= used("two"))
    if (!cache->load("one")) return 3;
  if (!cache->save_base("three", segment)) return 4;
  if (!cache->load("one") || cache->load("two") || !cache->load("three")) return 5;
  auto saved = cache->save_base("one", large);
  if (saved || saved.error().code != Errc::overloaded) return 6;
  if (!cache->load("one") || !cache->load("three")) return 7;  // nobody went in vain
  // One that is replaced may go itself; one that is added to may not.
  if (!cache->save_base("three", segment) || !cache->load("three")) return 8;
  if (!cache->save_delta("three", segment, segment.version())) return 9;
  auto list = cache->load("three");
  if (!list || list->size() != 2 || cache->load("one")) return 10;
  saved = cache->save_delta("three", large, segment.version());
  return !saved && cache->load("three") ? 0 : 11;
}

TEST_CASE("on a full disk what was not used for longest makes room, unless that is in vain") {
  TempFolder folder;
  auto text = [](std::size_t size) { return build({doc("a.c", std::string(size, 'x') + '\n')}); };
  auto segment = text(1'000'000), large = text(4'000'000);
  CHECK(in_child([&] { return keep_on_full_disk(*segment, *large, folder.path().string()); }) == 0);
}

}  // namespace
}  // namespace warren::search
