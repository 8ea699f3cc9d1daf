#include <doctest/doctest.h>
#include <sys/resource.h>

#include "net/http/client.h"
#include "net/http/test_client.h"

using namespace warren;
using asio::ip::tcp;

namespace {

awaitable<void> later(std::string body, HttpAnswer& answer) {
  co_await sleep_for(20ms);
  if (body == "!") throw std::runtime_error("a library");
  answer.body = "later " + body;
}

awaitable<void> never() {
  Event nothing(co_await asio::this_coro::executor);
  co_await nothing.wait();
}

// Echoes the request; /later after a while, /never not at all, /large with a large body.
HttpServer::Work echo(const HttpRequest& request, HttpAnswer& answer) {
  if (request.path == "/throws") throw std::runtime_error("a library");
  if (request.path == "/never") return never();
  if (request.path == "/later") return later(std::string(request.body), answer);
  if (request.path == "/large")
    answer.body.assign(8u << 20, 'x');
  else
    answer.body = fmt::format("{} {} {}", request.method, request.path, request.body.size());
  return std::nullopt;
}

void with_server(HttpTerms terms, awaitable<void> (*body)(HttpServer&)) {
  with_server(std::move(terms), echo, body);
}

}  // namespace

TEST_CASE("a body is taken whole, in however many pieces it comes") {
  with_server(public_terms(), [](HttpServer& server) -> awaitable<void> {
    auto client = co_await client_of(server);
    co_await client.say("POST /a HTTP/1.1\r\nContent-Len");
    co_await sleep_for(5ms);
    co_await client.say("gth: 50000\r\n\r\n" + std::string(20000, 'x'));
    co_await sleep_for(5ms);
    co_await client.say(std::string(30000, 'x') + "GET /b HTTP/1.1\r\n\r\n");
    CHECK(co_await client.hears("POST /a 50000"));
    CHECK(co_await client.hears("GET /b 0"));
  });
}

TEST_CASE("requests that come together are answered in order, also when one takes longer") {
  with_server(public_terms(), [](HttpServer& server) -> awaitable<void> {
    auto client = co_await client_of(server);
    std::string all;
    for (int i = 0; i < 200; ++i) all += fmt::format("GET /{} HTTP/1.1\r\n\r\n", i);
    all += "POST /later HTTP/1.1\r\nContent-Length: 2\r\n\r\nok";
    all += "HEAD /head HTTP/1.1\r\n\r\nGET /last HTTP/1.1\r\nConnection: close\r\n\r\n";
    co_await client.say(all);
    auto heard = co_await client.rest();
    std::size_t at = 0;
    for (int i = 0; i < 200 && at != heard.npos; ++i)
      at = heard.find(fmt::format("\r\n\r\nGET /{} 0", i), at);
    CHECK(at != heard.npos);
    CHECK(heard.find("later ok") < heard.find("GET /last 0"));
    CHECK(!heard.contains("HEAD /head 0"));
    CHECK(heard.ends_with("Connection: close\r\n\r\nGET /last 0"));
    CHECK(server.counters().requests == 203);
  });
}

TEST_CASE("a body that is too long is refused before it is read, and the client hears why") {
  with_server(public_terms(), [](HttpServer& server) -> awaitable<void> {
    auto client = co_await client_of(server);
    co_await client.say("POST /a HTTP/1.1\r\nContent-Length: 100001\r\n\r\n");
    co_await client.say(std::string(100001, 'x'));
    client.socket.shutdown(tcp::socket::shutdown_send);
    auto heard = co_await client.rest();
    CHECK(heard.starts_with("HTTP/1.1 413 "));
    CHECK(heard.contains("Connection: close"));
    CHECK(server.counters().requests == 0);
  });
}

TEST_CASE("the limit of a body may depend on who sends it") {
  auto terms = public_terms();
  terms.body_limit = [](const HttpRequest& head) -> std::size_t {
    return head.header("x-who").empty() ? 10 : 1u << 30;
  };
  with_server(std::move(terms), [](HttpServer& server) -> awaitable<void> {
    auto known = co_await client_of(server);
    co_await known.say("POST /a HTTP/1.1\r\nX-Who: me\r\nContent-Length: 11\r\n\r\n01234567890");
    CHECK(co_await known.hears("POST /a 11"));
    // The general limit still applies.
    co_await known.say("POST /a HTTP/1.1\r\nX-Who: me\r\nContent-Length: 100001\r\n\r\n");
    CHECK(co_await known.hears("HTTP/1.1 413 "));
    auto unknown = co_await client_of(server);
    co_await unknown.say("POST /a HTTP/1.1\r\nContent-Length: 11\r\n\r\n");
    CHECK(co_await unknown.hears("HTTP/1.1 413 "));
  });
}

