#include "net/http/tls.h"

#include <fstream>
#include <sstream>

#include "net/http/exchange.h"
#include "net/http/pool.h"
#include "net/http/test_client.h"
#include "proof/testkit/certificates.h"

using namespace warren;
using asio::ip::tcp;
using namespace asio::experimental::awaitable_operators;
using redis::TlsStream;

namespace {

std::string text_of(const std::filesystem::path& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

PemPair texts_of(const CertificatePair& pair) {
  return {text_of(pair.certificate), text_of(pair.key)};
}

TlsContext serving(const CertificatePair& pair) {
  auto context = tls_for_server(texts_of(pair));
  REQUIRE_MESSAGE(context, context.error().what);
  return *context;
}

HttpPoolTerms trusting(const Certificates& certificates) {
  auto context = tls_for_client(text_of(certificates.ca()));
  REQUIRE_MESSAGE(context, context.error().what);
  HttpPoolTerms terms;
  terms.tls = *context;
  return terms;
}

awaitable<void> returns(const HttpRequest& request) {
  auto& out = request.exchange->begin();
  CHECK(co_await copy_body(request.exchange->in(), out));
}

awaitable<void> breaks(const HttpRequest& request) {
  auto& out = request.exchange->begin();
  CHECK(co_await out.write("half of it"));
}

HttpServer::Work answer(const HttpRequest& request, HttpAnswer& into) {
  if (request.path == "/returns") return returns(request);
  if (request.path == "/breaks") return breaks(request);
  into.body = request.path;
  if (request.path == "/large") into.body.assign(8u << 20, 'x');
  return std::nullopt;
}

HttpTerms tls_terms(const CertificatePair& pair) {
  auto terms = public_terms();
  terms.tls = serving(pair);
  terms.stream_limit = [](const HttpRequest& head) -> std::uint64_t {
    return head.path == "/returns" ? 1u << 30 : 0;
  };
  return terms;
}

Async<HttpReply> ask(HttpPool& pool, HttpUrl to, std::string path) {
  HttpAsk question{"GET", std::move(path)};
  return pool.ask(std::move(to), std::move(question), Clock::now() + 20s);
}

awaitable<void> check_denied(HttpPool& pool, HttpUrl to, std::string why) {
  auto reply = co_await ask(pool, std::move(to), "/a");
  REQUIRE(!reply);
  CHECK(name(reply.error().code) == name(Errc::denied));
  CAPTURE(reply.error().what);
  CHECK(reply.error().what.contains(why));
  CHECK(!reply.error().what.contains("REDIS"));
}

// Answers one request with a body that ends with the connection.
awaitable<void> serve_until_close(tcp::acceptor& acceptor, TlsContext context, bool says_goodbye) {
  auto socket = co_await acceptor.async_accept(asio::use_awaitable);
  socket.non_blocking(true);
  TlsStream stream(context, socket.native_handle());
  auto step = stream.shake_hands();
  while (step != TlsStream::Step::done) {
    REQUIRE(step == TlsStream::Step::wants_read);
    co_await socket.async_wait(tcp::socket::wait_read, asio::use_awaitable);
    step = stream.shake_hands();
  }
  std::array<char, 4096> room{};
  std::size_t heard = 0;
  while (!std::string_view(room.data(), heard).contains("\r\n\r\n")) {
    std::size_t count = 0;
    step = stream.read(std::span(room).subspan(heard), count);
    REQUIRE(step == TlsStream::Step::wants_read);
    heard += count;
    if (count == 0) co_await socket.async_wait(tcp::socket::wait_read, asio::use_awaitable);
  }
  std::size_t sent = 0;
  CHECK(stream.write("HTTP/1.1 200 OK\r\n\r\nhello", sent) == TlsStream::Step::done);
  if (!says_goodbye) stream.leave_silently();
}

void run_alone(awaitable<void> body) {
  asio::io_context io(1);
  bool is_over = false;
  auto all = [](awaitable<void> work, bool& done) -> awaitable<void> {
    co_await std::move(work);
    done = true;
  };
  asio::co_spawn(io, all(std::move(body), is_over), [](std::exception_ptr thrown) {
    if (thrown) std::rethrow_exception(thrown);
  });
  io.run_for(60s);
  CHECK(is_over);
}

}  // namespace

TEST_CASE("requests and answers of all kinds go over TLS") {
  Certificates certificates;
  with_server(
      tls_terms(certificates.server()), answer,
      +[](HttpServer& server, Certificates& by) -> awaitable<void> {
        CHECK(server.url().starts_with("https://127.0.0.1:"));
        HttpPool pool(co_await asio::this_coro::executor, trusting(by));
        auto url = *parse_web_url(server.url());
        for (int i = 0; i < 3; ++i) {
          auto reply = co_await ask(pool, url, "/a");
          REQUIRE_MESSAGE(reply, reply.error().what);
          CHECK(reply->body == "/a");
        }
        CHECK(pool.counters().connected == 1);
        auto large = co_await ask(pool, url, "/large");
        REQUIRE(large);
        CHECK(large->body.size() == 8u << 20);
        HttpAsk question{"POST", "/returns"};
        auto call = co_await pool.begin(url, std::move(question), chunked, Clock::now() + 20s);
        REQUIRE(call);
        auto writes = [](HttpCall& into) -> Async<> {
          std::string piece(100'000, 'y');
          for (int i = 0; i < 80; ++i) {
            auto written = co_await into.out().write(piece);
            if (!written) co_return written;
          }
          co_return co_await into.out().end();
        };
        auto reads = [](HttpCall& from) -> Async<std::string> {
          auto reply = co_await from.answer();
          if (!reply) co_return std::unexpected(reply.error());
          co_return co_await from.in().rest(16u << 20);
        };
        auto [written, body] = co_await (writes(**call) && reads(**call));
        CHECK(written);
        REQUIRE(body);
        CHECK(*body == std::string(8'000'000, 'y'));
        call->reset();
        CHECK(pool.counters().connected == 1);
        auto broken = co_await ask(pool, url, "/breaks");
        REQUIRE(!broken);
        CHECK(broken.error().code == Errc::unknown_outcome);
      },
      certificates);
}

TEST_CASE("a server must be who its URL says, by a CA that is trusted") {
  Certificates certificates;
  CertificateTerms terms{.common_name = "elsewhere", .names = "DNS:elsewhere.example"};
  auto elsewhere = certificates.issue(terms);
  with_server(
      tls_terms(elsewhere), answer,
      +[](HttpServer& server, Certificates& by) -> awaitable<void> {
        HttpPool pool(co_await asio::this_coro::executor, trusting(by));
        auto url = *parse_web_url(server.url());
        co_await check_denied(pool, url, "is for elsewhere.example, not for 127.0.0.1");
      },
      certificates);
  with_server(
      tls_terms(certificates.server()), answer,
      +[](HttpServer& server, Certificates&) -> awaitable<void> {
        Certificates others;
        HttpPool pool(co_await asio::this_coro::executor, trusting(others));
        auto url = *parse_web_url(server.url());
        co_await check_denied(pool, url, "not signed by a CA we trust");
      },
      certificates);
  with_server(
      tls_terms(certificates.expired()), answer,
      +[](HttpServer& server, Certificates& by) -> awaitable<void> {
        HttpPool pool(co_await asio::this_coro::executor, trusting(by));
        co_await check_denied(pool, *parse_web_url(server.url()), "expired");
      },
      certificates);
}

TEST_CASE("who does not speak TLS gets no answer, and costs nobody else theirs") {
  Certificates certificates;
  auto terms = tls_terms(certificates.server());
  terms.request_time = 300ms;
  with_server(
      std::move(terms), answer,
      +[](HttpServer& server, Certificates& by) -> awaitable<void> {
        auto plain = co_await client_of(server);
        co_await plain.say("GET / HTTP/1.1\r\n\r\n");
        CHECK(!(co_await plain.rest()).contains("HTTP/1.1"));
        auto silent = co_await client_of(server);
        co_await silent.rest();
        CHECK(server.counters().timeouts == 1);
        HttpPool pool(co_await asio::this_coro::executor, trusting(by));
        CHECK(co_await ask(pool, *parse_web_url(server.url()), "/a"));
      },
      certificates);
  with_server(
      public_terms(), answer,
      +[](HttpServer& server, Certificates& by) -> awaitable<void> {
        auto short_of_time = trusting(by);
        short_of_time.connect_time = 300ms;
        HttpPool pool(co_await asio::this_coro::executor, short_of_time);
        auto url = *parse_web_url(server.url());
        url.is_tls = true;
        // The server takes the TLS greeting for the start of a request.
        auto reply = co_await ask(pool, url, "/a");
        REQUIRE(!reply);
        CHECK(reply.error().code == Errc::timeout);
        CHECK(reply.error().what.contains("TLS handshake"));
      },
      certificates);
}

TEST_CASE("a new certificate is for new connections, and those that are there go on") {
  Certificates certificates;
  with_server(
      tls_terms(certificates.server()), answer,
      +[](HttpServer& server, Certificates& before) -> awaitable<void> {
        Certificates after;
        auto executor = co_await asio::this_coro::executor;
        HttpPool old(executor, trusting(before)), renewed(executor, trusting(after));
        auto url = *parse_web_url(server.url());
        CHECK(co_await ask(old, url, "/a"));
        co_await check_denied(renewed, url, "not signed by a CA we trust");
        server.use_tls(serving(after.server()));
        CHECK(co_await ask(old, url, "/a"));
        CHECK(old.counters().connected == 1);
        CHECK(co_await ask(renewed, url, "/a"));
        old.drop_idle();
        co_await check_denied(old, url, "not signed by a CA we trust");
      },
      certificates);
}

TEST_CASE("texts that are no certificate, or no key to it, are refused and not repeated") {
  Certificates certificates;
  auto server = texts_of(certificates.server()), client = texts_of(certificates.client());
  std::vector<PemPair> wrong{{"", ""},
                             {server.certificate, ""},
                             {"", server.key},
                             {"secret", server.key},
                             {server.certificate, "secret"},
                             {server.certificate, client.key}};
  for (const auto& each : wrong) {
    auto context = tls_for_server(each);
    REQUIRE(!context);
    CHECK(context.error().code == Errc::invalid);
    CHECK(!context.error().what.contains("secret"));
  }
  CHECK(!tls_for_client("secret"));
  CHECK(tls_for_client());
  CHECK(tls_for_client(text_of(certificates.ca()), client));
}

TEST_CASE("a body that ends with its connection is whole only when the server said so") {
  Certificates certificates;
  run_alone([](Certificates& by) -> awaitable<void> {
    auto executor = co_await asio::this_coro::executor;
    for (bool says_goodbye : {true, false}) {
      tcp::endpoint anywhere(asio::ip::address_v4::loopback(), 0);
      tcp::acceptor acceptor(executor, anywhere);
      HttpPool pool(executor, trusting(by));
      auto port = acceptor.local_endpoint().port();
      auto url = *parse_web_url(fmt::format("https://127.0.0.1:{}", port));
      auto reply = co_await (serve_until_close(acceptor, serving(by.server()), says_goodbye) &&
                             ask(pool, url, "/a"));
      CHECK(reply.has_value() == says_goodbye);
      if (reply) CHECK(reply->body == "hello");
      if (!reply) CHECK(reply.error().code == Errc::unknown_outcome);
    }
  }(certificates));
}
