// Instances on real servers: one for each name and workspace, however many start at once.
#include <set>

#include "proof/testkit/faulty_link.h"
#include "proof/testkit/servers/redis_cluster.h"
#include "proof/testkit/servers/sentinel_trio.h"
#include "services/instance/registry.h"
#include "with_sessions.h"

using namespace warren;

namespace {

InstanceTerms terms(std::string name, std::string workspace = "/work") {
  return {.name = std::move(name), .workspace = std::move(workspace), .pid = 42, .ttl = 1s};
}

// Joins, or says why not.
awaitable<void> join(LeaseSession& session, InstanceTerms wanted, std::vector<Instance>& joined,
                     std::vector<Error>& refused) {
  Registry registry(session.client(), "holt");
  auto instance = co_await registry.join(session, std::move(wanted));
  if (instance)
    joined.push_back(std::move(*instance));
  else
    refused.push_back(instance.error());
}

Async<std::vector<ListedInstance>> list(LeaseSession& session) {
  Registry registry(session.client(), "holt");
  auto listed = co_await registry.list();
  co_return listed;
}

// As the process of the instance, or a user, would end it, once somebody waits for that.
Async<> end(std::string how, LeaseSession& session, Instance& instance, RedisServer& redis) {
  auto waiting = [&redis](const std::string& channel) {
    return redis.cli_words({"PUBSUB", "NUMSUB", channel}).at(1) != "0";
  };
  while (!waiting(instance.control_channel())) co_await sleep_for(1ms);
  if (how == "leaves") {
    auto left = co_await instance.leave();
    co_return left;
  }
  if (how == "dies") {
    co_await session.close();
    redis.cli({"SET", "holt:x:lock", "of a dead one", "PX", "300"});
    co_return ok;
  }
  Registry registry(session.client(), "holt");
  ListedInstance listed{"x", InstanceState::running, instance.entry()};
  auto asked = co_await registry.ask_to_stop(std::move(listed));
  co_return asked;
}

}  // namespace

TEST_CASE("an instance is found by others until it leaves, with what the documents promise") {
  RedisServer server;
  with_sessions(
      {settings_for(server)}, 15s,
      [](Sessions& sessions, RedisServer& redis) -> awaitable<void> {
        auto& session = *sessions[0];
        Registry registry(session.client(), "holt");
        auto instance = co_await registry.join(session, terms("meta-test"));
        REQUIRE(instance);
        auto entry = parse_instance_entry(redis.cli({"HGET", "holt:instances", "meta-test"}));
        REQUIRE(entry);
        CHECK(entry->run_id == instance->entry().run_id);
        CHECK(entry->workspace_path == "/work");
        CHECK(entry->orchestrator_pid == 42);
        CHECK(redis.cli({"GET", "holt:meta-test:lock"}).starts_with("orchestrator:"));
        auto listed = co_await registry.list();
        REQUIRE(listed);
        REQUIRE(listed->size() == 1);
        CHECK(listed->at(0).state == InstanceState::starting);
        auto announced = co_await instance->announce("http://127.0.0.1:1/");
        CHECK(announced);
        listed = co_await registry.list();
        CHECK(listed->at(0).state == InstanceState::running);
        CHECK(listed->at(0).entry.url == "http://127.0.0.1:1/");
        auto left = co_await instance->leave();
        CHECK(left);
        CHECK(redis.cli({"HEXISTS", "holt:instances", "meta-test"}) == "0");
        CHECK(redis.cli({"EXISTS", "holt:meta-test:lock"}) == "0");
      },
      server);
}

TEST_CASE("a hundred that start at once have a hundred names, and numbers are not used again") {
  RedisServer server;
  with_sessions(
      {settings_for(server), settings_for(server)}, 15s, [](Sessions& sessions) -> awaitable<void> {
        // Somebody has one of the names already.
        std::vector<Instance> joined;
        std::vector<Error> refused;
        co_await join(*sessions[0], terms("default-7", "/seven"), joined, refused);
        REQUIRE(joined.size() == 1);
        TaskGroup group(sessions[0]->client().executor());
        for (int i = 0; i < 100; ++i)
          group.start("join",
                      join(*sessions[i % 2], terms("", fmt::format("/w/{}", i)), joined, refused));
        co_await group.join();
        CHECK(refused.empty());
        std::set<std::string> names;
        for (auto& instance : joined) names.insert(instance.name());
        CHECK(names.size() == 101);
        CHECK(names.contains("default-101"));
        auto left = co_await joined.back().leave();
        CHECK(left);
        co_await join(*sessions[0], terms("", "/again"), joined, refused);
        CHECK(joined.back().name() == "default-102");
      });
}

