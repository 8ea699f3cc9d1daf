// Repositories are brought from real git servers, once and no more than once, and what goes wrong
// has its type.
#include <random>
#include <thread>

#include "with_git_server.h"

using namespace warren;
using namespace warren::fleet;

namespace {

struct Place {
  TempFolder folder;
  GitServer server;
  const Repositories& repositories = server.repositories();
  Mirrors mirrors = mirrors_of(settings_in(folder.path()));

  Result<Fetched> fetch(const std::string& path, std::vector<std::string> refs = {"HEAD"}) const {
    return mirrors.fetch(request_for(url_of(server.url(path)), std::move(refs)));
  }
  Errc code(const std::string& text, std::optional<Credential> credential = {}) const {
    auto fetched = mirrors.fetch(request_for(url_of(text), {"HEAD"}, std::move(credential)));
    REQUIRE_MESSAGE(!fetched, text);
    MESSAGE(fetched.error().what);
    return fetched.error().code;
  }
};

}  // namespace

TEST_CASE("a repository is brought from a web server with its newest commit and no more") {
  Place place;
  place.repositories.create("one.git");
  place.repositories.commit("one.git", "first");
  auto newest = place.repositories.commit("one.git", "second");
  auto fetched = place.fetch("open/one.git");
  REQUIRE_MESSAGE(fetched, fetched.error().what);
  CHECK(fetched->is_transferred);
  CHECK(fetched->resolved.commits.at("HEAD") == newest);
  CHECK(fetched->resolved.head == "refs/heads/main");
  CHECK(fetched->resolved.url.text() == place.server.url("open/one.git"));
  CHECK(text_in(*fetched, place.repositories) == "second");
  CHECK(place.repositories.git({"-C", fetched->folder, "rev-list", "--all", "--count"}) == "1");
  CHECK(place.server.clones("open/one.git") == 1);
}

TEST_CASE("what is here already is not transferred again, and a new commit is") {
  Place place;
  place.repositories.create("one.git");
  place.repositories.commit("one.git", "first");
  REQUIRE(place.fetch("open/one.git"));
  auto again = place.fetch("open/one.git");
  REQUIRE(again);
  CHECK(!again->is_transferred);
  CHECK(place.server.clones("open/one.git") == 1);
  auto newest = place.repositories.commit("one.git", "second");
  auto resolved = place.mirrors.resolve(request_for(url_of(place.server.url("open/one.git"))));
  REQUIRE(resolved);
  CHECK(resolved->commits.at("HEAD") == newest);
  CHECK(place.server.clones("open/one.git") == 1);
  auto later = place.fetch("open/one.git");
  REQUIRE(later);
  CHECK(later->is_transferred);
  CHECK(later->resolved.commits.at("HEAD") == newest);
  CHECK(text_in(*later, place.repositories) == "second");
}

TEST_CASE("only the refs that are named are brought: branches, tags, and what HEAD is") {
  Place place;
  place.repositories.create("one.git");
  auto main = place.repositories.commit("one.git", "main");
  auto next = place.repositories.commit("one.git", "next", "next/one");
  place.repositories.commit("one.git", "other", "other");
  auto at = place.repositories.path("one.git");
  place.repositories.git({"-C", at, "tag", "-a", "-m", "v1", "v1", "next/one"});
  place.repositories.git({"-C", at, "tag", "tree", "main^{tree}"});
  auto fetched = place.fetch("open/one.git",
                             {"main", "refs/heads/next/one", "v1", "gone", "refs/tags/v1", "tree"});
  REQUIRE_MESSAGE(fetched, fetched.error().what);
  std::map<std::string, std::string> expected{
      {"main", main}, {"refs/heads/next/one", next}, {"v1", next}, {"refs/tags/v1", next}};
  CHECK(fetched->resolved.commits == expected);
  CHECK(text_in(*fetched, place.repositories, "v1") == "next");
  auto refs = place.repositories.git({"-C", fetched->folder, "for-each-ref"});
  CHECK(!refs.contains("other"));
  // A branch in the place of a folder of branches, and the other way round.
  place.repositories.git({"-C", at, "update-ref", "-d", "refs/heads/next/one"});
  auto flat = place.repositories.commit("one.git", "flat", "next");
  auto moved = place.fetch("open/one.git", {"next"});
  REQUIRE_MESSAGE(moved, moved.error().what);
  CHECK(moved->resolved.commits.at("next") == flat);
}

