#pragma once
// Where a PostgreSQL is and how to log in there, from a URL.
//
//   postgres://warren@db.example:5432/fleet?sslmode=verify-full
//   postgres://a,b,c/fleet                  the one of them that takes writes
//
// A password comes from the URL, PGPASSWORD or a password file, as with every program that uses
// libpq, and appears in no text.
#include <string>
#include <vector>

#include "base/task.h"
#include "primitives/catalog/pg_connection.h"

namespace warren::pg {

class Server {
 public:
  // Errc::invalid: nothing of the URL is repeated, since what is wrong may be the password.
  static Result<Server> parse(const std::string& url);

  // The first host that takes writes, beginning with the one that did so last. Hosts that do not
  // answer are given up after some seconds each.
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
  bool has_address_ = false;  // the URL has the addresses of its hosts
  std::size_t first_ = 0;
};

}  // namespace warren::pg
