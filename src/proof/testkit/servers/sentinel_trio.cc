#include "proof/testkit/servers/sentinel_trio.h"

#include <fmt/format.h>

#include <map>

#include "proof/testkit/failure.h"
#include "proof/testkit/run.h"

namespace warren::inline testkit {

namespace {

std::vector<RedisServer*> pointers(const std::array<std::unique_ptr<RedisServer>, 3>& owned) {
  return {owned[0].get(), owned[1].get(), owned[2].get()};
}

// A flat list of fields and values of several instances, each of which begins with "name".
std::vector<std::map<std::string, std::string>> instances(const std::vector<std::string>& words) {
  std::vector<std::map<std::string, std::string>> result;
  for (std::size_t i = 0; i + 1 < words.size(); i += 2) {
    if (words[i] == "name") result.emplace_back();
    if (!result.empty()) result.back()[words[i]] = words[i + 1];
  }
  return result;
}

// What keeps this sentinel from being ready for a failover.
Result<> knows_everybody(const RedisServer& sentinel) {
  auto replicas = instances(sentinel.cli_words({"SENTINEL", "REPLICAS", SentinelTrio::name}));
  auto others = instances(sentinel.cli_words({"SENTINEL", "SENTINELS", SentinelTrio::name}));
  if (replicas.size() != 2 || others.size() != 2)
    return fail(Errc::unavailable, "sentinel {} knows {} replicas and {} sentinels",
                sentinel.port(), replicas.size(), others.size());
  for (auto& replica : replicas)
    if (replica["flags"] != "slave" || replica["master-link-status"] != "ok")
      return fail(Errc::unavailable, "sentinel {} sees replica {} as {}, its link {}",
                  sentinel.port(), replica["port"], replica["flags"],
                  replica["master-link-status"]);
  for (auto& other : others)
    if (other["flags"] != "sentinel")
      return fail(Errc::unavailable, "sentinel {} sees sentinel {} as {}", sentinel.port(),
                  other["port"], other["flags"]);
  auto quorum = sentinel.try_cli({"SENTINEL", "CKQUORUM", SentinelTrio::name});
  if (!quorum) return std::unexpected(quorum.error());
  return ok;
}

void set_periods(const RedisServer& sentinel, const char* publish_ms, const char* info_ms) {
  sentinel.cli({"SENTINEL", "DEBUG", "PUBLISH-PERIOD", publish_ms, "INFO-PERIOD", info_ms});
}

}  // namespace

SentinelTrio::SentinelTrio(SentinelOptions options) : options_(std::move(options)) {
  servers_[0] = std::make_unique<RedisServer>(options_.servers);
  auto replica = options_.servers;
  replica.replica_of = servers_[0].get();
  for (auto* server : {&servers_[1], &servers_[2]})
    *server = std::make_unique<RedisServer>(replica);

  RedisOptions watcher{.password = options_.sentinel_password,
                       .tls = options_.servers.tls,
                       .sentinel = true,
                       .environment = options_.sentinels.environment};
  auto add = [&]<class... Args>(fmt::format_string<Args...> line, Args&&... args) {
    watcher.config.push_back(fmt::format(line, std::forward<Args>(args)...));
  };
  add("sentinel monitor {} 127.0.0.1 {} 2", name, servers_[0]->peer_port());
  add("sentinel down-after-milliseconds {} {}", name, options_.down_after.count());
  add("sentinel failover-timeout {} {}", name, options_.failover_timeout.count());
  add("sentinel parallel-syncs {} 2", name);
  if (auto& password = options_.servers.password; !password.empty())
    add("sentinel auth-pass {} {}", name, password);
  if (auto& password = options_.sentinel_password; !password.empty())
    add("sentinel sentinel-pass {}", password);
  for (auto& line : options_.sentinels.config) watcher.config.push_back(line);
  for (auto& sentinel : sentinels_) sentinel = std::make_unique<RedisServer>(watcher);
  wait_until_settled();
}

std::vector<RedisServer*> SentinelTrio::servers() { return pointers(servers_); }

std::vector<RedisServer*> SentinelTrio::sentinels() { return pointers(sentinels_); }

Result<RedisServer*> SentinelTrio::agreed_primary() {
  std::string named;
  for (auto& sentinel : sentinels_) {
    if (!sentinel->is_running()) continue;
    auto words = sentinel->cli_words({"SENTINEL", "GET-MASTER-ADDR-BY-NAME", name});
    auto& port = words.back();
    if (!named.empty() && named != port)
      return fail(Errc::unavailable, "one sentinel names {}, another {}", named, port);
    named = port;
  }
  for (auto& server : servers_) {
    if (std::to_string(server->peer_port()) != named) continue;
    if (!server->is_running()) return fail(Errc::unavailable, "{} does not run", named);
    if (server->cli_words({"ROLE"}).front() == "master") return server.get();
    return fail(Errc::unavailable, "{} is named but is a replica", named);
  }
  return fail(Errc::unavailable, "port {} is none of ours", named);
}

RedisServer& SentinelTrio::primary() {
  return *wait_for(settle_limit, "the sentinels agree on a primary",
                   [&] { return agreed_primary(); });
}

std::vector<RedisServer*> SentinelTrio::replicas() {
  auto all = servers();
  std::erase(all, &primary());
  return all;
}

RedisServer& SentinelTrio::failover() {
  auto* old = &primary();
  // A sentinel that saw its clock step does nothing for a while.
  auto running = std::ranges::find_if(
      sentinels_, [](auto& s) { return s->is_running() && s->info("sentinel_tilt") == "0"; });
  if (running == sentinels_.end()) fail_test("no sentinel runs");
  (*running)->cli({"SENTINEL", "FAILOVER", name});
  return *wait_for(settle_limit, "a new primary", [&]() -> Result<RedisServer*> {
    auto now = agreed_primary();
    if (now && *now == old) return fail(Errc::unavailable, "still {}", old->port());
    return now;
  });
}

void SentinelTrio::wait_until_settled() {
  for (auto& sentinel : sentinels_) set_periods(*sentinel, "50", "50");
  for (auto& sentinel : sentinels_)
    wait_for(settle_limit, "the sentinels know everybody",
             [&] { return knows_everybody(*sentinel); });
  for (auto& sentinel : sentinels_) set_periods(*sentinel, "2000", "10000");
  // What sentinels know may be some seconds old.
  for (auto* replica : replicas())
    wait_for(settle_limit, "the replicas follow", [&]() -> Result<> {
      if (replica->info("master_link_status") == "up") return ok;
      return fail(Errc::unavailable, "{} follows nobody", replica->port());
    });
}

}  // namespace warren::inline testkit
