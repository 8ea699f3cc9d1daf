#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>

#include "proof/testkit/temp_folder.h"
#include "search/index/test_texts.h"
#include "search/source/folder.h"
#include "search/source/test_repository.h"

namespace warren::search {
namespace {

struct Got {
  std::map<std::string, std::vector<Document>> documents;
  Source source;
  std::map<std::string, std::string> skipped;
};

Result<Got> read(const fs::path& path, std::vector<std::string> refs, SourceLimits limits = {}) {
  Got got;
  auto source = read_repository(path.string(), std::move(refs), limits, [&](Document&& document) {
    got.documents[document.path].push_back(std::move(document));
    return Result<>(ok);
  });
  if (!source) return std::unexpected(source.error());
  got.source = std::move(*source);
  for (const auto& skipped : got.source.skipped) got.skipped[skipped.path] = skipped.reason;
  return got;
}

TEST_CASE("a text that branches share is read once, and changed ones once for each state") {
  Repository repository;
  repository.write("same.c", "same\n");
  repository.write("changed.c", "one\n");
  repository.write("gone.c", "gone\n");
  repository.write("old/name.c", "renamed\n");
  repository.commit();
  repository.run({"checkout", "-q", "-b", "next"});
  repository.write("changed.c", "two\n");
  fs::remove(repository.path / "gone.c");
  repository.run({"mv", "old/name.c", "new.c"});
  repository.commit();
  auto got = read(repository.path, {"main", "next"});
  REQUIRE(got);
  CHECK(got->source.name == "work");
  CHECK(got->source.branches == std::vector<std::string>{"main", "next"});
  auto& documents = got->documents;
  REQUIRE(documents["same.c"].size() == 1);
  CHECK(documents["same.c"][0].branches == std::vector<std::uint16_t>{0, 1});
  CHECK(documents["same.c"][0].blob.size() == 40);
  REQUIRE(documents["changed.c"].size() == 2);
  CHECK(documents["gone.c"][0].branches == std::vector<std::uint16_t>{0});
  CHECK(documents["old/name.c"][0].text == "renamed\n");
  CHECK(documents["new.c"][0].text == "renamed\n");
  CHECK(documents["new.c"][0].branches == std::vector<std::uint16_t>{1});
  auto version = repository_version(repository.path.string(), {"main", "next"});
  REQUIRE(version);
  CHECK(*version == got->source.version);
  CHECK(version->size() == 81);
}

TEST_CASE("what is left out of a repository is listed with its reason") {
  Repository repository;
  repository.write("a.c", "int a;\n");
  repository.write("picture.png", std::string("\x89PNG\0\0", 6));
  repository.write("late.c", std::string(8192, 'x') + '\0');
  repository.write("large.txt", std::string(3'000'000, 'l'));
  repository.write("odd \"name\"\n\xff.c", "odd\n");
  fs::create_symlink("a.c", repository.path / "link");
  repository.run({"add", "-A"});
  repository.run({"update-index", "--add", "--cacheinfo",
                  "160000,1234567890123456789012345678901234567890,sub"});
  repository.run({"commit", "-q", "-m", "x"});
  auto got = read(repository.path, {}, {.file_bytes = 2u << 20});
  REQUIRE(got);
  CHECK(got->documents.size() == 3);
  CHECK(got->documents.contains("late.c"));
  CHECK(got->documents.contains("odd \"name\"\n\xff.c"));
  CHECK(got->skipped == std::map<std::string, std::string>{{"picture.png", "binary"},
                                                           {"large.txt", "2.86 MB, more than 2 MB"},
                                                           {"link", "a symbolic link"},
                                                           {"sub", "a submodule"}});
  auto too_many = read(repository.path, {}, {.files = 2});
  REQUIRE(!too_many);
  CHECK(too_many.error().code == Errc::overloaded);
}

TEST_CASE("bare, shallow and packed repositories and worktrees read the same") {
  Repository repository;
  for (int i = 0; i < 300; ++i) repository.write(fmt::format("f{}.c", i), fmt::format("v{}\n", i));
  repository.commit();
  repository.write("f1.c", "changed\n");
  repository.commit();
  repository.run({"gc", "-q"});
  auto folder = repository.folder.path();
  auto url = "file://" + repository.path.string();
  repository.run({"clone", "-q", "--bare", url, (folder / "bare.git").string()});
  repository.run({"clone", "-q", "--depth=1", url, (folder / "shallow").string()});
  repository.run({"worktree", "add", "-q", (folder / "tree").string(), "main~1"});
  for (const auto* name : {"work", "bare.git", "shallow"}) {
    auto got = read(folder / name, {"HEAD"});
    REQUIRE(got);
    CHECK(got->documents.size() == 300);
    CHECK(got->documents["f1.c"][0].text == "changed\n");
  }
  auto got = read(folder / "tree", {"HEAD"});
  REQUIRE(got);
  CHECK(got->documents["f1.c"][0].text == "v1\n");
  CHECK(read(folder / "bare.git", {})->source.name == "bare");
}

TEST_CASE("refs that are not there or look like options are refused") {
  Repository repository;
  repository.write("a.c", "int a;\n");
  repository.commit();
  auto code = [&](const std::string& ref) {
    auto got = read(repository.path, {ref});
    return got ? std::string("read") : std::string(name(got.error().code));
  };
  CHECK(code("main") == "read");
  CHECK(code("none") == "not_found");
  CHECK(code("main:a.c") == "not_found");
  CHECK(code("--help") == "invalid");
  CHECK(code("") == "invalid");
  CHECK(code("main\nmain") == "invalid");
  auto inside = read(repository.path / ".git" / "refs", {});
  REQUIRE(!inside);
  auto nowhere = read("/nonexistent", {});
  REQUIRE(!nowhere);
  CHECK(nowhere.error().code == Errc::refused);
}

TEST_CASE("a hostile configuration runs nothing and fetches nothing") {
  Repository repository;
  auto trap = (repository.folder.path() / "trap").string();
  auto touch = "touch " + trap;
  repository.write("a.c", "int a;\n");
  repository.write(".gitattributes", "* filter=evil diff=evil textconv=evil\n");
  repository.commit();
  for (const auto* key : {"core.fsmonitor", "core.pager", "core.sshCommand", "core.gitProxy",
                          "filter.evil.clean", "filter.evil.smudge", "filter.evil.process",
                          "diff.evil.textconv", "core.alternateRefsCommand", "core.askPass",
                          "alias.ls-tree", "alias.cat-file", "pager.ls-tree", "pager.cat-file"})
    repository.run({"config", key, "!" + touch});
  fs::create_directories(repository.path / ".git" / "hooks");
  for (const auto* hook : {"post-checkout", "pre-auto-gc", "post-index-change"}) {
    std::ofstream(repository.path / ".git/hooks" / hook) << "#!/bin/sh\n" << touch << "\n";
    fs::permissions(repository.path / ".git/hooks" / hook, fs::perms::all);
  }
  auto got = read(repository.path, {});
  REQUIRE(got);
  CHECK(got->documents["a.c"][0].text == "int a;\n");
  CHECK(!fs::exists(trap));
  // This also covers the work tree, where the user's own settings apply, and whatever location the
  // repository claims for it.
  repository.run({"config", "core.worktree", "/"});
  auto tree = list_work_tree(repository.path.string(), {});
  REQUIRE(tree);
  CHECK(std::ranges::count(tree->entries, "a.c", &TreeEntry::path) == 1);
  CHECK(!fs::exists(trap));
  // git would fetch a missing text by running the attacker's command.
  repository.run({"config", "extensions.partialClone", "origin"});
  repository.run({"config", "core.repositoryFormatVersion", "1"});
  repository.run({"config", "remote.origin.promisor", "true"});
  repository.run({"config", "remote.origin.url", "ext::sh -c touch% " + trap});
  repository.run({"config", "protocol.ext.allow", "always"});
  auto blob = repository.run({"rev-parse", "HEAD:a.c"});
  auto object = repository.path / ".git/objects" / blob.substr(0, 2) / blob.substr(2, 38);
  REQUIRE(fs::remove(object));
  auto missing = read(repository.path, {});
  REQUIRE(!missing);
  CHECK(missing.error().code == Errc::refused);
  CHECK(!fs::exists(trap));
}

TEST_CASE("a pipe where git looks for rules holds nobody up") {
  Repository repository;
  repository.write("a.c", "int a;\n");
  repository.write("deep/down/b.c", "int b;\n");
  repository.commit();
  auto pipe = (repository.folder.path() / "pipe").string();
  REQUIRE(mkfifo(pipe.c_str(), 0600) == 0);
  auto before = Clock::now();
  // Files that the repository's settings name are not opened at all.
  for (const auto* key : {"core.excludesFile", "core.attributesFile"})
    repository.run({"config", key, pipe});
  auto tree = list_work_tree(repository.path.string(), {});
  REQUIRE_MESSAGE(tree, (tree ? "" : tree.error().what));
  CHECK(std::ranges::count(tree->entries, "a.c", &TreeEntry::path) == 1);
  CHECK(read(repository.path, {}));
  // A pipe in the place of an ignore file is an error.
  for (const auto* place : {".git/info/exclude", ".gitignore", "deep/down/.gitignore"}) {
    CAPTURE(place);
    auto there = repository.path / place;
    fs::create_directories(there.parent_path());
    fs::remove(there);
    REQUIRE(mkfifo(there.c_str(), 0600) == 0);
    auto stuck = list_work_tree(repository.path.string(), {});
    CHECK(!stuck);
    if (!stuck) {
      CHECK((stuck.error().code == Errc::refused || stuck.error().code == Errc::timeout));
      CHECK(stuck.error().what.find("pipe") != std::string::npos);
    }
    fs::remove(there);
  }
  CHECK(Clock::now() - before < 120s);  // and not five minutes for each
}

TEST_CASE("a broken pack is an error that says so, and take's own error ends the reading") {
  Repository repository;
  std::mt19937 random(4);
  for (int i = 0; i < 50; ++i) {
    std::string text(20'000, ' ');
    for (char& c : text) c = static_cast<char>('a' + random() % 26);
    repository.write(fmt::format("f{}.c", i), text);
  }
  repository.commit();
  repository.run({"gc", "-q"});
  int taken = 0;
  auto stopped = read_repository(repository.path.string(), {}, {}, [&](Document&&) -> Result<> {
    ++taken;
    return fail(Errc::overloaded, "enough");
  });
  REQUIRE(!stopped);
  CHECK(stopped.error().what == "enough");
  CHECK(taken == 1);
  for (const auto& entry : fs::directory_iterator(repository.path / ".git/objects/pack")) {
    if (entry.path().extension() != ".pack") continue;
    fs::permissions(entry.path(), fs::perms::all);
    std::fstream file(entry.path(), std::ios::in | std::ios::out | std::ios::binary);
    for (int place = 100'000; place < 400'000; place += 1000) file.seekp(place).put('!');
  }
  auto broken = read(repository.path, {});
  REQUIRE(!broken);
  CHECK(broken.error().code == Errc::refused);
  CHECK(broken.error().what.find("corrupt") != std::string::npos);
}

TEST_CASE("a directory is read without .git and links, and changes its version with its files") {
  Repository repository;
  repository.write("a.c", "int a;\n");
  repository.write("deep/er/b.c", "int b;\n");
  repository.write("bin", std::string("\0", 1));
  repository.write("large", std::string(5000, 'x'));
  fs::create_symlink("/etc", repository.path / "etc");
  REQUIRE(mkfifo((repository.path / "pipe").c_str(), 0600) == 0);
  std::vector<std::string> paths;
  SourceLimits limits{.file_bytes = 4096};
  auto look = [&] {
    paths.clear();
    return read_directory(repository.path.string(), limits, [&](Document&& document) {
      paths.push_back(document.path);
      return Result<>(ok);
    });
  };
  auto source = look();
  REQUIRE(source);
  CHECK(source->name == "work");
  CHECK(paths == std::vector<std::string>{"a.c", "deep/er/b.c"});
  std::map<std::string, std::string> skipped;
  for (const auto& left : source->skipped) skipped[left.path] = left.reason;
  CHECK(skipped == std::map<std::string, std::string>{{"bin", "binary"},
                                                      {"etc", "a symbolic link"},
                                                      {"large", "4.88 KB, more than 4 KB"},
                                                      {"pipe", "not a regular file"}});
  CHECK(look()->version == source->version);
  repository.write("a.c", "int ab;\n");
  CHECK(look()->version != source->version);
  auto missing = read_directory("/nonexistent", {}, [](Document&&) { return Result<>(ok); });
  REQUIRE(!missing);
  CHECK(missing.error().code == Errc::not_found);
}

}  // namespace
}  // namespace warren::search
