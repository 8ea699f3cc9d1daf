#pragma once
// Mirrors of one state for the length of a test, each with a client of its own.
#include "primitives/mirror/mirror.h"
#include "with_client.h"

namespace warren {

enum : std::size_t { node_type, stream_type };

inline MirrorTerms mirror_terms() {
  MirrorTerms terms;
  terms.prefix = "{c1}:";
  terms.channel = "foghorn:{c1}:state_updates";
  terms.types = {{"node", "nodes:"}, {"stream", "streams:"}};
  terms.resync_pause = 50ms;
  terms.resync_spread = 10ms;
  return terms;
}

struct Instance {
  std::unique_ptr<redis::Client> client;
  std::unique_ptr<Mirror> mirror;
  std::vector<HistoryRewritten> rewrites;
};
using Instances = std::vector<std::unique_ptr<Instance>>;

inline awaitable<std::unique_ptr<Instance>> start_instance(redis::Settings settings,
                                                           MirrorTerms terms) {
  auto instance = std::make_unique<Instance>();
  auto client = redis::Client::create(co_await asio::this_coro::executor, std::move(settings));
  REQUIRE(client);
  instance->client = std::move(*client);
  auto mirror = Mirror::create(*instance->client, std::move(terms));
  REQUIRE(mirror);
  instance->mirror = std::move(*mirror);
  instance->mirror->on_history_rewritten(
      [to = instance.get()](const HistoryRewritten& lost) { to->rewrites.push_back(lost); });
  co_return instance;
}

inline awaitable<void> stop_instance(Instance& instance) {
  co_await instance.mirror->close();
  co_await instance.client->close();
}

template <class Body, class... Args>
awaitable<void> run_with_mirrors(std::vector<redis::Settings> settings, MirrorTerms terms,
                                 Body body, Args&... args) {
  Instances all;
  for (const auto& each : settings) {
    auto instance = co_await start_instance(each, terms);
    all.push_back(std::move(instance));
  }
  std::exception_ptr thrown;
  try {
    for (auto& instance : all) {
      auto ready = co_await instance->mirror->ready(Clock::now() + 20s);
      REQUIRE(ready);
    }
    co_await body(all, args...);
  } catch (...) {
    thrown = std::current_exception();
  }
  for (auto& instance : all) co_await stop_instance(*instance);
  if (thrown) std::rethrow_exception(thrown);
}

// with_mirrors({settings, settings}, mirror_terms(), [](Instances& all, …) -> awaitable<void> …)
template <class Body, class... Args>
void with_mirrors(std::vector<redis::Settings> settings, MirrorTerms terms, Body body,
                  Args&... args) {
  run(run_with_mirrors(std::move(settings), std::move(terms), body, args...));
}

// A put that must succeed, by the other name that a brace-enclosed batch in a co_await cannot have.
inline awaitable<Version> put(Mirror& mirror, std::size_t type, std::string id,
                              std::optional<std::string> value) {
  Batch batch;
  batch.push_back({type, std::move(id), std::move(value)});
  auto version = co_await mirror.put(std::move(batch), Clock::now() + 20s);
  REQUIRE(version);
  co_return *version;
}

inline std::optional<std::string> seen(const Mirror& mirror, std::size_t type,
                                       std::string_view id) {
  auto snapshot = mirror.read();
  auto* entity = snapshot->find(type, id);
  return entity ? std::optional(std::string(entity->value())) : std::nullopt;
}

inline awaitable<void> eventually_seen(Mirror& mirror, std::size_t type, std::string id,
                                       std::optional<std::string> value,
                                       Clock::duration limit = 20s) {
  auto fact = [](Mirror& m, std::size_t& t, std::string& i,
                 std::optional<std::string>& v) -> Result<> {
    auto now = seen(m, t, i);
    if (now == v) return ok;
    return fail(Errc::not_found, "{} is {}", i, now.value_or("not there"));
  };
  co_await eventually(limit, "the change is seen", fact, mirror, type, id, value);
}

}  // namespace warren
