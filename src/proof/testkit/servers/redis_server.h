#pragma once
// A real redis-server on 127.0.0.1, with ports and a folder of its own, that can be paused, killed
// and restarted.
//
//   RedisServer server;                                     // empty, no persistence
//   RedisServer replica({.replica_of = &server});
//   server.cli({"SET", "key", "value"});                    // from outside the code under test
//   server.pause();
#include <memory>
#include <string>
#include <vector>

#include "proof/testkit/certificates.h"
#include "proof/testkit/control.h"
#include "proof/testkit/ports.h"
#include "proof/testkit/process.h"
#include "proof/testkit/temp_folder.h"

namespace warren::inline testkit {

// How long several servers may take to agree about themselves, on a busy machine.
constexpr auto settle_limit = 60s;

class RedisServer;

struct RedisOptions {
  std::string password = {};            // of the default user, and of its primary if it has one
  std::vector<std::string> users = {};  // as in ACL files: "alice on >secret ~* &* +@all"
  const Certificates* tls = nullptr;    // opens tls_port() besides port(), and uses TLS with peers
  CertificatePair certificate = {};     // presented over TLS; by default tls->server()
  bool needs_client_certificate = false;
  bool unix_socket = false;
  bool appendonly = false;
  const RedisServer* replica_of = nullptr;  // started with the same password and tls
  bool cluster = false;
  bool sentinel = false;
  std::vector<std::string> config = {};       // additional lines of redis.conf
  std::vector<std::string> environment = {};  // "NAME=value", added to our own
};

class RedisServer {
 public:
  // Returns once it answers commands (a replica may not be in sync yet). If it dies instead, fails
  // the test with the server's log; a port that another program has taken meanwhile is replaced.
  explicit RedisServer(RedisOptions options = {});

  unsigned short port() const { return port_.number(); }
  unsigned short tls_port() const { return tls_port_.number(); }
  unsigned short cluster_port() const { return cluster_port_.number(); }  // of the cluster bus
  // Where replicas, sentinels and other nodes of a cluster reach it, and where they send clients
  // that use the same kind of connection.
  unsigned short peer_port() const { return options_.tls ? tls_port() : port(); }
  std::filesystem::path unix_path() const { return folder_.path() / "redis.sock"; }
  const std::filesystem::path& folder() const { return folder_.path(); }
  std::string address() const { return "127.0.0.1:" + std::to_string(port()); }

  // The kernel still accepts connections, but nothing is answered.
  void pause() { process_->pause(); }
  void resume() { process_->resume(); }
  void kill() { process_->kill(); }
  // Stops in an orderly way; returns when the process has ended.
  void stop();
  // Stops it if it is alive, and starts it in the same folder with the same ports. Data that was
  // not persisted is lost.
  void restart();
  bool alive() { return process_->alive(); }
  bool is_paused() const { return process_->is_paused(); }
  bool is_running() { return alive() && !is_paused(); }
  pid_t pid() const { return process_->pid(); }

  // Returns the reply as text, the parts of an array on separate lines. An error reply, or none
  // within the limit, fails the test. Works whatever password and users the server has.
  std::string cli(const std::vector<std::string>& words, Clock::duration limit = 10s) const;
  // The same if a refusal or silence is expected.
  Result<std::string> try_cli(const std::vector<std::string>& words,
                              Clock::duration limit = 10s) const;
  std::vector<std::string> cli_words(const std::vector<std::string>& words) const;
  // One field of INFO, such as "master_link_status"; empty if there is none.
  std::string info(const std::string& field) const;
  std::string log_text() const { return process_->log_text(); }

 private:
  friend class RedisCluster;  // MIGRATE needs the login of the target

  void write_config();
  void launch();
  // Waits for the first answer. Returns false if the server died, or cannot be reached, because a
  // port was taken.
  bool answers();
  ControlTarget target() const;

  RedisOptions options_;
  TempFolder folder_;
  Port port_, tls_port_, cluster_port_;
  std::unique_ptr<Process> process_;
};

}  // namespace warren::inline testkit
