// warren redis ping: shows which servers answer, and how quickly.
#include <fmt/format.h>

#include <numeric>

#include "cli/cli.h"
#include "cli/redis/survey.h"

namespace warren::cli {

namespace {

struct PingOptions {
  int count;
  std::chrono::milliseconds timeout;
};

struct Pings {
  std::string role;
  std::vector<double> times_ms;  // one per answer
};

Async<Pings> ping_server(redis::Client& client, Node node, PingOptions options) {
  auto deadline = Clock::now() + options.timeout;  // covers the connection and the first answer
  auto server = co_await client.dial(node.address, deadline);
  if (!server) co_return std::unexpected(server.error());
  Pings pings;
  for (int i = 0; i < options.count; ++i) {
    auto asked = Clock::now();
    if (i > 0) deadline = asked + options.timeout;
    auto pong = co_await (*server)->ask(redis::Command("PING"), deadline);
    if (!pong) co_return std::unexpected(pong.error());
    pings.times_ms.push_back(
        std::chrono::duration<double, std::milli>(Clock::now() - asked).count());
  }
  auto role = co_await role_of(**server, node, Clock::now() + options.timeout);
  if (!role) co_return std::unexpected(role.error());
  pings.role = *role;
  co_return pings;
}

std::string shown(const std::vector<double>& times) {
  auto [least, most] = std::ranges::minmax(times);
  if (times.size() == 1) return fmt::format("{:.2f} ms", least);
  double mean = std::accumulate(times.begin(), times.end(), 0.0) / double(times.size());
  return fmt::format("{:.2f} ms, from {:.2f} to {:.2f} in {} answers", mean, least, most,
                     times.size());
}

// With one server, its error is the command's. With several, each has its line, and the error says
// how many failed.
Async<Exit> ping(redis::Client& client, Paint paint, PingOptions options) {
  auto topology = co_await find_servers(client, Clock::now() + options.timeout);
  if (!topology) co_return std::unexpected(topology.error());
  auto& nodes = topology->nodes;
  auto answers = co_await ask_all(client, nodes, ping_server, options);
  if (nodes.size() == 1 && !answers[0]) co_return std::unexpected(answers[0].error());

  std::size_t width = 0, failed = 0;
  Error last{Errc::unavailable, ""};
  for (auto& node : nodes) width = std::max(width, to_string(node.address).size());
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    auto address = to_string(nodes[i].address);
    if (answers[i]) {
      fmt::print("{}  {:<{}}  {}  {}\n", paint.green("PONG"), address, width,
                 printable(answers[i]->role), shown(answers[i]->times_ms));
      continue;
    }
    ++failed;
    last = answers[i].error();
    fmt::print("{}  {:<{}}  {}  {}\n", paint.red("FAIL"), address, width,
               nodes[i].is_primary ? "primary" : "replica", printable(last.what));
  }
  if (failed == 0) co_return Exit::ok;
  last.what = fmt::format("{} of {} servers did not answer", failed, nodes.size());
  co_return std::unexpected(std::move(last));
}

}  // namespace

void add_redis_ping(CLI::App& redis, Action& chosen) {
  auto* app = add_command(redis, "ping", "Ask every server for a sign of life");
  set_footer(*app,
             "With Sentinel and Cluster all known servers are asked, at once.\n\n"
             "Example\n"
             "  warren redis ping --count 10 --redis-url rediss://redis.example:6380");
  auto* count = add_value(*app, "--count", "N", "how often to ask each server",
                          whole_number(1, 1'000'000), "1");
  auto* timeout = add_value(*app, "--timeout", "TIME",
                            "for the connection with the first answer, then for each further one",
                            duration(), "2s");
  when_chosen(*app, [=, &chosen] {
    chosen = [=](const Context& context) -> Result<Exit> {
      PingOptions options{std::stoi(value_of(*count)), *parse_duration(value_of(*timeout))};
      auto config = load_config(context);
      if (!config) return std::unexpected(config.error());
      return with_client(context, *config, options.timeout,
                         [&](redis::Client& client) { return ping(client, context.out, options); });
    };
  });
}

}  // namespace warren::cli
