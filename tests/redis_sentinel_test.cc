// A primary that sentinels watch: what callers see when it dies, sleeps or is replaced.
#include "with_client.h"

using namespace warren;
using namespace warren::redis;

namespace {

// Writes one key after the other, and remembers what each write came to.
struct Writer {
  struct Write {
    std::string key;
    bool acknowledged;
    std::string error;
    // On which connection of the client: an answer of the old primary may arrive after its death.
    std::uint64_t connection;
  };
  std::vector<Write> writes;

  static Async<> write(Client& client, Writer& self, int id, const bool& stop) {
    for (int n = 0;; ++n) {
      if (stop) co_return ok;
      auto key = fmt::format("w{}:{}", id, n);
      auto reply = co_await client.command(Command("SET", key, "x"), CallOptions().within(10s));
      auto error = reply ? "" : std::string(name(reply.error().code));
      self.writes.push_back({key, reply.has_value(), error, client.counters().connects});
      if (!reply) co_await sleep_for(1ms);
    }
  }
};

struct Load {
  std::vector<Writer> writers = std::vector<Writer>(64);
  bool stop = false;
  std::size_t acknowledged_on(std::uint64_t connection) const {
    std::size_t count = 0;
    for (const auto& writer : writers)
      for (const auto& write : writer.writes)
        count += write.acknowledged && write.connection >= connection;
    return count;
  }
};

Result<> writes_flow_on(Load& load, std::uint64_t& connection) {
  auto count = load.acknowledged_on(connection);
  if (count < 2000) return fail(Errc::unavailable, "{} writes were acknowledged", count);
  return ok;
}

// All that the new primary acknowledged is there; all that nobody acknowledged has an error that
// says what is known about it.
void check_history(const Load& load, std::uint64_t connection, RedisServer& primary) {
  std::size_t kept = 0, lost_before = 0;
  for (const auto& writer : load.writers) {
    REQUIRE(!writer.writes.empty());
    for (const auto& write : writer.writes) {
      if (!write.acknowledged) {
        CHECK((write.error == "unknown_outcome" || write.error == "unavailable"));
        continue;
      }
      bool there = primary.cli({"EXISTS", write.key}) == "1";
      if (write.connection >= connection) REQUIRE(there);
      there ? ++kept : ++lost_before;
    }
  }
  MESSAGE(kept, " acknowledged writes are there, ", lost_before,
          " of before the failover were lost with the old primary");
}

}  // namespace

TEST_CASE("64 callers write while the primary is killed: none hangs, and none is told a lie") {
  SentinelTrio trio;
  with_client(
      settings_for(trio),
      [](Client& client, SentinelTrio& t) -> awaitable<void> {
        auto& old = t.primary();
        Load load;
        TaskGroup callers(client.executor());
        for (std::size_t i = 0; i < load.writers.size(); ++i)
          callers.start("writer", Writer::write(client, load.writers[i], int(i), load.stop));
        std::uint64_t connection = 1;
        co_await eventually(30s, "writes flow", writes_flow_on, load, connection);
        auto epoch = client.topology().epoch;
        old.kill();
        connection = 2;
        co_await eventually(60s, "writes flow again", writes_flow_on, load, connection);
        load.stop = true;
        co_await callers.join();
        check_history(load, connection, t.primary());
        co_await eventually(
            30s, "the sentinels' new configuration is known",
            [](Client& c, auto& e, SentinelTrio& all) {
              auto topology = c.topology();
              return topology.epoch > e && topology.nodes[0].address.port == all.primary().port();
            },
            client, epoch, t);
      },
      trio);
}

TEST_CASE("a planned failover is followed, and writes flow to the new primary") {
  SentinelTrio trio;
  with_client(
      settings_for(trio),
      [](Client& client, SentinelTrio& t) -> awaitable<void> {
        auto first = co_await client.command(Command("SET", "before", "1"));
        REQUIRE(first);
        auto port = t.primary().port();
        auto& next = t.failover();
        CHECK(next.port() != port);
        // Until the sentinels tell it, the old primary takes writes, and loses them.
        co_await eventually(
            30s, "the client has heard of it",
            [](Client& c, RedisServer& n) {
              auto node = c.topology().nodes[0];
              return node.is_connected && node.address.port == n.port();
            },
            client, next);
        auto second = co_await client.command(Command("SET", "after", "2"));
        REQUIRE(second);
        CHECK(next.cli({"GET", "after"}) == "2");
      },
      trio);
}

