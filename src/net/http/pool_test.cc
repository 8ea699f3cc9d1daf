#include "net/http/pool.h"

#include <random>

#include "net/http/exchange.h"
#include "net/http/test_client.h"

using namespace warren;
using asio::ip::tcp;
using namespace asio::experimental::awaitable_operators;

namespace {

struct Seen {
  int began = 0, left = 0;
};

struct Leaving {
  Seen& seen;
  explicit Leaving(Seen& by) : seen(by) { ++seen.began; }
  ~Leaving() { ++seen.left; }
};

awaitable<void> never(Seen& seen) {
  Leaving leaving(seen);
  Event nothing(co_await asio::this_coro::executor);
  co_await nothing.wait();
}

awaitable<void> returns(const HttpRequest& request) {
  auto& out = request.exchange->begin();
  std::ignore = co_await copy_body(request.exchange->in(), out);
}

awaitable<void> floods(const HttpRequest& request, Seen& seen) {
  Leaving leaving(seen);
  auto& out = request.exchange->begin();
  std::string piece(most_piece, 'x');
  while (co_await out.write(piece)) continue;
}

awaitable<void> takes_over(const HttpRequest& request) {
  CHECK(co_await request.exchange->upgrade("echo"));
  std::ignore = co_await copy_body(request.exchange->in(), request.exchange->out());
}

// Echoes the request, sends a body back, or never answers, depending on the path.
HttpServer::Handler origin_of(Seen& seen) {
  return [&seen](const HttpRequest& request, HttpAnswer& answer) -> HttpServer::Work {
    if (request.path == "/never") return never(seen);
    if (request.path == "/returns") return returns(request);
    if (request.path == "/floods") return floods(request, seen);
    if (request.path == "/takes-over") return takes_over(request);
    answer.add("X-Host", request.header("host"));
    answer.body = fmt::format("{} {} {}", request.method, request.path, request.body);
    return std::nullopt;
  };
}

HttpTerms origin_terms() {
  auto terms = public_terms();
  terms.stream_limit = [](const HttpRequest& head) -> std::uint64_t {
    return head.path == "/returns" ? 1u << 30 : 0;
  };
  return terms;
}

// A reverse proxy: forwards requests to the origin and its answers to the client.
struct Proxy {
  HttpPool& pool;
  HttpUrl to;
};

awaitable<void> tunnel(HttpExchange& exchange, HttpCall& call) {
  auto up = [](HttpExchange& from, HttpCall& into) -> Async<> {
    co_return co_await copy_body(from.in(), into.out());
  };
  auto down = [](HttpCall& from, HttpExchange& into) -> Async<> {
    co_return co_await copy_body(from.in(), into.out());
  };
  co_await (up(exchange, call) || down(call, exchange));
}

awaitable<void> passes_on(const HttpRequest& request, HttpAnswer& answer, Proxy& proxy) {
  bool upgrades = !request.header("upgrade").empty();
  HttpAsk ask{std::string(request.method), std::string(request.path)};
  if (upgrades) ask.headers = "Connection: Upgrade\r\nUpgrade: echo\r\n";
  std::optional<BodyEnd> body;
  if (!upgrades) body = chunked;
  auto call = co_await proxy.pool.begin(proxy.to, std::move(ask), body, Clock::now() + 60s);
  if (!call) {
    answer.status = 502;
    co_return;
  }
  auto up = [](const HttpRequest& from, HttpCall& into, bool has_body) -> Async<> {
    if (!has_body) co_return ok;
    co_return co_await copy_body(from.exchange->in(), into.out());
  };
  auto down = [](HttpCall& from, const HttpRequest& to, HttpAnswer& as) -> Async<> {
    auto reply = co_await from.answer();
    if (!reply) co_return std::unexpected(reply.error());
    as.status = reply->status;
    if (reply->status == 101) co_return co_await to.exchange->upgrade("echo");
    auto& out = to.exchange->begin();
    co_return co_await copy_body(from.in(), out);
  };
  auto [sent, answered] =
      co_await (up(request, **call, !upgrades) && down(**call, request, answer));
  CHECK(sent);
  CHECK(answered);
  if (upgrades) co_await tunnel(*request.exchange, **call);
}

HttpServer::Handler proxy_to(Proxy& proxy) {
  return [&proxy](const HttpRequest& request, HttpAnswer& answer) -> HttpServer::Work {
    return passes_on(request, answer, proxy);
  };
}

// A server that answers anything with fixed bytes, then closes.
struct Stranger {
  tcp::acceptor acceptor;
  std::vector<std::string> pieces;
  int served = 0;

