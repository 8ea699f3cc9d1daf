#include "net/http/client.h"
#include "net/http/exchange.h"
#include "net/http/test_client.h"

using namespace warren;
using asio::ip::tcp;
using namespace asio::experimental::awaitable_operators;

namespace {

// What the handlers report to the tests.
struct Seen {
  int began = 0, left = 0, ended = 0;
  std::uint64_t bytes = 0;
  bool may_go_on = false;
  std::optional<Error> error = {};
};

// Counts the end of the work, however it ends.
struct Leaving {
  Seen& seen;
  explicit Leaving(Seen& by) : seen(by) { ++seen.began; }
  ~Leaving() { ++seen.left; }
};

awaitable<void> until(const bool& fact) {
  while (!fact) co_await sleep_for(1ms);
}

awaitable<void> lines(const HttpRequest& request, HttpAnswer& answer, Seen& seen) {
  answer.type = "application/x-ndjson";
  auto& body = request.exchange->begin();
  CHECK(co_await body.write("{\"line\":1}\n"));
  co_await until(seen.may_go_on);
  CHECK(co_await body.write("{\"line\":2}\n"));
  CHECK(co_await body.end());
  ++seen.ended;
}

awaitable<void> sized(const HttpRequest& request, std::uint64_t announced, std::string given) {
  auto& body = request.exchange->begin(announced);
  auto written = co_await body.write(given);
  if (written) written = co_await body.end();
  CHECK(written.has_value() == (announced == given.size()));
  if (!written) CHECK(written.error().code == Errc::invalid);
}

// Begins an answer and does not finish it.
awaitable<void> breaks(const HttpRequest& request, bool throws) {
  auto& body = request.exchange->begin();
  CHECK(co_await body.write("half of it"));
  if (throws) throw std::runtime_error("a library");
}

// Sends as much as the client takes, until it leaves.
awaitable<void> floods(const HttpRequest& request, Seen& seen) {
  Leaving leaving(seen);
  auto& body = request.exchange->begin();
  std::string piece(most_piece, 'x');
  while (co_await body.write(piece)) seen.bytes += piece.size();
}

awaitable<void> never(Seen& seen) {
  Leaving leaving(seen);
  Event nothing(co_await asio::this_coro::executor);
  co_await nothing.wait();
}

awaitable<void> counts(const HttpRequest& request, HttpAnswer& answer, Seen& seen) {
  Leaving leaving(seen);
  std::uint64_t sum = 0;
  for (;;) {
    auto piece = co_await request.exchange->in().read();
    if (!piece) {
      seen.error = piece.error();
      answer.status = 413;
      answer.body = piece.error().what;
      co_return;
    }
    if (piece->empty()) break;
    CHECK(piece->size() <= most_piece);
    for (unsigned char byte : *piece) sum = sum * 31 + byte;
    seen.bytes += piece->size();
  }
  answer.body = fmt::format("{} bytes, sum {}", seen.bytes, sum);
}

// Answers while it reads.
awaitable<void> returns(const HttpRequest& request) {
  auto& out = request.exchange->begin();
  CHECK(co_await copy_body(request.exchange->in(), out));
}

awaitable<void> takes_over(const HttpRequest& request, HttpAnswer& answer, Seen& seen) {
  Leaving leaving(seen);
  auto upgraded = co_await request.exchange->upgrade("echo");
  if (!upgraded) {
    answer.status = 426;
    co_return;
  }
  auto& in = request.exchange->in();
  auto& out = request.exchange->out();
  for (;;) {
    auto piece = co_await in.read();
    if (!piece || piece->empty()) break;
    CHECK(co_await out.write("<" + std::string(*piece) + ">"));
  }
  CHECK(co_await out.write("bye"));
}

HttpServer::Handler handler_of(Seen& seen) {
  return [&seen](const HttpRequest& request, HttpAnswer& answer) -> HttpServer::Work {
    auto path = request.path;
    if (path == "/lines") return lines(request, answer, seen);
    if (path == "/sized") return sized(request, 10, "0123456789");
    if (path == "/short") return sized(request, 10, "01234");
    if (path == "/long") return sized(request, 3, "01234");
    if (path == "/breaks") return breaks(request, false);
    if (path == "/throws") return breaks(request, true);
    if (path == "/floods") return floods(request, seen);
    if (path == "/never") return never(seen);
    if (path == "/counts") return counts(request, answer, seen);
    if (path == "/returns") return returns(request);
    if (path == "/takes-over") return takes_over(request, answer, seen);
    answer.body = fmt::format("{} {}", request.method, request.path);
    return std::nullopt;
  };
}

HttpTerms streaming_terms() {
  auto terms = public_terms();
  terms.stream_limit = [](const HttpRequest& head) -> std::uint64_t {
    return head.path == "/plain" || head.path == "/takes-over" ? 0 : 64u << 20;
  };
  return terms;
}

void with_streams(HttpTerms terms, awaitable<void> (*body)(HttpServer&, Seen&)) {
  Seen seen;
  with_server(std::move(terms), handler_of(seen), body, seen);
}

void with_streams(awaitable<void> (*body)(HttpServer&, Seen&)) {
  with_streams(streaming_terms(), body);
}

awaitable<void> until_left(const Seen& seen, int count = 1) {
  while (seen.left < count) co_await sleep_for(1ms);
}

}  // namespace