TEST_CASE("who asks first whether to send a body is told so once") {
  with_server(public_terms(), [](HttpServer& server) -> awaitable<void> {
    auto client = co_await client_of(server);
    co_await client.say("POST /a HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 4\r\n\r\n");
    CHECK(co_await client.hears("100 Continue\r\n\r\n"));
    co_await client.say("bo");
    co_await sleep_for(5ms);
    co_await client.say("dy");
    CHECK(co_await client.hears("POST /a 4"));
    CHECK(client.bytes.find("100 Continue") == client.bytes.rfind("100 Continue"));
  });
}

TEST_CASE("who is slow to say what he wants is left, who waits between requests is not") {
  auto terms = public_terms();
  terms.request_time = 200ms;
  with_server(std::move(terms), [](HttpServer& server) -> awaitable<void> {
    auto patient = co_await client_of(server);
    co_await patient.say("GET /a HTTP/1.1\r\n\r\n");
    CHECK(co_await patient.hears("GET /a 0"));
    auto slow = co_await client_of(server);
    auto began = Clock::now();
    // Sending one byte at a time does not extend the time limit.
    auto drip = [](Client& drips) -> awaitable<void> {
      for (int i = 0; i < 1000; ++i) {
        co_await drips.say(i == 0 ? "GET /" : "x");
        co_await sleep_for(10ms);
      }
    };
    using namespace asio::experimental::awaitable_operators;
    co_await (drip(slow) || slow.rest());
    CHECK(Clock::now() - began < 8s);
    CHECK(slow.bytes.empty());
    CHECK(server.counters().timeouts == 1);
    co_await patient.say("GET /b HTTP/1.1\r\n\r\n");
    CHECK(co_await patient.hears("GET /b 0"));
  });
}

TEST_CASE("who does not read his answer, or is idle for too long, is left") {
  auto terms = public_terms();
  terms.request_time = terms.idle_time = 200ms;
  with_server(std::move(terms), [](HttpServer& server) -> awaitable<void> {
    auto deaf = co_await client_of(server), idle = co_await client_of(server);
    co_await deaf.say("GET /large HTTP/1.1\r\n\r\nGET /large HTTP/1.1\r\n\r\n");
    co_await idle.rest();
    while (server.counters().connections > 0) co_await sleep_for(5ms);
    CHECK(server.counters().timeouts == 2);
  });
}

TEST_CASE("a large answer arrives whole") {
  with_server(public_terms(), [](HttpServer& server) -> awaitable<void> {
    auto client = co_await client_of(server);
    co_await client.say("GET /large HTTP/1.1\r\nConnection: close\r\n\r\n");
    auto heard = co_await client.rest();
    CHECK(heard.size() - heard.find("\r\n\r\n") - 4 == 8u << 20);
  });
}

TEST_CASE("more connections than allowed make room by who waits, then by who has not asked yet") {
  auto terms = public_terms();
  terms.most_connections = 2;
  with_server(std::move(terms), [](HttpServer& server) -> awaitable<void> {
    std::string half = "POST /a HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 4\r\n\r\n";
    auto first = co_await client_of(server);
    co_await first.say(half);
    CHECK(co_await first.hears("100 Continue"));
    auto second = co_await client_of(server);
    co_await second.say(half);
    CHECK(co_await second.hears("100 Continue"));
    // Of two half-sent requests, the older one goes.
    auto third = co_await client_of(server);
    co_await third.say("GET /a HTTP/1.1\r\n\r\n");
    CHECK(co_await third.hears("GET /a 0"));
    CHECK(!co_await first.hears("POST"));
    CHECK(server.counters().turned_away == 0);
    co_await second.say("body");
    CHECK(co_await second.hears("POST /a 4"));
  });
}

TEST_CASE("one that waits makes room before one that asks, and one that is answered never does") {
  auto terms = public_terms();
  terms.most_connections = 2;
  terms.idle_time = 4s;
  with_server(std::move(terms), [](HttpServer& server) -> awaitable<void> {
    auto asks = co_await client_of(server);
    auto waits = co_await client_of(server);
    co_await waits.say("GET /a HTTP/1.1\r\n\r\n");
    CHECK(co_await waits.hears("GET /a 0"));
    co_await sleep_for(2500ms);  // until it no longer counts as just arrived
    co_await asks.say("POST /a HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 4\r\n\r\n");
    CHECK(co_await asks.hears("100 Continue"));
    auto next = co_await client_of(server);
    co_await next.say("GET /never HTTP/1.1\r\n\r\n");
    CHECK(!co_await waits.hears("more"));
    co_await asks.say("bodyGET /never HTTP/1.1\r\n\r\n");
    CHECK(co_await asks.hears("POST /a 4"));
    while (server.counters().requests < 4) co_await sleep_for(1ms);
    // Both are being answered.
    auto last = co_await client_of(server);
    CHECK((co_await last.rest()).empty());
    CHECK(server.counters().turned_away == 1);
  });
}

