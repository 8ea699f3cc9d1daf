#include "proof/testkit/servers/postgres_session.h"

#include <fmt/format.h>
#include <libpq-fe.h>
#include <poll.h>

#include <algorithm>

#include "proof/testkit/failure.h"

namespace warren::inline testkit {

namespace {

Result<> wait_for_socket(pg_conn* connection, short event, Clock::time_point deadline) {
  auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now()).count();
  pollfd watched{PQsocket(connection), event, 0};
  int ready = poll(&watched, 1, static_cast<int>(std::max(left, decltype(left){0})));
  if (ready == 0) return fail(Errc::timeout, "no answer in time");
  return ok;
}

std::string printed(const PGresult* result) {
  std::string text;
  for (int row = 0; row < PQntuples(result); ++row) {
    if (row > 0) text += '\n';
    for (int column = 0; column < PQnfields(result); ++column) {
      if (column > 0) text += '|';
      text += PQgetvalue(result, row, column);
    }
  }
  return text;
}

}  // namespace

void PostgresSession::Close::operator()(pg_conn* connection) const { PQfinish(connection); }

Result<PostgresSession> PostgresSession::open(const std::string& url, Clock::duration limit) {
  auto deadline = Clock::now() + limit;
  PostgresSession session(PQconnectStart(url.c_str()));
  auto* connection = session.connection_.get();
  PQsetNoticeProcessor(connection, [](void*, const char*) {}, nullptr);
  for (auto state = PGRES_POLLING_WRITING; state != PGRES_POLLING_OK;) {
    if (state == PGRES_POLLING_FAILED || PQstatus(connection) == CONNECTION_BAD)
      return fail(Errc::unavailable, "{}", PQerrorMessage(connection));
    short event = state == PGRES_POLLING_READING ? POLLIN : POLLOUT;
    if (auto ready = wait_for_socket(connection, event, deadline); !ready)
      return std::unexpected(ready.error());
    state = PQconnectPoll(connection);
  }
  return session;
}

std::string PostgresSession::query(const std::string& sql, Clock::duration limit) {
  auto answer = try_query(sql, limit);
  if (!answer) fail_test(fmt::format("{}: {}", sql, answer.error().what));
  return *answer;
}

Result<std::string> PostgresSession::try_query(const std::string& sql, Clock::duration limit) {
  auto deadline = Clock::now() + limit;
  auto* connection = connection_.get();
  if (PQsendQuery(connection, sql.c_str()) == 0)
    return fail(Errc::unavailable, "{}", PQerrorMessage(connection));
  Result<std::string> answer;
  for (;;) {
    while (PQisBusy(connection)) {
      if (auto ready = wait_for_socket(connection, POLLIN, deadline); !ready)
        return std::unexpected(ready.error());
      if (PQconsumeInput(connection) == 0)
        return fail(Errc::unavailable, "{}", PQerrorMessage(connection));
    }
    std::unique_ptr<PGresult, decltype(&PQclear)> result(PQgetResult(connection), &PQclear);
    if (!result) return answer;
    auto status = PQresultStatus(result.get());
    if (status == PGRES_TUPLES_OK)
      answer = printed(result.get());
    else if (status != PGRES_COMMAND_OK && status != PGRES_EMPTY_QUERY)
      answer = fail(Errc::refused, "{}", PQresultErrorMessage(result.get()));
  }
}

}  // namespace warren::inline testkit
