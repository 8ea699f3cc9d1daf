#include "net/http/server.h"

#include <doctest/doctest.h>

#include <boost/asio/read.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/write.hpp>

using namespace warren;
using asio::ip::tcp;

namespace {

// What the server answers to these bytes, until it closes or has nothing more to send.
std::string answer_to(const std::string& bytes, const HttpTerms& terms = {}) {
  asio::io_context io;
  auto handler = reading([](const HttpRequest& request) {
    return HttpAnswer{.body = fmt::format("{}|{}", request.path, request.query)};
  });
  auto server = HttpServer::listen(io.get_executor(), terms, handler);
  REQUIRE(server);
  std::string said;
  auto ask = [](HttpServer& to, std::string request, std::string& answer) -> awaitable<void> {
    auto executor = co_await asio::this_coro::executor;
    tcp::socket socket(executor);
    tcp::endpoint endpoint(asio::ip::make_address("127.0.0.1"), to.port());
    co_await socket.async_connect(endpoint, asio::use_awaitable);
    auto port = fmt::format("{}", to.port());
    if (auto at = request.find("PORT"); at != request.npos) request.replace(at, 4, port);
    boost::system::error_code error;
    co_await asio::async_write(socket, asio::buffer(request),
                               asio::redirect_error(asio::use_awaitable, error));
    socket.shutdown(tcp::socket::shutdown_send, error);
    co_await asio::async_read(socket, asio::dynamic_buffer(answer),
                              asio::redirect_error(asio::use_awaitable, error));
  };
  using namespace asio::experimental::awaitable_operators;
  auto both = [](HttpServer& to, awaitable<void> client) -> awaitable<void> {
    co_await (to.run() || std::move(client));
  };
  asio::co_spawn(io, both(**server, ask(**server, bytes, said)), [](std::exception_ptr thrown) {
    if (thrown) std::rethrow_exception(thrown);
  });
  io.run_for(20s);
  return said;
}

}  // namespace

TEST_CASE("a page is given to whoever asks for it by this machine's name") {
  auto said = answer_to("GET /page?a=b HTTP/1.1\r\nHost: 127.0.0.1:PORT\r\n\r\n");
  CHECK(said.starts_with("HTTP/1.1 200 OK\r\n"));
  CHECK(said.ends_with("\r\n\r\n/page|a=b"));
  CHECK(answer_to("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n").ends_with("/|"));
}

TEST_CASE("one connection serves several requests") {
  std::string one = "GET /one HTTP/1.1\r\nHost: localhost\r\n\r\n";
  auto said = answer_to(one + "GET /two HTTP/1.1\r\nHost: localhost\r\n\r\n");
  CHECK(said.contains("/one|"));
  CHECK(said.ends_with("/two|"));
}

TEST_CASE("HEAD is answered with the length and without the body") {
  auto said = answer_to("HEAD /12 HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
  CHECK(said.contains("Content-Length: 4\r\n"));
  CHECK(said.ends_with("\r\n\r\n"));
}

TEST_CASE("what is led here under a foreign name, or wants to change something, is refused") {
  CHECK(answer_to("GET / HTTP/1.1\r\nHost: evil.example\r\n\r\n").starts_with("HTTP/1.1 421 "));
  CHECK(answer_to("GET / HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 421 "));
  CHECK(answer_to("DELETE / HTTP/1.1\r\nHost: localhost\r\n\r\n").starts_with("HTTP/1.1 405 "));
}

TEST_CASE("a request may have the names that a proxy on this machine passes on, with any port") {
  HttpTerms terms;
  terms.names = {"agents.example", "2001:db8::1"};
  auto status = [&](const std::string& host) {
    return answer_to("GET / HTTP/1.1\r\nHost: " + host + "\r\n\r\n", terms).substr(9, 3);
  };
  for (std::string host : {"agents.example", "Agents.Example:8443", "agents.example:80",
                           "[2001:db8::1]:443", "localhost"})
    CHECK_MESSAGE(status(host) == "200", host);
  for (std::string host : {"example", "agents.example.evil", "evil:agents.example",
                           "agents.example:x", "", "localhost:1"})
    CHECK_MESSAGE(status(host) == "421", host);
}

TEST_CASE("nonsense is answered with 400 and the end of the connection") {
  CHECK(answer_to("hello\r\n\r\n").starts_with("HTTP/1.1 400 "));
  CHECK(answer_to("GET / HTTP/9.9\r\n\r\n").starts_with("HTTP/1.1 505 "));
  auto large = answer_to("GET / HTTP/1.1\r\nX: " + std::string(64 << 10, 'x') + "\r\n\r\n");
  CHECK(large.starts_with("HTTP/1.1 431 "));
  CHECK(answer_to("").empty());
}

TEST_CASE("a port that is taken is an error with its number") {
  asio::io_context io;
  auto handler = reading([](const HttpRequest&) { return HttpAnswer{}; });
  HttpTerms terms;
  auto first = HttpServer::listen(io.get_executor(), terms, handler);
  REQUIRE(first);
  terms.port = (*first)->port();
  auto second = HttpServer::listen(io.get_executor(), terms, handler);
  REQUIRE(!second);
  CHECK(second.error().code == Errc::unavailable);
  CHECK(second.error().what.contains(std::to_string((*first)->port())));
  terms.address = "here";
  CHECK(!HttpServer::listen(io.get_executor(), terms, handler));
}