TEST_CASE("whoever opens most connections makes room first, and a slow neighbour goes on") {
  auto terms = public_terms();
  terms.most_connections = 4;
  with_server(std::move(terms), [](HttpServer& server) -> awaitable<void> {
    std::string half = "POST /a HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 4\r\n\r\n";
    auto neighbour = co_await client_of(server, "127.0.0.2");
    co_await neighbour.say(half);
    CHECK(co_await neighbour.hears("100 Continue"));
    std::vector<Client> greedy;
    for (int i = 0; i < 20; ++i) {
      greedy.push_back(co_await client_of(server, "127.0.0.3"));
      co_await greedy.back().say(half);
      CHECK(co_await greedy.back().hears("100 Continue"));
    }
    CHECK(server.counters().connections == 4);
    co_await neighbour.say("body");
    CHECK(co_await neighbour.hears("POST /a 4"));
  });
}

TEST_CASE("the lines of a request have less time than its body") {
  auto terms = public_terms();
  terms.head_time = 200ms;
  with_server(std::move(terms), [](HttpServer& server) -> awaitable<void> {
    auto body = co_await client_of(server), lines = co_await client_of(server);
    co_await body.say("POST /a HTTP/1.1\r\nContent-Length: 4\r\n\r\nbo");
    co_await lines.say("GET /a HTTP/1.1\r\nHo");
    CHECK((co_await lines.rest()).empty());
    CHECK(server.counters().timeouts == 1);
    co_await body.say("dy");
    CHECK(co_await body.hears("POST /a 4"));
  });
}

namespace {

awaitable<void> ask_beside_half_sent(HttpServer& server, std::size_t& most) {
  std::vector<Client> half;
  half.reserve(most);
  for (std::size_t i = 0; i < most; ++i) {
    half.push_back(co_await client_of(server));
    co_await half.back().say("GET /half HTTP/1.1\r\nHost: x");
  }
  for (int i = 0; i < 20; ++i) {
    auto began = Clock::now();
    auto good = co_await client_of(server);
    co_await good.say("GET /a HTTP/1.1\r\n\r\n");
    CHECK(co_await good.hears("GET /a 0"));
    CHECK(Clock::now() - began < 1s);
  }
  CHECK(server.counters().turned_away == 0);
}

}  // namespace

