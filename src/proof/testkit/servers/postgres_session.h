#pragma once
// Sends SQL to a PostgreSQL from outside the code under test: a blocking connection that stays
// open, so that it can hold a transaction or a lock.
#include <memory>
#include <string>

#include "base/clock.h"
#include "base/error.h"

struct pg_conn;

namespace warren::inline testkit {

class PostgresSession {
 public:
  // Errc::unavailable: no connection. Errc::timeout.
  static Result<PostgresSession> open(const std::string& url, Clock::duration limit = 10s);

  // Returns the rows of the last statement on separate lines, columns separated by "|" and NULL as
  // nothing, as psql -At prints them. An error, or no answer within the limit, fails the test.
  std::string query(const std::string& sql, Clock::duration limit = 30s);
  // The same if a refusal or silence is expected. Errc::refused: the server's own words.
  Result<std::string> try_query(const std::string& sql, Clock::duration limit = 30s);

 private:
  struct Close {
    void operator()(pg_conn* connection) const;
  };
  explicit PostgresSession(pg_conn* connection) : connection_(connection) {}

  std::unique_ptr<pg_conn, Close> connection_;
};

}  // namespace warren::inline testkit
