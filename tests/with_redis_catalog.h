#pragma once
// A catalog on a Redis of its own, for what every engine must do.
#include "primitives/catalog/redis.h"
#include "tests/with_client.h"

namespace warren {

struct RedisPlace {
  static constexpr const char* name = "redis";

  Async<std::unique_ptr<Catalog>> open() {
    auto executor = co_await asio::this_coro::executor;
    co_return RedisCatalog::open(executor, settings_for(server), "fleet");
  }
  // Another client, which reaches it at this port.
  Async<std::unique_ptr<Catalog>> open_at(unsigned short port) {
    auto executor = co_await asio::this_coro::executor;
    co_return RedisCatalog::open(executor, settings_for(port), "fleet");
  }
  unsigned short port() const { return server.port(); }
  void pause() { server.pause(); }
  void resume() { server.resume(); }
  void restart() { server.restart(); }
  // How often something was written, by the server's own count.
  std::uint64_t rows_changed() const {
    return std::stoull(server.info("rdb_changes_since_last_save"));
  }

  RedisServer server{{.appendonly = true}};
};

}  // namespace warren