TEST_CASE("beside 10,000 half-sent requests a whole one is answered within a second") {
  rlimit files{};
  REQUIRE(getrlimit(RLIMIT_NOFILE, &files) == 0);
  files.rlim_cur = files.rlim_max;
  setrlimit(RLIMIT_NOFILE, &files);
  // Both ends are in this process, so each connection takes two descriptors.
  std::size_t count = std::min<std::size_t>(10'000, (files.rlim_cur - 200) / 2);
  auto terms = public_terms();
  terms.most_connections = count * 4 / 5;
  terms.request_time = terms.head_time = 60s;  // none of them leaves by itself
  MESSAGE(count, " connections, of which ", terms.most_connections, " may be open");
  with_server(std::move(terms), echo, &ask_beside_half_sent, count);
}

TEST_CASE("one address does not get all connections") {
  auto terms = public_terms();
  terms.most_from = [](const asio::ip::address&) -> std::size_t { return 1; };
  with_server(std::move(terms), [](HttpServer& server) -> awaitable<void> {
    {
      auto first = co_await client_of(server);
      co_await first.say("GET /a HTTP/1.1\r\n\r\n");
      CHECK(co_await first.hears("GET /a 0"));
      auto second = co_await client_of(server);
      CHECK((co_await second.rest()).empty());
      CHECK(server.counters().turned_away == 1);
    }
    while (server.counters().connections > 0) co_await sleep_for(5ms);
    auto third = co_await client_of(server);
    co_await third.say("GET /a HTTP/1.1\r\n\r\n");
    CHECK(co_await third.hears("GET /a 0"));
  });
}

TEST_CASE("a handler that throws ends one request, not the service") {
  with_server(public_terms(), [](HttpServer& server) -> awaitable<void> {
    auto client = co_await client_of(server);
    co_await client.say("GET /throws HTTP/1.1\r\n\r\nGET /a HTTP/1.1\r\n\r\n");
    CHECK(co_await client.hears("GET /a 0"));
    CHECK(client.bytes.starts_with("HTTP/1.1 500 "));
    co_await client.say("POST /later HTTP/1.1\r\nContent-Length: 1\r\n\r\n!");
    co_await client.say("GET /b HTTP/1.1\r\n\r\n");
    CHECK(co_await client.hears("GET /b 0"));
    CHECK(client.bytes.rfind("HTTP/1.1 500 ") > client.bytes.find("GET /a 0"));
  });
}

TEST_CASE("a client asks again where the server had closed, but does not change something twice") {
  auto terms = public_terms();
  terms.idle_time = 200ms;
  with_server(std::move(terms), [](HttpServer& server) -> awaitable<void> {
    HttpClient client(co_await asio::this_coro::executor, *parse_http_url(server.url()));
    auto ask = [](HttpClient& by, std::string method) -> Async<HttpReply> {
      HttpAsk question{.method = std::move(method), .target = "/a"};
      co_return co_await by.ask(std::move(question), Clock::now() + 10s);
    };
    for (std::string method : {"GET", "POST"}) {
      auto first = co_await ask(client, "GET");
      CHECK(first);
      while (server.counters().connections > 0) co_await sleep_for(5ms);
      auto second = co_await ask(client, method);
      CHECK(second.has_value() == (method == "GET"));
      if (!second) CHECK(second.error().code == Errc::unknown_outcome);
    }
  });
}

TEST_CASE("an answer does not wait for one that comes after it") {
  with_server(public_terms(), [](HttpServer& server) -> awaitable<void> {
    auto client = co_await client_of(server);
    co_await client.say("GET /a HTTP/1.1\r\n\r\nGET /never HTTP/1.1\r\n\r\n");
    CHECK(co_await client.hears("GET /a 0"));
  });
}

TEST_CASE("an old client that asks for it keeps its connection, and is told so") {
  with_server(public_terms(), [](HttpServer& server) -> awaitable<void> {
    auto client = co_await client_of(server);
    co_await client.say("GET /a HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
    CHECK(co_await client.hears("GET /a 0"));
    CHECK(client.bytes.contains("Connection: keep-alive\r\n"));
    co_await client.say("GET /b HTTP/1.0\r\n\r\n");
    CHECK((co_await client.rest()).ends_with("Connection: close\r\n\r\nGET /b 0"));
  });
}

TEST_CASE(
    "who takes a large answer drop by drop is left, and a drain does not wait for idle hands") {
  auto terms = public_terms();
  terms.request_time = 400ms;
  with_server(std::move(terms), [](HttpServer& server) -> awaitable<void> {
    auto slow = co_await client_of(server);
    co_await slow.say("GET /large HTTP/1.1\r\n\r\n");
    std::array<char, 65536> room{};
    while (server.counters().timeouts == 0) {
      boost::system::error_code error;
      co_await slow.socket.async_read_some(asio::buffer(room),
                                           asio::redirect_error(asio::use_awaitable, error));
      if (error) break;
      co_await sleep_for(20ms);
    }
    CHECK(server.counters().timeouts == 1);
    auto reader = co_await client_of(server);
    co_await reader.say("GET /large HTTP/1.1\r\n\r\n");
    while (server.counters().requests < 2) co_await sleep_for(1ms);
    auto drains = [](HttpServer& which) -> awaitable<void> {
      co_await which.drain(Clock::now() + 10s);
    };
    auto listens = [](Client& who) -> awaitable<void> { co_await who.rest(); };
    auto began = Clock::now();
    using namespace asio::experimental::awaitable_operators;
    co_await (drains(server) && listens(reader));
    CHECK(Clock::now() - began < 5s);
    CHECK(reader.bytes.size() > 8u << 20);
  });
}
TEST_CASE("a server that drains answers who asked, ends the idle, and accepts nobody") {
  with_server(public_terms(), [](HttpServer& server) -> awaitable<void> {
    auto idle = co_await client_of(server), asks = co_await client_of(server);
    co_await asks.say("POST /later HTTP/1.1\r\nContent-Length: 1\r\n\r\nx");
    while (server.counters().requests == 0) co_await sleep_for(1ms);
    auto began = Clock::now();
    auto drains = [](HttpServer& which) -> awaitable<void> {
      co_await which.drain(Clock::now() + 10s);
    };
    auto listens = [](Client& who) -> awaitable<void> { co_await who.rest(); };
    using namespace asio::experimental::awaitable_operators;
    co_await (drains(server) && listens(asks));
    CHECK(Clock::now() - began < 5s);
    CHECK(asks.bytes.ends_with("Connection: close\r\n\r\nlater x"));
    CHECK((co_await idle.rest()).empty());
    tcp::socket late(co_await asio::this_coro::executor);
    tcp::endpoint endpoint(asio::ip::make_address("127.0.0.1"), server.port());
    boost::system::error_code error;
    co_await late.async_connect(endpoint, asio::redirect_error(asio::use_awaitable, error));
    CHECK(error);
  });
}
