#pragma once
// A catalog in an etcd of its own, as the suite for all engines wants it.
#include "primitives/catalog/etcd.h"
#include "proof/testkit/servers/etcd_server.h"

namespace warren {

struct EtcdPlace {
  static constexpr const char* name = "etcd";
  EtcdServer server = EtcdServer();

  // Each time another object, of the same catalog.
  Async<std::unique_ptr<Catalog>> open() {
    auto executor = co_await asio::this_coro::executor;
    co_return co_await EtcdCatalog::open(executor, server.url(), "suite", Clock::now() + 30s);
  }
  // Another client, which reaches it at this port.
  Async<std::unique_ptr<Catalog>> open_at(unsigned short at) {
    auto executor = co_await asio::this_coro::executor;
    auto url = "etcd://127.0.0.1:" + std::to_string(at);
    co_return co_await EtcdCatalog::open(executor, url, "suite", Clock::now() + 30s);
  }
  unsigned short port() const { return server.port(); }
  void pause() { server.pause(); }
  void resume() { server.resume(); }
  void restart() { server.restart(); }
  // How often anything was written, since the beginning.
  std::uint64_t rows_changed() { return server.revision(); }
};

}  // namespace warren
