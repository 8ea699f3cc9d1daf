#include "proof/testkit/servers/redis_server.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <fstream>

#include "proof/testkit/failure.h"
#include "proof/testkit/run.h"

namespace warren::inline testkit {

namespace {

// The kit has a user of its own, so that no password or rule of a test locks it out.
constexpr auto kit_user = "testkit";
constexpr auto kit_password = "testkit";

std::string joined(const std::vector<std::string>& words, const char* between) {
  return fmt::format("{}", fmt::join(words, between));
}

}  // namespace

RedisServer::RedisServer(RedisOptions options) : options_(std::move(options)) {
  for (int i = 0; i < 10; ++i) {
    write_config();
    launch();
    if (answers()) return;
    std::filesystem::remove(folder_.path() / "redis.log");  // or else it is read as the next one's
    port_ = Port();
    tls_port_ = Port();
    cluster_port_ = Port();
  }
  fail_test("ten times in a row a port was taken before redis-server had it");
}

void RedisServer::write_config() {
  const std::string folder = folder_.path().string();
  std::vector<std::string> lines = {
      "bind 127.0.0.1",
      fmt::format("port {}", port()),
      fmt::format("dir \"{}\"", folder),
      "enable-debug-command local",
      fmt::format("user {} on >{} ~* &* +@all", kit_user, kit_password),
  };
  auto add = [&]<class... Args>(fmt::format_string<Args...> line, Args&&... args) {
    lines.push_back(fmt::format(line, std::forward<Args>(args)...));
  };
  if (!options_.sentinel) {
    add("save \"\"");
    add("appendonly {}", options_.appendonly ? "yes" : "no");
    // A diskless replica waits five seconds for others, and one more before WAIT counts it.
    add("repl-diskless-sync no");
  }
  for (auto& user : options_.users) add("user {}", user);
  if (!options_.password.empty()) {
    add("requirepass \"{}\"", options_.password);
    if (!options_.sentinel) add("masterauth \"{}\"", options_.password);
  }
  if (options_.unix_socket) add("unixsocket \"{}\"", unix_path().string());
  if (options_.tls) {
    auto& shown = options_.certificate.key.empty() ? options_.tls->server() : options_.certificate;
    add("tls-port {}", tls_port());
    add("tls-cert-file \"{}\"", shown.certificate.string());
    add("tls-key-file \"{}\"", shown.key.string());
    add("tls-ca-cert-file \"{}\"", options_.tls->ca().string());
    add("tls-replication yes");
    if (options_.cluster) add("tls-cluster yes");
    add("tls-auth-clients {}", options_.needs_client_certificate ? "yes" : "no");
  }
  if (options_.cluster) {
    add("cluster-enabled yes");
    add("cluster-port {}", cluster_port());
  }
  if (options_.replica_of) add("replicaof 127.0.0.1 {}", options_.replica_of->peer_port());
  lines.insert(lines.end(), options_.config.begin(), options_.config.end());
  std::ofstream(folder_.path() / "redis.conf") << joined(lines, "\n") << "\n";
}

void RedisServer::launch() {
  Program program{.argv = {"redis-server", folder_.path() / "redis.conf"},
                  .log = folder_.path() / "redis.log",
                  .environment = options_.environment};
  if (options_.sentinel) program.argv.push_back("--sentinel");
  process_ = std::make_unique<Process>(program);
}

bool RedisServer::answers() {
  return wait_for(30s, "redis-server answers", [&]() -> Result<bool> {
    if (!alive()) {
      auto text = log_text();
      if (text.find("Address already in use") != text.npos) return false;
      fail_test("redis-server died at its start:\n" + text);
    }
    auto pong = try_cli({"PING"});
    if (!pong) return std::unexpected(pong.error());  // LOADING is also an error
    // On a port that ours did not get, another server could be answering.
    if (info("process_id") == std::to_string(pid())) return true;
    return fail(Errc::unavailable, "another server answers on port {}", port());
  });
}

void RedisServer::stop() {
  process_->terminate();
  process_->wait();
}

void RedisServer::restart() {
  if (alive()) stop();
  launch();
  if (!answers()) fail_test("while the server was down somebody took its port:\n" + log_text());
}

std::string RedisServer::cli(const std::vector<std::string>& words, Clock::duration limit) const {
  auto reply = try_cli(words, limit);
  if (!reply) fail_test(fmt::format("{} on port {}: {}", words, port(), reply.error().what));
  return *reply;
}

Result<std::string> RedisServer::try_cli(const std::vector<std::string>& words,
                                         Clock::duration limit) const {
  auto leaves = control(target(), words, limit);
  if (!leaves) return std::unexpected(leaves.error());
  return joined(*leaves, "\n");
}

std::vector<std::string> RedisServer::cli_words(const std::vector<std::string>& words) const {
  auto leaves = control(target(), words, 10s);
  if (!leaves) fail_test(fmt::format("{} on port {}: {}", words, port(), leaves.error().what));
  return *std::move(leaves);
}

std::string RedisServer::info(const std::string& field) const {
  auto text = try_cli({"INFO"});
  if (!text) return {};
  auto start = text->find("\n" + field + ":");
  if (start == text->npos) return {};
  start += field.size() + 2;
  return text->substr(start, text->find('\r', start) - start);
}

ControlTarget RedisServer::target() const { return {port(), kit_user, kit_password}; }

}  // namespace warren::inline testkit
