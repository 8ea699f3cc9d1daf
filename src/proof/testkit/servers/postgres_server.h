#pragma once
// A real PostgreSQL on 127.0.0.1, with a port and a folder of its own, that can be paused, killed
// and restarted.
//
//   PostgresServer server;                                  // an empty database, and durable
//   server.query("CREATE TABLE t (n int)");                 // from outside the code under test
//   auto other = server.connect();                          // which may hold a transaction open
//   server.pause();
//
// PostgreSQL does not run as root: in that case its processes belong to the user of Debian's
// package.
#include <memory>
#include <string>
#include <vector>

#include "proof/testkit/ports.h"
#include "proof/testkit/process.h"
#include "proof/testkit/servers/postgres_session.h"
#include "proof/testkit/temp_folder.h"

namespace warren::inline testkit {

struct PostgresOptions {
  std::string password = {};  // of the role in url(); if empty, it needs none
  bool fsync = true;          // false: faster, and a crash of the machine loses what was committed
  std::vector<std::string> config = {};  // additional lines of postgresql.conf
};

class PostgresServer {
 public:
  // Returns once it answers. If it dies instead, fails the test with the server's log; a port that
  // another program has taken meanwhile is replaced.
  explicit PostgresServer(PostgresOptions options = {});
  ~PostgresServer();  // kills it

  unsigned short port() const { return port_.number(); }
  // For an ordinary role that owns the empty database: postgres://warren@127.0.0.1:port/warren
  std::string url() const;
  const std::filesystem::path& folder() const { return folder_.path(); }

  // All its processes. The kernel still accepts connections, but nothing is answered.
  void pause();
  void resume();
  // All its processes at once, as when the machine fails.
  void kill();
  // Stops in an orderly way, without waiting for its clients; returns when the process has ended.
  void stop();
  // Stops it if it is alive, and starts it in the same folder with the same port.
  void restart();
  bool alive() { return process_->alive(); }
  bool is_paused() const { return process_->is_paused(); }
  pid_t pid() const { return process_->pid(); }

  // Runs one or more statements in the database of url(), as a superuser that no password locks
  // out.
  std::string query(const std::string& sql, Clock::duration limit = 30s) const;
  Result<std::string> try_query(const std::string& sql, Clock::duration limit = 30s) const;
  // Opens a session of that superuser.
  PostgresSession connect() const;
  // The number of rows that the role of url() has inserted, updated and deleted so far, in all
  // tables. A backend reports its counts up to ten seconds late, or when it ends. So this ends idle
  // backends, and their clients connect again.
  std::uint64_t rows_changed() const;
  std::string log_text() const { return process_->log_text(); }

 private:
  void write_config();
  void launch();
  // Waits for the first answer. Returns false if the server died because its port was taken.
  bool answers();
  std::string kit_url() const;

  PostgresOptions options_;
  TempFolder folder_;
  Port port_;
  std::unique_ptr<Process> process_;
};

}  // namespace warren::inline testkit
