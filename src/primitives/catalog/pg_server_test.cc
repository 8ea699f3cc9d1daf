#include "primitives/catalog/pg_server.h"

#include <doctest/doctest.h>

#include "primitives/catalog/pg_pool.h"
#include "primitives/catalog/pg_statements.h"
#include "proof/testkit/run.h"
#include "proof/testkit/servers/postgres_server.h"

using namespace warren;

TEST_CASE("a PostgreSQL URL is shown without user and password") {
  auto shown = [](const std::string& url) {
    auto server = pg::Server::parse(url);
    return server ? server->shown() : server.error().what;
  };
  CHECK(shown("postgres://alice:hunter2@db.example:5433/fleet") == "db.example:5433/fleet");
  CHECK(shown("postgresql://alice@db/fleet?password=hunter2&sslmode=require") == "db:5432/fleet");
  CHECK(shown("postgres://alice:hunter2@a,b:5433/fleet") == "a:5432,b:5433/fleet");
  CHECK(shown("postgres://alice:hun%2Fter2@[::1]/fleet") == "::1:5432/fleet");
}

TEST_CASE("a URL that is not PostgreSQL's is refused without a word of it") {
  for (std::string url :
       {"redis://alice:hunter2@db/0", "postgres://alice:hun/ter2@db/fleet",
        "postgres://alice:hunter2@db:port/fleet", "postgres://alice:hunter2@db/fleet?nonsense=1",
        "postgres://alice:%zzhunter2@db/fleet", "host=db password=hunter2"}) {
    auto server = pg::Server::parse(url);
    REQUIRE(!server);
    CHECK(server.error().code == Errc::invalid);
    for (auto secret : {"hunter2", "ter2", "hun", "alice"})
      CHECK_MESSAGE(server.error().what.find(secret) == std::string::npos, server.error().what);
  }
}

TEST_CASE("a prefix that no table can begin with is refused") {
  CHECK(pg::Statements::make("fleet_2"));
  for (std::string prefix : {"", "2fleet", "Fleet", "a-b", "a;b", "a\"b"}) {
    auto made = pg::Statements::make(prefix);
    REQUIRE(!made);
    CHECK(made.error().code == Errc::invalid);
  }
  CHECK_FALSE(pg::Statements::make(std::string(41, 'a')));
}

TEST_CASE("errors of PostgreSQL are told apart by what one does about them") {
  for (auto passing : {"40001", "40P01", "53300", "57014", "57P03", "55P03", "25006"})
    CHECK(pg::code_of(passing) == Errc::unavailable);
  for (auto ended : {"57P01", "57P02", "08006"}) CHECK(pg::code_of(ended) == Errc::unknown_outcome);
  for (auto denied : {"28P01", "28000", "42501"}) CHECK(pg::code_of(denied) == Errc::denied);
  CHECK(pg::code_of("42P01") == Errc::not_found);
  CHECK(pg::code_of("22P02") == Errc::invalid);
  CHECK(pg::code_of("42601") == Errc::refused);
}

namespace {

const pg::Statement sleeps{"sleeps", "SELECT pg_sleep(1000)"};
const pg::Statement one{"one", "SELECT 1"};
const pg::Statement serves{"serves", "SELECT pg_backend_pid()"};

pg::Server server_of(const PostgresServer& server) {
  auto parsed = pg::Server::parse(server.url());
  REQUIRE(parsed);
  return *std::move(parsed);
}

Async<> run_one(pg::Pool& pool, const pg::Statement& statement, Clock::time_point deadline,
                std::vector<Errc>& errors) {
  auto rows = co_await pool.run(statement, {}, pg::Effect::reads, deadline);
  if (!rows) errors.push_back(rows.error().code);
  co_return ok;
}

}  // namespace

TEST_CASE("connections are made when they are needed, shared, and closed when nobody needs them") {
  PostgresServer server({.fsync = false});
  run([](PostgresServer& there) -> awaitable<void> {
    auto executor = co_await asio::this_coro::executor;
    auto known = server_of(there);
    pg::Pool pool(executor, known, 3);
    auto connected = [&] {
      return there.query("SELECT count(*) FROM pg_stat_activity WHERE usename = 'warren'");
    };
    CHECK(connected() == "0");
    std::vector<Errc> errors;
    for (int i = 0; i < 5; ++i) REQUIRE(co_await run_one(pool, one, Clock::now() + 60s, errors));
    CHECK(connected() == "1");
    TaskGroup group(executor);
    for (int i = 0; i < 50; ++i) group.start("one", run_one(pool, one, Clock::now() + 60s, errors));
    co_await group.join();
    CHECK(errors.empty());
    CHECK(connected() == "3");
    pool.close_unused(Clock::now());
    CHECK(pool.idle() == 0);
    co_await eventually(30s, "the server has no connections", [&] { return connected() == "0"; });
  }(server));
}

