// Git servers with bad manners: each costs one slot until its deadline, and no more than that. No
// token leaves by another way than to its own host.
#include <dirent.h>

#include "base/log.h"
#include "with_secrets.h"

using namespace warren;
using namespace warren::fleet;

namespace {

struct Place {
  TempFolder folder;
  GitServer server;
  const Repositories& repositories = server.repositories();
  MirrorSettings settings = settings_in(folder.path());

  Place() {
    repositories.create("one.git");
    repositories.commit("one.git", "text");
  }
  Result<Fetched> fetch(const std::string& text, Clock::duration patience = 60s) const {
    auto request = request_for(url_of(text));
    request.remote.deadline = Clock::now() + patience;
    return mirrors_of(settings).fetch(request);
  }
  Errc code(const std::string& text, Clock::duration patience = 60s) const {
    auto fetched = fetch(text, patience);
    REQUIRE_MESSAGE(!fetched, text);
    MESSAGE(fetched.error().what);
    return fetched.error().code;
  }
};

}  // namespace

TEST_CASE(
    "a server that hangs after its first bytes is left at the deadline, with all of its git") {
  Place place;
  for (const auto& url : {place.server.url("hang/one.git"), place.server.raw_url("hang")}) {
    CAPTURE(url);
    auto start = Clock::now();
    CHECK(place.code(url, 1s) == Errc::timeout);
    CHECK(Clock::now() - start < 20s);
    // What git started is killed with it, and init buries it when it comes to that.
    wait_for(20s, "its programs are gone", [&] { return programs_with(url) == 0; });
  }
  // What they left does not keep the next from working.
  CHECK(place.fetch(place.server.url("open/one.git")));
}

TEST_CASE("a server that sends garbage is refused as such") {
  Place place;
  CHECK(place.code(place.server.url("garbage/one.git")) == Errc::protocol);
  CHECK(place.code(place.server.url("nonsense/one.git")) == Errc::protocol);
  CHECK(place.code(place.server.raw_url("garbage")) == Errc::protocol);
}

TEST_CASE("a pack that is cut, or has an object that git does not allow, is refused") {
  Place place;
  auto pack = place.server.path("pack");
  auto at = place.repositories.path("one.git");
  auto script = [&](const std::string& text) {
    Process process({{"sh", "-c", text},
                     place.folder.path() / "script.log",
                     {"GIT_DIR=" + at.string(), "GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@b",
                      "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@b"}});
    REQUIRE_MESSAGE(process.wait(60s) == 0, process.log_text());
  };
  auto pack_head = "git rev-list --objects HEAD | git pack-objects --stdout -q > " + pack.string();
  script(pack_head);
  REQUIRE_MESSAGE(place.fetch(place.server.url("broken/one.git")), "a whole pack is taken");
  auto whole = contents(pack);
  write(pack, whole.substr(0, whole.size() / 2));
  script("git update-ref HEAD $(git commit-tree -m 2 -p HEAD HEAD^{tree})");
  place.settings.folder = place.folder.path() / "second";
  auto cut = place.fetch(place.server.url("broken/one.git"));
  REQUIRE(!cut);
  MESSAGE(cut.error().what);
  CHECK((cut.error().code == Errc::protocol || cut.error().code == Errc::unavailable));
  // A tree with .git in it would be a repository's own settings, once it is checked out.
  script(
      "blob=$(echo x | git hash-object -w --stdin) && "
      "tree=$(printf '100644 blob %s\\t.git\\n' $blob | git mktree) && "
      "git update-ref HEAD $(git commit-tree -m evil $tree)");
  script(pack_head);
  place.settings.folder = place.folder.path() / "third";
  auto evil = place.fetch(place.server.url("broken/one.git"));
  REQUIRE(!evil);
  MESSAGE(evil.error().what);
  CHECK(evil.error().code == Errc::protocol);
  CHECK(evil.error().what.contains("hasDotgit"));
  auto honest = place.fetch(place.server.url("open/one.git"));
  REQUIRE(!honest);
  CHECK(honest.error().code == Errc::protocol);
}

TEST_CASE("a server that sends without end is cut off at a bound, which takes no memory of ours") {
  Place place;
  place.settings.remote.limits.file_bytes = 8u << 20;
  place.settings.remote.limits.memory_bytes = 256u << 20;
  CHECK(place.code(place.server.url("endless/one.git")) == Errc::overloaded);
  auto mirrors = mirrors_of(place.settings);
  CHECK(mirrors.bytes() < (1u << 20));
  CHECK(place.code(place.server.url("refs/one.git")) == Errc::overloaded);
  // Neither grows; it ends at its deadline.
  CHECK(place.code(place.server.url("chatter/one.git"), 3s) == Errc::timeout);
  auto flooded = place.code(place.server.raw_url("endless"), 3s);
  CHECK((flooded == Errc::timeout || flooded == Errc::overloaded));
}

