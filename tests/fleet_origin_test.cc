// Nodes as they are run, and what they fetch from: secrets that change, URLs that are attacks, servers
// with bad manners.
#include <functional>

#include "primitives/catalog/redis.h"
#include "services/fleet/plan/records.h"
#include "tests/with_client.h"
#include "tests/with_fleet_processes.h"
#include "tests/with_secrets.h"

namespace warren::fleet {

namespace {

constexpr const char* prefix = "warren:fleet";  // as the commands have it by default

using Rows = std::map<std::string, Row>;
using Fact = std::function<bool(const Rows&)>;

// Follows the rows until that is so, and gives them.
awaitable<Rows> rows_when(Catalog& catalog, std::string what, Fact fact) {
  Rows rows;
  std::string position;
  auto limit = Clock::now() + 90s;
  for (;;) {
    auto changes = co_await catalog.changes(position, Clock::now() + 1s, Clock::now() + 20s);
    REQUIRE(changes);
    position = changes->position;
    if (changes->is_everything) rows.clear();
    for (const auto& key : changes->removed) rows.erase(key);
    for (auto& row : changes->rows) rows[row.key] = row;
    if (fact(rows)) co_return rows;
    REQUIRE_MESSAGE(Clock::now() < limit, what);
  }
}

struct Origin {
  RedisServer redis;
  FleetProcesses fleet{"redis://" + redis.address()};

  // Calls body(catalog, args...) with the catalog that the processes share.
  template <class Body, class... Args>
  void with_catalog(Body body, Args&... args) {
    auto all = [](RedisServer& server, Body work, Args&... others) -> awaitable<void> {
      auto executor = co_await asio::this_coro::executor;
      auto catalog = RedisCatalog::open(executor, settings_for(server), prefix);
      REQUIRE(catalog);
      std::exception_ptr thrown;
      try {
        co_await work(**catalog, others...);
      } catch (...) {
        thrown = std::current_exception();
      }
      co_await (*catalog)->close();
      if (thrown) std::rethrow_exception(thrown);
    };
    testkit::run(all(redis, std::move(body), args...), 120s);
  }