TEST_CASE("a primary that sleeps through its own replacement is not believed when it wakes") {
  SentinelTrio trio;
  auto settings = settings_for(trio);
  settings.ping_interval = 200ms;
  settings.silence_limit = 500ms;
  with_client(
      settings,
      [](Client& client, SentinelTrio& t) -> awaitable<void> {
        auto first = co_await client.command(Command("SET", "before", "1"));
        REQUIRE(first);
        auto& old = t.primary();
        old.pause();
        auto written = co_await eventually(
            60s, "the new primary takes writes",
            [](Client& c) -> Async<Reply> {
              return c.ask(Command("SET", "during", "2"), CallOptions().within(1s));
            },
            client);
        CHECK(written.text == "OK");
        old.resume();
        // For seconds the old one still says that it is the primary, and would take writes.
        for (int i = 0; i < 200; ++i) {
          auto reply = co_await client.command(Command("SET", fmt::format("k{}", i), "3"),
                                               CallOptions().within(10s));
          REQUIRE(reply);
          co_await sleep_for(1ms);
        }
        co_await eventually(
            60s, "the sentinels have finished",
            [](SentinelTrio& all, RedisServer& before) { return &all.primary() != &before; }, t,
            old);
        auto& next = t.primary();
        for (int i = 0; i < 200; ++i) REQUIRE(next.cli({"EXISTS", fmt::format("k{}", i)}) == "1");
      },
      trio);
}

TEST_CASE("scripts and durable writes go on after a failover") {
  SentinelTrio trio;
  with_client(
      settings_for(trio),
      [](Client& client, SentinelTrio& t) -> awaitable<void> {
        Script add("add", "return redis.call('INCRBY', KEYS[1], ARGV[1])");
        auto run_script = [](Client& c, Script& s) -> Async<Reply> {
          std::vector<std::string> keys{"total"}, args{"1"};
          co_return co_await c.run(s, std::move(keys), std::move(args), CallOptions().within(5s));
        };
        auto before = co_await run_script(client, add);
        REQUIRE(before);
        auto durable =
            co_await client.durable(Command("SET", "d", "1"), 2, CallOptions().within(10s));
        REQUIRE(durable);
        CHECK(durable->replicas == 2);
        t.primary().kill();
        co_await eventually(60s, "the script runs on the new primary", run_script, client, add);
        auto written = co_await eventually(
            60s, "a durable write reaches the remaining replica",
            [](Client& c) -> Async<Durable> {
              auto reached =
                  co_await c.durable(Command("SET", "d", "2"), 1, CallOptions().within(2s));
              if (reached && reached->replicas < 1)
                co_return fail(Errc::unavailable, "no replica has it");
              co_return reached;
            },
            client);
        CHECK(written.replicas == 1);
      },
      trio);
}

TEST_CASE(
    "a name that the sentinels do not know, and sentinels that are not there, are told apart") {
  SentinelTrio trio;
  auto settings = settings_for(trio);
  settings.master_name = "nobody";
  with_client(settings, [](Client& client) -> awaitable<void> {
    auto reply = co_await client.command(Command("PING"), CallOptions().within(10s));
    REQUIRE(!reply);
    CHECK(reply.error().what.find("\"nobody\"") != std::string::npos);
    CHECK(reply.error().what.find("knows no primary") != std::string::npos);
  });
  settings = settings_for(trio);
  for (auto* sentinel : trio.sentinels()) sentinel->kill();
  with_client(settings, [](Client& client) -> awaitable<void> {
    auto reply = co_await client.command(Command("PING"), CallOptions().within(3s));
    REQUIRE(!reply);
    CHECK(reply.error().code == Errc::unavailable);
    CHECK(reply.error().what.find("refused") != std::string::npos);
  });
}

TEST_CASE("sentinels may have credentials of their own, and one of them may be down") {
  SentinelTrio trio({.servers = {.password = "data"}, .sentinel_password = "watch"});
  auto settings = settings_for(trio);
  settings.credentials.password = "data";
  settings.sentinel_credentials.password = "watch";
  trio.sentinel(0).kill();
  with_client(settings, [](Client& client) -> awaitable<void> {
    auto reply = co_await client.command(Command("PING"), CallOptions().within(10s));
    CHECK(reply);
  });
}