  Stranger(const asio::any_io_executor& executor, std::vector<std::string> says)
      : acceptor(executor, {asio::ip::address_v4::loopback(), 0}), pieces(std::move(says)) {}
  HttpUrl url() const {
    return *parse_http_url(fmt::format("http://127.0.0.1:{}", acceptor.local_endpoint().port()));
  }
  awaitable<void> serve() {
    for (;;) {
      auto socket = co_await acceptor.async_accept(asio::use_awaitable);
      Client client{std::move(socket)};
      if (!co_await client.hears("\r\n\r\n")) continue;
      for (auto& piece : pieces) {
        co_await client.say(piece);
        if (pieces.size() > 1) co_await sleep_for(1ms);
      }
      ++served;
    }
  }
};

awaitable<Result<HttpReply>> asked_of(std::vector<std::string> says, std::size_t most = 1u << 20) {
  auto executor = co_await asio::this_coro::executor;
  Stranger stranger(executor, std::move(says));
  HttpPool pool(executor, {});
  HttpAsk ask{"GET", "/"};
  auto both = co_await (stranger.serve() ||
                        pool.ask(stranger.url(), std::move(ask), Clock::now() + 20s, most));
  co_return std::get<1>(std::move(both));
}

Async<HttpReply> ask(HttpPool& pool, HttpUrl to, std::string path, std::string method = "GET",
                     Clock::duration limit = 20s) {
  HttpAsk question{std::move(method), std::move(path)};
  return pool.ask(std::move(to), std::move(question), Clock::now() + limit);
}

// Begins a call and keeps it until the result is dropped.
Async<std::unique_ptr<HttpCall>> begun(HttpPool& pool, HttpUrl to, std::string path,
                                       std::optional<BodyEnd> body = {}) {
  HttpAsk question{body ? "POST" : "GET", std::move(path)};
  return pool.begin(std::move(to), std::move(question), body, Clock::now() + 20s);
}

void with_origin(HttpTerms terms, awaitable<void> (*body)(HttpServer&, Seen&)) {
  Seen seen;
  with_server(std::move(terms), origin_of(seen), body, seen);
}

void with_origin(awaitable<void> (*body)(HttpServer&, Seen&)) { with_origin(origin_terms(), body); }

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

TEST_CASE("a connection is kept for the next call, and dropped when none comes") {
  with_origin([](HttpServer& server, Seen&) -> awaitable<void> {
    HttpPoolTerms terms;
    terms.idle_time = 200ms;
    HttpPool pool(co_await asio::this_coro::executor, terms);
    auto url = *parse_web_url(server.url());
    for (int i = 0; i < 3; ++i) {
      auto reply = co_await ask(pool, url, "/a");
      REQUIRE(reply);
      CHECK(reply->status == 200);
      CHECK(reply->body == "GET /a ");
      CHECK(reply->header("x-host") == authority_of(url));
    }
    auto head = co_await ask(pool, url, "/a", "HEAD");
    REQUIRE(head);
    CHECK(head->body.empty());
    CHECK(pool.counters().connected == 1);
    CHECK(pool.counters().reused == 3);
    CHECK(server.counters().accepted == 1);
    while (pool.counters().open > 0) co_await sleep_for(5ms);
    while (server.counters().connections > 0) co_await sleep_for(5ms);
    CHECK(co_await ask(pool, url, "/a"));
    CHECK(pool.counters().connected == 2);
  });
}

TEST_CASE("a connection that the server closed is replaced, also for what changes something") {
  auto terms = origin_terms();
  terms.idle_time = 200ms;
  with_origin(std::move(terms), [](HttpServer& server, Seen&) -> awaitable<void> {
    HttpPool pool(co_await asio::this_coro::executor, {});
    auto url = *parse_web_url(server.url());
    for (std::string method : {"GET", "POST", "POST"}) {
      auto reply = co_await ask(pool, url, "/a", method);
      REQUIRE(reply);
      CHECK(reply->body == method + " /a ");
      while (server.counters().connections > 0) co_await sleep_for(5ms);
    }
    CHECK(pool.counters().connected == 3);
    CHECK(pool.counters().open <= 1);
  });
}

TEST_CASE(
    "a connection to one peer is not used for another, and a peer that is not confirmed is sent "
    "nothing") {
  with_origin([](HttpServer& server, Seen&) -> awaitable<void> {
    HttpPool pool(co_await asio::this_coro::executor, {});
    auto url = *parse_web_url(server.url());
    int confirmed = 0;
    auto peer_called = [&confirmed](std::string id) {
      return HttpPeer(std::move(id), [&confirmed]() -> Result<> {
        ++confirmed;
        return ok;
      });
    };
    for (std::string id : {"one", "one", "two", "one"}) {
      HttpAsk question{"GET", "/a"};
      auto peer = peer_called(id);
      auto deadline = Clock::now() + 20s;
      auto reply = co_await pool.ask(url, std::move(question), deadline, 1000, std::move(peer));
      REQUIRE(reply);
    }
    CHECK(pool.counters().connected == 2);
    CHECK(pool.counters().reused == 2);
    CHECK(confirmed == 2);

    auto requests = server.counters().requests;
    HttpPeer stranger("three",
                      []() -> Result<> { return fail(Errc::unavailable, "it is another"); });
    HttpAsk question{"POST", "/a", "X-Secret: do not tell\r\n", "body"};
    auto deadline = Clock::now() + 20s;
    auto reply = co_await pool.ask(url, std::move(question), deadline, 1000, std::move(stranger));
    REQUIRE(!reply);
    CHECK(reply.error().code == Errc::unavailable);
    CHECK(reply.error().what == "it is another");
    CHECK(co_await ask(pool, url, "/a"));
    CHECK(server.counters().requests == requests + 1);
    CHECK(pool.counters().waiting == 0);
  });
}

TEST_CASE("so many connections and so many who wait, in order, and no more") {
  with_origin([](HttpServer& server, Seen&) -> awaitable<void> {
    HttpPoolTerms terms;
    terms.most_connections = 2;
    terms.most_waiting = 2;
    HttpPool pool(co_await asio::this_coro::executor, terms);
    auto url = *parse_web_url(server.url());
    auto one = co_await begun(pool, url, "/one"), two = co_await begun(pool, url, "/two");
    REQUIRE(one);
    REQUIRE(two);
    std::string order;
    auto waits = [](HttpPool& in, HttpUrl to, std::string name,
                    std::string& when) -> awaitable<void> {
      auto reply = co_await ask(in, std::move(to), "/" + name);
      REQUIRE(reply);
      when += name;
    };
    auto lets_go = [](HttpPool& in, HttpUrl to, std::unique_ptr<HttpCall> call) -> awaitable<void> {
      while (in.counters().waiting < 2) co_await sleep_for(1ms);
      auto refused = co_await ask(in, to, "/c");
      REQUIRE(!refused);
      CHECK(refused.error().code == Errc::overloaded);
      auto reply = co_await call->answer();
      REQUIRE(reply);
      while (true) {
        auto piece = co_await call->in().read();
        REQUIRE(piece);
        if (piece->empty()) break;
      }
    };
    co_await (waits(pool, url, "a", order) && waits(pool, url, "b", order) &&
              lets_go(pool, url, *std::move(one)));
    CHECK(order == "ab");
    CHECK(pool.counters().open == 2);
    // A call that waits for too long gives up.
    auto three = co_await begun(pool, url, "/three");
    REQUIRE(three);
    auto late = co_await ask(pool, url, "/late", "GET", 100ms);
    REQUIRE(!late);
    CHECK(late.error().code == Errc::timeout);
    CHECK(pool.counters().waiting == 0);
    // Another origin has connections of its own.
    auto other = url;
    other.host = "localhost";
    CHECK(co_await ask(pool, other, "/a"));
  });
}

TEST_CASE("a call that is given up, or whose deadline passes, closes its connection") {
  with_origin([](HttpServer& server, Seen& seen) -> awaitable<void> {
    HttpPool pool(co_await asio::this_coro::executor, {});
    auto url = *parse_web_url(server.url());
    auto late = co_await ask(pool, url, "/never", "GET", 200ms);
    REQUIRE(!late);
    CHECK(late.error().code == Errc::timeout);
    while (seen.left < 1) co_await sleep_for(1ms);
    CHECK(pool.counters().open == 0);

    auto gives_up = [](Seen& of) -> awaitable<void> {
      while (of.began < 2) co_await sleep_for(1ms);
    };
    co_await (ask(pool, url, "/never") || gives_up(seen));
    while (seen.left < 2) co_await sleep_for(1ms);
    CHECK(pool.counters().open == 0);

    auto call = co_await begun(pool, url, "/floods");
    REQUIRE(call);
    CHECK(co_await (*call)->answer());
    CHECK(co_await (*call)->in().read());
    call->reset();
    while (seen.left < 3) co_await sleep_for(1ms);
    CHECK(pool.counters().open == 0);
    auto much = co_await ask(pool, url, "/floods");
    REQUIRE(!much);
    CHECK(much.error().code == Errc::overloaded);
    while (server.counters().connections > 0) co_await sleep_for(1ms);
  });
}

TEST_CASE("bodies are streamed both ways at once, through a proxy too, and so are upgrades") {
  with_origin([](HttpServer& server, Seen&) -> awaitable<void> {
    auto executor = co_await asio::this_coro::executor;
    HttpPool inner(executor, {}), outer(executor, {});
    Proxy proxy{inner, *parse_web_url(server.url())};
    auto terms = public_terms();
    terms.stream_limit = [](const HttpRequest& head) -> std::uint64_t {
      return head.header("upgrade").empty() ? 1u << 30 : 0;
    };
    auto front = HttpServer::listen(executor, terms, proxy_to(proxy));
    REQUIRE(front);
    auto url = *parse_web_url((*front)->url());
    auto visits = [](HttpPool& pool, HttpUrl to) -> awaitable<void> {
      constexpr std::uint64_t size = 24u << 20;
      for (auto end : {body_of(size), chunked}) {
        auto call = co_await begun(pool, to, "/returns", end);
        REQUIRE(call);
        auto writes = [](HttpCall& into, std::uint64_t bytes) -> Async<> {
          std::mt19937_64 random(7);
          while (bytes > 0) {
            std::string piece(std::min<std::uint64_t>(bytes, 1 + random() % 200'000), '\0');
            for (auto& byte : piece) byte = char(random());
            bytes -= piece.size();
            auto written = co_await into.out().write(piece);
            if (!written) co_return written;
          }
          co_return co_await into.out().end();
        };
        auto reads = [](HttpCall& from) -> Async<std::uint64_t> {
          auto reply = co_await from.answer();
          if (!reply) co_return std::unexpected(reply.error());
          std::uint64_t sum = 0;
          for (;;) {
            auto piece = co_await from.in().read();
            if (!piece) co_return std::unexpected(piece.error());
            if (piece->empty()) co_return sum;
            for (unsigned char byte : *piece) sum = sum * 31 + byte;
          }
        };
        auto [written, sum] = co_await (writes(**call, size) && reads(**call));
        CHECK(written);
        REQUIRE(sum);
        CHECK((*call)->in().bytes() == size);
        std::mt19937_64 random(7);
        std::uint64_t expected = 0;
        for (auto bytes = size; bytes > 0;) {
          auto count = std::min<std::uint64_t>(bytes, 1 + random() % 200'000);
          for (std::uint64_t i = 0; i < count; ++i)
            expected = expected * 31 + static_cast<unsigned char>(random());
          bytes -= count;
        }
        CHECK(*sum == expected);
      }
      CHECK(pool.counters().connected == 1);
      HttpAsk upgrade{"GET", "/takes-over", "Connection: Upgrade\r\nUpgrade: echo\r\n"};
      auto call = co_await pool.begin(to, std::move(upgrade), std::nullopt, Clock::now() + 20s);
      REQUIRE(call);
      auto reply = co_await (*call)->answer();
      REQUIRE(reply);
      CHECK(reply->status == 101);
      for (std::string word : {"hello", "world"}) {
        CHECK(co_await (*call)->out().write(word));
        auto heard = co_await (*call)->in().read();
        REQUIRE(heard);
        CHECK(*heard == word);
      }
    };
    co_await ((*front)->run() || visits(outer, url));
    CHECK(inner.counters().connected <= 3);
  });
}

TEST_CASE("an answer ends with its length, its last chunk or the connection, however it is cut") {
  run_alone([]() -> awaitable<void> {
    for (std::string answer :
         {"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", "HTTP/1.1 200 OK\r\n\r\nhello",
          "HTTP/1.0 200 OK\r\n\r\nhello",
          "HTTP/1.1 103 Hints\r\nA: b\r\n\r\nHTTP/1.1 200 OK\r\n"
          "Transfer-Encoding: chunked\r\n\r\n4\r\nhell\r\n1\r\no\r\n0\r\n\r\n"}) {
      CAPTURE(answer);
      for (std::size_t cut : {0, 1, 7}) {
        std::vector<std::string> pieces;
        for (std::size_t at = 0; at < answer.size(); at += cut)
          if (pieces.push_back(answer.substr(at, cut == 0 ? answer.npos : cut)); cut == 0) break;
        auto reply = co_await asked_of(pieces);
        REQUIRE_MESSAGE(reply, reply.error().what);
        CHECK(reply->status == 200);
        CHECK(reply->body == "hello");
      }
    }
  }());
}

TEST_CASE("an answer of a stranger that is cut off, too long, or no answer is an error") {
  run_alone([]() -> awaitable<void> {
    struct Case {
      std::string says;
      Errc code;
    };
    std::vector<Case> cases{
        {"", Errc::unknown_outcome},
        {"HTTP/1.1 200 OK\r\n", Errc::unknown_outcome},
        {"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhello", Errc::unknown_outcome},
        {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n",
         Errc::unknown_outcome},
        {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5;\r\nhello\r\n", Errc::protocol},
        {"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 5\r\n\r\nhello", Errc::protocol},
        {"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n",
         Errc::protocol},
        {"HTTP/1.1 200 OK\r\nA: b\r\n c\r\n\r\n", Errc::protocol},
        {"HTTP/1.1 101 Hello\r\nUpgrade: x\r\n\r\n", Errc::protocol},
        {"+OK\r\n\r\n", Errc::protocol},
        {"HTTP/1.1 200 OK\r\nA: " + std::string(17'000, 'x') + "\r\n\r\n", Errc::protocol},
        {"HTTP/1.1 200 OK\r\nContent-Length: 5000\r\n\r\n" + std::string(5000, 'x'),
         Errc::overloaded},
        {"HTTP/1.1 200 OK\r\n\r\n" + std::string(5000, 'x'), Errc::overloaded}};
    std::string early;
    for (int i = 0; i < 9; ++i) early += "HTTP/1.1 102 Wait\r\n\r\n";
    cases.push_back({early + "HTTP/1.1 200 OK\r\n\r\n", Errc::protocol});
    for (auto& each : cases) {
      CAPTURE(each.says.substr(0, 80));
      std::vector<std::string> says{each.says};
      auto reply = co_await asked_of(std::move(says), 4000);
      REQUIRE(!reply);
      CHECK_MESSAGE(name(reply.error().code) == name(each.code), reply.error().what);
    }
  }());
}

TEST_CASE("a call that a closing server may not have seen is repeated only when it reads") {
  run_alone([]() -> awaitable<void> {
    auto executor = co_await asio::this_coro::executor;
    tcp::endpoint anywhere(asio::ip::address_v4::loopback(), 0);
    tcp::acceptor acceptor(executor, anywhere);
    // Answers the first request of each connection, and closes when the second arrives.
    auto serves = [](tcp::acceptor& on) -> awaitable<void> {
      for (;;) {
        auto socket = co_await on.async_accept(asio::use_awaitable);
        Client client{std::move(socket)};
        co_await client.hears("\r\n\r\n");
        client.bytes.clear();
        co_await client.say("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
        co_await client.hears("\r\n\r\n");
      }
    };
    auto visits = [](HttpPool& pool, HttpUrl to) -> awaitable<void> {
      CHECK(co_await ask(pool, to, "/"));
      auto again = co_await ask(pool, to, "/");
      REQUIRE_MESSAGE(again, again.error().what);
      CHECK(again->body == "ok");
      CHECK(pool.counters().connected == 2);
      auto changes = co_await ask(pool, to, "/", "POST");
      REQUIRE(!changes);
      CHECK(changes.error().code == Errc::unknown_outcome);
      CHECK(pool.counters().connected == 2);
      CHECK(pool.counters().open == 0);
    };
    auto port = acceptor.local_endpoint().port();
    HttpPool pool(executor, {});
    auto url = *parse_web_url(fmt::format("http://127.0.0.1:{}", port));
    co_await (serves(acceptor) || visits(pool, url));
  }());
}

TEST_CASE("a server may take its time for an answer, but not fall silent within it") {
  run_alone([]() -> awaitable<void> {
    auto executor = co_await asio::this_coro::executor;
    auto says = [](tcp::acceptor& acceptor, std::string first, Clock::duration pause,
                   std::string second) -> awaitable<void> {
      auto socket = co_await acceptor.async_accept(asio::use_awaitable);
      Client client{std::move(socket)};
      co_await client.hears("\r\n\r\n");
      co_await client.say(first);
      co_await sleep_for(pause);
      co_await client.say(second);
      co_await client.rest();
    };
    tcp::endpoint anywhere(asio::ip::address_v4::loopback(), 0);
    tcp::acceptor acceptor(executor, anywhere);
    auto port = acceptor.local_endpoint().port();
    auto url = *parse_web_url(fmt::format("http://127.0.0.1:{}", port));
    HttpPoolTerms terms;
    terms.piece_time = 200ms;
    {
      HttpPool pool(executor, terms);
      std::string all = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
      auto first = co_await (says(acceptor, "", 600ms, all) || ask(pool, url, "/"));
      auto& reply = std::get<1>(first);
      REQUIRE(reply);
      CHECK(reply->body == "ok");
    }
    HttpPool pool(executor, terms);
    std::string head = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n";
    auto first = co_await (says(acceptor, head + "o", 30s, "k") || ask(pool, url, "/"));
    auto& reply = std::get<1>(first);
    REQUIRE(!reply);
    CHECK(reply.error().code == Errc::timeout);
  }());
}

TEST_CASE("what would be two requests, or say twice where it ends, is not sent") {
  run_alone([]() -> awaitable<void> {
    auto executor = co_await asio::this_coro::executor;
    HttpPool pool(executor, {});
    std::vector<HttpAsk> asks{{"GET", "/a b"},
                              {"GET", "/\r\nX: y"},
                              {"GET /", "/"},
                              {"", "/"},
                              {"GET", ""},
                              {"GET", "/", "A: b"},
                              {"GET", "/", "A: b\r\n\r\n"},
                              {"GET", "/", "A: b\r\n c\r\n"},
                              {"GET", "/", "Content-Length: 5\r\n"},
                              {"GET", "/", "Transfer-Encoding: chunked\r\n"}};
    auto nobody = *parse_http_url("http://127.0.0.1:1");
    for (auto& each : asks) {
      CAPTURE(each.target);
      auto reply = co_await pool.ask(nobody, each, Clock::now() + 5s);
      REQUIRE(!reply);
      CHECK(reply.error().code == Errc::invalid);
    }
    auto refused = co_await ask(pool, nobody, "/");
    REQUIRE(!refused);
    CHECK(refused.error().code == Errc::unavailable);
    auto tls = *parse_web_url("https://127.0.0.1:1");
    auto without = co_await ask(pool, tls, "/");
    REQUIRE(!without);
    CHECK(without.error().code == Errc::invalid);
    CHECK(pool.counters().open == 0);
  }());
}

TEST_CASE("a URL has a host, and a port that its scheme says") {
  auto url = parse_web_url("https://example.org/a");
  REQUIRE(url);
  CHECK(url->is_tls);
  CHECK(url->port == "443");
  CHECK(url->path == "/a");
  CHECK(authority_of(*url) == "example.org");
  CHECK(authority_of(*parse_web_url("https://[::1]:8443")) == "[::1]:8443");
  CHECK(authority_of(*parse_web_url("https://[::1]")) == "[::1]");
  CHECK(authority_of(*parse_web_url("http://h:443")) == "h:443");
  for (auto* wrong : {"ftp://h", "https://", "https://h:0", "https://h:x", "https://u@h",
                      "https://h?x", "http://a b", "http://h\r\nX: y"})
    CHECK(!parse_web_url(wrong));
  CHECK(!parse_http_url("https://h"));
}
