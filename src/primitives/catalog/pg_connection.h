#pragma once
// One connection to a PostgreSQL server: libpq without its blocking calls, as coroutines of one
// thread.
#include <boost/asio/posix/stream_descriptor.hpp>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/task.h"

struct pg_conn;
struct pg_result;

namespace warren::pg {

// Prepared once per connection, under its name.
struct Statement {
  std::string name;
  std::string sql;
};
using Parameter = std::optional<std::string>;  // text without NUL; nullopt: NULL
using Parameters = std::vector<Parameter>;
using Settings = std::vector<std::pair<std::string, std::string>>;  // by libpq's keywords

// The answer to a statement. Reading a column that the statement does not have is a bug of ours.
class Rows {
 public:
  Rows() noexcept = default;
  explicit Rows(pg_result* result);
  int size() const;
  std::size_t affected() const;  // by an INSERT, UPDATE or DELETE
  bool is_null(int row, int column) const;
  std::string text(int row, int column) const;  // NULL is ""
  std::int64_t number(int row, int column) const;
  bool truth(int row, int column) const;

 private:
  struct Clear {
    void operator()(pg_result* result) const;
  };
  std::unique_ptr<pg_result, Clear> result_;
};

// Maps the SQLSTATE of a server error. Errc::unavailable: the server undid everything, and a retry
// may succeed. Errc::unknown_outcome: it ended the connection.
Errc code_of(std::string_view sqlstate);

class Connection {
 public:
  // Fails as in code_of(), or with Errc::unavailable. No call has a deadline of its own: see
  // with_deadline.
  static Async<std::unique_ptr<Connection>> open(Settings settings);
  ~Connection();
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  // Runs one statement as a transaction of its own. Errc::unknown_outcome: the connection broke.
  // After that, or after a cancellation, the connection cannot be used any more.
  Async<Rows> run(const Statement& statement, const Parameters& parameters);
  // Runs several statements without parameters as one transaction.
  Async<> execute(std::string sql);
  // True if the last statement was answered: ready for the next one.
  bool is_ready() const;
  // True if the server has not closed the connection, as far as we know without asking.
  bool is_open();
  int server_version() const;  // 150004

 private:
  struct Finish {
    void operator()(pg_conn* connection) const;
  };
  Connection(asio::any_io_executor executor, pg_conn* connection);

  Async<> shake_hands();
  Async<> wait_for(asio::posix::descriptor_base::wait_type event);
  Async<> flush();
  // Reads until the server is ready for the next statement. Returns the last answer, or the first
  // error.
  Async<Rows> finish();
  std::unexpected<Error> broken() const;

  std::unique_ptr<pg_conn, Finish> connection_;
  // A duplicate of libpq's socket, because libpq may close its own without notice. Asio watches
  // this one, and never another that got the same number.
  asio::posix::stream_descriptor socket_;
  std::set<std::string> prepared_;
};

}  // namespace warren::pg
