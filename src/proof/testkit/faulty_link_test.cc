#include "proof/testkit/faulty_link.h"

#include <doctest/doctest.h>

#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/write.hpp>

#include "proof/testkit/run.h"
#include "proof/testkit/servers/redis_server.h"

using namespace warren;
using asio::ip::tcp;

namespace {

// What was read before the connection ended or the time was over.
struct Heard {
  std::string text;
  boost::system::error_code ending;  // none: it is still open
};

// A client that exchanges a few lines through the link.
class Caller {
 public:
  explicit Caller(asio::any_io_executor executor) : socket_(executor) {}

  awaitable<boost::system::error_code> connect(unsigned short port) {
    boost::system::error_code error;
    tcp::endpoint target(asio::ip::address_v4::loopback(), port);
    co_await socket_.async_connect(target, asio::redirect_error(asio::use_awaitable, error));
    co_return error;
  }

  awaitable<void> say(std::string text) {
    boost::system::error_code ignored;
    co_await asio::async_write(socket_, asio::buffer(text),
                               asio::redirect_error(asio::use_awaitable, ignored));
  }

  // Reads until that many bytes have come, the connection ends, or the time is over.
  awaitable<Heard> hear(std::size_t size, Clock::duration limit = 30s) {
    using namespace asio::experimental::awaitable_operators;
    Heard heard;
    co_await (read(size, heard) || sleep_for(limit));
    co_return heard;
  }

 private:
  awaitable<void> read(std::size_t size, Heard& heard) {
    while (heard.text.size() < size && !heard.ending) {
      char bytes[4096];
      boost::system::error_code error;
      auto count = co_await socket_.async_read_some(
          asio::buffer(bytes), asio::redirect_error(asio::use_awaitable, error));
      heard.text.append(bytes, count);
      if (error != asio::error::operation_aborted) heard.ending = error;
    }
  }

  tcp::socket socket_;
};

constexpr auto ping = "PING\r\n";
constexpr auto pong = "+PONG\r\n";

awaitable<bool> answers(Caller& caller) {
  co_await caller.say(ping);
  auto heard = co_await caller.hear(7);
  co_return heard.text == pong;
}

// Gives the body a server, a link to it, and a caller that is connected through the link.
template <class Body>
awaitable<void> connected(RedisServer& server, FaultyLink& link, Body body) {
  Caller caller(co_await asio::this_coro::executor);
  CHECK(!co_await caller.connect(link.port()));
  CHECK(co_await answers(caller));
  co_await body(server, link, caller);
}

template <class Body>
void with_link(Body body) {
  RedisServer server;
  FaultyLink link(server.port());
  run(connected(server, link, body));
}

}  // namespace

TEST_CASE("a healthy link passes on what is said, and counts it") {
  with_link([](RedisServer&, FaultyLink& link, Caller&) -> awaitable<void> {
    auto counters = link.counters();
    CHECK(counters.accepted == 1);
    CHECK(counters.open == 1);
    CHECK(counters.bytes_to_server == 6);
    CHECK(counters.bytes_to_client == 7);
    {
      Caller second(co_await asio::this_coro::executor);
      CHECK(!co_await second.connect(link.port()));
      CHECK(co_await answers(second));
      CHECK(link.counters().open == 2);
    }
    co_await eventually(30s, "the end of a client reaches the server and comes back",
                        [&] { return link.counters().open == 1; });
    CHECK(link.counters().accepted == 2);
  });
}

TEST_CASE("a healthy link passes on megabytes unharmed") {
  with_link([](RedisServer& server, FaultyLink& link, Caller& caller) -> awaitable<void> {
    std::string value(5'000'000, 'x');
    for (std::size_t i = 0; i < value.size(); i += 1000) value[i] = static_cast<char>('a' + i % 23);
    co_await caller.say(
        fmt::format("*3\r\n$3\r\nSET\r\n$1\r\nk\r\n${}\r\n{}\r\n", value.size(), value));
    auto heard = co_await caller.hear(5);
    CHECK(heard.text == "+OK\r\n");
    CHECK(server.cli({"GET", "k"}) == value);
    co_await caller.say("GET k\r\n");
    std::string reply = fmt::format("${}\r\n{}\r\n", value.size(), value);
    heard = co_await caller.hear(reply.size());
    CHECK(heard.text == reply);
    CHECK(link.counters().bytes_to_client == 7 + 5 + reply.size());
  });
}

