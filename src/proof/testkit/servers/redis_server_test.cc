#include "proof/testkit/servers/redis_server.h"

#include <fstream>

#include "proof/testkit/run.h"
#include "proof/testkit/victim.h"

using namespace warren;

TEST_CASE("a server is there when its object is, and empty") {
  auto before = Clock::now();
  RedisServer server;
  MESSAGE("started in ", std::chrono::duration<double, std::milli>(Clock::now() - before).count(),
          " ms");
  CHECK(server.alive());
  CHECK(server.cli({"DBSIZE"}) == "0");
  CHECK(server.cli({"SET", "key", "two\r\nlines"}) == "OK");
  CHECK(server.cli({"GET", "key"}) == "two\r\nlines");
  CHECK(server.cli({"GET", "other"}) == "(nil)");
  CHECK(server.cli({"RPUSH", "list", "a", "b"}) == "2");
  CHECK(server.cli({"LRANGE", "list", "0", "-1"}) == "a\nb");
  CHECK(server.cli_words({"LRANGE", "list", "0", "-1"}) == std::vector<std::string>{"a", "b"});
  CHECK(server.info("redis_mode") == "standalone");
  CHECK(server.info("no_such_field").empty());
  CHECK(server.cli({"CONFIG", "GET", "save"}) == "save\n");
  CHECK(server.cli({"CONFIG", "GET", "bind"}) == "bind\n127.0.0.1");
}

TEST_CASE("a refusal is an error of try_cli, word for word, and fails the test in cli") {
  RedisServer server;
  auto refused = server.try_cli({"NONSENSE"});
  REQUIRE(!refused);
  CHECK(refused.error().code == Errc::refused);
  CHECK(refused.error().what.starts_with("ERR unknown command 'NONSENSE'"));

  Victim victim("victim: sends nonsense");
  CHECK(victim.process.wait(30s) != 0);
  CHECK(victim.said("unknown command 'NONSENSE'"));
}
TEST_CASE("victim: sends nonsense" * doctest::skip()) {
  RedisServer server;
  server.cli({"NONSENSE"});
}

TEST_CASE("a paused server accepts connections and answers nothing until it is resumed") {
  RedisServer server;
  server.pause();
  CHECK(server.alive());
  auto silence = server.try_cli({"PING"}, 100ms);
  REQUIRE(!silence);
  CHECK(silence.error().code == Errc::timeout);
  server.resume();
  CHECK(server.cli({"PING"}) == "PONG");
}

TEST_CASE("a killed server is gone, and comes back empty on the same port") {
  RedisServer server;
  auto port = server.port();
  server.cli({"SET", "key", "value"});
  server.kill();
  CHECK(!server.alive());
  auto nobody = server.try_cli({"PING"});
  REQUIRE(!nobody);
  CHECK(nobody.error().code == Errc::unavailable);
  server.restart();
  CHECK(server.port() == port);
  CHECK(server.cli({"DBSIZE"}) == "0");
}

TEST_CASE("an append-only server remembers over a restart, and stops in order when it is asked") {
  RedisServer server({.appendonly = true});
  server.cli({"SET", "key", "value"});
  server.stop();
  CHECK(!server.alive());
  CHECK(server.log_text().find("ready to exit") != std::string::npos);
  server.restart();
  CHECK(server.cli({"GET", "key"}) == "value");
  server.pause();
  server.restart();
  CHECK(server.cli({"GET", "key"}) == "value");
}

TEST_CASE("a server dies at its start: the test fails with the server's own words") {
  Victim victim("victim: misconfigures");
  CHECK(victim.process.wait(30s) != 0);
  CHECK(victim.said("redis-server died at its start"));
  CHECK(victim.said("no-such-directive"));
}
TEST_CASE("victim: misconfigures" * doctest::skip()) {
  RedisServer server({.config = {"no-such-directive 1"}});
}

TEST_CASE("passwords and users shut out others, not the kit") {
  RedisServer server({.password = "secret", .users = {"alice on >wonder ~a* &* +get"}});
  auto try_as = [&](const std::string& user, const std::string& password,
                    const std::vector<std::string>& words) {
    return control({server.port(), user, password}, words, 10s);
  };
  auto as = [&](auto&&... args) {
    auto reply = try_as(args...);
    return reply ? "ok" : reply.error().what.substr(0, reply.error().what.find(' '));
  };
  CHECK(as("", "", std::vector<std::string>{"GET", "a"}) == "NOAUTH");
  CHECK(as("default", "wrong", std::vector<std::string>{"GET", "a"}) == "WRONGPASS");
  CHECK(as("default", "secret", std::vector<std::string>{"GET", "a"}) == "ok");
  CHECK(as("alice", "wonder", std::vector<std::string>{"GET", "a"}) == "ok");
  CHECK(as("alice", "wonder", std::vector<std::string>{"GET", "b"}) == "NOPERM");
  CHECK(server.cli({"SET", "b", "1"}) == "OK");
}

TEST_CASE("a server listens on a unix socket in its folder") {
  RedisServer server({.unix_socket = true});
  TempFolder folder;
  Process cli(
      {.argv = {"redis-cli", "-s", server.unix_path(), "PING"}, .log = folder.path() / "log"});
  CHECK(cli.wait() == 0);
  CHECK(cli.log_text() == "PONG\n");
}

TEST_CASE("a replica follows its primary, with a password too") {
  auto before = Clock::now();
  RedisServer primary({.password = "secret"});
  RedisServer replica({.password = "secret", .replica_of = &primary});
  wait_for(30s, "the replica is in sync",
           [&] { return replica.info("master_link_status") == "up"; });
  MESSAGE("in sync after ",
          std::chrono::duration<double, std::milli>(Clock::now() - before).count(), " ms");
  primary.cli({"SET", "key", "value"});
  CHECK(primary.cli({"WAIT", "1", "10000"}) == "1");
  CHECK(replica.cli({"GET", "key"}) == "value");
}

TEST_CASE("a server that finds its port taken takes another one") {
  RedisServer thief;
  // The victim's first redis-server is sent to the port of the thief.
  TempFolder folder;
  auto script = folder.path() / "redis-server";
  std::ofstream(script) << fmt::format(
      "#!/bin/sh\n"
      "if mkdir {}/first; then sed -i 's/^port .*/port {}/' $1; fi\n"
      "PATH=/usr/bin:/bin exec redis-server $@\n",
      folder.path().string(), thief.port());
  std::filesystem::permissions(script, std::filesystem::perms::owner_all);
  auto path = fmt::format("PATH={}:{}", folder.path().string(), getenv("PATH"));
  Victim victim("victim: is robbed of its port", {path});
  CHECK(victim.process.wait(30s) == 0);
  CHECK(std::filesystem::exists(folder.path() / "first"));
}
TEST_CASE("victim: is robbed of its port" * doctest::skip()) {
  RedisServer server;
  CHECK(server.info("process_id") == std::to_string(server.pid()));
}
