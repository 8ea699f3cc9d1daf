// write.lua as a writer meets it whose answer was lost.
#include "primitives/mirror/scripts.h"
#include "with_client.h"

using namespace warren;

namespace {

// Writes one value and says at which place of the log the batch is.
awaitable<std::string> write(redis::Client& client, std::string epoch, std::string writer,
                             std::string number, std::string value) {
  auto packed = fmt::format("=7 {} nodes:a{}", value.size(), value);
  std::vector<std::string> keys{"{c1}:mirror:log", "{c1}:mirror:head", "{c1}:nodes:a"};
  std::vector<std::string> args{std::move(epoch),
                                "100000",
                                std::move(writer),
                                std::move(number),
                                packed,
                                "{c1}:log",
                                "",
                                std::to_string(packed.size() - value.size() + 1),
                                std::to_string(packed.size()),
                                ""};
  auto reply = co_await client.run(scripts::write, std::move(keys), std::move(args));
  REQUIRE(reply);
  co_return reply->items.at(0).text;
}

// So many writers that the next new one makes the script forget some, all of long ago.
void add_forgotten_writers(RedisServer& server) {
  std::vector<std::string> words{"HSET", "{c1}:mirror:head"};
  for (int i = 0; i < 1000; ++i) {
    words.push_back(fmt::format("gone-{}", i));
    words.push_back("7 1-99");
  }
  server.cli(words);
}

}  // namespace

TEST_CASE("a batch that is sent again after a failover does not undo what came later") {
  RedisServer server;
  with_client(
      settings_for(server),
      [](redis::Client& client, RedisServer& s) -> awaitable<void> {
        auto first = co_await write(client, "5", "alice", "1", "old");
        co_await write(client, "6", "bob", "1", "new");
        add_forgotten_writers(s);
        co_await write(client, "6", "carol", "1", "newer");
        CHECK(s.cli({"HEXISTS", "{c1}:mirror:head", "gone-0"}) == "0");
        // The answer was lost: alice does not know that it is written.
        auto again = co_await write(client, "6", "alice", "1.2", "old");
        CHECK(again == first);
        CHECK(s.cli({"GET", "{c1}:nodes:a"}) == "newer");
        CHECK(s.cli({"XLEN", "{c1}:mirror:log"}) == "3");
      },
      server);
}

TEST_CASE("a writer is remembered for as long as its last batch is in the log") {
  RedisServer server;
  with_client(
      settings_for(server),
      [](redis::Client& client, RedisServer& s) -> awaitable<void> {
        co_await write(client, "5", "gone", "1", "0");
        for (int i = 1; i < 10; ++i)
          co_await write(client, "5", "alice", std::to_string(i), std::to_string(i));
        auto last = co_await write(client, "6", "bob", "1", "bob's");
        CHECK(last == "6-0");
        s.cli({"XTRIM", "{c1}:mirror:log", "MINID", "5-9"});  // in epoch 6, 0 is not before 9
        add_forgotten_writers(s);
        co_await write(client, "6", "carol", "1", "carol's");
        CHECK(s.cli({"HEXISTS", "{c1}:mirror:head", "gone"}) == "0");
        CHECK(s.cli({"HEXISTS", "{c1}:mirror:head", "alice"}) == "1");
        auto again = co_await write(client, "6", "bob", "1.2", "bob's");
        CHECK(again == last);
        CHECK(s.cli({"GET", "{c1}:nodes:a"}) == "carol's");
      },
      server);
}