TEST_CASE("of a hundred that want one name, or one workspace, one has it") {
  RedisServer server;
  for (bool is_named : {true, false})
    with_sessions(
        {settings_for(server), settings_for(server)}, 15s,
        [](Sessions& sessions, bool& named) -> awaitable<void> {
          std::vector<Instance> joined;
          std::vector<Error> refused;
          TaskGroup group(sessions[0]->client().executor());
          for (int i = 0; i < 100; ++i) {
            auto wanted = named ? terms("x", fmt::format("/w/{}", i)) : terms("", "/w");
            group.start("join", join(*sessions[i % 2], std::move(wanted), joined, refused));
          }
          co_await group.join();
          REQUIRE(joined.size() == 1);
          REQUIRE(refused.size() == 99);
          auto why = named ? std::string("Instance name 'x' is already in use")
                           : fmt::format("workspace '/w' is already in use by instance '{}'",
                                         joined[0].name());
          for (auto& error : refused) {
            CHECK(error.code == Errc::held_elsewhere);
            CHECK(error.what == why);
          }
          auto listed = co_await list(*sessions[0]);
          CHECK(listed->size() == 1);
          auto left = co_await joined[0].leave();
          CHECK(left);
        },
        is_named);
}

TEST_CASE("a workspace that is in use may be shared by force") {
  RedisServer server;
  with_sessions({settings_for(server)}, 15s, [](Sessions& sessions) -> awaitable<void> {
    std::vector<Instance> joined;
    std::vector<Error> refused;
    co_await join(*sessions[0], terms("a"), joined, refused);
    auto forced = terms("b");
    forced.is_forced = true;
    co_await join(*sessions[0], std::move(forced), joined, refused);
    CHECK(joined.size() == 2);
    co_await join(*sessions[0], terms("c"), joined, refused);
    CHECK(refused.size() == 1);
    co_await join(*sessions[0], terms("a"), joined, refused);
    CHECK(refused.at(1).what == "Instance name 'a' is already in use");
    co_await join(*sessions[0], terms(""), joined, refused);
    CHECK(refused.size() == 3);
    co_await join(*sessions[0], terms("", "/else"), joined, refused);
    CHECK(joined.back().name() == "default-1");  // the one that was refused took no number
    auto listed = co_await list(*sessions[0]);
    CHECK(listed->size() == 3);  // nothing is left of those that were refused
  });
}

TEST_CASE("an instance that is gone blocks nobody once its lock has expired, and is removed") {
  RedisServer server;
  FaultyLink link(server.port());
  with_sessions(
      {settings_for(link.port()), settings_for(server)}, 15s,
      [](Sessions& sessions, FaultyLink& way, RedisServer& redis) -> awaitable<void> {
        std::vector<Instance> joined, next;
        std::vector<Error> refused;
        co_await join(*sessions[0], terms("crash-test"), joined, refused);
        REQUIRE(joined.size() == 1);
        way.cut();  // as if it had been killed
        co_await join(*sessions[1], terms("crash-test"), next, refused);
        CHECK(refused.size() == 1);
        auto is_stale = [](RedisServer& s) {
          return s.cli({"EXISTS", "holt:crash-test:lock"}) == "0";
        };
        co_await eventually(10s, "its lock expires", is_stale, redis);
        auto listed = co_await list(*sessions[1]);
        REQUIRE(listed->size() == 1);
        CHECK(listed->at(0).state == InstanceState::stale);
        // Another one in the same workspace: the old entry does not count, and goes.
        co_await join(*sessions[1], terms("other"), next, refused);
        REQUIRE(next.size() == 1);
        listed = co_await list(*sessions[1]);
        REQUIRE(listed->size() == 1);
        CHECK(listed->at(0).name == "other");
        auto left = co_await next[0].leave();
        CHECK(left);
        // And under the old name; the one that was cut off knows, and cannot touch what is new.
        co_await join(*sessions[1], terms("crash-test"), next, refused);
        REQUIRE(next.size() == 2);
        auto kept = co_await joined[0].keep();
        CHECK(kept.error().code == Errc::lease_lost);
        way.heal();
        auto late = co_await joined[0].leave();
        CHECK(!late);
        listed = co_await list(*sessions[1]);
        REQUIRE(listed->size() == 1);
        CHECK(listed->at(0).entry.run_id == next[1].entry().run_id);
      },
      link, server);
}

