#pragma once
// A real PostgreSQL on 127.0.0.1, with a port and a folder of its own, that can be paused, killed and
// restarted.
//
//   PostgresServer server;                                  // an empty database, and durable
//   server.query("CREATE TABLE t (n int)");                 // from outside of what is tested
//   auto other = server.connect();                          // which may hold a transaction open
//   server.pause();
//
// PostgreSQL does not run as root: its processes then belong to the user of Debian's package.
#include <memory>
#include <string>
#include <vector>

#include "proof/testkit/ports.h"
#include "proof/testkit/process.h"
#include "proof/testkit/servers/postgres_session.h"
#include "proof/testkit/temp_folder.h"

namespace warren::inline testkit {

struct PostgresOptions {
  std::string password = {};  // of the role in url(), which needs none without
  bool fsync = true;          // false: faster, and what was committed is lost with the machine
  std::vector<std::string> config = {};  // further lines of postgresql.conf
};

class PostgresServer {
 public:
  // Returns once it answers. Fails the test with the server's log when it dies instead; a port that
  // somebody took meanwhile is replaced.
  explicit PostgresServer(PostgresOptions options = {});
  ~PostgresServer();  // kills it

  unsigned short port() const { return port_.number(); }
  // Of an ordinary role that owns the empty database: postgres://warren@127.0.0.1:port/warren
  std::string url() const;
  const std::filesystem::path& folder() const { return folder_.path(); }

  // All of its processes. Connections are still accepted by the kernel; nothing is answered.
  void pause();
  void resume();
  // All of its processes at once, as when the machine fails.
  void kill();
  // The orderly way, without waiting for its clients; returns when the process has ended.
  void stop();
  // Stops it if it is alive, and starts it in the same folder with the same port.
  void restart();
  bool alive() { return process_->alive(); }
  bool is_paused() const { return process_->is_paused(); }
  pid_t pid() const { return process_->pid(); }

  // One statement, or several, as a superuser whom no password shuts out, in the database of url().
  std::string query(const std::string& sql, Clock::duration limit = 30s) const;
  Result<std::string> try_query(const std::string& sql, Clock::duration limit = 30s) const;
  // A session of that superuser that stays open.
  PostgresSession connect() const;
  // How many rows were inserted, updated and deleted so far by the role of url(), in all tables. A
  // backend keeps its counts to itself for up to ten seconds, and tells them when it ends: so this
  // ends those that are idle, and their clients connect again.
  std::uint64_t rows_changed() const;
  std::string log_text() const { return process_->log_text(); }

 private:
  void write_config();
  void launch();
  // Waits for the first answer. False when it died because its port was taken.
  bool answers();
  std::string kit_url() const;

  PostgresOptions options_;
  TempFolder folder_;
  Port port_;
  std::unique_ptr<Process> process_;
};

}  // namespace warren::inline testkit
