// A workspace that somebody else made, or that a tool in a container may write: what links in it
// point to stays as it was, and no program that its repository names is run.
#include <sys/stat.h>

#include <fstream>
#include <map>

#include "proof/testkit/process.h"
#include "with_client.h"

using namespace warren;
namespace fs = std::filesystem;

namespace {

std::string contents(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

void write(const fs::path& path, const std::string& text) {
  fs::create_directories(path.parent_path());
  std::ofstream(path, std::ios::binary) << text;
}

void write_program(const fs::path& path, const std::string& text) {
  write(path, "#!/bin/sh\n" + text);
  fs::permissions(path, fs::perms::owner_all);
}

// All that is below a folder, with its texts.
std::map<std::string, std::string> all_in(const fs::path& folder) {
  std::map<std::string, std::string> all;
  for (const auto& entry : fs::recursive_directory_iterator(folder))
    all[entry.path().lexically_relative(folder)] =
        entry.is_regular_file() ? contents(entry.path()) : "";
  return all;
}

// A name of ours, of a process that no longer runs.
constexpr auto stale = "0123abcd-Coder-999999999";

// A person's home with a clone of somebody's repository, and what may not be touched beside it.
struct Home {
  RedisServer server;
  TempFolder folder;
  fs::path path = fs::canonical(folder.path());
  fs::path work = path / "work", precious = path / "precious", ran = path / "ran";

  Home() {
    write(precious / "thesis.txt", "years of work");
    write(precious / stale / "letters.txt", "from you");
    write(precious / "worktrees" / stale / "photos.txt", "of us");
    write(precious / ".gitignore", "mine");
    fs::create_directory(ran);
    git({"init", "-q", "-b", "main", (path / "theirs").string()});
  }

  // What is in the repository before it is cloned.
  fs::path theirs(const std::string& name) const { return path / "theirs" / name; }
  void clone() const {
    git({"-C", (path / "theirs").string(), "add", "--all", "--force"});
    git({"-C", (path / "theirs").string(), "commit", "-q", "--allow-empty", "-m", "theirs"});
    git({"clone", "-q", (path / "theirs").string(), work.string()});
  }
  // One role, whose tool is not in the repository and does this.
  void crew(const std::string& mode, const std::string& script) const {
    write_program(path / "tool", script);
    write(work / "warren.yml", fmt::format(R"(version: "1.0"
agents:
  Coder:
    command: [{}]
    bidding_strategy: exclusive
    workspace: {{mode: {}}}
)",
                                           (path / "tool").string(), mode));
  }

  std::string git(std::vector<std::string> words) const {
    words.insert(words.begin(), "git");
    return said({words, path / "git.log", environment()});
  }
  // What it says; it must end well.
  std::string warren(std::vector<std::string> words, int exit = 0) const {
    words.insert(words.begin(), {"env", "-C", work.string(), WARREN_BINARY});
    return said({words, path / "warren.log", environment()}, exit);
  }
  std::string daemon_log() const { return contents(path / ".local/state/warren/warren-demo.log"); }
  // What ran that may not.
  std::string programs_run() const {
    std::string names;
    for (const auto& entry : fs::directory_iterator(ran))
      names += entry.path().filename().string() + " ";
    return names;
  }

 private:
  std::vector<std::string> environment() const {
    return {"HOME=" + path.string(), "REDIS_URL=redis://" + server.address(),
            "XDG_STATE_HOME=",       "XDG_CONFIG_HOME=",
            "GIT_AUTHOR_NAME=a",     "GIT_AUTHOR_EMAIL=a@b",
            "GIT_COMMITTER_NAME=a",  "GIT_COMMITTER_EMAIL=a@b"};
  }
  static std::string said(const Program& program, int exit = 0) {
    fs::remove(program.log);
    Process process(program);
    int got = process.wait(60s);
    auto text = contents(program.log);
    CHECK_MESSAGE(got == exit, text);
    return text;
  }
};

// An instance in the clone. Returns when its agent has started, and so has looked at what is there.
class Instance {
 public:
  explicit Instance(const Home& home) : home_(home) {
    home_.warren({"up", "--name", "demo"});
    run([](const Home& of) -> awaitable<void> {
      auto has_started = [&of] { return of.daemon_log().contains("agent.started"); };
      co_await eventually(30s, "the agent has started", has_started);
    }(home_));
  }
  ~Instance() { home_.warren({"down", "--name", "demo"}); }
  Instance(const Instance&) = delete;
  Instance& operator=(const Instance&) = delete;

