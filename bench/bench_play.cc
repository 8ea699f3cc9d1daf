// Redirects as a viewer gets them: wrk on one core, `foghorn serve` with a Redis on the other.
#include <fmt/format.h>

#include <array>
#include <cstdio>
#include <fstream>
#include <memory>

#include "bench_foghorn.h"
#include "measure.h"
#include "net/http/client.h"
#include "proof/testkit/run.h"
#include "proof/testkit/servers/redis_server.h"
#include "report.h"

namespace warren::bench {

namespace {

constexpr int nodes = 100, streams = 1000, rounds = 3;

std::string report_of(int node) {
  std::string list;
  for (int s = 0; s < streams; ++s)
    for (int k = 0; k < 3; ++k)
      if ((7 * s + 13 * k) % nodes == node)
        list += fmt::format(R"({}"stream-{}":{{"total":10,"inputs":1,"replicated":{}}})",
                            list.empty() ? "" : ",", s, k > 0);
  // With so much bandwidth that no number of redirects fills a node.
  return fmt::format(
      R"({{"cpu_tenths":{},"ram_max":1000,"ram_current":100,"up_speed":1000,"is_healthy":true,)"
      R"("bw_limit":1000000000000000,"base_url":"https://edge-{}.example","latitude":{},)"
      R"("longitude":4.3,"capabilities":{{"edge":true}},"streams":{{{}}},)"
      R"("outputs":{{"HLS":"https://HOST/hls/$/index.m3u8"}}}})",
      node, node, 1 + node % 60, list);
}

awaitable<void> fill(std::string url) {
  HttpClient client(co_await asio::this_coro::executor, *parse_http_url(url));
  auto is_ready = [](HttpClient& from) -> Async<> {
    HttpAsk question{"GET", "/readyz"};
    auto reply = co_await from.ask(std::move(question), Clock::now() + 2s);
    if (!reply) co_return std::unexpected(reply.error());
    if (reply->status != 200) co_return fail(Errc::unavailable, "{}", reply->body);
    co_return ok;
  };
  co_await eventually(20s, "foghorn is ready", is_ready, client);
  for (int node = 0; node < nodes; ++node) {
    HttpAsk report{"POST", fmt::format("/v1/nodes/edge-{}/report", node), "", report_of(node)};
    auto reply = co_await client.ask(std::move(report), Clock::now() + 5s);
    ensure(reply && reply->status == 200, "a report is taken");
  }
}

std::string output_of(const std::string& command) {
  std::unique_ptr<std::FILE, int (*)(std::FILE*)> pipe(popen(command.c_str(), "r"), pclose);
  std::string text;
  std::array<char, 4096> bytes{};
  while (pipe && std::fgets(bytes.data(), bytes.size(), pipe.get())) text += bytes.data();
  return text;
}

struct Figures {
  double rate = 0, p99_ms = 0;
};
// "    99%    2.38ms" and "Requests/sec:  42325.48"
Figures figures_in(const std::string& text) {
  Figures figures;
  auto rate = text.find("Requests/sec:");
  auto p99 = text.find("99%");
  if (rate == text.npos || p99 == text.npos || text.contains("Non-2xx")) return figures;
  figures.rate = std::stod(text.substr(rate + 13));
  std::size_t used = 0;
  auto value = text.substr(p99 + 3, 16);
  figures.p99_ms = std::stod(value, &used);
  auto unit = value.substr(used, 2);
  if (unit == "us") figures.p99_ms /= 1000;
  if (unit.starts_with("s")) figures.p99_ms *= 1000;
  return figures;
}

}  // namespace

void bench_play() {
  RedisServer redis;
  TempFolder folder;
  Port http, grpc;
  Process foghorn(
      {.argv = {WARREN_FOGHORN, "serve", "--listen", "127.0.0.1", "--port",
                std::to_string(http.number()), "--grpc-port", std::to_string(grpc.number())},
       .log = folder.path() / "log",
       .environment = {"REDIS_URL=redis://" + redis.address(), "FOGHORN_INSTANCE_ID=bench",
                       "FOGHORN_PROXIES=127.0.0.1", "WARREN_LOG_LEVEL=error"}});
  pin(foghorn.pid(), 1);
  auto url = fmt::format("http://127.0.0.1:{}", http.number());
  run(fill(url));
  // Each viewer has its own address, as behind a proxy: one address is booked at most 32 times.
  auto script = (folder.path() / "viewers.lua").string();
  std::ofstream(script) << R"(
local count = 0
request = function()
  count = count + 1
  wrk.headers["X-Forwarded-For"] = string.format("10.%d.%d.%d", math.floor(count / 65536) % 256,
                                                 math.floor(count / 256) % 256, count % 256)
  return wrk.format()
end
)";
  std::vector<double> rates, p99s;
  for (int round = 0; round < rounds; ++round) {
    auto seen = figures_in(output_of(fmt::format(
        "taskset -c 0 wrk -t1 -c64 -d5s --latency -s {} {}/play/stream-42/hls", script, url)));
    rates.push_back(seen.rate);
    p99s.push_back(seen.p99_ms);
  }
  print({.bench = "foghorn.http_play.rate", .value = median(rates), .unit = "1/s", .bar = 40'000});
  print({.bench = "foghorn.http_play.p99",
         .value = median(p99s),
         .unit = "ms",
         .bar = 5,
         .better = Better::lower});
}

}  // namespace warren::bench