TEST_CASE("who finds no connection free waits in line, and a line that is too long is refused") {
  PostgresServer server({.fsync = false});
  run([](PostgresServer& there) -> awaitable<void> {
    auto executor = co_await asio::this_coro::executor;
    auto known = server_of(there);
    pg::Pool pool(executor, known, 1);
    TaskGroup group(executor);
    std::vector<Errc> errors;
    group.start("sleeper", run_one(pool, sleeps, Clock::now() + 60s, errors));
    co_await eventually(30s, "the connection is taken", [&] {
      return there.query("SELECT count(*) FROM pg_stat_activity WHERE query = '" + sleeps.sql +
                         "'") == "1";
    });
    for (int i = 0; i < 4097; ++i)
      group.start("waiter", run_one(pool, one, Clock::now() + 60s, errors));
    co_await eventually(30s, "one too many", [&] { return !errors.empty(); });
    CHECK(errors == std::vector{Errc::overloaded});
    there.query("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query = '" +
                sleeps.sql + "'");
    co_await eventually(30s, "the sleeper sleeps again, or the others went first",
                        [&] { return group.running() <= 1; });
    CHECK(errors == std::vector{Errc::overloaded});
    group.stop();
    co_await group.join();
  }(server));
}

TEST_CASE("a call that is cancelled leaves the line, and its connection is not used again") {
  PostgresServer server({.fsync = false});
  run([](PostgresServer& there) -> awaitable<void> {
    auto executor = co_await asio::this_coro::executor;
    auto known = server_of(there);
    pg::Pool pool(executor, known, 1);
    std::vector<Errc> errors;
    {
      TaskGroup group(executor);
      group.start("sleeper", run_one(pool, sleeps, Clock::now() + 60s, errors));
      group.start("waiter", run_one(pool, sleeps, Clock::now() + 60s, errors));
      co_await eventually(30s, "the connection is taken", [&] {
        return there.query("SELECT count(*) FROM pg_stat_activity WHERE query = '" + sleeps.sql +
                           "'") == "1";
      });
      group.stop();
      co_await group.join();
    }
    CHECK(pool.idle() == 0);
    for (auto code : errors) CHECK(code == Errc::cancelled);
    errors.clear();
    REQUIRE(co_await run_one(pool, one, Clock::now() + 60s, errors));
    CHECK(errors.empty());
    CHECK(pool.idle() == 1);
    // The server notices by itself that no client waits for the answer.
    co_await eventually(30s, "the sleeper's backend has ended", [&] {
      return there.query("SELECT count(*) FROM pg_stat_activity WHERE usename = 'warren'") == "1";
    });
  }(server));
}

TEST_CASE("a connection that the server closed meanwhile is replaced") {
  PostgresServer server({.fsync = false});
  run([](PostgresServer& there) -> awaitable<void> {
    auto executor = co_await asio::this_coro::executor;
    auto known = server_of(there);
    pg::Pool pool(executor, known, 1);
    auto first = co_await pool.run(serves, {}, pg::Effect::writes, Clock::now() + 60s);
    REQUIRE(first);
    there.restart();
    auto second = co_await pool.run(serves, {}, pg::Effect::writes, Clock::now() + 60s);
    REQUIRE(second);
    CHECK(first->text(0, 0) != second->text(0, 0));
  }(server));
}

TEST_CASE("of several hosts the one that answers and takes writes is used") {
  PostgresServer server({.fsync = false}), standby({.fsync = false});
  standby.query("ALTER SYSTEM SET default_transaction_read_only = on");
  standby.restart();
  Port nobody;
  auto url = fmt::format("postgres://warren@127.0.0.1:{},localhost:{},127.0.0.1:{}/warren",
                         nobody.number(), standby.port(), server.port());
  run([](PostgresServer& there, std::string hosts) -> awaitable<void> {
    auto known = pg::Server::parse(hosts);
    REQUIRE(known);
    pg::Pool pool(co_await asio::this_coro::executor, *known, 1);
    pg::Statement where{"where", "SHOW port"};
    auto port = co_await pool.run(where, {}, pg::Effect::reads, Clock::now() + 60s);
    REQUIRE(port);
    CHECK(port->number(0, 0) == there.port());
  }(server, url));
}