TEST_CASE("history is brought as deep as is asked for") {
  Place place;
  place.repositories.create("one.git");
  for (const char* text : {"1", "2", "3", "4"}) place.repositories.commit("one.git", text);
  auto count = [&](unsigned depth) {
    auto request = request_for(url_of(place.server.url("open/one.git")));
    request.depth = depth;
    auto fetched = place.mirrors.fetch(request);
    REQUIRE_MESSAGE(fetched, fetched.error().what);
    return place.repositories.git({"-C", fetched->folder, "rev-list", "--all", "--count"});
  };
  CHECK(count(1) == "1");
  CHECK(count(3) == "3");
}

TEST_CASE("an empty repository has no commits, which is no error") {
  Place place;
  place.repositories.create("empty.git");
  auto fetched = place.fetch("open/empty.git");
  REQUIRE_MESSAGE(fetched, fetched.error().what);
  CHECK(fetched->resolved.commits.empty());
}

TEST_CASE(
    "a repository with hashes of 64 digits is brought like any other, also after it changed") {
  Place place;
  place.repositories.create("one.git");
  place.repositories.commit("one.git", "sha1");
  REQUIRE(place.fetch("open/one.git"));
  fs::remove_all(place.repositories.path("one.git"));
  place.repositories.create("one.git", {"--object-format=sha256"});
  auto commit = place.repositories.commit("one.git", "sha256");
  CHECK(commit.size() == 64);
  auto fetched = place.fetch("open/one.git");
  REQUIRE_MESSAGE(fetched, fetched.error().what);
  CHECK(fetched->resolved.commits.at("HEAD") == commit);
  CHECK(text_in(*fetched, place.repositories) == "sha256");
}

TEST_CASE("a repository is brought from git daemon") {
  TempFolder folder;
  Repositories repositories(folder.path());
  repositories.create("one.git");
  auto commit = repositories.commit("one.git", "text");
  Port port;
  Process daemon({{"git", "daemon", "--reuseaddr", "--listen=127.0.0.1", "--export-all",
                   fmt::format("--port={}", port.number()),
                   "--base-path=" + (folder.path() / "repos").string()},
                  folder.path() / "daemon.log"});
  auto mirrors = mirrors_of(settings_in(folder.path()));
  auto url = [&](const char* name) {
    return url_of(fmt::format("git://127.0.0.1:{}/{}", port.number(), name));
  };
  wait_for(30s, "the daemon answers", [&]() -> Result<> {
    auto resolved = mirrors.resolve(request_for(url("one.git")));
    if (!resolved) CHECK(resolved.error().code == Errc::unavailable);
    if (!resolved) return std::unexpected(resolved.error());
    return ok;
  });
  auto fetched = mirrors.fetch(request_for(url("one.git")));
  REQUIRE_MESSAGE(fetched, fetched.error().what);
  CHECK(fetched->resolved.commits.at("HEAD") == commit);
  CHECK(text_in(*fetched, repositories) == "text");
  auto gone = mirrors.fetch(request_for(url("gone.git")));
  REQUIRE(!gone);
  // It does not say whether there is one.
  CHECK_MESSAGE(gone.error().code == Errc::refused, gone.error().what);
}

TEST_CASE("a repository is brought from an allowed folder, whoever owns it, and runs nothing") {
  TempFolder folder;
  auto root = fs::canonical(folder.path());
  Repositories repositories(root);
  repositories.create("one.git");
  auto commit = repositories.commit("one.git", "text");
  auto at = repositories.path("one.git");
  auto evil = "touch " + (root / "ran").string();
  for (const char* setting : {"uploadpack.packObjectsHook", "core.fsmonitor", "core.sshCommand",
                              "core.alternateRefsCommand", "core.gitProxy", "core.pager"})
    repositories.git({"-C", at, "config", setting, evil});
  fs::create_directories(at / "hooks");
  for (const char* hook : {"post-upload-pack", "reference-transaction", "pre-auto-gc"}) {
    write(at / "hooks" / hook, "#!/bin/sh\n" + evil + "\n");
    fs::permissions(at / "hooks" / hook, fs::perms::owner_all);
  }
  auto settings = settings_in(root);
  settings.remote.rules.folders = {root / "repos"};
  auto rules = settings.remote.rules;
  auto mirrors = mirrors_of(settings);
  for (const auto& text : {at.string(), "file://" + at.string()}) {
    auto fetched = mirrors.fetch(request_for(url_of(text, rules)));
    REQUIRE_MESSAGE(fetched, fetched.error().what);
    CHECK(fetched->resolved.commits.at("HEAD") == commit);
    CHECK(text_in(*fetched, repositories) == "text");
  }
  CHECK(!fs::exists(root / "ran"));
  auto url = url_of(at.string(), rules);
  fs::rename(at, root / "elsewhere.git");
  auto gone = mirrors.fetch(request_for(url));
  REQUIRE(!gone);
  CHECK(gone.error().code == Errc::not_found);
  fs::create_directory_symlink(root / "elsewhere.git", at);
  auto linked = mirrors.fetch(request_for(url));
  REQUIRE(!linked);
  CHECK(linked.error().code == Errc::denied);
  fs::remove(at);
  fs::create_directory(at);
  auto hollow = mirrors.fetch(request_for(url));
  REQUIRE(!hollow);
  CHECK_MESSAGE(hollow.error().code == Errc::not_found, hollow.error().what);
  CHECK(hollow.error().what.contains(at.string()));
}

