#include "base/host/git.h"

#include <doctest/doctest.h>
#include <sys/stat.h>

#include <algorithm>
#include <fstream>

#include "proof/testkit/temp_folder.h"

using namespace warren;
namespace fs = std::filesystem;

namespace {

bool has(const git::Command& command, const std::string& word) {
  return std::ranges::find(command.argv, word) != command.argv.end();
}

}  // namespace

TEST_CASE("every command of git has settings above the repository's, and no transport") {
  git::Repository repository{"/r/.git", "/r"};
  git::Layout layout{"/r/.git", "/r/.git", std::string(40, 'a')};
  auto own = git::PrivateGit::create(layout);
  REQUIRE(own);
  for (auto& command :
       {git::command(repository, {"ls-files"}),
        git::command(repository, {"cat-file", "-e", "main"}),
        git::command(repository, {"ls-files"}, git::Obeys::person), git::version_command(),
        git::layout_command(repository), own->checkout("/t", layout.head), own->status("/r")}) {
    auto environment = command.environment;
    CHECK(environment["GIT_ALLOW_PROTOCOL"] == "none");
    CHECK(environment["GIT_NO_LAZY_FETCH"] == "1");
    CHECK(environment["GIT_CONFIG_NOSYSTEM"] == "1");
    std::map<std::string, std::string> settings;
    for (int i = 0; i < std::stoi(environment["GIT_CONFIG_COUNT"]); ++i)
      settings[environment[fmt::format("GIT_CONFIG_KEY_{}", i)]] =
          environment[fmt::format("GIT_CONFIG_VALUE_{}", i)];
    CHECK(settings["core.hooksPath"] == "/dev/null");
    CHECK(settings["core.fsmonitor"] == "false");
    CHECK(settings.contains("core.excludesFile"));
    CHECK(settings.contains("core.attributesFile"));
  }
}

TEST_CASE("a person's own file of ignore rules counts if it is a regular file, and no other does") {
  TempFolder home;
  auto excludes = [&](git::Obeys obeys) {
    auto environment = git::command({"/r/.git", "/r"}, {"ls-files"}, obeys).environment;
    for (int i = 0; i < std::stoi(environment["GIT_CONFIG_COUNT"]); ++i)
      if (environment[fmt::format("GIT_CONFIG_KEY_{}", i)] == "core.excludesFile")
        return environment[fmt::format("GIT_CONFIG_VALUE_{}", i)];
    return std::string("none");
  };
  std::map<std::string, std::string> before;
  for (const char* name : {"HOME", "XDG_CONFIG_HOME"})
    if (const char* value = std::getenv(name)) before[name] = value;
  setenv("HOME", home.path().c_str(), 1);
  unsetenv("XDG_CONFIG_HOME");
  auto person = git::Obeys::person;
  CHECK(excludes(person) == "/dev/null");
  // First the place where git looks by default, then the one that is configured.
  fs::create_directories(home.path() / ".config/git");
  std::ofstream(home.path() / ".config/git/ignore") << "*.o\n";
  CHECK(excludes(person) == (home.path() / ".config/git/ignore").string());
  CHECK(excludes(git::Obeys::nobody) == "/dev/null");
  std::ofstream(home.path() / "mine") << "*.o\n";
  std::ofstream(home.path() / ".gitconfig") << "[core]\n\texcludesFile = ~/mine\n";
  CHECK(excludes(person) == (home.path() / "mine").string());
  fs::remove(home.path() / "mine");
  REQUIRE(mkfifo((home.path() / "mine").c_str(), 0600) == 0);
  CHECK(excludes(person) == "/dev/null");
  for (const char* name : {"HOME", "XDG_CONFIG_HOME"})
    before.contains(name) ? setenv(name, before[name].c_str(), 1) : unsetenv(name);
}

TEST_CASE("git is told the repository and its tree, and looks for neither") {
  auto command = git::command({"/r/.git", "/r"}, {"ls-files", "-z"});
  CHECK(command.environment["GIT_DIR"] == "/r/.git");
  CHECK(command.environment["GIT_WORK_TREE"] == "/r");
  CHECK(command.environment["HOME"] == "/nonexistent");
  CHECK(has(command, "ls-files"));
  auto bare = git::command({"/b.git", {}}, {"ls-tree", "main"});
  CHECK(bare.environment["GIT_DIR"] == "/b.git");
  CHECK(!bare.environment.contains("GIT_WORK_TREE"));
}

TEST_CASE("a private git has the objects and the index of the repository, and not its settings") {
  git::Layout layout{"/r/.git/worktrees/t", "/r/.git", std::string(64, 'a')};
  fs::path folder;
  {
    auto own = git::PrivateGit::create(layout);
    REQUIRE(own);
    auto command = own->checkout("/t", layout.head);
    folder = command.environment["GIT_DIR"];
    CHECK(command.environment["GIT_OBJECT_DIRECTORY"] == "/r/.git/objects");
    CHECK(command.environment["GIT_INDEX_FILE"] == "/r/.git/worktrees/t/index");
    CHECK(!command.environment.contains("GIT_COMMON_DIR"));
    std::ifstream config(folder / "config");
    std::string text{std::istreambuf_iterator<char>(config), {}};
    CHECK(text.contains("sha256"));
  }
  CHECK(!fs::exists(folder));
}

TEST_CASE("a repository is that of a folder, or of the nearest one around it") {
  TempFolder at;
  auto path = fs::canonical(at.path());
  fs::create_directories(path / "a/b");
  fs::create_directory(path / ".git");
  CHECK(git::repository_in(path).tree == path);
  CHECK(git::repository_in(path / "a").tree.empty());
  auto around = git::repository_around(path / "a/b");
  REQUIRE(around);
  CHECK(around->tree == path);
  CHECK(around->folder == path / ".git");
  std::ofstream(path / "a/.git") << "gitdir: elsewhere";
  CHECK(git::repository_around(path / "a/b")->tree == path / "a");
}

TEST_CASE("where a repository is, is taken from git only in the form in which git says it") {
  std::string hash(40, '1');
  auto layout = git::parse_layout("/r/.git/worktrees/t\n/r/.git\n" + hash + "\n");
  REQUIRE(layout);
  CHECK(layout->folder == "/r/.git/worktrees/t");
  CHECK(layout->common == "/r/.git");
  CHECK(layout->head == hash);
  CHECK(git::parse_layout("/r/.git\n/r/.git")->head.empty());
  for (std::string wrong : {"", "/r/.git", "r\nr\n", "/r\n/s\nHEAD", "/r\nx\n/r\nx\n"})
    CHECK_MESSAGE(!git::parse_layout(wrong), wrong);
}