TEST_CASE("a redirect to another protocol, or to another host, is not followed with a token") {
  Place place;
  auto token = new_token();
  write(place.server.path("token"), token);
  auto local = place.repositories.path("one.git").string();
  auto port = place.server.host().substr(place.server.host().find(':'));
  for (const std::string& location :
       {"file://" + local, "ext::touch " + (place.folder.path() / "ran").string(),
        place.server.raw_url("garbage"), "https://127.0.0.1" + port + "/open/one.git",
        "http://localhost" + port + "/auth/one.git", std::string("ftp://127.0.0.1/x")}) {
    CAPTURE(location);
    write(place.server.path("location"), location);
    auto request = request_for(url_of(place.server.url("away/one.git")), {"HEAD"},
                               Credential{"anna", Secret(token)});
    auto fetched = mirrors_of(place.settings).fetch(request);
    REQUIRE(!fetched);
    MESSAGE(fetched.error().what);
    CHECK(!fetched.error().what.contains(token));
  }
  CHECK(!fs::exists(place.folder.path() / "ran"));
  for (const auto& line : place.server.requests()) {
    CAPTURE(line);
    CHECK((!line.ends_with(" auth") || line.contains(place.server.host())));
    CHECK(!line.contains(" localhost"));  // it is not even asked
  }
}

TEST_CASE("a redirect on its own host keeps the token, which is asked for again") {
  Place place;
  auto token = new_token();
  write(place.server.path("token"), token);
  write(place.server.path("location"), "/auth/one.git");
  auto request = request_for(url_of(place.server.url("away/one.git")), {"HEAD"},
                             Credential{"anna", Secret(token)});
  auto fetched = mirrors_of(place.settings).fetch(request);
  CHECK_MESSAGE(fetched, fetched.error().what);
}

TEST_CASE("a look at the refs of a host that hangs gives its slot back long before a clone would") {
  TempFolder folder;
  GitServer server;
  auto body = [](GitServer& ill, const fs::path& where) -> awaitable<void> {
    FetcherSettings settings{.mirrors = settings_in(where)};
    settings.resolve_time = 300ms;
    auto fetcher = Fetcher::open(co_await asio::this_coro::executor, std::move(settings));
    REQUIRE(fetcher);
    FetchOrder order{url_of(ill.url("hang/one.git"))};
    order.deadline = Clock::now() + 10min;
    auto resolved = co_await (*fetcher)->resolve(std::move(order));
    REQUIRE(!resolved);
    CHECK(resolved.error().code == Errc::timeout);
    CHECK((*fetcher)->slots().running() == 0);
  };
  testkit::run(body(server, folder.path()), 60s);
}

TEST_CASE("a host that hangs costs its own slots, while others are served") {
  TempFolder folder;
  GitServer good, bad;
  good.repositories().create("one.git");
  good.repositories().commit("one.git", "text");
  run([](const fs::path& where, GitServer& one, GitServer& other) -> awaitable<void> {
    FetcherSettings settings{.mirrors = settings_in(where),
                             .slots = {.running = 3, .of_one_host = 2, .waiting = 100}};
    auto opened = Fetcher::open(co_await asio::this_coro::executor, std::move(settings));
    REQUIRE(opened);
    auto& fetcher = **opened;
    auto body = [](TaskGroup& group, Fetcher& all, GitServer& well, GitServer& ill) -> Async<> {
      auto hang = [](Fetcher& with, RemoteUrl url) -> awaitable<void> {
        FetchOrder order{std::move(url)};
        order.deadline = Clock::now() + 300s;
        auto ended = co_await with.fetch(std::move(order));
        CHECK(!ended);
      };
      for (int i = 0; i < 4; ++i)
        group.start("hang", hang(all, url_of(ill.url(fmt::format("hang/{}.git", i)))));
      auto are_hanging = [&] { return ill.requests().size() == 2; };
      co_await eventually(30s, "two of them have their slots", are_hanging);
      CHECK(all.slots().waiting() == 2);
      for (int i = 0; i < 3; ++i) {
        FetchOrder order{url_of(well.url("open/one.git"))};
        order.deadline = Clock::now() + 60s;
        auto fetched = co_await all.fetch(std::move(order));
        CHECK_MESSAGE(fetched, fetched.error().what);
      }
      CHECK(all.slots().running() == 2);
      CHECK(programs_with(ill.url("hang/")) > 0);
      co_return ok;  // the group is stopped: those that hang are cancelled
    };
    auto ended = co_await with_group(body, fetcher, one, other);
    CHECK(ended);
    CHECK(fetcher.slots().running() == 0);
    CHECK(fetcher.slots().waiting() == 0);
    auto are_gone = [&] { return programs_with(other.url("hang/")) == 0; };
    co_await eventually(20s, "the programs of those that hung are gone", are_gone);
  }(folder.path(), good, bad));
}

