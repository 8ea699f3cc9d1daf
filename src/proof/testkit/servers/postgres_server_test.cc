#include "proof/testkit/servers/postgres_server.h"

#include <signal.h>
#include <unistd.h>

#include "proof/testkit/run.h"
#include "proof/testkit/victim.h"

using namespace warren;

TEST_CASE("a PostgreSQL is there when its object is, empty and durable") {
  PostgresServer first({.fsync = false});  // creates what the others are copies of
  auto before = Clock::now();
  PostgresServer server;
  MESSAGE("started in ", std::chrono::duration<double, std::milli>(Clock::now() - before).count(),
          " ms");
  CHECK(server.alive());
  CHECK(server.query("SELECT count(*) FROM pg_stat_user_tables") == "0");
  CHECK(server.query("SELECT 1, NULL, 'a' UNION SELECT 2, 3, 'b' ORDER BY 1") == "1||a\n2|3|b");
  CHECK(server.query("SHOW fsync") == "on");
  CHECK(first.query("SHOW fsync") == "off");
  auto tested = PostgresSession::open(server.url());
  REQUIRE(tested);
  CHECK(tested->query("CREATE TABLE t (n int); SELECT current_user") == "warren");
  CHECK(tested->query("SELECT usesuper FROM pg_user WHERE usename = current_user") == "f");
}

TEST_CASE("an error of SQL is refused word for word, and fails the test in query") {
  PostgresServer server({.fsync = false});
  auto refused = server.try_query("SELECT nonsense");
  REQUIRE(!refused);
  CHECK(refused.error().code == Errc::refused);
  CHECK(refused.error().what.find("column \"nonsense\" does not exist") != std::string::npos);

  Victim victim("victim: asks PostgreSQL for nonsense");
  CHECK(victim.process.wait(60s) != 0);
  CHECK(victim.said("column \"nonsense\" does not exist"));
}
TEST_CASE("victim: asks PostgreSQL for nonsense" * doctest::skip()) {
  PostgresServer server({.fsync = false});
  server.query("SELECT nonsense");
}

TEST_CASE("a paused PostgreSQL answers nothing, on old connections and on new ones") {
  PostgresServer server({.fsync = false});
  auto session = server.connect();
  server.pause();
  CHECK(server.alive());
  auto silence = session.try_query("SELECT 1", 100ms);
  REQUIRE(!silence);
  CHECK(silence.error().code == Errc::timeout);
  auto nobody = server.try_query("SELECT 1", 100ms);
  REQUIRE(!nobody);
  CHECK(nobody.error().code == Errc::timeout);
  server.resume();
  CHECK(server.query("SELECT 1") == "1");
}

TEST_CASE("a killed PostgreSQL comes back on the same port with what was committed") {
  PostgresServer server;
  auto port = server.port();
  server.query("CREATE TABLE t AS SELECT 1 AS n");
  auto open = server.connect();
  open.query("BEGIN; INSERT INTO t VALUES (2)");
  server.kill();
  CHECK(!server.alive());
  CHECK(!open.try_query("COMMIT"));
  auto nobody = server.try_query("SELECT 1");
  REQUIRE(!nobody);
  CHECK(nobody.error().code == Errc::unavailable);
  server.restart();
  CHECK(server.port() == port);
  CHECK(server.query("SELECT n FROM t") == "1");
}

TEST_CASE("a PostgreSQL is stopped in order while clients are connected, also when it is paused") {
  PostgresServer server({.fsync = false});
  auto client = server.connect();
  server.stop();
  CHECK(!server.alive());
  CHECK(server.log_text().find("database system is shut down") != std::string::npos);
  server.restart();
  server.pause();
  server.restart();
  CHECK(server.query("SELECT 1") == "1");
}

TEST_CASE("a PostgreSQL with a password lets in who has it, and the kit") {
  PostgresServer server({.password = "secret", .fsync = false});
  CHECK(PostgresSession::open(server.url()));
  auto url = server.url();
  auto wrong = PostgresSession::open(url.replace(url.find("secret"), 6, "wrong"));
  REQUIRE(!wrong);
  CHECK(wrong.error().what.find("password authentication failed") != std::string::npos);
  CHECK(server.query("SELECT 1") == "1");
}

TEST_CASE("changed rows are counted at once, also those of connections that stay open") {
  PostgresServer server({.fsync = false});
  auto tested = PostgresSession::open(server.url());
  REQUIRE(tested);
  tested->query("CREATE TABLE t (n int)");
  auto before = server.rows_changed();
  auto again = PostgresSession::open(server.url());
  REQUIRE(again);
  again->query("INSERT INTO t VALUES (1), (2)");
  again->query("UPDATE t SET n = 3 WHERE n = 2");
  CHECK(server.rows_changed() == before + 3);
  CHECK(server.rows_changed() == before + 3);
}

TEST_CASE("a PostgreSQL dies at its start: the test fails with the server's own words") {
  Victim victim("victim: misconfigures PostgreSQL");
  CHECK(victim.process.wait(60s) != 0);
  CHECK(victim.said("postgres died at its start"));
  CHECK(victim.said("no_such_setting"));
}
TEST_CASE("victim: misconfigures PostgreSQL" * doctest::skip()) {
  PostgresServer server({.fsync = false, .config = {"no_such_setting = 1"}});
}

TEST_CASE("a test that is killed leaves no PostgreSQL behind") {
  Victim victim("victim: starts a PostgreSQL and waits");
  auto url = wait_for(60s, "the victim's server runs", [&]() -> Result<std::string> {
    auto text = victim.process.log_text();
    auto at = text.find("postgres://");
    auto end = text.find('\n', at);
    if (at == text.npos || end == text.npos) return fail(Errc::not_found, "{}", text);
    return text.substr(at, end - at);
  });
  auto session = PostgresSession::open(url);
  REQUIRE(session);
  ::kill(victim.process.pid(), SIGKILL);  // kills only the test itself, not its process group
  wait_for(30s, "the server is gone", [&] { return !PostgresSession::open(url); });
  wait_for(30s, "its other processes are gone", [&] { return !session->try_query("SELECT 1"); });
}
TEST_CASE("victim: starts a PostgreSQL and waits" * doctest::skip()) {
  PostgresServer server({.fsync = false});
  fmt::print("{}\n", server.url());
  std::fflush(stdout);
  ::pause();
}