TEST_CASE("a delay holds every byte back for its time, and many may be under way") {
  with_link([](RedisServer&, FaultyLink& link, Caller& caller) -> awaitable<void> {
    link.delay(Direction::to_server, 50ms);
    link.delay(Direction::to_client, 100ms);
    auto before = Clock::now();
    for (int i = 0; i < 20; ++i) {
      co_await caller.say(ping);
      co_await sleep_for(1ms);
    }
    auto heard = co_await caller.hear(std::size_t{20} * 7);
    auto took = Clock::now() - before;
    CHECK(heard.text.size() == 20 * 7);
    CHECK(took >= 150ms);
    CHECK(took < 20 * 150ms);  // all at the same time, not one after the other
    link.delay(Direction::to_client, 1h);
    co_await caller.say(ping);
    heard = co_await caller.hear(1, 100ms);
    CHECK(heard.text.empty());
    link.heal();
    heard = co_await caller.hear(7);
    CHECK(heard.text == pong);
  });
}

TEST_CASE("a throttled link passes so many bytes a second") {
  with_link([](RedisServer& server, FaultyLink& link, Caller& caller) -> awaitable<void> {
    server.cli({"SET", "k", std::string(20'000, 'x')});
    link.throttle(Direction::to_client, 100'000);
    auto before = Clock::now();
    co_await caller.say("GET k\r\n");
    auto heard = co_await caller.hear(20'000);
    auto took = Clock::now() - before;
    CHECK(heard.text.size() >= 20'000);
    CHECK(took >= 180ms);  // the last slice is not waited for
    link.heal();
    CHECK(co_await answers(caller));
  });
}

TEST_CASE("a half-open link accepts, keeps and answers nothing, and lets go of it when healed") {
  with_link([](RedisServer& server, FaultyLink& link, Caller& caller) -> awaitable<void> {
    auto clients = server.info("connected_clients");
    link.half_open();
    co_await caller.say("SET k v\r\n");
    Caller second(co_await asio::this_coro::executor);
    CHECK(!co_await second.connect(link.port()));
    co_await second.say(ping);
    auto heard = co_await caller.hear(1, 100ms);
    CHECK(heard.text.empty());
    CHECK(!heard.ending);
    heard = co_await second.hear(1, 100ms);
    CHECK(heard.text.empty());
    CHECK(!heard.ending);
    CHECK(link.counters().open == 2);
    CHECK(server.cli({"GET", "k"}) == "(nil)");
    CHECK(server.info("connected_clients") == clients);
    // The server's closing of the connection does not pass either.
    server.cli({"CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"});
    heard = co_await caller.hear(1, 100ms);
    CHECK(!heard.ending);
    link.heal();
    heard = co_await second.hear(7);
    CHECK(heard.text == pong);
    heard = co_await caller.hear(1);
    CHECK(heard.ending);
  });
}

TEST_CASE("what is dropped one way is gone while the other way works, and healing resets") {
  with_link([](RedisServer& server, FaultyLink& link, Caller& caller) -> awaitable<void> {
    link.drop(Direction::to_client);
    co_await caller.say("SET k v\r\n");
    co_await eventually(30s, "the command arrived",
                        [&] { return server.cli({"GET", "k"}) == "v"; });
    auto heard = co_await caller.hear(1, 100ms);
    CHECK(heard.text.empty());
    CHECK(!heard.ending);
    link.heal();
    heard = co_await caller.hear(1);
    CHECK(heard.text.empty());
    CHECK(heard.ending == asio::error::connection_reset);

    Caller second(co_await asio::this_coro::executor);
    CHECK(!co_await second.connect(link.port()));
    CHECK(co_await answers(second));
    link.drop(Direction::to_server);
    co_await second.say("SET k w\r\n");
    heard = co_await second.hear(1, 100ms);
    CHECK(heard.text.empty());
    CHECK(server.cli({"GET", "k"}) == "v");
  });
}

TEST_CASE("healing leaves connections alone that lost nothing") {
  with_link([](RedisServer&, FaultyLink& link, Caller& caller) -> awaitable<void> {
    link.drop(Direction::to_server);
    link.heal();
    CHECK(co_await answers(caller));
  });
}

TEST_CASE("a cut link ends all connections and refuses new ones until it is healed") {
  with_link([](RedisServer&, FaultyLink& link, Caller& caller) -> awaitable<void> {
    link.cut();
    auto heard = co_await caller.hear(1);
    CHECK(heard.ending == asio::error::connection_reset);
    Caller second(co_await asio::this_coro::executor);
    CHECK(co_await second.connect(link.port()) == asio::error::connection_refused);
    co_await eventually(30s, "nothing is open", [&] { return link.counters().open == 0; });
    link.heal();
    Caller third(co_await asio::this_coro::executor);
    CHECK(!co_await third.connect(link.port()));
    CHECK(co_await answers(third));
    link.cut(Ending::close);
    heard = co_await third.hear(1);
    CHECK(heard.ending == asio::error::eof);
  });
}

TEST_CASE("cut_after delivers exactly so many bytes of a reply, then only that connection ends") {
  with_link([](RedisServer& server, FaultyLink& link, Caller&) -> awaitable<void> {
    server.cli({"SET", "k", std::string(200, 'x')});
    for (std::size_t n : {0, 1, 4, 6, 100}) {
      CAPTURE(n);
      server.cli({"DEL", "counter"});
      Caller caller(co_await asio::this_coro::executor);
      CHECK(!co_await caller.connect(link.port()));
      CHECK(co_await answers(caller));
      auto before = link.counters().bytes_to_client;
      link.cut_after(Direction::to_client, n);
      co_await caller.say("INCR counter\r\nGET k\r\n");
      auto heard = co_await caller.hear(1000);
      CHECK(heard.text.size() == n);
      CHECK(heard.ending);
      CHECK(link.counters().bytes_to_client == before + n);
      CHECK(server.cli({"GET", "counter"}) == "1");  // it was done, and the answer was lost

      Caller second(co_await asio::this_coro::executor);
      CHECK(!co_await second.connect(link.port()));
      CHECK(co_await answers(second));
    }
  });
}

TEST_CASE("cut_after delivers exactly so many bytes of a request") {
  with_link([](RedisServer& server, FaultyLink& link, Caller& caller) -> awaitable<void> {
    link.cut_after(Direction::to_server, 6);
    co_await caller.say("INCR a\r\nINCR b\r\n");
    auto heard = co_await caller.hear(1);
    CHECK(heard.text.empty());
    CHECK(heard.ending);
    CHECK(link.counters().bytes_to_server == 6 + 6);
    CHECK(server.cli({"EXISTS", "a", "b"}) == "0");

    Caller second(co_await asio::this_coro::executor);
    CHECK(!co_await second.connect(link.port()));
    link.cut_after(Direction::to_server, 8);
    co_await second.say("INCR a\r\nINCR b\r\n");
    co_await second.hear(1000);
    co_await eventually(30s, "the first command is done",
                        [&] { return server.cli({"EXISTS", "a", "b"}) == "1"; });
  });
}

TEST_CASE("a link to a dead server resets, and works again when the server is back") {
  with_link([](RedisServer& server, FaultyLink& link, Caller& caller) -> awaitable<void> {
    server.kill();
    auto heard = co_await caller.hear(1);
    CHECK(heard.ending);
    Caller second(co_await asio::this_coro::executor);
    // The reset may have arrived before the connection is examined.
    auto error = co_await second.connect(link.port());
    if (!error) {
      heard = co_await second.hear(1);
      error = heard.ending;
    }
    CHECK(error == asio::error::connection_reset);
    server.restart();
    Caller third(co_await asio::this_coro::executor);
    CHECK(!co_await third.connect(link.port()));
    CHECK(co_await answers(third));
  });
}

TEST_CASE("a link may go at any time, whatever it is doing") {
  with_link([](RedisServer& server, FaultyLink&, Caller&) -> awaitable<void> {
    for (int i = 0; i < 5; ++i) {
      auto link = std::make_unique<FaultyLink>(server.port());
      Caller caller(co_await asio::this_coro::executor);
      CHECK(!co_await caller.connect(link->port()));
      if (i == 1) link->delay(Direction::to_client, 1h);
      if (i == 2) link->half_open();
      if (i == 3) link->throttle(Direction::to_client, 1);
      if (i == 4) link->cut();
      co_await caller.say(ping);
      link.reset();
      auto heard = co_await caller.hear(8);
      CHECK(heard.ending);
    }
  });
}