TEST_CASE("what goes wrong at a web server has its type") {
  Place place;
  place.repositories.create("one.git");
  place.repositories.commit("one.git", "text");
  write(place.server.path("token"), "right");
  auto url = [&](const char* path) { return place.server.url(path); };
  CHECK(place.code(url("open/gone.git")) == Errc::not_found);
  CHECK(place.code(url("auth/one.git")) == Errc::denied);
  CHECK(place.code(url("auth/one.git"), Credential{"anna", Secret("wrong")}) == Errc::denied);
  CHECK(place.code(url("status/401")) == Errc::denied);
  CHECK(place.code(url("status/403")) == Errc::denied);
  CHECK(place.code(url("status/404")) == Errc::not_found);
  CHECK(place.code(url("status/410")) == Errc::not_found);
  CHECK(place.code(url("status/400")) == Errc::refused);
  CHECK(place.code(url("status/429")) == Errc::unavailable);
  CHECK(place.code(url("status/500")) == Errc::unavailable);
  CHECK(place.code(url("status/503")) == Errc::unavailable);
  Port nobody;
  CHECK(place.code(fmt::format("http://127.0.0.1:{}/x", nobody.number())) == Errc::unavailable);
  CHECK(place.code(fmt::format("git://127.0.0.1:{}/x", nobody.number())) == Errc::unavailable);
  auto invalid = place.fetch("open/one.git", {"--upload-pack=x"});
  REQUIRE(!invalid);
  CHECK(invalid.error().code == Errc::invalid);
}

TEST_CASE("a server is known by a certificate of an authority that the operator trusts") {
  TempFolder folder;
  Certificates certificates;
  GitServer server(&certificates);
  server.repositories().create("one.git");
  server.repositories().commit("one.git", "text");
  auto settings = settings_in(folder.path());
  auto request = request_for(url_of(server.url("open/one.git")));
  auto strange = mirrors_of(settings).fetch(request);
  REQUIRE(!strange);
  CHECK_MESSAGE(strange.error().code == Errc::denied, strange.error().what);
  settings.remote.certificates = certificates.ca();
  auto fetched = mirrors_of(settings).fetch(request);
  CHECK_MESSAGE(fetched, fetched.error().what);
}

TEST_CASE("ssh runs without a person, and is asked with options of ours only") {
  // There is no ssh server here: a program of this name in $PATH notes what it is asked.
  TempFolder folder;
  auto programs = folder.path() / "bin";
  fs::create_directory(programs);
  write(programs / "ssh", "#!/bin/sh\nfor word; do echo \"$word\"; done > " +
                              (folder.path() / "asked").string() +
                              "\necho 'Permission denied (publickey).' >&2\nexit 255\n");
  fs::permissions(programs / "ssh", fs::perms::owner_all);
  std::string before = std::getenv("PATH");
  setenv("PATH", (programs.string() + ":" + before).c_str(), 1);
  auto settings = settings_in(folder.path());
  settings.remote.ssh = {.identity = "/keys/it's mine", .known_hosts = "/keys/hosts"};
  auto refused = mirrors_of(settings).fetch(request_for(url_of("git@host.invalid:owner/na'me")));
  setenv("PATH", before.c_str(), 1);
  REQUIRE(!refused);
  CHECK(refused.error().code == Errc::denied);
  auto asked = contents(folder.path() / "asked");
  CAPTURE(asked);
  for (const char* word :
       {"-F\nnone\n", "BatchMode=yes", "StrictHostKeyChecking=yes", "-i\n/keys/it's mine\n",
        "UserKnownHostsFile=/keys/hosts", "git@host.invalid\ngit-upload-pack 'owner/na'\\''me'\n"})
    CHECK(asked.contains(word));
}

