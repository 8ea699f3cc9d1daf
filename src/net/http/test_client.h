#pragma once
// For tests: a server, and a client that sends and receives raw bytes.
#include <doctest/doctest.h>

#include <array>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/write.hpp>
#include <string>
#include <utility>

#include "net/http/server.h"

namespace warren {

inline HttpTerms public_terms() {
  HttpTerms terms;
  terms.is_for_this_machine = false;
  terms.most_body = 100'000;
  terms.headers = "";
  return terms;
}

struct Client {
  asio::ip::tcp::socket socket;
  std::string bytes = {};
  boost::system::error_code error = {};  // that ended the connection

  awaitable<void> say(std::string words) {
    boost::system::error_code ignored;
    co_await asio::async_write(socket, asio::buffer(words),
                               asio::redirect_error(asio::use_awaitable, ignored));
  }
  // Reads until these words have arrived, or the connection ends.
  awaitable<bool> hears(std::string words) {
    std::array<char, 65536> room{};
    while (!bytes.contains(words)) {
      auto count = co_await socket.async_read_some(
          asio::buffer(room), asio::redirect_error(asio::use_awaitable, error));
      if (error) co_return false;
      bytes.append(room.data(), count);
    }
    co_return true;
  }
  awaitable<std::string> rest() {
    co_await hears("\x01 never said");
    co_return bytes;
  }
};

// `from`: an address of this machine.
inline awaitable<Client> client_of(HttpServer& server, std::string from = "127.0.0.1") {
  asio::ip::tcp::socket socket(co_await asio::this_coro::executor);
  if (from != "127.0.0.1") {
    socket.open(asio::ip::tcp::v4());
    socket.bind({asio::ip::make_address(from), 0});
  }
  asio::ip::tcp::endpoint endpoint(asio::ip::make_address("127.0.0.1"), server.port());
  co_await socket.async_connect(endpoint, asio::use_awaitable);
  co_return Client{std::move(socket)};
}

// Runs the body beside a server with this handler.
template <class... Args>
void with_server(HttpTerms terms, HttpServer::Handler handler,
                 awaitable<void> (*body)(HttpServer&, Args&...), Args&... args) {
  asio::io_context io(1);
  auto server = HttpServer::listen(io.get_executor(), std::move(terms), std::move(handler));
  REQUIRE(server);
  bool is_over = false;
  auto both = [](HttpServer& of, awaitable<void> client, bool& done) -> awaitable<void> {
    using namespace asio::experimental::awaitable_operators;
    co_await (of.run() || std::move(client));
    done = true;
  };
  asio::co_spawn(io, both(**server, body(**server, args...), is_over),
                 [](std::exception_ptr thrown) {
                   if (thrown) std::rethrow_exception(thrown);
                 });
  io.run_for(60s);
  CHECK(is_over);
}

}  // namespace warren
