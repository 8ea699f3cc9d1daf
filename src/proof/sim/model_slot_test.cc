// Compares the model with two real servers of a cluster while a slot moves from one to the other:
// commands chosen at random from a seed must give the same answers.
#include "proof/sim/model_slot.h"

#include <doctest/doctest.h>

#include <boost/algorithm/string/join.hpp>

#include "proof/sim/model_redis.h"
#include "proof/sim/random.h"
#include "proof/testkit/servers/redis_cluster.h"
#include "redis/connection/conversation.h"

using namespace warren;
using namespace warren::sim;
using redis::Reply;

namespace {

constexpr auto delete_and_ask =
    "redis.call('DEL', KEYS[1]) local was = redis.call('GET', KEYS[1]) "
    "redis.call('SET', KEYS[1], ARGV[1]) return was";

constexpr int key_count = 6;
std::string key(std::uint64_t number) { return fmt::format("{{t}}:{}", number); }

// A connection to one server of the cluster.
class Node {
 public:
  Node(asio::io_context& io, RedisServer& server) : io_(io) {
    redis::Settings settings;
    settings.addresses = {{"127.0.0.1", server.port(), ""}};
    auto dialer = redis::Dialer::create(settings);
    REQUIRE(dialer);
    wait(connect(*this, *dialer, settings.addresses[0]));
  }
  Reply run(const Words& words, bool is_asking) {
    std::vector<redis::Command> questions;
    if (is_asking) questions.emplace_back("ASKING");
    questions.emplace_back(std::span<const std::string>(words));
    Reply reply;
    wait(exchange(*this, std::move(questions), reply));
    return reply;
  }

 private:
  void wait(awaitable<void> work) {
    std::exception_ptr thrown;
    bool is_over = false;
    asio::co_spawn(io_, std::move(work), [&](std::exception_ptr problem) {
      thrown = problem;
      is_over = true;
    });
    io_.restart();
    while (!is_over) io_.run_one();
    if (thrown) std::rethrow_exception(thrown);
  }
  static awaitable<void> connect(Node& self, redis::Dialer& dialer, redis::Address address) {
    auto dialled = co_await dialer.dial(std::move(address), Clock::now() + 30s);
    REQUIRE(dialled);
    self.conversation_ = *std::move(dialled);
  }
  static awaitable<void> exchange(Node& self, std::vector<redis::Command> questions, Reply& reply) {
    auto answers = co_await self.conversation_->exchange(std::move(questions), Clock::now() + 30s);
    REQUIRE(answers);
    reply = std::move(answers->back());
  }

  asio::io_context& io_;
  std::unique_ptr<redis::Conversation> conversation_;
};

// The answers, without the addresses to which the two send each other's clients.
std::string comparable(const Reply& reply) {
  auto text = redis::to_string(reply);
  if (!reply.is_error()) return text;
  for (std::string begin : {"ASK", "MOVED", "ERR Script attempted to access a non local key"})
    if (reply.text.starts_with(begin)) return begin;
  return reply.text;
}

std::string answer_of(ModelRedis& model, const Words& words, SlotState slots, bool is_asking) {
  switch (model.place_of(words, 0, slots, is_asking)) {
    case Place::here:
      return comparable(
          model.run(std::make_shared<const Words>(words), 0, Refuses::nothing, slots));
    case Place::other_by_ask:
      return "ASK";
    case Place::other:
      return "MOVED";
    case Place::both:
      return "TRYAGAIN Multiple keys request during rehashing of slot";
  }
  return "";
}

Words any_command(Random& random) {
  auto any_key = [&] { return key(random.below(key_count)); };
  switch (random.below(9)) {
    case 0:
      return {"SET", any_key(), std::to_string(random.below(100))};
    case 1:
      return {"DEL", any_key()};
    case 2:
      return {"DEL", any_key(), any_key()};
    case 3:
      return {"MGET", any_key(), any_key()};
    case 4:
      return {"GET", any_key()};
    case 5:
      return {"EVAL", "return redis.call('MGET', unpack(KEYS))", "2", any_key(), any_key()};
    case 6:
      return {"EVAL", delete_and_ask, "1", any_key(), "again"};
    case 7:
      return {"EVAL", "redis.call('SPUBLISH', '{t}:c', 'm') return redis.call('GET', KEYS[1])", "1",
              any_key()};
    default:
      return {"EXISTS", any_key(), any_key(), any_key()};
  }
}

}  // namespace

TEST_CASE("while a slot moves the model answers as two real servers do") {
  RedisCluster cluster;
  int slot = cluster.slot("{t}");
  auto& from = cluster.owner(slot);
  auto& to = cluster.node(&from == &cluster.node(0) ? 1 : 0);
  asio::io_context io;
  Node nodes[] = {Node(io, from), Node(io, to)};
  ModelRedis models[2];
  for (int i = 0; i < key_count; ++i) {
    nodes[0].run({"SET", key(std::uint64_t(i)), "v"}, false);
    models[0].run({"SET", key(std::uint64_t(i)), "v"}, 0);
  }
  cluster.begin_migration(slot, from, to);
  Random random(5);
  std::map<std::string, int> seen;
  for (int moved = 0; moved <= key_count; ++moved) {
    for (int i = 0; i < 300; ++i) {
      auto words = any_command(random);
      std::size_t where = random.below(2);
      bool is_asking = random.chance(0.5);
      auto slots = where == 0 ? SlotState::leaving : SlotState::arriving;
      auto real = comparable(nodes[where].run(words, is_asking));
      INFO(moved, " of the keys moved; at ", where, is_asking ? ", asking: " : ": ",
           boost::join(words, " "));
      CHECK(answer_of(models[where], words, slots, is_asking) == real);
      ++seen[real.substr(0, real.find(' '))];
    }
    // The rest is moved one key at a time.
    auto left = models[0].keys();
    if (left.empty()) break;
    nodes[0].run({"MIGRATE", "127.0.0.1", std::to_string(to.port()), left[0], "0", "10000"}, false);
    models[0].move_to(models[1], left[0], 0, 0);
  }
  for (const char* each : {"ASK", "MOVED", "TRYAGAIN", "ERR", "OK"}) CHECK(seen[each] > 0);
}
