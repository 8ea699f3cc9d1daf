#pragma once
// Repositories, and a real git server for them on 127.0.0.1, whose requests are counted.
#include <fstream>
#include <set>

#include "proof/testkit/certificates.h"
#include "proof/testkit/ports.h"
#include "proof/testkit/process.h"
#include "proof/testkit/run.h"
#include "proof/testkit/temp_folder.h"
#include "services/fleet/fetch/fetcher.h"

// Last: it defines macros.
#include <doctest/doctest.h>

namespace warren::fleet {

namespace fs = std::filesystem;

inline std::string contents(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

inline void write(const fs::path& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
}

// Bare repositories in a folder.
class Repositories {
 public:
  explicit Repositories(fs::path folder) : folder_(std::move(folder)) {
    fs::create_directories(folder_ / "repos");
  }

  const fs::path& folder() const { return folder_; }
  fs::path path(const std::string& name) const { return folder_ / "repos" / name; }

  void create(const std::string& name, const std::vector<std::string>& options = {}) const {
    std::vector<std::string> words{"init", "-q", "--bare", "-b", "main"};
    words.insert(words.end(), options.begin(), options.end());
    words.push_back(path(name));
    git(words);
    git({"-C", path(name), "config", "uploadpack.allowFilter", "true"});
  }
  // Adds a commit with this text in a file to a branch, and gives it.
  std::string commit(const std::string& name, const std::string& text,
                     const std::string& branch = "main") const {
    auto file = folder_ / "text";
    write(file, text);
    auto blob = git({"-C", path(name), "hash-object", "-w", file});
    auto entry = folder_ / "entry";
    write(entry, "100644 blob " + blob + "\tfile\n");
    auto script = fmt::format(
        "tree=$(git mktree < '{0}') && parent=$(git rev-parse -q --verify refs/heads/{1}); "
        "commit=$(git commit-tree -m text ${{parent:+-p $parent}} $tree) && "
        "git update-ref refs/heads/{1} $commit && echo $commit",
        entry.string(), branch);
    return said({"env", "GIT_DIR=" + path(name).string(), "sh", "-c", script});
  }
  std::string git(std::vector<std::string> words) const {
    words.insert(words.begin(), "git");
    return said(std::move(words));
  }

 private:
  std::string said(std::vector<std::string> words) const {
    auto log = folder_ / "git.log";
    fs::remove(log);
    Process process({std::move(words),
                     log,
                     {"GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@b", "GIT_COMMITTER_NAME=a",
                      "GIT_COMMITTER_EMAIL=a@b", "GIT_CONFIG_GLOBAL=/dev/null"}});
    int code = process.wait(60s);
    auto text = contents(log);
    REQUIRE_MESSAGE(code == 0, text);
    while (text.ends_with('\n')) text.pop_back();
    return text;
  }

  fs::path folder_;
};

// tests/git_server.py says what its paths do.
class GitServer {
 public:
  explicit GitServer(const Certificates* certificates = nullptr)
      : is_secure_(certificates != nullptr),
        process_(Program{words(certificates), folder_.path() / "log"}) {
    wait_for(30s, "the server listens", [&] { return fs::exists(folder_.path() / "ready"); });
  }

  const Repositories& repositories() const { return repositories_; }
  fs::path path(const std::string& name) const { return folder_.path() / name; }
  std::string host() const { return fmt::format("127.0.0.1:{}", web_.number()); }
  std::string url(const std::string& path) const {
    return fmt::format("{}://{}/{}", is_secure_ ? "https" : "http", host(), path);
  }
  std::string raw_url(const std::string& path) const {
    return fmt::format("git://127.0.0.1:{}/{}", raw_.number(), path);
  }

  std::vector<std::string> requests() const {
    std::vector<std::string> lines;
    std::ifstream file(path("requests"));
    for (std::string line; std::getline(file, line);) lines.push_back(line);
    return lines;
  }
  // Requests for packs of this path.
  long clones(const std::string& path) const {
    auto all = requests();
    return std::ranges::count_if(all, [&](const std::string& line) {
      return line.starts_with(fmt::format("fetch /{}/git-upload-pack ", path));
    });
  }
  Process& process() { return process_; }

 private:
  std::vector<std::string> words(const Certificates* certificates) const {
    std::string program = WARREN_TESTS "/git_server.py";
    std::vector<std::string> all{"python3", program, folder_.path(), std::to_string(web_.number()),
                                 std::to_string(raw_.number())};
    if (certificates)
      all.insert(all.end(), {certificates->server().certificate, certificates->server().key});
    return all;
  }

  TempFolder folder_;
  Repositories repositories_{folder_.path()};
  Port web_, raw_;
  bool is_secure_;
  Process process_;
};

inline UrlRules lenient() { return {.allows_http = true, .allows_git = true}; }

inline RemoteUrl url_of(const std::string& text, const UrlRules& rules = lenient()) {
  auto remote = RemoteUrl::parse(text, rules);
  REQUIRE_MESSAGE(remote, text);
  return remote->url;
}

inline MirrorSettings settings_in(const fs::path& folder) {
  MirrorSettings settings{.folder = folder / "mirrors"};
  settings.remote.rules = lenient();
  return settings;
}

inline Mirrors mirrors_of(MirrorSettings settings) {
  auto mirrors = Mirrors::open(std::move(settings));
  REQUIRE_MESSAGE(mirrors, mirrors.error().what);
  return std::move(*mirrors);
}

inline FetchRequest request_for(const RemoteUrl& url, std::vector<std::string> refs = {"HEAD"},
                                std::optional<Credential> credential = {}) {
  RemoteRequest remote{url, std::move(credential), Clock::now() + 60s, -1};
  return {std::move(remote), std::move(refs), 1};
}

// The text of the one file of a commit in a mirror.
inline std::string text_in(const Fetched& fetched, const Repositories& repositories,
                           const std::string& ref = "HEAD") {
  REQUIRE(fetched.resolved.commits.contains(ref));
  return repositories.git(
      {"-C", fetched.folder, "cat-file", "blob", fetched.resolved.commits.at(ref) + ":file"});
}

}  // namespace warren::fleet