  // A goal and what comes of it: 0 is a Terminal artefact, 1 a failure.
  void work_on_goal(int exit) const {
    home_.warren({"forage", "--name", "demo", "--goal", "g", "--watch"}, exit);
  }

 private:
  const Home& home_;
};

constexpr auto ends_well =
    R"(echo '{"artefact_type":"Page","structural_type":"Terminal","summary":"s"}')";

}  // namespace

TEST_CASE("up deletes nothing behind a link, whichever part of .warren/worktrees is one") {
  for (std::string link : {".warren", ".warren/worktrees"}) {
    CAPTURE(link);
    Home home;
    fs::create_directories(home.theirs(link).parent_path());
    fs::create_directory_symlink(home.precious, home.theirs(link));
    home.clone();
    home.crew("worktree", ends_well);
    auto before = all_in(home.precious);
    Instance instance(home);
    CHECK(all_in(home.precious) == before);
    CHECK(home.daemon_log().contains((home.work / link).string() + " is a symbolic link"));
  }
}

TEST_CASE("a goal writes nothing through a link in the workspace, and says what is in its way") {
  for (std::string link : {".warren", ".warren/worktrees"}) {
    CAPTURE(link);
    Home home;
    fs::create_directories(home.theirs(link).parent_path());
    fs::create_directory_symlink(home.precious, home.theirs(link));
    home.clone();
    home.crew("worktree", ends_well);
    auto before = all_in(home.precious);
    Instance instance(home);
    instance.work_on_goal(1);
    CHECK(all_in(home.precious) == before);
    auto failures = home.warren({"hoard", "--name", "demo", "--output", "jsonl"});
    CHECK(failures.contains((home.work / link).string() + " is a symbolic link"));
  }
}

TEST_CASE("a .gitignore of somebody else stays as it is, also behind a link") {
  Home home;
  fs::create_directories(home.theirs(".warren"));
  fs::create_symlink(home.precious / "thesis.txt", home.theirs(".warren/.gitignore"));
  home.clone();
  home.crew("worktree", ends_well);
  auto before = all_in(home.precious);
  Instance instance(home);
  instance.work_on_goal(0);
  CHECK(all_in(home.precious) == before);
}

TEST_CASE("of .warren/worktrees only what git registered is removed, and never by a link") {
  Home home;
  home.clone();
  home.crew("worktree", ends_well);
  auto trees = home.work / ".warren/worktrees";
  write(trees / "4567abcd-Coder-999999999" / "mine.txt", "not of git");
  write(trees / "notes" / "mine.txt", "not even a name of ours");
  fs::create_directory_symlink(home.precious, trees / "89ababcd-Coder-999999999");
  // One that git made, as an agent that was killed leaves it.
  home.git(
      {"-C", home.work.string(), "worktree", "add", "-q", "--detach", (trees / stale).string()});
  // Others that somebody wrote into .git to lead us elsewhere.
  auto admin = home.work / ".git/worktrees";
  auto plant = [&](const std::string& id, const fs::path& place) {
    write(admin / id / "gitdir", (place / ".git").string() + "\n");
    write(admin / id / "commondir", "../..\n");
    write(admin / id / "HEAD", contents(home.work / ".git/HEAD"));
    write(place / ".git", "gitdir: " + (admin / id).string() + "\n");
  };
  plant("cdefabcd-Coder-999999999", home.precious);
  plant("89ababcd-Coder-999999999", trees / "89ababcd-Coder-999999999");
  plant("fedcabcd-Coder-999999999", home.precious / stale);
  fs::create_directory_symlink(home.precious / stale, trees / "fedcabcd-Coder-999999999");
  auto before = all_in(home.precious);
  Instance instance(home);
  CHECK(all_in(home.precious) == before);
  CHECK(!fs::exists(trees / stale));
  CHECK(!fs::exists(admin / stale));
  CHECK(contents(trees / "4567abcd-Coder-999999999/mine.txt") == "not of git");
  CHECK(contents(trees / "notes/mine.txt") == "not even a name of ours");
  auto log = home.daemon_log();
  CAPTURE(log);
  CHECK(log.contains("agent.tree_left"));
  CHECK(log.contains((trees / "4567abcd-Coder-999999999").string()));
}

TEST_CASE("where git keeps its own worktrees is not believed to be a folder either") {
  Home home;
  home.clone();
  home.crew("worktree", ends_well);
  auto trees = home.work / ".warren/worktrees";
  write(trees / stale / "a.txt", "");
  write(home.precious / stale / "gitdir", (trees / stale / ".git").string() + "\n");
  fs::create_directory_symlink(home.precious, home.work / ".git/worktrees");
  auto before = all_in(home.precious);
  Instance instance(home);
  CHECK(all_in(home.precious) == before);
  instance.work_on_goal(1);
  CHECK(all_in(home.precious) == before);
}

