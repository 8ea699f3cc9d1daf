// Nodes as they are run, and what they fetch from: secrets that change, URLs that are attacks, servers
// with bad manners.
#include <functional>

#include "primitives/catalog/redis.h"
#include "services/fleet/plan/records.h"
#include "services/fleet/router/router.h"
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

TEST_CASE("a token may come from a variable or from a helper of git, for the host that is named") {
  Origin origin;
  auto& server = origin.fleet.server();
  const auto& git = server.repositories();
  auto token = new_token();
  write(server.path("token"), token);
  for (const char* name : {"one", "two"}) {
    git.create(name);
    git.commit(name, "apple_1\n");
  }
  origin.fleet.environment = {"ORIGIN_TOKEN=" + token};
  auto serves = [&](const std::string& name, const std::string& flag, const std::string& value) {
    origin.put({{name, server.url("auth/" + name)}});
    auto& node = origin.fleet.start_node("n-" + name, {flag, value});
    origin.wait_until_served(name);
    CHECK(processes_with(token).size() <= 1);  // the node itself, which was given the variable
    auto said = origin.fleet.run({"fleet", "repo", "rm", name});
    CHECK_MESSAGE(said.first == 0, said.second);
    node.terminate();
    node.wait(60s);
  };
  serves("one", "--credential-env", server.host() + "=ORIGIN_TOKEN");
  origin.fleet.environment = {};
  TempFolder secrets;
  write(secrets.path() / "answer", "username=bob\npassword=" + token + "\n");
  auto helper = fmt::format("!f() {{ test \"$1\" = get && cat '{}'; }}; f",
                            (secrets.path() / "answer").string());
  serves("two", "--credential-helper", server.host() + "=" + helper);

  for (const auto& [flag, value] :
       {std::pair("--credential-env", "github.com"), std::pair("--credential-env", "=TOKEN"),
        std::pair("--credential-env", "github.com=a b"), std::pair("--credential-helper", "")}) {
    CAPTURE(value);
    auto said = origin.fleet.run({"fleet", "node", flag, value});
    CHECK(said.first == 2);
    CHECK(said.second.contains(flag));
  }
}

TEST_CASE("while there is no slot to fetch, explain says that a repository waits for one") {
  Origin origin;
  auto& server = origin.fleet.server();
  for (const char* name : {"one", "two"}) {
    server.repositories().create(name);
    server.repositories().commit(name, "apple_1\n");
  }
  origin.put({{"one", server.url("slow/one")}});
  origin.fleet.start_node("n1", {"--clones", "1"});
  wait_for(60s, "git waits for its pack", [&] { return fs::exists(server.path("waiting")); });
  origin.put({{"two", server.url("open/two")}});
  auto is_in = [](const Rows& all, const char* key, Phase phase) {
    auto note = parse_note(all.at(key).note);
    return note && all.at(key).state == RowState::claimed && note->phase == phase;
  };
  origin.wait_until("one is fetched, and the other waits", [&](const Rows& all) {
    return is_in(all, "one#0", Phase::fetching) && is_in(all, "two#0", Phase::waiting) &&
           !all.at("two#0").owner.empty();
  });
  auto says = [&](const char* name) { return origin.fleet.run({"fleet", "explain", name}).second; };
  CHECK(says("one").contains("is at n1, which is fetching it"));
  CHECK(says("two").contains("is at n1, where it waits to be fetched"));
  write(server.path("go"), "");
  for (const char* name : {"one", "two"}) origin.wait_until_served(name);
  CHECK(says("two").contains("is served by n1"));
}

namespace {

// A router that speaks TLS, and processes that ask it.
struct Secured {
  Origin& origin;
  const Certificates& certificates;
  Router& router;

  Process start(std::vector<std::string> words, const fs::path& log, bool knows_ca) const {
    auto& environment = origin.fleet.environment;
    environment.clear();
    if (knows_ca) environment.push_back("FLEET_CA=" + certificates.ca().string());
    return Process(origin.fleet.program(std::move(words), log));
  }
  std::string url() const { return fmt::format("https://127.0.0.1:{}", router.port()); }
};

awaitable<bool> ask_with_tls(TaskGroup& tasks, Secured& with) {
  tasks.start("test.router", with.router.run());
  co_await with.router.settled();
  TempFolder logs;
  auto search = [&](bool knows_ca) {
    return with.start({"search", "--fleet", with.url(), "apple_1_1"}, logs.path() / "search",
                      knows_ca);
  };
  auto stranger = search(false);
  auto code = co_await ended(stranger);
  CHECK(code == 2);
  CHECK_FALSE(contents(logs.path() / "search").contains("r1/src/f1.c"));
  auto friendly = search(true);
  code = co_await ended(friendly);
  auto said = contents(logs.path() / "search");
  CHECK_MESSAGE(code == 0, said);
  CHECK_MESSAGE(said.contains("r1/src/f1.c"), said);

  auto log = logs.path() / "autoscale";
  auto scaler = with.start({"fleet", "autoscale", "--router", with.url()}, log, true);
  auto has_advice = [](const fs::path& in) { return contents(in).contains("1 node: "); };
  co_await eventually(60s, "it prints what the router advises", has_advice, log);
  scaler.terminate();
  co_await ended(scaler);
  co_return true;
}

}  // namespace

TEST_CASE(
    "a router at https:// is asked by search and autoscale, if it has a certificate of our CA") {
  Origin origin;
  Certificates certificates;
  origin.fleet.add_small(2);
  origin.fleet.start_node("n1");
  for (const char* name : {"r0", "r1"}) origin.wait_until_served(name);
  auto body = [](Catalog& catalog, Origin& all, Certificates& of) -> awaitable<void> {
    Metrics metrics;
    RouterSettings settings;
    settings.look = 100ms;
    settings.token = settings.node_token = "mangrove";
    auto tls = tls_for_server({contents(of.server().certificate), contents(of.server().key)});
    REQUIRE(tls);
    settings.http.tls = *std::move(tls);
    auto executor = co_await asio::this_coro::executor;
    auto router = Router::create(executor, catalog, std::move(settings), metrics);
    REQUIRE(router);
    Secured with{all, of, **router};
    co_await with_group(ask_with_tls, with);
  };
  origin.with_catalog(body, origin, certificates);
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