TEST_CASE("a fetch waits for its slot until its deadline, and for its server no longer") {
  Place place;
  run([](Place& here) -> awaitable<void> {
    FetcherSettings settings{.mirrors = here.settings,
                             .slots = {.running = 1, .of_one_host = 1, .waiting = 100}};
    auto opened = Fetcher::open(co_await asio::this_coro::executor, std::move(settings));
    REQUIRE(opened);
    auto& fetcher = **opened;
    auto order = [&](const char* path) {
      FetchOrder made{url_of(here.server.url(path))};
      made.deadline = Clock::now() + 1s;
      return made;
    };
    using namespace asio::experimental::awaitable_operators;
    auto hanging = order("hang/one.git"), waiting = order("open/one.git");
    auto both = co_await (fetcher.fetch(std::move(hanging)) && fetcher.resolve(std::move(waiting)));
    REQUIRE(!std::get<0>(both));
    CHECK(std::get<0>(both).error().code == Errc::timeout);
    // It may have had the end of the second before its own was over.
    if (!std::get<1>(both)) CHECK(std::get<1>(both).error().code == Errc::timeout);
    auto later = order("open/one.git");
    later.deadline = Clock::now() + 60s;
    auto resolved = co_await fetcher.resolve(std::move(later));
    CHECK_MESSAGE(resolved, resolved.error().what);
  }(place));
}

TEST_CASE("a token is found in no argv, environment, log, error or mirror, during and after") {
  Place place;
  auto log = place.folder.path() / "events.log";
  REQUIRE(log::configure({.levels = "debug", .file = log}));
  auto old_token = new_token(), token = new_token();
  auto secrets = place.folder.path() / "secrets";
  fs::create_directory(secrets);
  auto rotate = [&](const std::string& to) {
    write(place.server.path("token"), to);
    write(secrets / place.server.host(), to + "\n");
  };
  {
    // The search finds what is there.
    Process leaks({{"sleep", "600"}, place.folder.path() / "log", {"LEAKED=" + token}});
    Process shows({{"sh", "-c", "sleep 600 #" + token}, place.folder.path() / "log"});
    wait_for(30s, "both are seen", [&] { return processes_with(token).size() >= 2; });
  }
  CHECK(processes_with(token).empty());
  rotate(old_token);
  run([](Place& here, const fs::path& folder, const std::string& first, const std::string& second,
         auto change) -> awaitable<void> {
    FetcherSettings settings{.mirrors = here.settings};
    settings.credentials.folder = folder;
    auto opened = Fetcher::open(co_await asio::this_coro::executor, std::move(settings));
    REQUIRE(opened);
    auto& fetcher = **opened;
    auto url = url_of(here.server.url("gate/one.git"));
    auto fetch = [](Fetcher& with, RemoteUrl from) -> awaitable<void> {
      FetchOrder order{std::move(from)};
      order.deadline = Clock::now() + 120s;
      auto fetched = co_await with.fetch(std::move(order));
      CHECK_MESSAGE(fetched, fetched.error().what);
      if (fetched) CHECK(fetched->is_transferred);
    };
    auto look = [](Place& at, const std::string& one, const std::string& two,
                   const auto& then) -> awaitable<void> {
      auto waits = [&] { return fs::exists(at.server.path("waiting")); };
      co_await eventually(60s, "the server has the token and lets git wait", waits);
      CHECK(programs_with(at.server.url("gate/one.git")) > 0);
      CHECK(processes_with(one).empty());
      CHECK(processes_with(two).empty());
      CHECK(files_with(at.settings.folder, one).empty());
      then();
      write(at.server.path("go"), "");
    };
    using namespace asio::experimental::awaitable_operators;
    auto nothing = [] {};
    co_await (fetch(fetcher, url) && look(here, first, second, nothing));
    fs::remove(here.server.path("waiting"));
    fs::remove(here.server.path("go"));
    // The token changes in the middle of a run: the next fetch has the new one.
    change(second);
    here.repositories.commit("one.git", "second");
    co_await (fetch(fetcher, url) && look(here, first, second, nothing));
    // The server changes it, and we do not know yet: denied, in words that do not have it.
    write(here.server.path("token"), "another");
    FetchOrder order{url};
    order.deadline = Clock::now() + 60s;
    auto denied = co_await fetcher.resolve(std::move(order));
    REQUIRE(!denied);
    CHECK(denied.error().code == Errc::denied);
    CHECK(!denied.error().what.contains(second));
    FetchOrder telling{url_of(here.server.url("status/403"))};
    telling.deadline = Clock::now() + 60s;
    auto told = co_await fetcher.resolve(std::move(telling));
    REQUIRE(!told);
    CHECK(!told.error().what.contains(second));
    log::warn("fetch.failed", "what", denied.error().what, "other", told.error().what);
  }(place, secrets, old_token, token, rotate));
  REQUIRE(log::configure({}));
  for (const auto& each : {old_token, token}) {
    CHECK(processes_with(each).empty());
    CHECK(files_with(place.settings.folder, each).empty());
    CHECK(!contents(log).contains(each));
  }
  CHECK(contents(log).contains("fetch.failed"));
}
