#pragma once
// A client for the length of one test.
#include <doctest/doctest.h>

#include "proof/testkit/run.h"
#include "proof/testkit/servers/redis_cluster.h"
#include "proof/testkit/servers/redis_server.h"
#include "proof/testkit/servers/sentinel_trio.h"
#include "redis/client.h"

namespace warren {

inline redis::Settings settings_for(unsigned short port) {
  redis::Settings settings;
  settings.addresses = {{"127.0.0.1", port, ""}};
  return settings;
}

inline redis::Settings settings_for(const RedisServer& server) {
  return settings_for(server.port());
}

inline redis::Settings settings_for(SentinelTrio& trio) {
  redis::Settings settings;
  settings.mode = redis::Mode::sentinel;
  settings.master_name = SentinelTrio::name;
  settings.addresses.clear();
  for (auto* sentinel : trio.sentinels())
    settings.addresses.push_back({"127.0.0.1", sentinel->port(), ""});
  return settings;
}

inline redis::Settings settings_for(RedisCluster& cluster) {
  redis::Settings settings;
  settings.mode = redis::Mode::cluster;
  settings.addresses = {{"127.0.0.1", cluster.node(0).port(), ""},
                        {"127.0.0.1", cluster.node(1).port(), ""}};
  return settings;
}

// What a call ends with that the server refuses for as long as it is asked. At the call's deadline
// one more try may be under way, of which nothing is known yet; then it is made again.
inline awaitable<Error> refusal(redis::Client& client, redis::Command command,
                                redis::CallOptions options = {}) {
  for (int tries = 0;; ++tries) {
    auto refused = co_await client.command(redis::Command(command), options.within(300ms));
    REQUIRE(!refused);
    if (refused.error().code != Errc::unknown_outcome || tries == 100) co_return refused.error();
  }
}

template <class Body, class... Args>
awaitable<void> run_with_client(redis::Settings settings, Body body, Args&... args) {
  auto client = redis::Client::create(co_await asio::this_coro::executor, std::move(settings));
  REQUIRE(client);
  std::exception_ptr thrown;
  try {
    co_await body(**client, args...);
  } catch (...) {
    thrown = std::current_exception();
  }
  co_await (*client)->close();
  if (thrown) std::rethrow_exception(thrown);
}

// with_client(settings_for(server), [](Client& client, RedisServer& server) -> awaitable<void> {
//   …
// }, server);
template <class Body, class... Args>
void with_client(redis::Settings settings, Body body, Args&... args) {
  run(run_with_client(std::move(settings), body, args...));
}

}  // namespace warren