TEST_CASE("a repository that moved on its host is followed, and the answer says where to") {
  Place place;
  place.repositories.create("one.git");
  auto commit = place.repositories.commit("one.git", "text");
  auto fetched = place.fetch("moved/one.git");
  REQUIRE_MESSAGE(fetched, fetched.error().what);
  CHECK(fetched->resolved.commits.at("HEAD") == commit);
  CHECK(fetched->resolved.url.repo_id() == place.server.host() + "/open/one");
  CHECK(fetched->resolved.is_moved);
  CHECK(place.server.clones("open/one.git") == 1);
  // Who only sends us there for now may send us elsewhere the next time.
  auto lent = place.mirrors.resolve(request_for(url_of(place.server.url("lent/one.git"))));
  REQUIRE_MESSAGE(lent, lent.error().what);
  CHECK(lent->commits.at("HEAD") == commit);
  CHECK(!lent->is_moved);
  auto here = place.mirrors.resolve(request_for(url_of(place.server.url("open/one.git"))));
  REQUIRE(here);
  CHECK(!here->is_moved);
  CHECK(place.code(place.server.url("loop/one.git")) == Errc::refused);
}

TEST_CASE("another URL of the same id uses the same mirror") {
  Place place;
  place.repositories.create("one.git");
  place.repositories.commit("one.git", "text");
  REQUIRE(place.fetch("open/one.git"));
  fs::rename(place.repositories.path("one.git"), place.repositories.path("one"));
  auto fetched = place.fetch("open/one");
  REQUIRE_MESSAGE(fetched, fetched.error().what);
  CHECK(!fetched->is_transferred);
  CHECK(place.server.clones("open/one") == 0);
}

TEST_CASE("of many who want a repository at once, over all processes, one brings it") {
  Place place;
  place.repositories.create("one.git");
  auto commit = place.repositories.commit("one.git", "text");
  std::vector<Result<Fetched>> results;
  for (int i = 0; i < 6; ++i) results.emplace_back(fail(Errc::cancelled, "not yet"));
  {
    // A lock belongs to who opened its file: each thread with its own is like a process.
    std::vector<std::jthread> threads;
    for (auto& result : results)
      threads.emplace_back([&] {
        auto mirrors = Mirrors::open(settings_in(place.folder.path()));
        if (mirrors) result = mirrors->fetch(request_for(url_of(place.server.url("open/one.git"))));
      });
  }
  int transferred = 0;
  for (auto& result : results) {
    REQUIRE_MESSAGE(result, result.error().what);
    CHECK(result->resolved.commits.at("HEAD") == commit);
    transferred += result->is_transferred ? 1 : 0;
  }
  CHECK(transferred == 1);
  CHECK(place.server.clones("open/one.git") == 1);
}

TEST_CASE("a commit that was brought earlier is found without the server") {
  Place place;
  place.repositories.create("one.git");
  auto commit = place.repositories.commit("one.git", "text");
  auto url = url_of(place.server.url("open/one.git"));
  auto deadline = Clock::now() + 30s;
  auto before = place.mirrors.find(url, commit, deadline);
  REQUIRE(!before);
  CHECK(before.error().code == Errc::not_found);
  REQUIRE(place.fetch("open/one.git"));
  place.server.process().kill();
  auto found = place.mirrors.find(url, commit, deadline);
  REQUIRE_MESSAGE(found, found.error().what);
  CHECK(place.repositories.git({"-C", found->folder, "cat-file", "blob", commit + ":file"}) ==
        "text");
  CHECK(!place.mirrors.find(url, std::string(40, '1'), deadline));
}

TEST_CASE("a mirror of many packs becomes one of one pack, unless somebody reads it") {
  Place place;
  auto settings = settings_in(place.folder.path());
  settings.most_packs = 3;
  auto mirrors = mirrors_of(settings);
  place.repositories.create("one.git");
  auto url = url_of(place.server.url("open/one.git"));
  std::optional<Fetched> last;
  std::string first;
  auto packs = [&] {
    auto count = 0;
    for (const auto& entry : fs::directory_iterator(last->folder / "objects/pack"))
      count += entry.path().extension() == ".pack" ? 1 : 0;
    return count;
  };
  auto fetch_next = [&](int i) {
    auto commit = place.repositories.commit("one.git", fmt::format("text {}", i));
    if (first.empty()) first = commit;
    auto fetched = mirrors.fetch(request_for(url));
    REQUIRE_MESSAGE(fetched, fetched.error().what);
    last = std::move(*fetched);
    CHECK(text_in(*last, place.repositories) == fmt::format("text {}", i));
  };
  for (int i = 0; i < 5; ++i) {
    fetch_next(i);
    if (i < 4) last.reset();
  }
  CHECK(packs() == 2);  // the fifth, beside one of the four before
  CHECK(!mirrors.find(url, first, Clock::now() + 30s));
  Hold reading = std::move(last->hold);
  for (int i = 5; i < 9; ++i) fetch_next(i);
  CHECK(packs() == 6);
}

