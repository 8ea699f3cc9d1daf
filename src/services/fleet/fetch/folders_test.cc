#include "services/fleet/fetch/folders.h"

#include <doctest/doctest.h>

#include <fstream>

#include "proof/testkit/temp_folder.h"

using namespace warren;
using namespace warren::fleet;

namespace fs = std::filesystem;

namespace {

void make_bare(const fs::path& path) {
  fs::create_directories(path / "objects");
  fs::create_directories(path / "refs");
  std::ofstream(path / "HEAD") << "ref: refs/heads/main\n";
}

std::vector<std::string> names(const std::vector<FoundRepository>& found) {
  std::vector<std::string> all;
  for (const auto& each : found) all.push_back(each.name);
  return all;
}

}  // namespace

TEST_CASE("repositories below a folder are named by their path, bare ones without .git") {
  TempFolder folder;
  auto base = fs::canonical(folder.path());
  make_bare(base / "host/owner/bare.git");
  fs::create_directories(base / "host/owner/worktree/.git");
  fs::create_directories(base / "host/owner/worktree/vendor/inner/.git");
  fs::create_directories(base / "empty");
  fs::create_directories(base / "1/2/3/4/5/6/.git");
  fs::create_directories(base / "1/2/3/4/5/x/7/.git");
  fs::create_directory_symlink(base / "host", base / "link");

  CHECK(names(repositories_below(base)) ==
        std::vector<std::string>{"1/2/3/4/5/6", "host/owner/bare", "host/owner/worktree"});
  CHECK(names(repositories_below(base / "host/owner/bare.git")) ==
        std::vector<std::string>{"bare"});
  CHECK(repositories_below(base / "empty").empty());
  CHECK(repositories_below(base / "nowhere").empty());
}

TEST_CASE("a pattern names repositories, and nothing else that matches") {
  TempFolder folder;
  const auto& base = folder.path();
  make_bare(base / "a/x.git");
  make_bare(base / "b/y.git");
  fs::create_directories(base / "b/empty.git");
  std::ofstream(base / "b/z.git") << "a file";
  CHECK(repositories_matching((base / "*/*.git").string()) ==
        std::vector<fs::path>{base / "a/x.git", base / "b/y.git"});
  CHECK(repositories_matching((base / "*/*.hg").string()).empty());
}
