// Mirrors over a link that is slow: they get there, and Redis' memory does not pay for it.
#include <cstdlib>

#include "proof/testkit/faulty_link.h"
#include "with_mirrors.h"

using namespace warren;

namespace {

constexpr std::size_t value_bytes = 60'000;

// 12 MB take some six seconds. WARREN_SLOW_MIRROR=full: 120 MB at 1 MB/s, for two minutes, and an
// outage of 350 MB.
bool is_full() {
  const char* wish = std::getenv("WARREN_SLOW_MIRROR");
  return wish && std::string_view(wish) == "full";
}

std::size_t used_memory(const RedisServer& server) {
  return std::stoull(server.info("used_memory"));
}

// Waits for the fact, and says how many bytes more than `before` Redis used meanwhile.
template <class Fact>
awaitable<std::size_t> most_memory_until(Clock::duration limit, std::string what, RedisServer& s,
                                         std::size_t before, Fact fact) {
  std::size_t most = 0;
  auto look = [](RedisServer& server, std::size_t& b, std::size_t& m, Fact& f) {
    auto now = used_memory(server);
    m = std::max(m, now > b ? now - b : 0);
    return f();
  };
  co_await eventually(limit, std::move(what), look, s, before, most, fact);
  co_return most;
}

void fill(RedisServer& server, std::size_t count) {
  std::string value(value_bytes, 'x');
  for (std::size_t i = 0; i < count; ++i)
    server.cli({"SET", fmt::format("{{c1}}:streams:{}", i), value});
}

}  // namespace

TEST_CASE("over a slow link a mirror loads, and Redis keeps little for it") {
  RedisServer server;
  FaultyLink link(server.port());
  std::size_t count = is_full() ? 2000 : 200;
  std::size_t per_second = is_full() ? 1'000'000 : 2'000'000;
  fill(server, count);
  link.throttle(Direction::to_client, per_second);
  auto body = [](RedisServer& s, FaultyLink& l, std::size_t& keys) -> awaitable<void> {
    auto before = used_memory(s);
    auto began = Clock::now();
    auto late = co_await start_instance(settings_for(l.port()), mirror_terms());
    auto& mirror = *late->mirror;
    auto most = co_await most_memory_until(is_full() ? 4min : 40s, "it is current", s, before, [&] {
      return mirror.health() == MirrorHealth::current;
    });
    CHECK(mirror.read()->table(stream_type).size() == keys);
    CHECK(mirror.counters().snapshots == 1);
    CHECK(most < 8u << 20);
    CHECK(l.counters().bytes_to_client < keys * value_bytes * 6 / 5);  // once, and not again
    MESSAGE("loaded in ", (Clock::now() - began) / 1ms, " ms; Redis used ", most >> 10,
            " KiB more meanwhile");
    co_await stop_instance(*late);
  };
  run(body(server, link, count), is_full() ? 5min : 60s);
}

TEST_CASE(
    "values of megabytes are loaded over a slow link, each in more time than a short answer has") {
  RedisServer server;
  FaultyLink link(server.port());
  for (int i = 0; i < 3; ++i)
    server.cli({"SET", fmt::format("{{c1}}:streams:{}", i), std::string(3'000'000, 'x')});
  link.throttle(Direction::to_client, 1'000'000);
  auto body = [](RedisServer& s, FaultyLink& l) -> awaitable<void> {
    auto before = used_memory(s);
    auto late = co_await start_instance(settings_for(l.port()), mirror_terms());
    auto& mirror = *late->mirror;
    auto most = co_await most_memory_until(
        40s, "it is current", s, before, [&] { return mirror.health() == MirrorHealth::current; });
    CHECK(mirror.read()->table(stream_type).size() == 3);
    CHECK(mirror.counters().snapshots == 1);
    CHECK(most < 16u << 20);
    CHECK(l.counters().bytes_to_client < 10'000'000);
    co_await stop_instance(*late);
  };
  run(body(server, link));
}

TEST_CASE("after an outage a mirror catches up over a slow link, and Redis keeps little for it") {
  RedisServer server;
  FaultyLink link(server.port());
  std::vector<redis::Settings> settings{settings_for(server), settings_for(link.port())};
  auto body = [](Instances& all, RedisServer& s, FaultyLink& l) -> awaitable<void> {
    auto& alice = *all[0]->mirror;
    auto& bob = *all[1]->mirror;
    l.cut();
    std::string value(500'000, 'x');
    int batches = is_full() ? 700 : 40;
    for (int i = 0; i < batches; ++i)
      co_await put(alice, stream_type, std::to_string(i % 4), value + std::to_string(i));
    l.heal();
    l.throttle(Direction::to_client, is_full() ? 100'000'000 : 4'000'000);
    auto before = used_memory(s);
    auto began = Clock::now();
    auto limit = is_full() ? 2min : 40s;
    auto most = co_await most_memory_until(limit, "it has the last one", s, before, [&] {
      auto snapshot = bob.read();
      auto* last = snapshot->find(stream_type, "3");
      return last && last->value().ends_with(fmt::format("x{}", batches - 1));
    });
    CHECK(most < 8u << 20);
    CHECK(bob.counters().snapshots == 1);
    CHECK(l.counters().bytes_to_client < std::size_t(batches) * 750'000);
    MESSAGE("caught up in ", (Clock::now() - began) / 1ms, " ms; Redis used ", most >> 10,
            " KiB more meanwhile");
  };
  auto all = run_with_mirrors(std::move(settings), mirror_terms(), body, server, link);
  run(std::move(all), is_full() ? 5min : 60s);
}
