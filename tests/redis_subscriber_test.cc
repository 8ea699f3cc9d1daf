// Messages, and the truth about those that were missed.
#include "redis/subscriber.h"
#include "testkit/faulty_link.h"
#include "with_client.h"

using namespace warren;
using namespace warren::redis;

namespace {

template <class Body, class... Args>
void with_subscriber(Settings settings, Subscriber::Limits limits, Body body, Args&... args) {
  auto session = [](Client& client, Subscriber::Limits& l, Body& b, Args&... a) -> awaitable<void> {
    Subscriber news(client, l);
    std::exception_ptr thrown;
    try {
      co_await b(client, news, a...);
    } catch (...) {
      thrown = std::current_exception();
    }
    co_await news.close();
    if (thrown) std::rethrow_exception(thrown);
  };
  with_client(std::move(settings), session, limits, body, args...);
}

awaitable<void> expect_message(Subscriber& news, std::string channel, std::string payload) {
  auto message = co_await news.next(Clock::now() + 20s);
  REQUIRE(message);
  REQUIRE(message->kind == Message::Kind::message);
  CHECK(message->channel == channel);
  CHECK(message->payload == payload);
}

awaitable<void> expect_gap(Subscriber& news) {
  auto message = co_await news.next(Clock::now() + 20s);
  REQUIRE(message);
  REQUIRE(message->kind == Message::Kind::gap);
}

}  // namespace

TEST_CASE("what is subscribed is heard in order, and what is not is not") {
  RedisServer server;
  with_subscriber(
      settings_for(server), {},
      [](Client&, Subscriber& news, RedisServer& s) -> awaitable<void> {
        news.subscribe("a");
        news.psubscribe("p.*");
        news.ssubscribe("shard");
        auto settled = co_await news.settled(Clock::now() + 10s);
        REQUIRE(settled);
        s.cli({"PUBLISH", "a", "1"});
        s.cli({"PUBLISH", "b", "2"});
        s.cli({"PUBLISH", "p.x", "3"});
        s.cli({"SPUBLISH", "shard", "4"});
        co_await expect_message(news, "a", "1");
        auto matched = co_await news.next(Clock::now() + 20s);
        REQUIRE(matched);
        CHECK(matched->pattern == "p.*");
        CHECK(matched->channel == "p.x");
        CHECK(matched->payload == "3");
        co_await expect_message(news, "shard", "4");
        news.unsubscribe("a");
        news.subscribe("b");
        settled = co_await news.settled(Clock::now() + 10s);
        REQUIRE(settled);
        CHECK(s.cli({"PUBLISH", "a", "5"}) == "0");
        s.cli({"PUBLISH", "b", "6"});
        co_await expect_message(news, "b", "6");
      },
      server);
}

TEST_CASE("after the server was away everything is subscribed again, and then a gap is told") {
  RedisServer server;
  with_subscriber(
      settings_for(server), {},
      [](Client&, Subscriber& news, RedisServer& s) -> awaitable<void> {
        for (int i = 0; i < 50; ++i) news.subscribe(fmt::format("c{}", i));
        auto settled = co_await news.settled(Clock::now() + 10s);
        REQUIRE(settled);
        s.kill();
        s.restart();
        co_await expect_gap(news);
        // The gap comes when the subscriptions stand: whatever is published now is heard.
        for (int i = 0; i < 50; ++i) CHECK(s.cli({"PUBLISH", fmt::format("c{}", i), "x"}) == "1");
        for (int i = 0; i < 50; ++i) co_await expect_message(news, fmt::format("c{}", i), "x");
      },
      server);
}

TEST_CASE("a connection that dies silently is noticed, and what was missed is told as a gap") {
  RedisServer server;
  FaultyLink link(server.port());
  auto settings = settings_for(link.port());
  settings.ping_interval = 50ms;
  settings.silence_limit = 200ms;
  settings.connect_timeout = 300ms;
  with_subscriber(
      settings, {},
      [](Client&, Subscriber& news, RedisServer& s, FaultyLink& l) -> awaitable<void> {
        news.subscribe("a");
        auto settled = co_await news.settled(Clock::now() + 10s);
        REQUIRE(settled);
        l.drop(Direction::to_client);
        s.cli({"PUBLISH", "a", "nobody hears this"});
        co_await eventually(
            20s, "the silence is noticed", [](FaultyLink& f) { return f.counters().accepted > 3; },
            l);
        l.heal();
        co_await expect_gap(news);
        s.cli({"PUBLISH", "a", "back"});
        co_await expect_message(news, "a", "back");
      },
      server, link);
}

TEST_CASE("when messages come faster than they are taken, they are dropped and a gap is told") {
  RedisServer server;
  with_subscriber(settings_for(server), Subscriber::Limits{.messages = 100, .bytes = 1 << 20},
                  [](Client& client, Subscriber& news) -> awaitable<void> {
                    news.subscribe("a");
                    auto settled = co_await news.settled(Clock::now() + 10s);
                    REQUIRE(settled);
                    std::vector<Command> burst;
                    for (int i = 0; i < 150; ++i) burst.emplace_back("PUBLISH", "a", i);
                    auto sent = co_await client.batch(std::move(burst));
                    for (auto& result : sent) REQUIRE(result);
                    int gaps = 0;
                    std::string last;
                    while (last != "149") {
                      auto message = co_await news.next(Clock::now() + 20s);
                      REQUIRE(message);
                      gaps += message->kind == Message::Kind::gap;
                      last = message->payload;
                    }
                    CHECK(gaps == 1);
                  });
}

TEST_CASE("a channel that this user may not hear is an error, not a silence") {
  RedisServer server({.users = {"deaf on >pw ~* resetchannels &allowed +@all"}});
  auto settings = settings_for(server);
  settings.credentials = {"deaf", "pw"};
  with_subscriber(settings, {}, [](Client&, Subscriber& news) -> awaitable<void> {
    news.subscribe("forbidden");
    auto settled = co_await news.settled(Clock::now() + 10s);
    REQUIRE(!settled);
    CHECK(settled.error().code == Errc::denied);
  });
}
