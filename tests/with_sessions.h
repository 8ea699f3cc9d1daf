#pragma once
// Some holders of leases, each with a client of its own, for the length of one test.
#include "primitives/lease/lease.h"
#include "with_client.h"

namespace warren {

using Sessions = std::vector<std::unique_ptr<LeaseSession>>;

// Held, or uncertain for as long as an answer is on its way: a new connection or a busy machine
// makes a lease uncertain for a moment, which takes nothing from its holder.
inline bool is_ours(const Lease& lease) { return lease.state() != LeaseState::ended; }

template <class Body, class... Args>
awaitable<void> run_with_sessions(std::vector<redis::Settings> settings,
                                  std::chrono::milliseconds ttl, Body body, Args&... args) {
  auto executor = co_await asio::this_coro::executor;
  std::vector<std::unique_ptr<redis::Client>> clients;
  Sessions sessions;
  for (auto& each : settings) {
    auto client = redis::Client::create(executor, each);
    REQUIRE(client);
    clients.push_back(std::move(*client));
    sessions.push_back(std::make_unique<LeaseSession>(*clients.back(), ttl));
  }
  std::exception_ptr thrown;
  try {
    co_await body(sessions, args...);
  } catch (...) {
    thrown = std::current_exception();
  }
  for (auto& session : sessions) co_await session->close();
  for (auto& client : clients) co_await client->close();
  if (thrown) std::rethrow_exception(thrown);
}

// with_sessions({settings_for(server), settings_for(server)}, 5s,
//               [](Sessions& holders) -> awaitable<void> { … });
template <class Body, class... Args>
void with_sessions(std::vector<redis::Settings> settings, std::chrono::milliseconds ttl, Body body,
                   Args&... args) {
  run(run_with_sessions(std::move(settings), ttl, body, args...));
}

}  // namespace warren
