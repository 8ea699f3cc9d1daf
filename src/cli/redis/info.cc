// warren redis info: describes the servers and their state.
#include <fmt/format.h>

#include <boost/json.hpp>
#include <iterator>

#include "cli/cli.h"
#include "cli/redis/survey.h"

namespace warren::cli {

namespace {

namespace json = boost::json;

std::string shown_bytes(long long bytes) {
  const char* units[] = {"bytes", "KiB", "MiB", "GiB", "TiB"};
  auto size = double(bytes);
  std::size_t unit = 0;
  for (; size >= 1024 && unit + 1 < std::size(units); ++unit) size /= 1024;
  return unit == 0 ? fmt::format("{} bytes", bytes) : fmt::format("{:.1f} {}", size, units[unit]);
}

std::string shown_uptime(long long seconds) {
  if (seconds < 120) return fmt::format("{} s", seconds);
  if (seconds < 7200) return fmt::format("{} minutes", seconds / 60);
  if (seconds < 172'800) return fmt::format("{} hours", seconds / 3600);
  return fmt::format("{} days", seconds / 86400);
}

bool is_primary(const Server& server) { return server.role == "primary"; }

std::string shown_replication(const Server& server) {
  if (!is_primary(server)) {
    auto text = fmt::format("follows {}:{}, link {}", server.text("master_host"),
                            server.text("master_port"), server.text("master_link_status"));
    auto silence = server.number("master_last_io_seconds_ago");  // -1: the link is down
    return silence < 0 ? text : fmt::format("{}, last heard {} s ago", text, silence);
  }
  auto replicas = server.number("connected_slaves");
  if (replicas == 0) return "no replicas";
  return fmt::format("{} {}, at most {} and {} s behind", replicas,
                     replicas == 1 ? "replica" : "replicas",
                     shown_bytes(server.replica_bytes_behind()), server.replica_seconds_behind());
}

std::string shown_persistence(const Server& server) {
  std::string text = server.number("aof_enabled") ? "append-only file" : "no append-only file";
  if (!server.config) return text;
  auto& save = server.config->at("save");
  return text + (save.empty() ? ", no snapshots" : ", snapshots (save " + save + ")");
}

void print(const Server& server, const Paint& paint) {
  auto limit = server.number("maxmemory");
  fmt::print("\n{}  {}\n", paint.bold(printable(to_string(server.address))),
             printable(server.role));
  auto row = [](const char* name, const std::string& value) {
    fmt::print("  {:<12} {}\n", name, printable(value));
  };
  row("version", fmt::format("{}, up {}", server.text("redis_version"),
                             shown_uptime(server.number("uptime_in_seconds"))));
  row("memory", fmt::format("{} of {}", shown_bytes(server.number("used_memory")),
                            limit == 0 ? "no limit" : shown_bytes(limit)));
  row("eviction", server.text("maxmemory_policy"));
  row("clients",
      fmt::format("{} of {}", server.text("connected_clients"), server.text("maxclients")));
  row("persistence", shown_persistence(server));
  row("replication", shown_replication(server));
}

json::object to_json(const Server& server) {
  json::object object{{"address", to_string(server.address)},
                      {"role", server.role},
                      {"version", server.text("redis_version")},
                      {"uptime_seconds", server.number("uptime_in_seconds")},
                      {"memory_bytes", server.number("used_memory")},
                      {"max_memory_bytes", server.number("maxmemory")},
                      {"eviction_policy", server.text("maxmemory_policy")},
                      {"clients", server.number("connected_clients")},
                      {"max_clients", server.number("maxclients")},
                      {"appendonly", server.number("aof_enabled") != 0}};
  object["save"] = server.config ? json::value(server.config->at("save")) : json::value(nullptr);
  if (is_primary(server)) {
    object["replicas"] = server.number("connected_slaves");
    object["replica_bytes_behind"] = server.replica_bytes_behind();
    object["replica_seconds_behind"] = server.replica_seconds_behind();
  } else {
    object["follows"] = server.text("master_host") + ":" + server.text("master_port");
    object["link"] = server.text("master_link_status");
    object["last_heard_seconds_ago"] = server.number("master_last_io_seconds_ago");
  }
  return object;
}

Async<Exit> info(redis::Client& client, Paint paint, std::chrono::milliseconds timeout,
                 bool as_json) {
  auto deadline = Clock::now() + timeout;
  auto topology = co_await find_servers(client, deadline);
  if (!topology) co_return std::unexpected(topology.error());
  auto& nodes = topology->nodes;
  auto servers = co_await ask_all(client, nodes, examine, deadline);
  if (nodes.size() == 1 && !servers[0]) co_return std::unexpected(servers[0].error());

  std::size_t failed = 0;
  Error last{Errc::unavailable, ""};
  json::array all;
  if (!as_json) {
    fmt::print("{}  {}, {} {}\n", paint.bold("Redis"), name_of(topology->mode), nodes.size(),
               nodes.size() == 1 ? "server" : "servers");
    if (topology->epoch > 0) fmt::print("  {:<12} {}\n", "epoch", topology->epoch);
  }
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    auto address = to_string(nodes[i].address);
    if (!servers[i]) {
      ++failed;
      last = servers[i].error();
      all.push_back(json::object{{"address", address}, {"error", last.what}});
      if (!as_json) fmt::print("\n{}  {}\n", paint.bold(address), paint.red(printable(last.what)));
    } else if (as_json) {
      all.push_back(to_json(*servers[i]));
    } else {
      print(*servers[i], paint);
    }
  }
  if (as_json) {
    json::object whole{{"mode", name_of(topology->mode)}, {"epoch", topology->epoch}};
    whole["servers"] = std::move(all);
    fmt::print("{}\n", json::serialize(whole));
  }
  if (failed == 0) co_return Exit::ok;
  last.what = fmt::format("{} of {} servers did not answer", failed, nodes.size());
  co_return std::unexpected(std::move(last));
}

}  // namespace

void add_redis_info(CLI::App& redis, Action& chosen) {
  auto* app = add_command(redis, "info", "Topology, and the state of every server");
  set_footer(*app,
             "Example\n"
             "  warren redis info --json | jq '.servers[] | [.address, .role, .memory_bytes]'");
  auto* as_json = add_json(*app);
  auto* timeout = add_value(*app, "--timeout", "TIME", "for all of it", duration(), "2s");
  when_chosen(*app, [=, &chosen] {
    chosen = [=](const Context& context) -> Result<Exit> {
      auto limit = *parse_duration(value_of(*timeout));
      auto config = load_config(context);
      if (!config) return std::unexpected(config.error());
      return with_client(context, *config, limit, [&](redis::Client& client) {
        return info(client, context.out, limit, is_given(*as_json));
      });
    };
  });
}

}  // namespace warren::cli