TEST_CASE("the lock stays fresh while the instance is kept") {
  RedisServer server;
  with_sessions(
      {settings_for(server)}, 15s,
      [](Sessions& sessions, RedisServer& redis) -> awaitable<void> {
        std::vector<Instance> joined;
        std::vector<Error> refused;
        co_await join(*sessions[0], terms("a"), joined, refused);
        REQUIRE(joined.size() == 1);
        auto first = redis.cli({"GET", "holt:a:lock"});
        TaskGroup group(sessions[0]->client().executor());
        group.start("keep", joined[0].keep());
        auto is_newer = [](RedisServer& s, std::string& before) {
          auto value = s.cli({"GET", "holt:a:lock"});
          return !value.empty() && value != before;
        };
        co_await eventually(30s, "a newer value", is_newer, redis, first);
        CHECK(is_ours(joined[0].lease()));
        group.stop();
        co_await group.join();
      },
      server);
}

TEST_CASE("who stands by takes over when the instance dies or leaves, and not when it is stopped") {
  RedisServer server;
  using asio::experimental::awaitable_operators::operator||;
  using asio::experimental::awaitable_operators::operator&&;
  with_sessions(
      {settings_for(server), settings_for(server)}, 15s,
      [](Sessions& sessions, RedisServer& redis) -> awaitable<void> {
        auto& session = *sessions[1];
        Registry registry(session.client(), "holt");
        redis::Subscriber orders(session.client());
        for (std::string how : {"leaves", "is stopped", "dies"}) {
          CAPTURE(how);
          std::vector<Instance> first;
          std::vector<Error> refused;
          auto slowly = terms("x");
          slowly.ttl = 10s;
          co_await join(*sessions[0], slowly, first, refused);
          REQUIRE(first.size() == 1);
          auto run = first[0].entry().run_id;
          auto began = Clock::now();
          auto waits = registry.stand_by(session, slowly, orders);
          auto ends = end(how, *sessions[0], first[0], redis);
          auto [second, ended] = co_await (std::move(waits) && std::move(ends));
          CHECK(ended);
          if (how == "is stopped") {
            REQUIRE(!second);
            CHECK(second.error().code == Errc::cancelled);
            auto obeyed = co_await first[0].leave();
            CHECK(obeyed);
            continue;
          }
          REQUIRE(second);
          CHECK(second->entry().run_id != run);
          CHECK(redis.cli({"HGET", "holt:instances", "x"}).contains(second->entry().run_id));
          if (how == "leaves") CHECK(Clock::now() - began < 8s);  // not the ttl
          auto left = co_await second->leave();
          CHECK(left);
        }
        co_await orders.close();
      },
      server);
}

TEST_CASE("a board stays in the list of boards when its instance dies, leaves, or is found stale") {
  RedisServer server;
  with_sessions(
      {settings_for(server)}, 15s,
      [](Sessions& sessions, RedisServer& redis) -> awaitable<void> {
        auto& session = *sessions[0];
        Registry registry(session.client(), "holt");
        std::vector<Instance> joined;
        std::vector<Error> refused;
        co_await join(session, terms("left", "/a"), joined, refused);
        auto left = co_await joined[0].leave();
        CHECK(left);
        // As an older one leaves it: an entry, and nothing else.
        InstanceEntry old{.run_id = "1", .workspace_path = "/b", .started_at = WallClock::now()};
        redis.cli({"HSET", "holt:instances", "old", to_json(old), "forgotten", to_json(old)});
        auto forgotten = co_await registry.forget("forgotten");
        CHECK(*forgotten);
        co_await join(session, terms("here", "/c"), joined, refused);
        auto boards = co_await registry.boards();
        REQUIRE(boards);
        std::vector<std::string> seen;
        for (const auto& board : *boards)
          seen.push_back(
              fmt::format("{} {} {}", board.name, name(board.state), board.entry.workspace_path));
        CHECK(seen == std::vector<std::string>{"forgotten stale /b", "here starting /c",
                                               "left stale /a", "old stale /b"});
        auto listed = co_await registry.list();
        CHECK(listed->size() == 1);
      },
      server);
}

