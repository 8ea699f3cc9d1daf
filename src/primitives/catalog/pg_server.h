#pragma once
// Where a PostgreSQL server is and how to log in there, from a URL.
//
//   postgres://warren@db.example:5432/fleet?sslmode=verify-full
//   postgres://a,b,c/fleet                  the one of these hosts that takes writes
//
// A password comes from the URL, PGPASSWORD or a password file, as with every program that uses
// libpq. It never appears in any text.
#include <string>
#include <vector>

#include "base/task.h"
#include "primitives/catalog/pg_connection.h"

namespace warren::pg {

class Server {
 public:
  // Returns Errc::invalid without repeating any of the URL, since the invalid part may be the
  // password.
  static Result<Server> parse(const std::string& url);

  // Connects to the first host that takes writes, beginning with the last one that did. Gives up a
  // host that does not answer after some seconds.
  Async<std::unique_ptr<Connection>> dial();
  // For logs: db.example:5432/fleet
  std::string shown() const;

 private:
  struct Host {
    std::string name;  // or the folder of a unix socket; empty: libpq's default
    std::string port;
  };

  Async<std::unique_ptr<Connection>> dial(const Host& host);
  Async<std::unique_ptr<Connection>> open(Settings settings);
  Error without_secrets(Error error) const;

  Settings settings_;  // without the hosts
  std::vector<std::string> secrets_;
  std::vector<Host> hosts_;
  bool has_address_ = false;  // the URL gives the hosts' addresses
  std::size_t first_ = 0;
};

}  // namespace warren::pg