  Rows rows() {
    return wait_until("there is a catalog", [](const Rows&) { return true; });
  }
  // Whatever the URL: what `repo add` would refuse, somebody else may have written.
  void put(const std::map<std::string, std::string>& urls) {
    auto add = [](Catalog& catalog,
                  const std::map<std::string, std::string>& all) -> awaitable<void> {
      std::vector<Row> rows;
      for (const auto& [name, url] : all) {
        RepoSpec spec{.url = url};
        rows.push_back({.key = row_key(name, 0), .spec = to_json(spec)});
      }
      auto added = co_await catalog.add(std::move(rows), Clock::now() + 20s);
      REQUIRE(added);
    };
    with_catalog(add, urls);
  }
  Rows wait_until(std::string what, Fact fact) {
    Rows rows;
    auto wait = [](Catalog& catalog, std::string& name, Fact& of, Rows& into) -> awaitable<void> {
      into = co_await rows_when(catalog, name, of);
    };
    with_catalog(wait, what, fact, rows);
    return rows;
  }
  void wait_until_served(const std::string& name) {
    wait_until("it is served",
               [&](const Rows& all) { return all.at(row_key(name, 0)).state == RowState::ready; });
  }
};

}  // namespace

TEST_CASE("a token that is rotated in the middle of a run is found in no process, file or row") {
  Origin origin;
  auto& server = origin.fleet.server();
  const auto& git = server.repositories();
  TempFolder secrets;
  auto first = new_token(), second = new_token();
  auto rotate = [&](const std::string& to) {
    write(server.path("token"), to);
    write(secrets.path() / server.host(), to + "\n");
  };
  auto look_for_tokens = [&](const char* when) {
    CAPTURE(when);
    for (const auto& token : {first, second}) {
      CHECK(processes_with(token).empty());
      CHECK(files_with(origin.fleet.log_of("n1").parent_path(), token).empty());
      for (const char* key : {"rows", "nodes"})
        CHECK_FALSE(
            origin.redis.cli({"HGETALL", fmt::format("{{{}}}:{}", prefix, key)}).contains(token));
    }
  };
  git.create("one");
  auto commit = git.commit("one", "apple_1\n");
  rotate(first);
  origin.put({{"one", server.url("gate/one")}});
  origin.fleet.environment = {"WARREN_LOG_LEVEL=debug"};
  origin.fleet.start_node("n1", {"--credentials", secrets.path()});
  auto fetch_waits = [&] { return fs::exists(server.path("waiting")); };
  auto let_go = [&] {
    fs::remove(server.path("waiting"));
    write(server.path("go"), "");
  };
  wait_for(60s, "git waits for its pack", fetch_waits);
  look_for_tokens("while git has the first one");
  let_go();
  origin.wait_until_served("one");

  fs::remove(server.path("go"));
  rotate(second);
  commit = git.commit("one", "apple_2\n");
  wait_for(60s, "git waits for the next pack", fetch_waits);
  look_for_tokens("while git has the second one");
  let_go();
  origin.wait_until("the new commit is served", [&](const Rows& all) {
    return all.at("one#0").note.find(commit) != std::string::npos;
  });

  // The server has another one, and nobody has told the node.
  write(server.path("token"), "another");
  git.create("two");
  git.commit("two", "apple_3\n");
  origin.put({{"two", server.url("gate/two")}});
  origin.wait_until("it is refused",
                    [](const Rows& all) { return !all.at("two#0").error.empty(); });
  look_for_tokens("when it was refused");
  rotate(second);
  origin.wait_until_served("two");
  look_for_tokens("at the end");
}

TEST_CASE("a URL with options or helpers in it is refused when it is added, and by who finds it") {
  Origin origin;
  TempFolder folder;
  auto mark = (folder.path() / "mark").string();
  const Repositories elsewhere(folder.path());
  elsewhere.create("local");
  elsewhere.commit("local", "apple_1\n");
  std::map<std::string, std::string> attacks{
      {"option", "--upload-pack=touch " + mark},
      {"path", "https://127.0.0.1/--upload-pack=touch%20" + mark},
      {"ext", "ext::sh -c 'touch " + mark + "'"},
      {"fd", "fd::17"},
      {"helper", "file::" + elsewhere.path("local").string()},
      {"ssh", "ssh://-oProxyCommand=touch${IFS}" + mark + "/x"},
      {"short", "git@127.0.0.1:--upload-pack=touch"},
  };
  for (const auto& [name, url] : attacks) {
    CAPTURE(url);
    auto said = origin.fleet.run({"fleet", "repo", "add", "--as", name, "--", url});
    CHECK(said.first != 0);
    CHECK_FALSE(said.second.empty());
  }
  CHECK(origin.rows().empty());

  // Not allowed here, and elsewhere perhaps.
  attacks["file"] = "file://" + elsewhere.path("local").string();
  attacks["folder"] = elsewhere.path("local").string();
  attacks["git"] = "git://127.0.0.1/local";
  origin.put(attacks);
  origin.fleet.add("good", {{"a.c", "int apple_1;\n"}});
  origin.fleet.start_node("n1");
  origin.wait_until("every one of them has failed, and the good one is served",
                    [&](const Rows& all) {
                      return all.at("good#0").state == RowState::ready &&
                             std::ranges::all_of(attacks, [&](const auto& attack) {
                               return !all.at(row_key(attack.first, 0)).error.empty();
                             });
                    });
  CHECK_FALSE(fs::exists(mark));
  for (const auto& [key, row] : origin.rows())
    if (key != "good#0") CHECK_MESSAGE(row.note.find("ready\":true") == std::string::npos, key);
}

TEST_CASE("a host that hangs and one that sends garbage keep no repository of others waiting") {
  Origin origin;
  GitServer bad;
  std::map<std::string, std::string> urls{{"nonsense", bad.url("nonsense/x")},
                                          {"garbage", bad.url("garbage/x")}};
  bad.repositories().create("x");
  bad.repositories().commit("x", "text");
  for (int i = 0; i < 3; ++i) urls[fmt::format("hang{}", i)] = bad.url(fmt::format("hang/{}", i));
  origin.put(urls);
  origin.fleet.start_node("n1");
  wait_for(60s, "the host hangs", [&] {
    auto all = bad.requests();
    return std::ranges::any_of(all, [](const auto& line) { return line.contains(" /hang/"); });
  });
  origin.fleet.add_small(4);
  for (int i = 0; i < 4; ++i) origin.wait_until_served(fmt::format("r{}", i));
  // Those that hang still do: what was served did not wait for their deadline.
  auto rows = origin.rows();
  CHECK(rows.at("hang0#0").state != RowState::ready);
  CHECK(std::ranges::any_of(urls, [&](const auto& url) {
    return url.first.starts_with("hang") && !rows.at(row_key(url.first, 0)).owner.empty();
  }));
  origin.wait_until("garbage is refused", [](const Rows& all) {
    return !all.at("garbage#0").error.empty() && !all.at("nonsense#0").error.empty();
  });
}

}  // namespace warren::fleet
