// The mirror compared with its building blocks: the same script run by redis-benchmark, and the
// same keys read by a bare SCAN and MGET.
#include <doctest/doctest.h>

#include <array>
#include <cstdlib>
#include <new>
#include <random>
#include <thread>

#include "bench_primitives.h"
#include "measure.h"
#include "primitives/mirror/mirror.h"
#include "primitives/mirror/scripts.h"
#include "proof/testkit/faulty_link.h"
#include "proof/testkit/run.h"
#include "proof/testkit/servers/redis_server.h"
#include "report.h"

using namespace warren;
using namespace warren::bench;

namespace {
std::atomic<std::size_t> allocations = 0;
}

void* operator new(std::size_t size) {
  allocations.fetch_add(1, std::memory_order_relaxed);
  if (void* memory = std::malloc(size)) return memory;
  std::abort();
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }

namespace {

constexpr int rounds = 5;
enum : std::size_t { node_type, stream_type, instance_type };

MirrorTerms terms() {
  MirrorTerms t;
  t.prefix = "{c}:";
  t.channel = "foghorn:{c}:state_updates";
  t.types = {{"node", "nodes:"}, {"stream", "streams:"}, {"instance", "stream_instances:"}};
  t.log_entries = 250'000;
  return t;
}

redis::Settings settings_for(unsigned short port) {
  redis::Settings settings;
  settings.addresses = {{"127.0.0.1", port, ""}};
  settings.command_timeout = 10s;
  return settings;
}

struct Instance {
  std::unique_ptr<redis::Client> client;
  std::unique_ptr<Mirror> mirror;
};

awaitable<Instance> start(unsigned short port) {
  auto client = redis::Client::create(co_await asio::this_coro::executor, settings_for(port));
  REQUIRE(client);
  auto connected = co_await (*client)->ready(Clock::now() + 10s);
  REQUIRE(connected);
  auto mirror = Mirror::create(**client, terms());
  REQUIRE(mirror);
  auto ready = co_await (*mirror)->ready(Clock::now() + 60s);
  REQUIRE(ready);
  co_return Instance{std::move(*client), std::move(*mirror)};
}

awaitable<void> stop(Instance& instance) {
  co_await instance.mirror->close();
  co_await instance.client->close();
}

Batch batch_of(int first, int count, const std::string& value) {
  Batch batch;
  for (int i = 0; i < count; ++i)
    batch.push_back({node_type, fmt::format("edge-{:06}", first + i), value});
  return batch;
}

// --- writes --------------------------------------------------------------------------------------

Async<> put_many(Mirror& mirror, int caller, int puts, int changes, const std::string& value) {
  for (int i = 0; i < puts; ++i) {
    auto written =
        co_await mirror.put(batch_of(caller * changes, changes, value), Clock::now() + 30s);
    if (!written) co_return std::unexpected(written.error());
  }
  co_return ok;
}

// Changes per second with `callers` that each put `changes` at a time.
double writes_per_second(RedisServer& server, int callers, int puts, int changes) {
  double rate = 0;
  auto body = [](RedisServer& s, int n, int each, int size, double& out) -> awaitable<void> {
    auto instance = co_await start(s.port());
    std::string value(256, 'v');
    TaskGroup group(instance.client->executor());
    auto begun = Clock::now();
    for (int i = 0; i < n; ++i)
      group.start("caller", put_many(*instance.mirror, i, each, size, value));
    co_await group.join();
    out = double(n) * each * size / seconds_since(begun);
    co_await stop(instance);
  };
  run(body(server, callers, puts, changes, rate), 300s);
  return rate;
}

// Each call has its own head, since a batch is written only once. Everything else is what we send.
double benchmark_script(RedisServer& server, int depth, int calls, int changes) {
  auto t = terms();
  mirror::Outbox outbox(t, "redis-benchmark");
  REQUIRE(outbox.put(batch_of(0, changes, std::string(256, 'v'))));
  auto write = outbox.next(0);
  write->keys[1] += "__rand_int__";
  auto words = write->keys;
  words.insert(words.end(), write->args.begin(), write->args.end());
  std::string command =
      fmt::format("{} redis-benchmark -p {} -c 1 -P {} -n {} -r 1000000000 --csv EVALSHA {} {}",
                  std::thread::hardware_concurrency() < 2 ? "" : "taskset -c 1", server.port(),
                  depth, calls, scripts::write.hash(), write->keys.size());
  for (const auto& word : words) command += " '" + word + "'";
  command += " 2>/dev/null";
  std::unique_ptr<FILE, int (*)(FILE*)> pipe(popen(command.c_str(), "r"), pclose);
  std::array<char, 1 << 17> line;
  std::string last;
  while (std::fgets(line.data(), line.size(), pipe.get())) last = line.data();
  auto at = last.rfind("\",\"");
  for (int column = 0; column < 6 && at != last.npos; ++column) at = last.rfind("\",\"", at - 1);
  double rate = at == last.npos ? 0 : std::strtod(last.c_str() + at + 3, nullptr);
  if (rate == 0) {
    fmt::print(stderr, "redis-benchmark said: {}\nand the server:\n{}\n", last.substr(0, 200),
               server.log_text());
    std::exit(1);
  }
  return rate * changes;
}

// With a listener, as in our own measurement.
double benchmark_heard(RedisServer& server, int depth, int calls, int changes) {
  double rate = 0;
  std::atomic<bool> ended = false;
  std::thread peer([&] {
    rate = benchmark_script(server, depth, calls, changes);
    ended = true;
  });
  auto listen = [](RedisServer& s, std::atomic<bool>& done) -> awaitable<void> {
    auto client = redis::Client::create(co_await asio::this_coro::executor, settings_for(s.port()));
    REQUIRE(client);
    redis::Subscriber listener(**client);
    listener.ssubscribe(terms().log_channel());
    listener.subscribe(terms().channel);
    while (!done) {
      auto message = co_await listener.next(Clock::now() + 10ms);
      if (!message && message.error().code == Errc::cancelled) break;
    }
    co_await listener.close();
    co_await (*client)->close();
  };
  run(listen(server, ended), 300s);
  peer.join();
  return rate;
}

void bench_writes() {
  RedisServer server;
  pin(server.pid(), 0);
  struct Shape {
    const char* name;
    int callers, puts, changes, depth, calls;
  };
  for (auto shape : {Shape{"primitives.mirror.put_1", 256, 400, 1, 256, 100'000},
                     Shape{"primitives.mirror.put_100", 16, 160, 100, 4, 2'000}}) {
    std::vector<double> ours, peer;
    for (int round = 0; round < rounds; ++round) {
      ours.push_back(writes_per_second(server, shape.callers, shape.puts, shape.changes));
      peer.push_back(benchmark_heard(server, shape.depth, shape.calls, shape.changes));
      server.cli({"FLUSHALL"}, 30s);
    }
    print({shape.name, median(ours), "change/s",
           fmt::format("redis-benchmark -c 1 -P {}, the same script", shape.depth), median(peer),
           // Many calls in flight, with large batches, keep the server busier than one call at a
           // time can.
           0.8});
  }
}

// --- lag -----------------------------------------------------------------------------------------

struct Sample {
  Clock::time_point put_at;
  Version version;
};
struct Sight {
  Version version;
  Clock::time_point seen_at;
};

Async<> put_one(Mirror& mirror, int id, std::vector<Sample>& samples) {
  auto now = Clock::now();
  auto version = co_await mirror.put(batch_of(id, 1, std::string(256, 'v')), now + 10s);
  if (!version) co_return std::unexpected(version.error());
  samples.push_back({now, *version});
  co_return ok;
}

awaitable<void> watch(Mirror& mirror, bool& stop, std::vector<Sight>& sights) {
  while (!stop) {
    auto next = mirror.read()->version();
    ++next.sequence;
    auto applied = co_await mirror.applied(next, Clock::now() + 100ms);
    if (applied) sights.push_back({mirror.read()->version(), Clock::now()});
  }
}

void bench_lag() {
  RedisServer server;
  pin(server.pid(), 0);
  std::vector<float> lags;
  auto body = [](RedisServer& s, std::vector<float>& out) -> awaitable<void> {
    auto alice = co_await start(s.port());
    auto bob = co_await start(s.port());
    std::vector<Sample> samples;
    std::vector<Sight> sights;
    bool stopped = false;
    TaskGroup group(alice.client->executor());
    group.start("watcher", watch(*bob.mirror, stopped, sights));
    auto begun = Clock::now();
    for (int sent = 0; sent < 100'000;) {
      for (; sent < 20'000 * seconds_since(begun); ++sent)
        group.start("put", put_one(*alice.mirror, sent % 1000, samples));
      co_await sleep_for(1ms);
    }
    auto last = co_await alice.mirror->put(batch_of(0, 1, "end"), Clock::now() + 10s);
    REQUIRE(last);
    auto applied = co_await bob.mirror->applied(*last, Clock::now() + 10s);
    REQUIRE(applied);
    stopped = true;
    co_await group.join();
    for (const auto& sample : samples) {
      auto sight = std::ranges::lower_bound(sights, sample.version, {}, &Sight::version);
      REQUIRE(sight != sights.end());
      out.push_back(
          std::chrono::duration<float, std::milli>(sight->seen_at - sample.put_at).count());
    }
    co_await stop(alice);
    co_await stop(bob);
  };
  run(body(server, lags));
  std::ranges::sort(lags);
  print({"primitives.mirror.lag_20000.p50", lags[lags.size() / 2], "ms"});
  print({"primitives.mirror.lag_20000.p99",
         lags[lags.size() * 99 / 100],
         "ms",
         "",
         {},
         20.0,
         Better::lower});
}

// --- an outage -----------------------------------------------------------------------------------

void bench_outage() {
  RedisServer server;
  pin(server.pid(), 0);
  FaultyLink link(server.port());
  double seconds = 0;
  auto body = [](RedisServer& s, FaultyLink& l, double& out) -> awaitable<void> {
    auto alice = co_await start(s.port());
    auto bob = co_await start(l.port());
    l.cut();
    auto begun = Clock::now();
    Version last;
    for (int i = 0; i < 100'000; ++i) {  // one batch each: 10,000 a second, for 10 s
      if (i % 10 == 0) co_await sleep_until(begun + i * 100us);
      auto version = co_await alice.mirror->put(batch_of(i % 20'000, 1, std::string(256, 'v')),
                                                Clock::now() + 10s);
      REQUIRE(version);
      last = *version;
    }
    fmt::print(stderr, "written in {:.1f} s\n", seconds_since(begun));
    auto back = Clock::now();
    l.heal();
    auto applied = co_await bob.mirror->applied(last, Clock::now() + 60s);
    REQUIRE(applied);
    out = seconds_since(back);
    REQUIRE(bob.mirror->counters().snapshots == 1);
    co_await stop(alice);
    co_await stop(bob);
  };
  run(body(server, link, seconds), 120s);
  print({"primitives.mirror.catch_up_100000", seconds, "s", "", {}, 1.0, Better::lower});
}

// --- all keys ------------------------------------------------------------------------------------

constexpr int key_count = 81'000;

void fill(RedisServer& server) {
  auto body = [](RedisServer& s) -> awaitable<void> {
    auto instance = co_await start(s.port());
    Version last;
    for (int first = 0; first < key_count; first += 1000) {
      Batch batch;
      for (int i = first; i < first + 1000; ++i) {
        auto type = i < 1000 ? node_type : i < 21'000 ? stream_type : instance_type;
        batch.push_back(
            {type, fmt::format("name-{:06}", i), std::string(type == node_type ? 400 : 250, 'v')});
      }
      auto version = co_await instance.mirror->put(std::move(batch), Clock::now() + 30s);
      REQUIRE(version);
      last = *version;
    }
    co_await stop(instance);
  };
  run(body(server));
}

awaitable<void> read_page(redis::Client& client, std::vector<std::string> words,
                          std::size_t& count) {
  redis::Command command{std::span<const std::string>(words)};
  auto values = co_await client.ask(std::move(command));
  REQUIRE(values);
  count += values->items.size();
}

// The next SCAN and the MGET of the previous page run at the same time.
awaitable<void> bare_load(redis::Client& client, std::size_t& count) {
  TaskGroup pages(client.executor());
  std::string cursor = "0";
  do {
    redis::Command command("SCAN", cursor, "MATCH", "{c}:*", "COUNT", 1000);
    auto scanned = co_await client.ask(std::move(command));
    REQUIRE(scanned);
    cursor = scanned->items[0].text;
    std::vector<std::string> words{"MGET"};
    for (auto& key : scanned->items[1].items) words.push_back(std::move(key.text));
    if (words.size() > 1) pages.start("page", read_page(client, std::move(words), count));
  } while (cursor != "0");
  co_await pages.join();
}

struct Loads {
  std::vector<double> ours, bare;
};

awaitable<void> load_both(unsigned short port, Loads& loads) {
  auto client = redis::Client::create(co_await asio::this_coro::executor, settings_for(port));
  REQUIRE(client);
  auto connected = co_await (*client)->ready(Clock::now() + 10s);
  REQUIRE(connected);
  auto begun = Clock::now();
  std::size_t count = 0;
  co_await bare_load(**client, count);
  loads.bare.push_back(double(count) / seconds_since(begun));
  begun = Clock::now();
  auto mirror = Mirror::create(**client, terms());
  REQUIRE(mirror);
  auto ready = co_await (*mirror)->ready(Clock::now() + 60s);
  REQUIRE(ready);
  loads.ours.push_back(key_count / seconds_since(begun));
  std::size_t size = 0;
  for (auto type : {node_type, stream_type, instance_type})
    size += (*mirror)->read()->table(type).size();
  REQUIRE(size == key_count);
  co_await (*mirror)->close();
  co_await (*client)->close();
}

// Reads random entities among all of them.
awaitable<void> bench_reads(unsigned short port) {
  auto instance = co_await start(port);
  std::vector<std::string> ids;
  std::mt19937 random(1);
  for (int i = 0; i < 10'000; ++i)
    ids.push_back(fmt::format("name-{:06}", 21'000 + random() % 60'000));
  auto& mirror = *instance.mirror;
  std::vector<double> acquire, lookup;
  acquire.reserve(rounds);
  lookup.reserve(rounds);
  std::size_t found = 0, before = allocations;
  for (int round = 0; round < rounds; ++round) {
    constexpr int count = 1'000'000;
    auto begun = Clock::now();
    for (int i = 0; i < count; ++i) found += mirror.read()->version().sequence > 0;
    acquire.push_back(seconds_since(begun) / count * 1e9);
    begun = Clock::now();
    for (int i = 0; i < count; ++i)
      found += mirror.read()->find(instance_type, ids[std::size_t(i) % ids.size()]) != nullptr;
    lookup.push_back(seconds_since(begun) / count * 1e9);
  }
  auto spent = allocations - before;
  REQUIRE(found == std::size_t(2'000'000) * rounds);
  print({"primitives.mirror.read", median(acquire), "ns", "", {}, 100.0, Better::lower});
  print({"primitives.mirror.read_and_find", median(lookup), "ns", "", {}, 100.0, Better::lower});
  print({"primitives.mirror.read_allocations",
         double(spent),
         "allocations",
         "",
         {},
         0.0,
         Better::lower});
  co_await stop(instance);
}

void bench_all_keys() {
  RedisServer server;
  pin(server.pid(), 0);
  fill(server);
  Loads loads;
  for (int round = 0; round < rounds; ++round) run(load_both(server.port(), loads));
  print({"primitives.mirror.load_81000", median(loads.ours), "key/s",
         "bare pipelined SCAN and MGET", median(loads.bare), 0.7});
  run(bench_reads(server.port()));
}

}  // namespace

void warren::bench::bench_mirrors() {
  bench_all_keys();
  bench_writes();
  bench_lag();
  bench_outage();
}