TEST_CASE("a pipe in the place of a folder holds nobody up") {
  Home home;
  home.clone();
  home.crew("worktree", ends_well);
  fs::create_directories(home.work / ".warren");
  REQUIRE(mkfifo((home.work / ".warren/worktrees").c_str(), 0600) == 0);
  Instance instance(home);
  instance.work_on_goal(1);
  CHECK(home.daemon_log().contains(".warren/worktrees is not a folder"));
}

TEST_CASE("init writes through no link, not even when it may replace files") {
  Home home;
  fs::create_directory_symlink(home.precious, home.theirs("agents"));
  home.clone();
  auto before = all_in(home.precious);
  CHECK(home.warren({"init"}, 1).contains("agents is a symbolic link"));
  CHECK(all_in(home.precious) == before);
  CHECK(!fs::exists(home.work / "warren.yml"));
  fs::remove(home.work / "agents");
  fs::create_symlink(home.precious / "thesis.txt", home.work / "warren.yml");
  fs::create_directory(home.work / "agents");
  fs::create_hard_link(home.precious / stale / "letters.txt", home.work / "agents/writer.sh");
  home.warren({"init", "--force"});
  CHECK(all_in(home.precious) == before);
  CHECK(fs::is_regular_file(fs::symlink_status(home.work / "warren.yml")));
  CHECK(contents(home.work / "agents/writer.sh").starts_with("#!/bin/sh"));
}

TEST_CASE("export writes through no link in place of its unfinished file") {
  Home home;
  fs::create_symlink(home.precious / "thesis.txt", home.theirs("board.jsonl.part"));
  home.clone();
  home.crew("rw", ends_well);
  auto before = all_in(home.precious);
  Instance instance(home);
  home.warren({"export", "--name", "demo", "board.jsonl"});
  CHECK(all_in(home.precious) == before);
  CHECK(contents(home.work / "board.jsonl").contains("demo"));
}

TEST_CASE("a commit that is not there is not asked for at a remote of the repository") {
  // As a tool in a container with a writable workspace leaves it. Each remote would run a program.
  for (std::string remote : {"ext", "uploadpack", "vcs", "ssh", "included"}) {
    CAPTURE(remote);
    Home home;
    home.clone();
    auto program = home.path / "evil";
    write_program(program, fmt::format("touch {}/{}\n", home.ran.string(), remote));
    std::string settings =
        "[core]\n repositoryformatversion = 1\n[extensions]\n partialClone = evil\n"
        "[protocol]\n allow = always\n[protocol \"ext\"]\n allow = always\n"
        "[protocol \"file\"]\n allow = always\n[protocol \"ssh\"]\n allow = always\n[remote "
        "\"evil\"]\n promisor = true\n";
    if (remote == "ext" || remote == "included")
      settings += " url = ext::" + program.string() + "\n";
    if (remote == "uploadpack")
      settings +=
          " url = " + home.theirs("").string() + "\n uploadpack = " + program.string() + "\n";
    if (remote == "vcs") settings += " vcs = ext\n url = " + program.string() + "\n";
    if (remote == "ssh")
      settings += " url = ssh://host/x\n[core]\n sshCommand = " + program.string() + "\n";
    if (remote == "included") {
      write(home.work / ".git/more", settings);
      settings =
          "[core]\n repositoryformatversion = 1\n[extensions]\n partialClone = evil\n"
          "[include]\n path = more\n";
    }
    std::ofstream(home.work / ".git/config", std::ios::app) << settings;
    home.crew("rw", R"(echo '{"artefact_type":"CodeCommit","artefact_payload":)"
                    R"("1234567890123456789012345678901234567890","summary":"s"}')");
    Instance instance(home);
    instance.work_on_goal(1);
    CHECK(home.programs_run() == "");
    CHECK(home.daemon_log().contains("is not in the repository"));
  }
}

