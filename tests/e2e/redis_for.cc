// Runs a command with a Redis of its own, of the kind that is asked for:
//   redis_for single|sentinel|cluster|private COMMAND…
// The command finds it in REDIS_… as any user's would, and in E2E_REDIS how redis-cli reaches it;
// with `private` nothing is configured, as on the machine of somebody who has none.
#include <fmt/format.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>

#include "proof/testkit/servers/redis_cluster.h"
#include "proof/testkit/servers/sentinel_trio.h"

using namespace warren;

namespace {

// Nobody is replaced because the machine is busy.
constexpr auto patience = 30s;

void set(const char* name, const std::string& value) { setenv(name, value.c_str(), 1); }

void tell(const RedisServer& server, const std::string& more = "") {
  set("E2E_REDIS", fmt::format("-p {} {}", server.port(), more));
}

int run(char** words) {
  pid_t pid = 0;
  if (posix_spawnp(&pid, words[0], nullptr, nullptr, words, environ) != 0) return 127;
  int status = 0;
  waitpid(pid, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

int run_with_sentinel(char** words) {
  SentinelTrio trio({.down_after = patience});
  std::string addresses;
  for (auto* sentinel : trio.sentinels())
    addresses += (addresses.empty() ? "" : ",") + sentinel->address();
  set("REDIS_MODE", "sentinel");
  set("REDIS_MASTER_NAME", SentinelTrio::name);
  set("REDIS_ADDRS", addresses);
  tell(trio.primary());
  return run(words);
}

int run_with_cluster(char** words) {
  RedisCluster cluster({.node_timeout = patience});
  set("REDIS_MODE", "cluster");
  set("REDIS_ADDRS", cluster.node(0).address() + "," + cluster.node(1).address());
  tell(cluster.node(0), "-c");
  return run(words);
}

}  // namespace

int main(int count, char** words) {
  std::string kind = count > 2 ? words[1] : "";
  if (kind == "private") return run(words + 2);
  if (kind == "sentinel") return run_with_sentinel(words + 2);
  if (kind == "cluster") return run_with_cluster(words + 2);
  if (kind != "single") {
    fmt::print(stderr, "redis_for single|sentinel|cluster|private COMMAND…\n");
    return 2;
  }
  RedisServer server;
  set("REDIS_URL", "redis://" + server.address());
  tell(server);
  return run(words + 2);
}