TEST_CASE("a name is taken away from a run that is known to be dead, and from no other") {
  RedisServer server;
  with_sessions(
      {settings_for(server)}, 15s,
      [](Sessions& sessions, RedisServer& redis) -> awaitable<void> {
        auto& session = *sessions[0];
        Registry registry(session.client(), "holt");
        auto wanted = terms("x");
        wanted.ttl = 60s;
        wanted.pid = getpid();
        std::vector<Instance> joined;
        std::vector<Error> refused;
        co_await join(session, wanted, joined, refused);
        REQUIRE(joined.size() == 1);
        ListedInstance dead{"x", InstanceState::running, joined[0].entry()};
        dead.entry.process += "1";  // as if its number were ours by now
        auto another = dead;
        another.entry.run_id = "another run";
        auto taken = co_await registry.bury(another);
        REQUIRE(taken);
        CHECK(!*taken);
        CHECK(redis.cli({"EXISTS", "holt:x:lock"}) == "1");
        taken = co_await registry.bury(dead);
        REQUIRE(taken);
        CHECK(*taken);
        CHECK(redis.cli({"EXISTS", "holt:x:lock"}) == "0");
        CHECK(redis.cli({"HEXISTS", "holt:instances", "x"}) == "0");
        CHECK(redis.cli({"HEXISTS", "holt:boards", "x"}) == "1");
        co_await join(session, wanted, joined, refused);
        CHECK(joined.size() == 2);
        CHECK(joined[1].lease().token() > joined[0].lease().token());
      },
      server);
}

TEST_CASE(
    "who wants a name, or a workspace, has it at once from a process that is dead for certain") {
  RedisServer server;
  with_sessions(
      {settings_for(server), settings_for(server)}, 15s,
      [](Sessions& sessions, RedisServer& redis) -> awaitable<void> {
        TempFolder folder;
        Process process({{"sleep", "1000"}, folder.path() / "log"});
        auto of_child = terms("x");
        of_child.ttl = 60s;
        of_child.pid = process.pid();
        std::vector<Instance> joined;
        std::vector<Error> refused;
        co_await join(*sessions[0], of_child, joined, refused);
        REQUIRE(joined.size() == 1);
        auto token = joined[0].lease().token();
        auto entry = redis.cli({"HGET", "holt:instances", "x"});

        // While it lives, and while nobody can know: an entry of an older Warren.
        auto wanted = terms("x");
        wanted.ttl = 60s;
        co_await join(*sessions[1], wanted, joined, refused);
        auto old = joined[0].entry();
        old.process.clear();
        process.kill();
        redis.cli({"HSET", "holt:instances", "x", to_json(old)});
        co_await join(*sessions[1], wanted, joined, refused);
        co_await join(*sessions[1], terms("", "/work"), joined, refused);
        CHECK(joined.size() == 1);
        REQUIRE(refused.size() == 3);
        for (const auto& error : refused) CHECK(error.code == Errc::held_elsewhere);

        redis.cli({"HSET", "holt:instances", "x", entry});
        co_await join(*sessions[1], wanted, joined, refused);
        REQUIRE(joined.size() == 2);
        CHECK(joined[1].lease().token() > token);
        auto left = co_await joined[1].leave();
        CHECK(left);
        // The same for its workspace, whoever wants it.
        for (std::string name : {"y", ""}) {
          Process next({{"sleep", "1000"}, folder.path() / "log"});
          of_child.pid = next.pid();
          co_await join(*sessions[0], of_child, joined, refused);
          next.kill();
          co_await join(*sessions[1], terms(name, "/work"), joined, refused);
          REQUIRE(refused.size() == 3);
          CHECK(redis.cli({"HEXISTS", "holt:instances", "x"}) == "0");
          CHECK(redis.cli({"HEXISTS", "holt:boards", "x"}) == "1");
          left = co_await joined.back().leave();
          CHECK(left);
        }
      },
      server);
}