TEST_CASE("the mirrors that were not read for longest go first, and none that is read") {
  Place place;
  auto url = [&](int i) { return url_of(place.server.url(fmt::format("open/{}.git", i))); };
  std::mt19937_64 random(1);
  for (int i = 0; i < 4; ++i) {
    place.repositories.create(fmt::format("{}.git", i));
    std::string noise(600'000, ' ');
    for (char& c : noise) c = static_cast<char>(random());
    place.repositories.commit(fmt::format("{}.git", i), noise);
  }
  auto settings = settings_in(place.folder.path());
  settings.most_bytes = 2'000'000;
  auto mirrors = mirrors_of(settings);
  auto has = [&](int i) {
    return fs::exists(settings.folder / (file_name(url(i).repo_id()) + ".git"));
  };
  auto first = mirrors.fetch(request_for(url(0)));  // is read all the time
  REQUIRE(first);
  REQUIRE(mirrors.fetch(request_for(url(1))));
  REQUIRE(mirrors.fetch(request_for(url(2))));
  CHECK((has(0) && has(1) && has(2)));
  REQUIRE(mirrors.fetch(request_for(url(1))));  // read again
  REQUIRE(mirrors.fetch(request_for(url(3))));
  CHECK((has(0) && has(1) && !has(2) && has(3)));
  CHECK(mirrors.bytes() <= 2'200'000);
  CHECK(!mirrors.forget(url(0)));
  first->hold = Hold();
  CHECK(mirrors.forget(url(0)));
  CHECK(!has(0));
  auto back = mirrors.fetch(request_for(url(2)));
  REQUIRE(back);
  CHECK(back->is_transferred);
}

TEST_CASE("a mirror belongs to this user alone, and no link is followed") {
  Place place;
  place.repositories.create("one.git");
  place.repositories.commit("one.git", "text");
  auto fetched = place.fetch("open/one.git");
  REQUIRE(fetched);
  auto root = settings_in(place.folder.path()).folder;
  auto others = fs::perms::group_all | fs::perms::others_all;
  for (const auto& entry : fs::recursive_directory_iterator(root)) {
    CAPTURE(entry.path());
    CHECK((entry.symlink_status().permissions() & others) == fs::perms::none);
  }
  CHECK((fs::status(root).permissions() & others) == fs::perms::none);
  fs::permissions(root, fs::perms::others_read, fs::perm_options::add);
  auto open = Mirrors::open(settings_in(place.folder.path()));
  REQUIRE(!open);
  CHECK(open.error().code == Errc::denied);
  fs::permissions(root, fs::perms::owner_all);

  auto precious = place.folder.path() / "precious";
  place.repositories.create("two.git");
  place.repositories.commit("two.git", "text");
  fs::create_directories(precious);
  write(precious / "HEAD", "mine");
  auto url = url_of(place.server.url("open/two.git"));
  auto name = file_name(url.repo_id());
  fs::create_directory_symlink(precious, root / (name + ".git"));
  auto made = place.mirrors.fetch(request_for(url));
  CHECK_MESSAGE(made, made.error().what);
  CHECK(contents(precious / "HEAD") == "mine");
  CHECK(fs::is_directory(fs::symlink_status(root / (name + ".git"))));
}

TEST_CASE("a mirror that is broken is made anew") {
  Place place;
  place.repositories.create("one.git");
  place.repositories.commit("one.git", "first");
  auto fetched = place.fetch("open/one.git");
  REQUIRE(fetched);
  auto folder = fetched->folder;
  fetched->hold = Hold();
  for (const char* damage : {"objects", "HEAD", "refs", "pack"}) {
    CAPTURE(damage);
    if (std::string_view(damage) == "pack") {
      for (const auto& entry : fs::directory_iterator(folder / "objects/pack")) {
        fs::permissions(entry.path(), fs::perms::owner_all);
        if (entry.path().extension() == ".pack") write(entry.path(), "garbage");
      }
    } else {
      fs::remove_all(folder / damage);
    }
    auto commit = place.repositories.commit("one.git", damage);
    auto again = place.fetch("open/one.git");
    REQUIRE_MESSAGE(again, again.error().what);
    CHECK(again->resolved.commits.at("HEAD") == commit);
    CHECK(text_in(*again, place.repositories) == damage);
  }
}
