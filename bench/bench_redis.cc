// The Redis client compared with redis-benchmark, on the same server in the same run.
//
// Both keep the same number of commands in flight on one connection. redis-benchmark sends N and
// waits for all of them; here N coroutines each wait for their own. The server has one core and the
// client under test the other. The two take turns, and medians are compared.
#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>
#include <sys/resource.h>

#include <array>
#include <thread>

#include "base/log.h"
#include "measure.h"
#include "proof/testkit/run.h"
#include "proof/testkit/servers/redis_server.h"
#include "proof/testkit/servers/sentinel_trio.h"
#include "redis/client.h"
#include "report.h"

using namespace warren;
using namespace warren::redis;
using namespace warren::bench;

namespace {

constexpr int rounds = 5;

double cpu_seconds() {
  rusage usage{};
  getrusage(RUSAGE_THREAD, &usage);
  auto seconds = [](timeval time) { return double(time.tv_sec) + 1e-6 * double(time.tv_usec); };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

// What both sides send repeatedly.
struct Workload {
  std::string name;
  std::vector<std::string> words;
};

struct Figures {
  double per_second = 0;
  double cpu_ns = 0;  // of the client's thread, per command
  double p50_us = 0;
};

using Send = Async<> (*)(Client&, const Workload&, int count, std::vector<float>* times);

Async<> send_one_by_one(Client& client, const Workload& work, int count,
                        std::vector<float>* times) {
  for (int i = 0; i < count; ++i) {
    auto start = times ? Clock::now() : Clock::time_point();
    auto reply = co_await client.command(Command(std::span<const std::string>(work.words)));
    if (!reply) co_return std::unexpected(reply.error());
    if (times) times->push_back(float(seconds_since(start) * 1e6));
  }
  co_return ok;
}

template <int size>
Async<> send_in_batches(Client& client, const Workload& work, int count, std::vector<float>*) {
  for (int sent = 0; sent < count; sent += size) {
    std::vector<Command> commands;
    commands.reserve(size);
    for (int i = 0; i < size; ++i) commands.emplace_back(std::span<const std::string>(work.words));
    auto results = co_await client.batch(std::move(commands));
    for (auto& result : results)
      if (!result) co_return std::unexpected(result.error());
  }
  co_return ok;
}

Async<> send_durably(Client& client, const Workload& work, int count, std::vector<float>*) {
  for (int i = 0; i < count; ++i) {
    auto written = co_await client.durable(Command(std::span<const std::string>(work.words)), 1,
                                           CallOptions().within(10s));
    if (!written) co_return std::unexpected(written.error());
    if (written->replicas < 1) co_return fail(Errc::unavailable, "the replica did not have it");
  }
  co_return ok;
}

// `callers` coroutines together send `total` commands.
Figures measure(const Settings& settings, const Workload& work, int callers, int total, Send send) {
  Figures figures;
  auto body = [](const Settings& s, const Workload& w, int n, int all, Send how,
                 Figures& out) -> awaitable<void> {
    auto client = Client::create(co_await asio::this_coro::executor, s);
    REQUIRE(client);
    auto ready = co_await (*client)->ready(Clock::now() + 10s);
    REQUIRE(ready);
    std::vector<float> times;
    TaskGroup group((*client)->executor());
    auto start = Clock::now();
    auto cpu = cpu_seconds();
    for (int i = 0; i < n; ++i)
      group.start("caller", how(**client, w, all / n, n == 1 ? &times : nullptr));
    co_await group.join();
    int done = all / n * n;
    out.per_second = done / seconds_since(start);
    out.cpu_ns = (cpu_seconds() - cpu) / done * 1e9;
    if (!times.empty()) {
      std::ranges::nth_element(times, times.begin() + std::ptrdiff_t(times.size() / 2));
      out.p50_us = times[times.size() / 2];
    }
    co_await (*client)->close();
  };
  run(body(settings, work, callers, total, send, figures));
  return figures;
}

Figures redis_benchmark(const std::string& connection, const Workload& work, int depth, int total) {
  auto command = fmt::format("{} redis-benchmark {} -c 1 -P {} -n {} --csv {} 2>/dev/null",
                             std::thread::hardware_concurrency() < 2 ? "" : "taskset -c 1",
                             connection, depth, total, fmt::join(work.words, " "));
  std::unique_ptr<FILE, int (*)(FILE*)> pipe(popen(command.c_str(), "r"), pclose);
  std::array<char, 4096> line;
  std::string last;
  while (std::fgets(line.data(), line.size(), pipe.get())) last = line.data();
  // "test","rps","avg_latency_ms","min_latency_ms","p50_latency_ms",…
  std::vector<double> columns;
  for (std::size_t at = last.find("\",\""); at != last.npos; at = last.find("\",\"", at + 1))
    columns.push_back(std::strtod(last.c_str() + at + 3, nullptr));
  if (columns.size() < 4) {
    fmt::print(stderr, "redis-benchmark said: {}\n", last);
    std::exit(1);
  }
  return {columns[0], 0, columns[3] * 1000};
}

struct Pair {
  Figures ours, peer;
};

// Alternates, so that any other load on the machine affects both.
Pair compare(const Settings& settings, const std::string& connection, const Workload& work,
             int depth, int callers, int total, Send send) {
  std::vector<double> rates, peer_rates, cpu, p50, peer_p50;
  // With one call at a time, the result depends on how quickly the cores wake up, which varies
  // most.
  int turns = depth == 1 ? 3 * rounds : rounds;
  for (int turn = 0; turn < turns; ++turn) {
    auto ours = measure(settings, work, callers, total, send);
    auto peer = redis_benchmark(connection, work, depth, total);
    rates.push_back(ours.per_second);
    cpu.push_back(ours.cpu_ns);
    p50.push_back(ours.p50_us);
    peer_rates.push_back(peer.per_second);
    peer_p50.push_back(peer.p50_us);
  }
  return {{median(rates), median(cpu), median(p50)}, {median(peer_rates), 0, median(peer_p50)}};
}

void compare_throughput(const Settings& settings, const std::string& connection,
                        const std::string& suffix, const std::string& script) {
  std::string key16(16, 'k'), key256(16, 'l');
  std::string small(16, 'v'), large(256, 'v');
  std::vector<Workload> works{{"get_16", {"GET", key16}},
                              {"get_256", {"GET", key256}},
                              {"set_16", {"SET", key16, small}},
                              {"set_256", {"SET", key256, large}},
                              {"evalsha", {"EVALSHA", script, "1", key16}}};
  bool is_plain = suffix.empty();
  for (const auto& work : works) {
    bool is_main = is_plain && work.name == "get_16";
    for (int depth : {1, 64, 256, 1024}) {
      int total = depth == 1 ? 10'000 : 256 * 1024;
      auto [ours, peer] = compare(settings, connection, work, depth, depth, total, send_one_by_one);
      auto name = fmt::format("redis.{}{}.{}", work.name, suffix, depth);
      auto named_peer = fmt::format("redis-benchmark -c 1 -P {}", depth);
      if (depth == 1) {
        print({name + ".latency", ours.p50_us, "us p50", named_peer, peer.p50_us, 1.2,
               Better::lower});
        continue;
      }
      print({name, ours.per_second, "op/s", named_peer, peer.per_second,
             is_main ? std::optional(0.9) : std::nullopt});
      if (is_main && depth == 256)
        print({name + ".cpu", ours.cpu_ns, "ns/op", "", {}, 400.0, Better::lower});
    }
    if (!is_main) continue;
    auto [ours, peer] =
        compare(settings, connection, work, 256, 4, 512 * 1024, send_in_batches<64>);
    print({"redis.batch_get_16.256", ours.per_second, "op/s", "redis-benchmark -c 1 -P 256",
           peer.per_second, 1.0});
  }
}

void bench_throughput() {
  Certificates certificates;
  RedisServer server({.tls = &certificates});
  pin(server.pid(), 0);
  server.cli({"SET", std::string(16, 'k'), std::string(16, 'v')});
  server.cli({"SET", std::string(16, 'l'), std::string(256, 'v')});
  auto script = server.cli({"SCRIPT", "LOAD", "return redis.call('GET', KEYS[1])"});
  Settings settings;
  settings.addresses = {{"127.0.0.1", server.port(), ""}};
  settings.command_timeout = 10s;
  compare_throughput(settings, fmt::format("-p {}", server.port()), "", script);

  settings.addresses = {{"127.0.0.1", server.tls_port(), ""}};
  settings.tls.enabled = true;
  settings.tls.ca_file = certificates.ca();
  compare_throughput(
      settings,
      fmt::format("-p {} --tls --cacert {}", server.tls_port(), certificates.ca().string()), "_tls",
      script);
}

void bench_durable() {
  RedisServer primary;
  RedisServer replica({.replica_of = &primary});
  pin(primary.pid(), 0);
  wait_for(20s, "the replica is in sync",
           [&] { return replica.info("master_link_status") == "up"; });
  Settings settings;
  settings.addresses = {{"127.0.0.1", primary.port(), ""}};
  Workload work{"durable_set_16", {"SET", std::string(16, 'k'), std::string(16, 'v')}};
  std::vector<double> rates;
  for (int round = 0; round < rounds; ++round)
    rates.push_back(measure(settings, work, 64, 64 * 1024, send_durably).per_second);
  print({"redis.durable_set_16.64", median(rates), "op/s", "", {}, 100'000});
}

// Records the time of the first acknowledged write on each connection.
Async<> write_until(Client& client, bool& stop, std::vector<Clock::time_point>& first) {
  while (!stop) {
    auto written = co_await client.command(Command("SET", "k", "v"), CallOptions().within(100ms));
    if (written && client.counters().connects > first.size()) first.push_back(Clock::now());
    if (!written) co_await sleep_for(1ms);
  }
  co_return ok;
}

// From killing the primary to the first write that its successor acknowledges.
double failover_seconds() {
  SentinelTrio trio;
  // In their first seconds, sentinels take up to a second longer to agree.
  for (auto* sentinel : trio.sentinels())
    wait_for(20s, "the sentinels have settled in",
             [&] { return std::stoi(sentinel->info("uptime_in_seconds")) >= 3; });
  Settings settings;
  settings.mode = Mode::sentinel;
  settings.master_name = SentinelTrio::name;
  settings.addresses.clear();
  for (auto* sentinel : trio.sentinels())
    settings.addresses.push_back({"127.0.0.1", sentinel->port(), ""});
  double gap = 0;
  auto body = [](const Settings& s, SentinelTrio& servers, double& out) -> awaitable<void> {
    auto client = Client::create(co_await asio::this_coro::executor, s);
    REQUIRE(client);
    bool stop = false;
    std::vector<Clock::time_point> first;
    TaskGroup writers((*client)->executor());
    writers.start("writer", write_until(**client, stop, first));
    co_await eventually(10s, "writes flow", [](auto& f) { return f.size() == 1; }, first);
    auto killed = Clock::now();
    servers.primary().kill();
    co_await eventually(60s, "writes flow again", [](auto& f) { return f.size() > 1; }, first);
    out = std::chrono::duration<double>(first[1] - killed).count();
    stop = true;
    co_await writers.join();
    co_await (*client)->close();
  };
  run(body(settings, trio, gap));
  return gap;
}

void bench_failover() {
  std::vector<double> gaps;
  for (int round = 0; round < rounds; ++round) gaps.push_back(failover_seconds());
  print({"redis.sentinel_failover", median(gaps), "s", "", {}, 2.2, Better::lower});
}

}  // namespace

// NOLINTNEXTLINE(bugprone-exception-escape): a benchmark whose server dies may end in any way.
int main(int argc, char** argv) {
  doctest::Context context;
  context.setAsDefaultForAssertsOutOfTestCases();
  log::Options quiet;
  quiet.levels = "error";
  if (!log::configure(quiet)) return 1;
  pin(0, 1);
  double load = 0;
  getloadavg(&load, 1);
  fmt::print(stderr, "load average {:.2f}; below 0.3 the figures are worth keeping\n", load);
  std::string_view part = argc > 1 ? argv[1] : "";  // all of them
  if (part.empty() || part == "throughput") bench_throughput();
  if (part.empty() || part == "durable") bench_durable();
  if (part.empty() || part == "failover") bench_failover();
}
