#pragma once
// A catalog in a real PostgreSQL, for the length of one test.
#include "primitives/catalog/postgres.h"
#include "proof/testkit/run.h"
#include "proof/testkit/servers/postgres_server.h"

namespace warren {

// Where the engine of that name keeps its rows.
struct PostgresPlace {
  static constexpr const char* name = "postgres";

  PostgresServer server{PostgresOptions{.fsync = false}};

  // Another client of the same rows.
  Async<std::unique_ptr<Catalog>> open() {
    auto executor = co_await asio::this_coro::executor;
    co_return co_await PostgresCatalog::open(executor, server.url(), "fleet", Clock::now() + 60s);
  }
  // Another client, which reaches it at this port.
  Async<std::unique_ptr<Catalog>> open_at(unsigned short at) {
    auto executor = co_await asio::this_coro::executor;
    auto url = server.url();
    auto there = std::to_string(port());
    url.replace(url.find(there), there.size(), std::to_string(at));
    co_return co_await PostgresCatalog::open(executor, url, "fleet", Clock::now() + 60s);
  }
  unsigned short port() const { return server.port(); }
  void pause() { server.pause(); }
  void resume() { server.resume(); }
  void restart() { server.restart(); }
  std::uint64_t rows_changed() { return server.rows_changed(); }
};

}  // namespace warren
