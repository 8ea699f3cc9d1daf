#pragma once
// A server that starts again with all that it had, and loads that for as long as a test wants.
//
//   RedisServer server;
//   fill(server);                       // so that there is something to load
//   server.try_cli({"SHUTDOWN", "SAVE"});
//   LoadingServer loading(server);      // answers LOADING to everybody
//   loading.finish();                   // and from here on commands
#include "with_client.h"

namespace warren {

// A loading server looks at its clients once for each of these keys.
inline void fill(RedisServer& server) {
  server.cli({"CONFIG", "SET", "rdbcompression", "no"});
  server.cli(
      {"EVAL", "for i = 1, 30000 do redis.call('SET', 'fill:' .. i, string.rep('x', 1024)) end",
       "0"},
      60s);
}

class LoadingServer {
 public:
  // Returns when it says that it loads. The server before it has ended.
  explicit LoadingServer(RedisServer& server) : server_(server), process_(program_of(server)) {
    wait_for(30s, "the server loads", [this]() -> Result<> {
      auto pong = server_.try_cli({"PING"});
      if (pong) return fail(Errc::refused, "it has loaded everything");
      if (!pong.error().what.contains("LOADING")) return std::unexpected(pong.error());
      return ok;
    });
  }
  // How often it has said LOADING, to whomever.
  int refusals() const {
    auto count = server_.info("errorstat_LOADING");  // count=5
    return count.empty() ? 0 : std::stoi(count.substr(count.find('=') + 1));
  }
  void finish() {
    server_.cli({"CONFIG", "SET", "key-load-delay", "0"});
    wait_for(60s, "all is loaded", [this] { return server_.try_cli({"PING"}); });
  }

 private:
  // With these keys: for half a minute. Slowly, but such that each client is answered at once.
  static Program program_of(RedisServer& server) {
    return {.argv = {"redis-server", server.folder() / "redis.conf", "--key-load-delay", "1000",
                     "--loading-process-events-interval-bytes", "1024"},
            .log = server.folder() / "loading.log",
            .environment = {}};
  }
  RedisServer& server_;
  Process process_;
};

}  // namespace warren