TEST_CASE(
    "a name counts as taken when every replica has it, and so a failover gives it to nobody") {
  SentinelTrio trio;
  with_sessions(
      {settings_for(trio), settings_for(trio)}, 20s,
      [](Sessions& sessions, SentinelTrio& servers) -> awaitable<void> {
        auto wanted = terms("x");
        wanted.ttl = 60s;
        std::vector<Instance> joined;
        std::vector<Error> refused;
        for (auto* replica : servers.replicas()) replica->pause();
        co_await join(*sessions[0], wanted, joined, refused);
        CHECK(joined.empty());
        REQUIRE(refused.size() == 1);
        CHECK(refused[0].code != Errc::held_elsewhere);
        for (auto* replica : servers.replicas()) replica->resume();
        servers.wait_until_settled();
        wanted.name = "y";
        wanted.workspace = "/y";
        co_await join(*sessions[0], wanted, joined, refused);
        REQUIRE_MESSAGE(joined.size() == 1, refused.back().what);
        auto epoch = sessions[1]->client().epoch();
        servers.primary().kill();  // at once: what no replica has is lost
        auto has_moved = [](LeaseSession& session, std::uint64_t& before) {
          return session.client().epoch() > before;
        };
        co_await eventually(90s, "there is another primary", has_moved, *sessions[1], epoch);
        refused.clear();
        auto is_refused = [](LeaseSession& session, InstanceTerms& other,
                             std::vector<Instance>& all, std::vector<Error>& errors) -> Async<> {
          co_await join(session, other, all, errors);
          if (!errors.empty() && errors.back().code == Errc::held_elsewhere) co_return ok;
          co_return fail(Errc::not_found, "{}", errors.empty() ? "joined" : errors.back().what);
        };
        wanted.workspace = "/elsewhere";
        co_await eventually(60s, "the name is taken", is_refused, *sessions[1], wanted, joined,
                            refused);
        CHECK(joined.size() == 1);
      },
      trio);
}

TEST_CASE("what others wrote into the list disturbs nobody") {
  RedisServer server;
  server.cli({"HSET", "holt:instances", "broken", "{", "list", "[1]", "null", "null", "odd",
              R"({"workspace_path":7})"});
  for (auto name : {"broken", "list", "null", "odd"})
    server.cli({"SET", fmt::format("holt:{}:lock", name), "1"});
  with_sessions({settings_for(server)}, 15s, [](Sessions& sessions) -> awaitable<void> {
    std::vector<Instance> joined;
    std::vector<Error> refused;
    co_await join(*sessions[0], terms("a"), joined, refused);
    REQUIRE(joined.size() == 1);
    auto listed = co_await list(*sessions[0]);
    REQUIRE(listed->size() == 1);
    co_await join(*sessions[0], terms("Not_A_Name"), joined, refused);
    CHECK(refused.at(0).code == Errc::invalid);
    co_await join(*sessions[0], terms("broken", "/elsewhere"), joined, refused);
    CHECK(refused.at(1).code == Errc::held_elsewhere);  // somebody who is not one of ours
  });
}

TEST_CASE("the same in a cluster") {
  RedisCluster cluster;
  redis::Settings settings;
  settings.mode = redis::Mode::cluster;
  settings.addresses = {{"127.0.0.1", cluster.node(0).port(), ""}};
  with_sessions({settings}, 15s, [](Sessions& sessions) -> awaitable<void> {
    std::vector<Instance> joined;
    std::vector<Error> refused;
    co_await join(*sessions[0], terms("", "/a"), joined, refused);
    co_await join(*sessions[0], terms("", "/b"), joined, refused);
    co_await join(*sessions[0], terms("", "/b"), joined, refused);
    REQUIRE(joined.size() == 2);
    CHECK(joined[1].name() == "default-2");
    REQUIRE(refused.size() == 1);
    CHECK(refused[0].what == "workspace '/b' is already in use by instance 'default-2'");
    auto announced = co_await joined[0].announce("http://127.0.0.1:1/");
    CHECK(announced);
    auto left = co_await joined[1].leave();
    CHECK(left);
    auto listed = co_await list(*sessions[0]);
    REQUIRE(listed->size() == 1);
    CHECK(listed->at(0).state == InstanceState::running);
  });
}