TEST_CASE("a streamed answer arrives as it is written, in chunks, and the connection stays") {
  with_streams([](HttpServer& server, Seen& seen) -> awaitable<void> {
    auto client = co_await client_of(server);
    co_await client.say("GET /lines HTTP/1.1\r\n\r\n");
    CHECK(co_await client.hears("b\r\n{\"line\":1}\n\r\n"));
    CHECK(client.bytes.starts_with("HTTP/1.1 200 OK\r\n"));
    CHECK(client.bytes.contains("Transfer-Encoding: chunked\r\n"));
    CHECK(client.bytes.contains("Content-Type: application/x-ndjson\r\n"));
    CHECK(!client.bytes.contains("Content-Length"));
    CHECK(seen.ended == 0);
    seen.may_go_on = true;
    CHECK(co_await client.hears("b\r\n{\"line\":2}\n\r\n0\r\n\r\n"));
    co_await client.say("GET /a HTTP/1.1\r\n\r\n");
    CHECK(co_await client.hears("GET /a"));
  });
}

TEST_CASE("a streamed answer ends with its length, or for old clients with the connection") {
  with_streams([](HttpServer& server, Seen& seen) -> awaitable<void> {
    seen.may_go_on = true;
    auto client = co_await client_of(server);
    co_await client.say("GET /sized HTTP/1.1\r\n\r\nGET /a HTTP/1.1\r\n\r\n");
    CHECK(co_await client.hears("\r\n\r\n0123456789HTTP/1.1 200"));
    CHECK(client.bytes.contains("Content-Length: 10\r\n"));
    CHECK(!client.bytes.contains("chunked"));
    auto old = co_await client_of(server);
    co_await old.say("GET /lines HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
    auto heard = co_await old.rest();
    CHECK(heard.ends_with("\r\n\r\n{\"line\":1}\n{\"line\":2}\n"));
    CHECK(heard.contains("Connection: close\r\n"));
    CHECK(old.error == asio::error::eof);
    auto kept = co_await client_of(server);
    co_await kept.say("GET /sized HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
    CHECK(co_await kept.hears("0123456789"));
    CHECK(kept.bytes.contains("Connection: keep-alive\r\n"));
    auto head = co_await client_of(server);
    co_await head.say("HEAD /lines HTTP/1.1\r\n\r\nGET /a HTTP/1.1\r\nConnection: close\r\n\r\n");
    heard = co_await head.rest();
    CHECK(heard.contains("Transfer-Encoding: chunked\r\n"));
    CHECK(!heard.contains("line"));
    CHECK(heard.ends_with("GET /a"));
  });
}

TEST_CASE("an answer that breaks off is never taken for a whole one") {
  with_streams([](HttpServer& server, Seen&) -> awaitable<void> {
    for (std::string path : {"/breaks", "/throws"}) {
      CAPTURE(path);
      auto client = co_await client_of(server);
      co_await client.say("GET " + path + " HTTP/1.1\r\n\r\nGET /a HTTP/1.1\r\n\r\n");
      auto heard = co_await client.rest();
      CHECK(heard.ends_with("a\r\nhalf of it\r\n"));
      auto old = co_await client_of(server);
      co_await old.say("GET " + path + " HTTP/1.0\r\n\r\n");
      co_await old.rest();
      CHECK(old.error == asio::error::connection_reset);
    }
    auto client = co_await client_of(server);
    co_await client.say("GET /short HTTP/1.1\r\n\r\nGET /a HTTP/1.1\r\n\r\n");
    CHECK((co_await client.rest()).ends_with("Content-Length: 10\r\n\r\n01234"));
    auto longer = co_await client_of(server);
    co_await longer.say("GET /long HTTP/1.1\r\n\r\n");
    CHECK((co_await longer.rest()).empty());
  });
}

TEST_CASE("who writes waits for who reads, and who does not read is left") {
  auto terms = streaming_terms();
  terms.request_time = 500ms;
  with_streams(std::move(terms), [](HttpServer& server, Seen& seen) -> awaitable<void> {
    auto client = co_await client_of(server);
    co_await client.say("GET /floods HTTP/1.1\r\n\r\n");
    // Much longer than one piece may take: the work continues for as long as the client reads.
    auto began = Clock::now();
    std::array<char, 65536> room{};
    std::uint64_t heard = 0;
    while (Clock::now() - began < 1500ms)
      heard += co_await client.socket.async_read_some(asio::buffer(room), asio::use_awaitable);
    CHECK(seen.left == 0);
    CHECK(heard > 0);
    // The amount in transit is limited by the two sockets' buffers.
    co_await until_left(seen);
    CHECK(seen.bytes < heard + (32u << 20));
    CHECK(server.counters().timeouts == 1);
  });
}

TEST_CASE("work is cancelled when its client leaves, and not when more requests come") {
  with_streams([](HttpServer& server, Seen& seen) -> awaitable<void> {
    {
      auto client = co_await client_of(server);
      co_await client.say("GET /never HTTP/1.1\r\n\r\n");
      while (seen.began < 1) co_await sleep_for(1ms);
      co_await client.say("GET /a HTTP/1.1\r\n\r\n");
      co_await sleep_for(50ms);
      CHECK(seen.left == 0);
    }
    co_await until_left(seen);
    {
      auto client = co_await client_of(server);
      co_await client.say("GET /floods HTTP/1.1\r\n\r\n");
      CHECK(co_await client.hears("xxxx"));
    }
    co_await until_left(seen, 2);
    while (server.counters().connections > 0) co_await sleep_for(1ms);
    // A pipelined request is answered in its turn.
    auto client = co_await client_of(server);
    co_await client.say("GET /lines HTTP/1.1\r\n\r\n");
    CHECK(co_await client.hears("line\":1"));
    co_await client.say("GET /a HTTP/1.1\r\n\r\n");
    co_await client.say("GET /b HTTP/1.1\r\n\r\n");
    co_await sleep_for(20ms);
    seen.may_go_on = true;
    CHECK(co_await client.hears("GET /b"));
    CHECK(client.bytes.find("line\":2") < client.bytes.find("GET /a"));
  });
}

TEST_CASE("a body is streamed to the work, with its length or in chunks, in any pieces") {
  with_streams([](HttpServer& server, Seen& seen) -> awaitable<void> {
    constexpr std::size_t size = 20u << 20;
    std::string body(size, '\0');
    for (std::size_t i = 0; i < size; ++i) body[i] = char(i * 7 + i / 251);
    std::uint64_t sum = 0;
    for (unsigned char byte : body) sum = sum * 31 + byte;
    auto client = co_await client_of(server);
    auto sends = [](Client& by, const std::string& bytes) -> awaitable<void> {
      co_await by.say(
          fmt::format("POST /counts HTTP/1.1\r\nContent-Length: {}\r\n\r\n", bytes.size()));
      co_await by.say(bytes);
    };
    co_await sends(client, body);
    CHECK(co_await client.hears(fmt::format("{} bytes, sum {}", size, sum)));
    seen.bytes = 0;
    client.bytes.clear();
    std::string chunks = "POST /counts HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n";
    for (std::size_t at = 0, step = 1; at < size; at += step, step = 1 + step * 7 % 99'991)
      write_chunk(chunks, std::string_view(body).substr(at, step));
    chunks += last_chunk;
    co_await client.say(chunks + "GET /plain HTTP/1.1\r\n\r\n");
    CHECK(co_await client.hears(fmt::format("{} bytes, sum {}", size, sum)));
    CHECK(co_await client.hears("GET /plain"));
    seen.bytes = 0;
    client.bytes.clear();
    co_await client.say("POST /counts HTTP/1.1\r\n\r\nGET /plain HTTP/1.1\r\n\r\n");
    CHECK(co_await client.hears("0 bytes"));
    CHECK(co_await client.hears("GET /plain"));
  });
}

TEST_CASE("one may answer while the body still comes") {
  with_streams([](HttpServer& server, Seen&) -> awaitable<void> {
    auto client = co_await client_of(server);
    co_await client.say("POST /returns HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n3\r\none\r\n");
    CHECK(co_await client.hears("3\r\none\r\n"));
    co_await client.say("3\r\nt");
    CHECK(co_await client.hears("1\r\nt\r\n"));
    co_await client.say("wo\r\n0\r\n\r\nGET /plain HTTP/1.1\r\n\r\n");
    CHECK(co_await client.hears("2\r\nwo\r\n0\r\n\r\n"));
    CHECK(co_await client.hears("GET /plain"));
  });
}

TEST_CASE("chunks are refused where a body is not streamed, and what is too long everywhere") {
  auto terms = streaming_terms();
  terms.stream_limit = [](const HttpRequest& head) -> std::uint64_t {
    return head.path == "/counts" ? 1000 : 0;
  };
  with_streams(std::move(terms), [](HttpServer& server, Seen& seen) -> awaitable<void> {
    std::string chunks = "Transfer-Encoding: chunked\r\n\r\n";
    auto plain = co_await client_of(server);
    co_await plain.say("POST /plain HTTP/1.1\r\n" + chunks + "0\r\n\r\nGET /a HTTP/1.1\r\n\r\n");
    plain.socket.shutdown(tcp::socket::shutdown_send);
    auto heard = co_await plain.rest();
    CHECK(heard.starts_with("HTTP/1.1 411 "));
    CHECK(!heard.contains("GET /a"));
    auto sized = co_await client_of(server);
    co_await sized.say("POST /counts HTTP/1.1\r\nContent-Length: 1001\r\n\r\n");
    CHECK(co_await sized.hears("HTTP/1.1 413 "));
    CHECK(seen.began == 0);
    auto chunked_client = co_await client_of(server);
    auto body = "3e9\r\n" + std::string(1001, 'x') + "\r\n0\r\n\r\n";
    co_await chunked_client.say("POST /counts HTTP/1.1\r\n" + chunks + body);
    CHECK(co_await chunked_client.hears("longer than 1000 bytes"));
    REQUIRE(seen.error);
    CHECK(seen.error->code == Errc::overloaded);
    auto wrong = co_await client_of(server);
    co_await wrong.say("POST /counts HTTP/1.1\r\n" + chunks + "5;x\r\nhello\r\n0\r\n\r\n");
    CHECK(co_await wrong.hears("Connection: close\r\n"));
    CHECK(seen.error->code == Errc::protocol);
  });
}

TEST_CASE("a body that nobody reads costs the connection, unless it was there already") {
  with_streams([](HttpServer& server, Seen&) -> awaitable<void> {
    auto client = co_await client_of(server);
    co_await client.say("POST /a HTTP/1.1\r\nContent-Length: 5\r\n\r\nhello");
    CHECK(co_await client.hears("POST /a"));
    co_await client.say("GET /b HTTP/1.1\r\n\r\n");
    CHECK(co_await client.hears("GET /b"));
    CHECK(!client.bytes.contains("Connection: close"));
    co_await client.say("POST /c HTTP/1.1\r\nContent-Length: 500000\r\n\r\nhello");
    CHECK(co_await client.hears("POST /c"));
    CHECK(client.bytes.contains("Connection: close\r\n"));
    // The client gets the answer although it keeps sending.
    co_await client.say(std::string(499'995, 'x') + "GET /d HTTP/1.1\r\n\r\n");
    client.socket.shutdown(tcp::socket::shutdown_send);
    CHECK(!(co_await client.rest()).contains("GET /d"));
    CHECK(client.error == asio::error::eof);
  });
}

TEST_CASE("who waits to be told to send a body is told when it is read") {
  with_streams([](HttpServer& server, Seen&) -> awaitable<void> {
    auto client = co_await client_of(server);
    std::string expects = "Expect: 100-continue\r\nContent-Length: 4\r\n\r\n";
    co_await client.say("POST /counts HTTP/1.1\r\n" + expects);
    CHECK(co_await client.hears("HTTP/1.1 100 Continue\r\n\r\n"));
    co_await client.say("body");
    CHECK(co_await client.hears("4 bytes"));
    // If the body is not wanted, the client gets the answer instead.
    auto other = co_await client_of(server);
    co_await other.say("POST /a HTTP/1.1\r\n" + expects);
    CHECK(co_await other.hears("POST /a"));
    CHECK(!other.bytes.contains("100 Continue"));
  });
}

TEST_CASE("a body that stops to come, or whose client leaves, ends the work") {
  auto terms = streaming_terms();
  terms.request_time = 300ms;
  with_streams(std::move(terms), [](HttpServer& server, Seen& seen) -> awaitable<void> {
    auto stalls = co_await client_of(server);
    co_await stalls.say("POST /counts HTTP/1.1\r\nContent-Length: 50\r\n\r\nhello");
    CHECK((co_await stalls.rest()).empty());
    co_await until_left(seen);
    CHECK(server.counters().timeouts == 1);
    CHECK(seen.bytes == 5);
    {
      auto leaves = co_await client_of(server);
      co_await leaves.say("POST /counts HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello");
      while (seen.bytes < 10) co_await sleep_for(1ms);
    }
    co_await until_left(seen, 2);
    // A client that is slow, even longer in total than the limit, is not cut off.
    auto slow = co_await client_of(server);
    co_await slow.say("POST /counts HTTP/1.1\r\nContent-Length: 8\r\n\r\n");
    for (int i = 0; i < 8; ++i) {
      co_await sleep_for(80ms);
      co_await slow.say("x");
    }
    CHECK(co_await slow.hears("18 bytes"));
  });
}

TEST_CASE("work takes a connection over when the client asks for that") {
  with_streams([](HttpServer& server, Seen& seen) -> awaitable<void> {
    std::string asks = "GET /takes-over HTTP/1.1\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n";
    auto client = co_await client_of(server);
    co_await client.say("GET /a HTTP/1.1\r\n\r\n" + asks + "early");
    CHECK(co_await client.hears("\r\n\r\n<early>"));
    CHECK(client.bytes.contains("HTTP/1.1 101 Switching Protocols\r\nUpgrade: echo\r\n"));
    co_await client.say("GET /not-a-request HTTP/1.1\r\n\r\n");
    CHECK(co_await client.hears("<GET /not-a-request HTTP/1.1\r\n\r\n>"));
    // One side may end before the other.
    client.socket.shutdown(tcp::socket::shutdown_send);
    CHECK((co_await client.rest()).ends_with(">bye"));
    CHECK(client.error == asio::error::eof);
    co_await until_left(seen);
    auto plain = co_await client_of(server);
    co_await plain.say("GET /takes-over HTTP/1.1\r\n\r\nGET /b HTTP/1.1\r\n\r\n");
    CHECK(co_await plain.hears("GET /b"));
    CHECK(plain.bytes.starts_with("HTTP/1.1 426 "));
    auto old = co_await client_of(server);
    co_await old.say("GET /takes-over HTTP/1.0\r\nUpgrade: echo\r\n\r\n");
    CHECK((co_await old.rest()).starts_with("HTTP/1.1 426 "));
  });
}

TEST_CASE("a server that stops ends what is streamed, and one that drains waits for it") {
  Seen seen;
  with_server(
      streaming_terms(), handler_of(seen),
      +[](HttpServer& server, Seen& of) -> awaitable<void> {
        auto client = co_await client_of(server);
        co_await client.say("GET /lines HTTP/1.1\r\n\r\n");
        CHECK(co_await client.hears("line\":1"));
        auto drains = [](HttpServer& which) -> awaitable<void> {
          co_await which.drain(Clock::now() + 30s);
        };
        auto goes_on = [](Client& by, Seen& when) -> awaitable<void> {
          co_await sleep_for(20ms);
          when.may_go_on = true;
          CHECK((co_await by.rest()).ends_with("0\r\n\r\n"));
        };
        co_await (drains(server) && goes_on(client, of));
        CHECK(of.ended == 1);
        CHECK(server.counters().connections == 0);
      },
      seen);
  Seen stopped;
  with_server(
      streaming_terms(), handler_of(stopped),
      +[](HttpServer& server, Seen& of) -> awaitable<void> {
        auto client = co_await client_of(server);
        co_await client.say("GET /never HTTP/1.1\r\n\r\n");
        while (of.began == 0) co_await sleep_for(1ms);
      },
      stopped);
  CHECK(stopped.left == 1);
}
