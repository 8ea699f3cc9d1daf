#include "primitives/catalog/pg_connection.h"

#include <fcntl.h>
#include <libpq-fe.h>

#include <boost/asio/redirect_error.hpp>
#include <cerrno>
#include <charconv>
#include <cstring>

namespace warren::pg {

namespace {

// libpq's texts have several lines; the first one is enough.
std::string first_line(std::string_view text) {
  return std::string(text.substr(0, text.find('\n')));
}

// libpq has no SQLSTATE for a refused connection. Its verbose text has one, as in `FATAL:  28P01:
// password authentication failed for user "warren"`.
std::optional<std::string> sqlstate_in(std::string_view text) {
  auto is_code = [](std::string_view word) {
    return std::ranges::all_of(
        word, [](char c) { return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z'); });
  };
  for (auto at = text.find(":  "); at != text.npos; at = text.find(":  ", at + 1)) {
    auto rest = text.substr(at + 3);
    if (rest.size() > 6 && rest[5] == ':' && is_code(rest.substr(0, 5)))
      return std::string(rest.substr(0, 5));
  }
  return std::nullopt;
}

// The text without the code, which is for programs.
std::unexpected<Error> refused_connection(pg_conn* connection) {
  auto line = first_line(PQerrorMessage(connection));
  if (PQconnectionNeedsPassword(connection)) return fail(Errc::denied, "{}", line);
  auto state = sqlstate_in(line);
  if (!state) return fail(Errc::unavailable, "{}", line);
  line.erase(line.find(*state), 7);
  auto code = code_of(*state);
  return fail(code == Errc::unknown_outcome ? Errc::unavailable : code, "{}", line);
}

std::vector<const char*> words_of(const Parameters& parameters) {
  std::vector<const char*> words;
  words.reserve(parameters.size());
  for (const auto& parameter : parameters)
    words.push_back(parameter ? parameter->c_str() : nullptr);
  return words;
}

}  // namespace

Rows::Rows(pg_result* result) : result_(result) {}
void Rows::Clear::operator()(pg_result* result) const { PQclear(result); }
int Rows::size() const { return PQntuples(result_.get()); }

std::size_t Rows::affected() const {
  std::string_view text = PQcmdTuples(result_.get());
  std::size_t count = 0;
  std::from_chars(text.data(), text.data() + text.size(), count);
  return count;
}

bool Rows::is_null(int row, int column) const {
  return PQgetisnull(result_.get(), row, column) != 0;
}

std::string Rows::text(int row, int column) const {
  const char* value = PQgetvalue(result_.get(), row, column);
  ensure(value, "a column that the statement has");
  return {value, static_cast<std::size_t>(PQgetlength(result_.get(), row, column))};
}

std::int64_t Rows::number(int row, int column) const {
  auto digits = text(row, column);
  std::int64_t value = 0;
  std::from_chars(digits.data(), digits.data() + digits.size(), value);
  return value;
}

bool Rows::truth(int row, int column) const { return text(row, column) == "t"; }

Errc code_of(std::string_view sqlstate) {
  auto is_in = [&](std::string_view group) { return sqlstate.starts_with(group); };
  if (is_in("08") || is_in("57P01") || is_in("57P02") || is_in("57P05"))
    return Errc::unknown_outcome;
  // Serialization failures and deadlocks; out of room; cancelled, starting up or shutting down; a
  // lock that is held; and a standby, which may become the primary or be replaced by it.
  for (auto group : {"40", "53", "57", "55P03", "25006", "58030"})
    if (is_in(group)) return Errc::unavailable;
  if (is_in("28") || is_in("42501")) return Errc::denied;
  if (is_in("3D000") || is_in("42P01") || is_in("3F000")) return Errc::not_found;
  if (is_in("22")) return Errc::invalid;
  return Errc::refused;
}

Connection::Connection(asio::any_io_executor executor, pg_conn* connection)
    : connection_(connection), socket_(executor) {}

Connection::~Connection() = default;
void Connection::Finish::operator()(pg_conn* connection) const { PQfinish(connection); }

Async<std::unique_ptr<Connection>> Connection::open(Settings settings) {
  std::vector<const char*> keywords, values;
  for (const auto& [keyword, value] : settings) {
    keywords.push_back(keyword.c_str());
    values.push_back(value.c_str());
  }
  keywords.push_back(nullptr);
  values.push_back(nullptr);
  auto executor = co_await asio::this_coro::executor;
  std::unique_ptr<Connection> opened(
      new Connection(executor, PQconnectStartParams(keywords.data(), values.data(), 0)));
  auto shaken = co_await opened->shake_hands();
  if (!shaken) co_return std::unexpected(shaken.error());
  co_return opened;
}

Async<> Connection::shake_hands() {
  auto* connection = connection_.get();
  if (!connection) co_return fail(Errc::unavailable, "libpq has no memory");
  PQsetErrorVerbosity(connection, PQERRORS_VERBOSE);
  PQsetNoticeProcessor(connection, [](void*, const char*) {}, nullptr);
  int watched = -1;
  for (auto state = PGRES_POLLING_WRITING; state != PGRES_POLLING_OK;) {
    if (state == PGRES_POLLING_FAILED || PQstatus(connection) == CONNECTION_BAD)
      co_return refused_connection(connection);
    // It may have closed its socket and opened another, even under the same number.
    if (watched >= 0) socket_.close();
    watched = fcntl(PQsocket(connection), F_DUPFD_CLOEXEC, 0);
    if (watched < 0) co_return fail(Errc::unavailable, "{}", std::strerror(errno));
    socket_.assign(watched);
    auto event = state == PGRES_POLLING_READING ? socket_.wait_read : socket_.wait_write;
    auto ready = co_await wait_for(event);
    if (!ready) co_return ready;
    state = PQconnectPoll(connection);
  }
  PQsetErrorVerbosity(connection, PQERRORS_DEFAULT);
  PQsetnonblocking(connection, 1);
  co_return ok;
}

Async<> Connection::wait_for(asio::posix::descriptor_base::wait_type event) {
  boost::system::error_code error;
  co_await socket_.async_wait(event, asio::redirect_error(asio::use_awaitable, error));
  if (error == asio::error::operation_aborted)
    co_return fail(Errc::cancelled, "nobody waits for the answer");
  if (error) co_return fail(Errc::unknown_outcome, "{}", error.message());
  co_return ok;
}

Async<Rows> Connection::run(const Statement& statement, const Parameters& parameters) {
  auto* connection = connection_.get();
  if (!prepared_.contains(statement.name)) {
    if (!PQsendPrepare(connection, statement.name.c_str(), statement.sql.c_str(), 0, nullptr))
      co_return broken();
    auto prepared = co_await finish();
    if (!prepared) co_return prepared;
    prepared_.insert(statement.name);
  }
  auto words = words_of(parameters);
  if (!PQsendQueryPrepared(connection, statement.name.c_str(), static_cast<int>(words.size()),
                           words.data(), nullptr, nullptr, 0))
    co_return broken();
  co_return co_await finish();
}

Async<> Connection::execute(std::string sql) {
  if (!PQsendQuery(connection_.get(), sql.c_str())) co_return broken();
  auto rows = co_await finish();
  if (!rows) co_return std::unexpected(rows.error());
  co_return ok;
}

bool Connection::is_ready() const { return PQtransactionStatus(connection_.get()) == PQTRANS_IDLE; }

bool Connection::is_open() {
  // Reads what came without a request, such as the end of the connection.
  return PQconsumeInput(connection_.get()) != 0 && PQstatus(connection_.get()) == CONNECTION_OK;
}

int Connection::server_version() const { return PQserverVersion(connection_.get()); }

Async<> Connection::flush() {
  using namespace asio::experimental::awaitable_operators;
  for (;;) {
    int left = PQflush(connection_.get());
    if (left < 0) co_return broken();
    if (left == 0) co_return ok;
    // A server that cannot write does not read either, so both must continue.
    auto first = co_await (wait_for(socket_.wait_read) || wait_for(socket_.wait_write));
    auto& ready = first.index() == 0 ? std::get<0>(first) : std::get<1>(first);
    if (!ready) co_return ready;
    if (first.index() == 0 && PQconsumeInput(connection_.get()) == 0) co_return broken();
  }
}

Async<Rows> Connection::finish() {
  auto flushed = co_await flush();
  if (!flushed) co_return std::unexpected(flushed.error());
  auto* connection = connection_.get();
  Rows last;
  std::optional<Error> refusal;
  for (;;) {
    while (PQisBusy(connection)) {
      auto ready = co_await wait_for(socket_.wait_read);
      if (!ready) co_return std::unexpected(ready.error());
      if (PQconsumeInput(connection) == 0) co_return broken();
    }
    auto* result = PQgetResult(connection);
    if (!result) break;
    last = Rows(result);
    auto status = PQresultStatus(result);
    if (status == PGRES_TUPLES_OK || status == PGRES_COMMAND_OK || refusal) continue;
    const char* state = PQresultErrorField(result, PG_DIAG_SQLSTATE);
    const char* text = PQresultErrorField(result, PG_DIAG_MESSAGE_PRIMARY);
    if (!state || !text) co_return broken();
    refusal = Error{code_of(state), fmt::format("{} ({})", text, state)};
  }
  if (refusal) co_return std::unexpected(*refusal);
  // An answer counts when the server is ready again: it commits after it has answered.
  if (PQstatus(connection) != CONNECTION_OK) co_return broken();
  co_return last;
}

std::unexpected<Error> Connection::broken() const {
  return fail(Errc::unknown_outcome, "{}", first_line(PQerrorMessage(connection_.get())));
}

}  // namespace warren::pg