TEST_CASE("no filter, hook, monitor or driver of the repository runs for a goal in a worktree") {
  Home home;
  write(home.theirs("page"), "as committed\n");
  write(home.theirs("deep/er"), "as committed\n");
  write(home.theirs(".gitattributes"), "* filter=evil diff=evil merge=evil\ndeep/* filter=long\n");
  home.clone();
  auto folder = home.work / ".git";
  auto quoted = [&](const std::string& name) {
    return fmt::format("\"touch {}/{}; cat\"", home.ran.string(), name);
  };
  std::string settings;
  for (std::string name : {"fsmonitor", "pager", "editor", "askPass", "gitProxy", "sshCommand",
                           "alternateRefsCommand"})
    settings += fmt::format("[core]\n {} = {}\n", name, quoted(name));
  settings += fmt::format("[filter \"evil\"]\n smudge = {}\n clean = {}\n required = true\n",
                          quoted("smudge"), quoted("clean"));
  settings += fmt::format("[filter \"long\"]\n process = {}\n", quoted("process"));
  settings += fmt::format("[diff]\n external = {}\n", quoted("external"));
  settings += fmt::format("[diff \"evil\"]\n textconv = {}\n command = {}\n", quoted("textconv"),
                          quoted("command"));
  settings += fmt::format("[merge \"evil\"]\n driver = {}\n", quoted("driver"));
  settings += fmt::format("[gpg]\n program = {}\n", quoted("gpg"));
  settings += fmt::format("[credential]\n helper = {}\n", quoted("helper"));
  settings += fmt::format("[alias]\n status = !{0}\n worktree = !{0}\n", quoted("alias"));
  settings += "[core]\n hooksPath = hooks\n repositoryformatversion = 1\n";
  settings += "[extensions]\n worktreeConfig = true\n";
  std::ofstream(folder / "config", std::ios::app) << settings;
  write(folder / "config.worktree", "[core]\n hooksPath = " + (folder / "hooks").string() +
                                        "\n fsmonitor = " + quoted("worktree-fsmonitor") + "\n");
  write(folder / "info/attributes", "page filter=evil\n");
  for (std::string hook : {"post-checkout", "reference-transaction", "post-index-change",
                           "fsmonitor-watchman", "pre-auto-gc"})
    write_program(folder / "hooks" / hook, fmt::format("touch {}/{}\n", home.ran.string(), hook));
  // What git compares by its text, because its times say nothing.
  write(home.work / "page", "as committed\n");
  fs::last_write_time(home.work / "page", fs::last_write_time(home.work / "page") + 1h);
  home.crew("worktree",
            fmt::format("test \"$(cat page deep/er)\" = \"$(printf 'as committed\\nas committed')\""
                        " && {}\n",
                        ends_well));
  Instance instance(home);
  instance.work_on_goal(0);
  CHECK(home.programs_run() == "");
  CHECK(fs::is_empty(home.work / ".warren/worktrees"));
}

TEST_CASE("a repository that says its working tree is elsewhere is not believed") {
  Home home;
  write(home.theirs("page"), "as committed\n");
  home.clone();
  home.git({"-C", home.work.string(), "config", "core.worktree", home.precious.string()});
  home.crew("worktree", fmt::format("test -e page && {}\n", ends_well));
  auto before = all_in(home.precious);
  Instance instance(home);
  instance.work_on_goal(0);
  CHECK(all_in(home.precious) == before);
}

TEST_CASE("a commit in which the workspace's folder is a link gives a tool no folder") {
  Home home;
  write(home.theirs("page"), "");
  home.clone();
  auto top = home.work;
  home.work = top / "sub";  // the workspace is a folder of the repository; in its commit a link
  fs::create_directory_symlink(home.precious, home.work);
  home.git({"-C", top.string(), "add", "sub"});
  home.git({"-C", top.string(), "commit", "-q", "-m", "link"});
  fs::remove(home.work);
  fs::create_directory(home.work);
  home.crew("worktree", fmt::format("touch here && {}\n", ends_well));
  auto before = all_in(home.precious);
  Instance instance(home);
  instance.work_on_goal(1);
  CHECK(all_in(home.precious) == before);
}

TEST_CASE("forage tells of changes that are not committed, and not of what the person ignores") {
  Home home;
  write(home.theirs("page"), "as committed\n");
  write(home.theirs("warren.yml"), "");
  home.clone();
  home.crew("rw", ends_well);
  home.git({"-C", home.work.string(), "commit", "-q", "-a", "-m", "crew"});
  Instance instance(home);
  auto warns = [&] {
    return home.warren({"forage", "--name", "demo", "--goal", "g"}).contains("not committed");
  };
  write(home.path / ".gitconfig",
        "[core]\n excludesFile = " + (home.path / "ignored").string() + "\n");
  write(home.path / "ignored", "*.swp\n");
  write(home.work / "page.swp", "");
  write(home.work / ".git/info/exclude", "*.mine\n");
  write(home.work / "page.mine", "");
  CHECK(!warns());
  write(home.work / "page", "changed\n");
  CHECK(warns());
  home.git({"-C", home.work.string(), "checkout", "-q", "page"});
  CHECK(!warns());
  write(home.work / "new", "");
  CHECK(warns());
}
