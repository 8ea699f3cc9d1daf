#include "base/host/folder.h"

#include <doctest/doctest.h>
#include <sys/stat.h>

#include <fstream>

#include "proof/testkit/temp_folder.h"

using namespace warren;
namespace fs = std::filesystem;

namespace {

std::string contents(const fs::path& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

Folder opened(const TempFolder& at) {
  auto folder = Folder::open(at.path());
  REQUIRE(folder);
  return *std::move(folder);
}

}  // namespace

TEST_CASE("a folder is made once, and reached by its name alone") {
  TempFolder at;
  auto folder = opened(at);
  REQUIRE(folder.make_folder("a"));
  REQUIRE(folder.make_folder("a"));
  auto inner = folder.folder("a");
  REQUIRE(inner);
  CHECK(inner->path() == at.path() / "a");
  CHECK(folder.folder("b").error().code == Errc::not_found);
  for (std::string name : {"", ".", "..", "a/b", "/etc"}) CHECK(!folder.folder(name));
  CHECK(folder.names() == std::vector<std::string>{"a"});
}

TEST_CASE("neither a link nor a pipe is a folder or a file, and each is said to be one") {
  TempFolder at, elsewhere;
  auto folder = opened(at);
  std::ofstream(elsewhere.path() / "file") << "theirs";
  fs::create_directory_symlink(elsewhere.path(), at.path() / "link");
  fs::create_symlink(elsewhere.path() / "file", at.path() / "file");
  REQUIRE(mkfifo((at.path() / "pipe").c_str(), 0600) == 0);
  for (std::string name : {"link", "file"}) {
    CHECK(folder.folder(name).error().code == Errc::refused);
    CHECK(folder.make_folder(name).error().what.contains("is a symbolic link"));
    CHECK(!folder.read(name, 100));
    CHECK(!folder.create(name, "ours").value());
  }
  CHECK(folder.make_folder("pipe").error().what.contains("is not a folder"));
  CHECK(folder.read("pipe", 100).error().code == Errc::refused);
  CHECK(contents(elsewhere.path() / "file") == "theirs");
}

TEST_CASE("a file is created, read up to a bound, and replaced without its other names") {
  TempFolder at, elsewhere;
  auto folder = opened(at);
  REQUIRE(folder.create("a", "first").value());
  CHECK(!folder.create("a", "second").value());
  CHECK(folder.read("a", 5).value() == "first");
  CHECK(folder.read("a", 4).error().code == Errc::overloaded);
  CHECK(folder.read("b", 4).error().code == Errc::not_found);
  fs::create_hard_link(at.path() / "a", elsewhere.path() / "a");
  REQUIRE(folder.replace("a", "third", 0700));
  CHECK(contents(at.path() / "a") == "third");
  CHECK(contents(elsewhere.path() / "a") == "first");
  fs::create_symlink(elsewhere.path() / "a", at.path() / "link");
  REQUIRE(folder.replace("link", "fourth"));
  CHECK(contents(at.path() / "link") == "fourth");
  CHECK(contents(elsewhere.path() / "a") == "first");
  fs::create_directory(at.path() / "folder");
  CHECK(!folder.replace("folder", "fifth"));
  CHECK(folder.names() == std::vector<std::string>{"a", "folder", "link"});
}

TEST_CASE("an open folder stays the same one when another takes its path") {
  TempFolder at;
  fs::create_directory(at.path() / "a");
  auto folder = Folder::open(at.path() / "a");
  REQUIRE(folder);
  fs::rename(at.path() / "a", at.path() / "b");
  fs::create_directory(at.path() / "a");
  REQUIRE(folder->create("file", ""));
  CHECK(fs::exists(at.path() / "b/file"));
  CHECK(fs::canonical(folder->for_child()) == fs::canonical(at.path() / "b"));
}

TEST_CASE(
    "a file that is prepared replaces nothing until it is put in place, and can be discarded") {
  TempFolder at;
  auto folder = opened(at);
  REQUIRE(folder.create("a", "old"));
  auto first = folder.prepare("a", "new"), second = folder.prepare("b", "new");
  REQUIRE(first);
  REQUIRE(second);
  CHECK(contents(at.path() / "a") == "old");
  CHECK(!folder.has("b"));
  folder.discard(*second);
  REQUIRE(folder.put_in_place(*first, "a"));
  CHECK(contents(at.path() / "a") == "new");
  CHECK(folder.names() == std::vector<std::string>{"a"});
  CHECK(folder.prepare("a/b", "").error().code == Errc::denied);
}
