#include "proof/sim/servers.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <map>
#include <optional>
#include <set>

using namespace warren;
using namespace warren::sim;
using redis::Reply;

namespace {

// The answer that a process got: "OK", "(nil)", "(integer) 1", or the name of an error.
std::string shown(const Result<Reply>& reply) {
  return reply ? redis::to_string(*reply) : std::string(name(reply.error().code));
}

struct Scene {
  explicit Scene(std::uint64_t seed = 1, Servers::Options options = {})
      : world(seed), servers(world, options) {}

  void run_for(Clock::duration time) { world.run_until(world.now() + time); }
  // A process that is connected.
  Connection& process() {
    Connection& connection = servers.connect();
    run_for(1s);
    REQUIRE(connection.is_connected());
    return connection;
  }
  // Returns the place where its answer will be; empty until then.
  std::shared_ptr<std::string> call(Connection& connection, Words words,
                                    Clock::duration patience = 1s,
                                    redis::CallOptions options = {}) {
    auto answer = std::make_shared<std::string>();
    connection.call(
        std::move(words), world.now() + patience,
        [answer](const Result<Reply>& reply) {
          CHECK(answer->empty());  // exactly once
          *answer = shown(reply);
        },
        options);
    return answer;
  }
  std::shared_ptr<std::string> durable(Connection& connection, Words words, int replicas,
                                       Clock::duration patience = 1s) {
    auto answer = std::make_shared<std::string>();
    connection.durable(std::move(words), replicas, world.now() + patience,
                       [answer](const Result<redis::Durable>& result) {
                         CHECK(answer->empty());
                         *answer = result ? fmt::format("{} on {}", redis::to_string(result->reply),
                                                        result->replicas)
                                          : std::string(name(result.error().code));
                       });
    return answer;
  }
  std::string ask(Connection& connection, Words words) {
    auto answer = call(connection, std::move(words));
    run_for(1s);
    return *answer;
  }
  // Without any process noticing.
  std::string look(int server, const Words& words) {
    return redis::to_string(ModelRedis(servers.model(server)).run(words, servers.wall_us(server)));
  }

  World world;
  Servers servers;
};

constexpr Weather never_replicates{.lag_least = 1h, .lag_most = 1h};
constexpr auto hour = std::chrono::hours(1);

// In how many of a hundred schedules something happened.
template <class Happens>
int how_often(Happens happens) {
  int count = 0;
  for (std::uint64_t seed = 0; seed < 100; ++seed) count += happens(seed);
  return count;
}

}  // namespace

TEST_CASE("calls are answered after a while, in order, and never before they return") {
  Scene scene;
  auto& alice = scene.process();
  std::vector<std::string> answers;
  for (int i = 0; i < 50; ++i) {
    alice.call({"INCR", "n"}, scene.world.now() + 1s,
               [&](const Result<Reply>& reply) { answers.push_back(shown(reply)); });
  }
  CHECK(answers.empty());
  auto before = scene.world.now();
  scene.run_for(19us);
  CHECK(answers.empty());
  scene.run_for(1s);
  REQUIRE(answers.size() == 50);
  for (int i = 0; i < 50; ++i) CHECK(answers[std::size_t(i)] == fmt::format("(integer) {}", i + 1));
  CHECK(scene.world.now() - before == 1s + 19us);
}

TEST_CASE("what a server refuses comes back in its own words") {
  Scene scene;
  auto& alice = scene.process();
  std::optional<Error> error;
  alice.call({"HGET", "k"}, scene.world.now() + 1s,
             [&](const Result<Reply>& reply) { error = reply.error(); });
  scene.run_for(1s);
  REQUIRE(error);
  CHECK(error->code == Errc::refused);
  CHECK(error->what == "ERR wrong number of arguments for 'hget' command");
}

TEST_CASE("calls on different lanes may overtake each other, on one lane never") {
  auto overtaken = [](bool on_two_lanes) {
    return how_often([&](std::uint64_t seed) {
      Scene scene(seed);
      auto& alice = scene.process();
      auto second =
          redis::CallOptions().lane(on_two_lanes ? redis::Lane::renewal : redis::Lane::data);
      CHECK(*scene.call(alice, {"PING"}, 1s, second) == "");
      scene.run_for(1s);
      scene.call(alice, {"SET", "k", "first"});
      scene.call(alice, {"SET", "k", "second"}, 1s, second);
      scene.run_for(1s);
      return scene.look(0, {"GET", "k"}) == "\"first\"";
    });
  };
  CHECK(overtaken(false) == 0);
  int times = overtaken(true);
  CHECK(times > 20);
  CHECK(times < 80);
}

TEST_CASE(
    "of what is on its way when a connection breaks, the first few run or none or all, and nobody "
    "knows") {
  std::map<std::string, int> seen;
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    Scene scene(seed);
    auto& alice = scene.process();
    auto a = scene.call(alice, {"APPEND", "k", "a"}), b = scene.call(alice, {"APPEND", "k", "b"});
    alice.break_link(Socket::data);
    CHECK(a->empty());
    scene.run_for(0s);
    CHECK(*a == "unknown_outcome");
    CHECK(*b == "unknown_outcome");
    scene.run_for(1s);
    ++seen[scene.look(0, {"GET", "k"})];
    CHECK(alice.is_connected());
    CHECK(scene.ask(alice, {"PING"}) == "PONG");
  }
  CHECK(seen.size() == 3);
  CHECK(seen["(nil)"] > 15);
  CHECK(seen["\"a\""] > 15);
  CHECK(seen["\"ab\""] > 15);
}

TEST_CASE("what was not sent waits for the next connection, or is known not to have run") {
  Scene scene;
  auto& alice = scene.process();
  scene.servers.restart(0, 300ms, true);
  auto patient = scene.call(alice, {"SET", "patient", "1"}, 1s);
  auto hasty = scene.call(alice, {"SET", "hasty", "1"}, 200ms);
  auto late = scene.call(alice, {"SET", "late", "1"}, 0s);
  scene.run_for(250ms);
  CHECK(*hasty == "unavailable");
  CHECK(patient->empty());
  scene.run_for(750ms);
  CHECK(*patient == "OK");
  CHECK(*late != "OK");
  CHECK(scene.look(0, {"EXISTS", "patient", "hasty", "late"}) == "(integer) 1");
}

TEST_CASE("who does not wait for a connection is told when the first attempt fails") {
  Scene scene;
  auto& alice = scene.process();
  scene.servers.restart(0, 300ms, true);
  auto hasty = scene.call(alice, {"SET", "hasty", "1"}, 1s, redis::CallOptions().fail_fast());
  auto patient = scene.call(alice, {"SET", "patient", "1"});
  scene.run_for(100ms);
  CHECK(*hasty == "unavailable");
  CHECK(patient->empty());
  scene.run_for(1s);
  CHECK(*patient == "OK");
  CHECK(scene.look(0, {"EXISTS", "hasty"}) == "(integer) 0");
}

TEST_CASE("a deadline that has passed already is a timeout, and nothing is sent") {
  Scene scene;
  auto& alice = scene.process();
  auto answer = scene.call(alice, {"SET", "k", "v"}, 0s);
  CHECK(answer->empty());
  scene.run_for(1s);
  CHECK(*answer == "timeout");
  CHECK(scene.look(0, {"DBSIZE"}) == "(integer) 0");
}

TEST_CASE("what was sent and is not answered in time has an unknown outcome, and may run later") {
  Scene scene;
  auto& alice = scene.process();
  scene.servers.stop(0, 500ms);
  auto late = scene.call(alice, {"INCR", "n"}, 200ms),
       patient = scene.call(alice, {"INCR", "n"}, 1s);
  scene.run_for(300ms);
  CHECK(*late == "unknown_outcome");
  CHECK(scene.look(0, {"GET", "n"}) == "(nil)");
  scene.run_for(700ms);
  CHECK(*patient == "(integer) 2");
}

TEST_CASE("what may run twice is sent again, and then may have run twice") {
  std::map<std::string, int> seen;
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    Scene scene(seed);
    auto& alice = scene.process();
    auto answer = scene.call(alice, {"APPEND", "k", "a"}, 1s, redis::CallOptions().idempotent());
    alice.break_link(Socket::data);
    scene.run_for(1s);
    CHECK(answer->starts_with("(integer)"));
    ++seen[scene.look(0, {"GET", "k"})];
  }
  CHECK(seen.size() == 2);
  CHECK(seen["\"a\""] > 20);
  CHECK(seen["\"aa\""] > 20);
}

TEST_CASE("what was sent again may have run, whatever the server says to the last attempt") {
  struct Way {
    FaultKind refusal;
    const char* to_who_sent_once;
  };
  for (auto [refusal, once] :
       {Way{FaultKind::loading, "unavailable"}, Way{FaultKind::no_permission, "denied"},
        Way{FaultKind::out_of_memory, "unavailable"}}) {
    INFO(name(refusal));
    Scene scene(1, {.weather = {.slow = 0}});
    auto& alice = scene.process();
    auto again = redis::CallOptions().idempotent();
    auto lost = scene.call(alice, {"APPEND", "k", "a"}, 500ms, again);
    // It runs, and the answer is under way.
    while (scene.look(0, {"EXISTS", "k"}) == "(integer) 0") scene.run_for(1us);
    scene.servers.refuse(0, refusal, 10s);
    alice.break_link(Socket::data);
    auto first = scene.call(alice, {"APPEND", "other", "a"}, 500ms, again);
    scene.run_for(1s);
    CHECK(*lost == "unknown_outcome");
    CHECK(*first == once);
    CHECK(scene.look(0, {"GET", "k"}) == "\"a\"");
  }
}

TEST_CASE("what was sent again and is refused by the command itself was answered") {
  Scene scene(1, {.weather = {.slow = 0}});
  auto& alice = scene.process();
  CHECK(scene.ask(alice, {"SET", "k", "no number"}) == "OK");
  auto answer = scene.call(alice, {"INCR", "k"}, 500ms, redis::CallOptions().idempotent());
  alice.break_link(Socket::data);
  scene.run_for(1s);
  CHECK(*answer == "refused");
}

TEST_CASE("a durable write says how many replicas have it") {
  Scene scene(1, {.replicas = 2});
  auto& alice = scene.process();
  auto two = scene.durable(alice, {"SET", "k", "v"}, 2);
  auto none = scene.durable(alice, {"SET", "k", "w"}, 0);
  auto refused = scene.durable(alice, {"INCR", "k"}, 2);
  scene.run_for(900ms);
  CHECK(*two == "OK on 2");
  CHECK(none->starts_with("OK on "));
  CHECK(*refused == "refused");
  CHECK(scene.look(1, {"GET", "k"}) == "\"w\"");
  CHECK(scene.look(2, {"GET", "k"}) == "\"w\"");
}

TEST_CASE(
    "a durable write without its replicas is answered at its deadline, with what it reached") {
  Scene scene(1, {.replicas = 1, .weather = never_replicates});
  auto& alice = scene.process();
  auto answer = scene.durable(alice, {"SET", "k", "v"}, 1, 1s);
  scene.run_for(999ms);
  CHECK(answer->empty());
  scene.run_for(1ms);
  CHECK(*answer == "OK on 0");
  CHECK(scene.look(0, {"GET", "k"}) == "\"v\"");
  CHECK(scene.look(1, {"GET", "k"}) == "(nil)");
}

TEST_CASE(
    "a durable write whose connection breaks is unknown until it was answered, and known after") {
  for (auto [time, expected] : {std::pair(50ms, "unknown_outcome"), std::pair(500ms, "OK on 0")}) {
    Scene scene(1, {.replicas = 1, .weather = never_replicates});
    auto& alice = scene.process();
    auto answer = scene.durable(alice, {"SET", "k", "v"}, 1, 1s);
    scene.run_for(time);
    alice.break_link(Socket::durable);
    scene.run_for(0s);
    CHECK(*answer == expected);
  }
}

TEST_CASE("a failover promotes a replica with what it has, in the next epoch") {
  Weather weather = never_replicates;
  weather.news_most = 100ms;
  Scene scene(1, {.replicas = 1, .weather = weather});
  auto& alice = scene.process();
  CHECK(scene.ask(alice, {"SET", "k", "v"}) == "OK");
  CHECK(alice.epoch() == 1);
  int connected = 0;
  alice.on_connected = [&] { ++connected; };
  scene.servers.failover(1, 0s);
  CHECK(scene.servers.primary() == 1);
  CHECK(scene.servers.epoch() == 2);
  scene.run_for(1s);
  CHECK(connected == 2);  // the epoch first, and then the connection
  CHECK(alice.epoch() == 2);
  CHECK(scene.ask(alice, {"GET", "k"}) == "(nil)");
  CHECK(scene.ask(alice, {"SET", "k", "new"}) == "OK");
  scene.run_for(2 * hour);
  CHECK(scene.servers.is_following(0));
  CHECK(scene.look(0, {"GET", "k"}) == "\"new\"");
}

TEST_CASE("what a replica had before a failover is there after it") {
  Scene scene(1, {.replicas = 2});
  auto& alice = scene.process();
  for (int i = 0; i < 20; ++i) {
    CHECK(scene.ask(alice, {"INCR", "n"}) == fmt::format("(integer) {}", i + 1));
    auto replicas = {1, 2, 0};
    if (i % 5 == 4) scene.servers.failover(replicas.begin()[i / 5 % 3], i % 2 * 100ms);
    scene.run_for(5s);
  }
  CHECK(scene.servers.epoch() == 5);
  for (int server : {0, 1, 2}) CHECK(scene.look(server, {"GET", "n"}) == "\"20\"");
}

TEST_CASE("a primary that was replaced answers who has not heard of it, and then forgets it all") {
  Weather weather;
  weather.news_most = 0s;
  Scene scene(1, {.replicas = 1, .weather = weather});
  auto& alice = scene.process();
  alice.pause(5s);  // so that it does not hear of it
  scene.servers.failover(1, 4s);
  auto& bob = scene.process();
  CHECK(bob.epoch() == 2);
  CHECK(scene.ask(bob, {"SET", "k", "bob"}) == "OK");
  CHECK(scene.servers.acts_as_primary(0));
  auto answer = scene.call(alice, {"SET", "k", "alice"});
  CHECK(alice.epoch() == 1);
  scene.run_for(1ms);
  CHECK(scene.look(0, {"GET", "k"}) == "\"alice\"");
  CHECK(scene.look(1, {"GET", "k"}) == "\"bob\"");
  scene.run_for(4s);
  CHECK(!scene.servers.acts_as_primary(0));
  CHECK(scene.look(0, {"GET", "k"}) == "\"bob\"");
  CHECK(alice.epoch() == 2);
  CHECK(scene.ask(alice, {"GET", "k"}) == "\"bob\"");
}

TEST_CASE(
    "a primary that was stopped runs what it had received, although it was replaced meanwhile") {
  Weather weather;
  weather.news_most = 0s;
  Scene scene(1, {.replicas = 1, .weather = weather});
  auto& alice = scene.process();
  scene.servers.stop(0, 1s);
  auto answer = scene.call(alice, {"SET", "k", "v"}, 3s);
  scene.run_for(500ms);
  scene.servers.failover(1, 100ms);
  scene.run_for(400ms);
  CHECK(*answer == "unknown_outcome");  // alice has gone to the new primary
  CHECK(scene.look(0, {"GET", "k"}) == "(nil)");
  scene.run_for(101ms);
  CHECK(scene.look(0, {"GET", "k"}) == "\"v\"");
  scene.run_for(10s);
  CHECK(scene.look(0, {"GET", "k"}) == "(nil)");
}

TEST_CASE("who has not heard of a failover finds out when the old primary becomes a replica") {
  Scene scene(1, {.replicas = 1, .weather = {.news_most = hour}});
  auto& alice = scene.process();
  scene.servers.failover(1, 5s);
  CHECK(scene.ask(alice, {"SET", "k", "v"}) == "OK");
  CHECK(alice.epoch() == 1);
  scene.run_for(5s);
  CHECK(alice.epoch() == 2);
  CHECK(scene.ask(alice, {"GET", "k"}) == "(nil)");
}

TEST_CASE("what was on its way to a server that restarted does not run there") {
  CHECK(how_often([](std::uint64_t seed) {
          Scene scene(seed);
          auto& alice = scene.process();
          auto answer = scene.call(alice, {"SET", "k", "v"});
          scene.servers.restart(0, 0s, true);
          scene.run_for(1s);
          CHECK(*answer == "unknown_outcome");
          return scene.look(0, {"EXISTS", "k"}) == "(integer) 1";
        }) == 0);
}

TEST_CASE("a restart keeps the data or loses it, and then the replicas lose it too") {
  for (bool keeps_data : {true, false}) {
    Scene scene(1, {.replicas = 1});
    auto& alice = scene.process();
    CHECK(scene.ask(alice, {"SET", "k", "v"}) == "OK");
    scene.servers.restart(0, 100ms, keeps_data);
    CHECK(!alice.is_connected());
    CHECK(scene.ask(alice, {"EXISTS", "k"}) == (keeps_data ? "(integer) 1" : "(integer) 0"));
    CHECK(scene.look(1, {"EXISTS", "k"}) == (keeps_data ? "(integer) 1" : "(integer) 0"));
    CHECK(scene.servers.epoch() == 1);
    CHECK(scene.ask(alice, {"SET", "later", "v"}) == "OK");
    CHECK(scene.look(1, {"EXISTS", "later"}) == "(integer) 1");
  }
}

TEST_CASE("a server that lost its data is copied anew, also when it restarts on its way back") {
  Scene scene(3, {.replicas = 1});
  Connection& alice = scene.process();
  for (const auto* key : {"a", "b"}) scene.ask(alice, {"SET", key, "old"});
  scene.run_for(1s);
  scene.servers.restart(0, 100ms, false);
  scene.run_for(50ms);
  scene.servers.restart(0, 100ms, true);
  scene.run_for(5s);
  CHECK(scene.look(1, {"EXISTS", "a", "b"}) == "(integer) 0");
  for (const auto* key : {"c", "d", "e"}) scene.ask(alice, {"SET", key, "new"});
  scene.run_for(1s);
  CHECK(scene.servers.model(1).keys() == std::vector<std::string>{"c", "d", "e"});
}

TEST_CASE("a clock that steps lets keys expire early or late, on its server alone") {
  Scene scene(1, {.replicas = 1});
  auto& alice = scene.process();
  CHECK(scene.ask(alice, {"SET", "k", "v", "PX", "10000"}) == "OK");
  auto before = scene.servers.wall_us(0);
  scene.servers.step_clock(0, 30s);
  CHECK(scene.servers.wall_us(0) == before + 30'000'000);
  CHECK(scene.look(1, {"EXISTS", "k"}) == "(integer) 1");
  CHECK(scene.ask(alice, {"EXISTS", "k"}) == "(integer) 0");
  CHECK(scene.ask(alice, {"SET", "k", "v", "PX", "10000"}) == "OK");
  scene.servers.step_clock(0, -60s);
  scene.run_for(30s);
  CHECK(scene.ask(alice, {"EXISTS", "k"}) == "(integer) 1");
}

TEST_CASE("messages come in order to who is subscribed, and a gap is told after a reconnection") {
  Scene scene;
  auto& alice = scene.process();
  auto& bob = scene.process();
  std::string heard;
  bob.on_message = [&](const Message& message) {
    heard += message.channel + message.payload + ' ';
  };
  bob.on_settled = [&] { heard += "settled "; };
  bob.on_gap = [&] { heard += "gap "; };
  bob.ssubscribe("s");
  bob.subscribe("c");
  bob.subscribe("c");
  scene.run_for(1s);
  CHECK(heard == "settled ");
  for (const char* payload : {"1", "2", "3"}) scene.call(alice, {"SPUBLISH", "s", payload});
  scene.call(alice, {"PUBLISH", "c", "4"});
  scene.call(alice, {"PUBLISH", "s", "not here"});
  scene.call(alice, {"SPUBLISH", "other", "not here"});
  scene.run_for(1s);
  CHECK(heard == "settled s1 s2 s3 c4 ");
  heard.clear();

  bob.break_link(Socket::messages);
  CHECK(bob.is_connected());  // the other sockets do not notice
  scene.call(alice, {"SPUBLISH", "s", "lost"});
  scene.run_for(1s);
  CHECK(heard == "gap ");
  CHECK(scene.ask(alice, {"SPUBLISH", "s", "5"}) == "(integer) 0");
  CHECK(heard == "gap s5 ");
  heard.clear();

  bob.break_link(Socket::data);
  scene.run_for(1s);
  CHECK(heard == "");
  bob.ssubscribe("more");
  scene.run_for(1s);
  CHECK(heard == "settled ");
}

TEST_CASE("messages follow the primary, with a gap") {
  Scene scene(1, {.replicas = 1});
  auto& alice = scene.process();
  std::string heard;
  alice.on_message = [&](const Message& message) { heard += message.payload + ' '; };
  alice.on_gap = [&] { heard += "gap "; };
  alice.ssubscribe("s");
  scene.run_for(1s);
  scene.servers.failover(1, 10s);
  scene.run_for(5s);
  CHECK(heard == "gap ");
  CHECK(scene.ask(alice, {"SPUBLISH", "s", "1"}) == "(integer) 0");
  CHECK(heard == "gap 1 ");
}

TEST_CASE("a paused process does nothing until it wakes, and then finds what came meanwhile") {
  Scene scene;
  auto& alice = scene.process();
  std::string done;
  auto begin = scene.world.now();
  auto note = [&](const char* what) {
    done += fmt::format("{}@{} ", what, (scene.world.now() - begin) / 1ms);
  };
  alice.call({"SET", "k", "v"}, begin + 500ms,
             [&](const Result<Reply>& r) { note(r ? "ok" : "error"); });
  alice.after(100ms, [&] { note("timer"); });
  alice.after(1500ms, [&] { note("later"); });
  alice.pause(1s);
  scene.run_for(999ms);
  CHECK(done == "");
  CHECK(scene.look(0, {"EXISTS", "k"}) == "(integer) 1");  // it was sent before
  scene.run_for(1s);
  CHECK(done == "ok@1000 timer@1000 later@1500 ");
}

TEST_CASE("a process that was killed is never heard of again, though what it sent may still run") {
  int ran = how_often([](std::uint64_t seed) {
    Scene scene(seed);
    auto& alice = scene.process();
    std::string heard;
    alice.on_connected = [&] { heard += "connected "; };
    alice.on_message = [&](const Message&) { heard += "message "; };
    alice.ssubscribe("s");
    scene.run_for(1s);
    alice.after(1s, [&] { heard += "timer "; });
    auto answer = scene.call(alice, {"SET", "k", "v"});
    alice.close();
    auto after = scene.call(alice, {"SET", "never", "v"});
    auto& bob = scene.process();
    scene.ask(bob, {"SPUBLISH", "s", "m"});
    scene.run_for(10s);
    CHECK(heard == "");
    CHECK(*answer == "");
    CHECK(*after == "");
    CHECK(!alice.is_connected());
    CHECK(scene.look(0, {"EXISTS", "never"}) == "(integer) 0");
    return scene.look(0, {"EXISTS", "k"}) == "(integer) 1";
  });
  CHECK(ran > 20);
  CHECK(ran < 80);
}

TEST_CASE("a primary names the replicas that follow it") {
  Scene scene(1, {.replicas = 2});
  auto& alice = scene.process();
  auto replicas = [&] {
    std::size_t count = 0;
    alice.call({"ROLE"}, scene.world.now() + 1s,
               [&](const Result<Reply>& reply) { count = reply->items[2].items.size(); });
    scene.run_for(1s);
    return count;
  };
  CHECK(replicas() == 2);
  scene.servers.restart(2, 5s, true);
  CHECK(replicas() == 1);
  scene.run_for(10s);
  CHECK(replicas() == 2);
}

namespace {

constexpr Weather storm{.slow = 0.05,
                        .long_lag = 0.1,
                        .breaks = 5,
                        .pauses = 1,
                        .failovers = 1,
                        .restarts = 0.5,
                        .stops = 0.5,
                        .clock_steps = 0.5,
                        .loses_data = 0.3,
                        .skew_most = 100ms};

// Some processes in a storm; everything that they hear, with the time.
struct Storm : Scene {
  explicit Storm(std::uint64_t seed) : Scene(seed, {.replicas = 2, .weather = storm}) {
    begin = world.now();
    for (int i = 0; i < 4; ++i) {
      processes.push_back(&servers.connect());
      auto* process = processes.back();
      process->on_gap = [this, i] { note(i, "gap"); };
      process->on_connected = [this, i, process] {
        note(i, fmt::format("epoch {}", process->epoch()));
      };
      process->on_message = [this, i](const Message& message) { note(i, message.payload); };
      process->ssubscribe("news");
      work(i);
    }
    servers.begin_faults();
  }

  void work(int i) {
    auto* process = processes[std::size_t(i)];
    auto done = [this, i](const Result<Reply>& reply) {
      note(i, shown(reply));
      ++(reply ? answered : failed);
    };
    auto options =
        redis::CallOptions().lane(world.chance(0.3) ? redis::Lane::renewal : redis::Lane::data);
    if (world.chance(0.3)) options = options.idempotent();
    auto deadline = world.now() + world.between(0s, 500ms);
    switch (world.below(4)) {
      case 0:
        process->call({"SPUBLISH", "news", fmt::format("from {}", i)}, deadline, done, options);
        break;
      case 1:
        process->call({"SET", fmt::format("k{}", i), "v", "PX", "300"}, deadline, done, options);
        break;
      case 2:
        process->call({"EVAL", "return redis.call('INCR', KEYS[1])", "1", "n"}, deadline, done,
                      options);
        break;
      default:
        process->durable({"INCR", "durable"}, 2, deadline, [this, i](const auto& result) {
          note(i, result ? fmt::format("on {}", result->replicas) : "not durable");
        });
    }
    process->after(world.between(1ms, 50ms), [this, i] { work(i); });
  }

  void note(int i, const std::string& what) {
    trace += fmt::format("{} {} {}\n", (world.now() - begin).count(), i, what);
  }

  Clock::time_point begin;
  std::vector<Connection*> processes;
  std::string trace;
  int answered = 0, failed = 0;
};

}  // namespace

TEST_CASE("a seed repeats a storm to the nanosecond") {
  std::set<std::string> traces;
  for (std::uint64_t seed : {1, 2, 3}) {
    Storm first(seed), second(seed);
    first.run_for(20s);
    second.run_for(20s);
    CHECK(first.trace == second.trace);
    CHECK(first.servers.epoch() > 5);
    CHECK(first.answered > 200);
    CHECK(first.failed > 50);
    traces.insert(first.trace);
  }
  CHECK(traces.size() == 3);
}

TEST_CASE("faults come as often as the weather says, and only those that it has") {
  struct Seen {
    int connections = 0, slow_answers = 0, late_timers = 0, clock_steps = 0;
    std::uint64_t failovers = 0;
  };
  auto hundred_seconds = [](Weather weather) {
    weather.slow = 0;
    Scene scene(5, {.replicas = 2, .weather = weather});
    auto& alice = scene.process();
    Seen seen;
    alice.on_connected = [&] { ++seen.connections; };
    scene.servers.begin_faults();
    std::int64_t ahead = 0;
    for (int i = 0; i < 2000; ++i) {
      auto begin = scene.world.now();
      alice.call({"PING"}, begin + 10s,
                 [&, begin](const auto&) { seen.slow_answers += scene.world.now() - begin > 1ms; });
      alice.after(1ms, [&, begin] { seen.late_timers += scene.world.now() - begin > 1ms; });
      scene.run_for(50ms);
      auto now_ahead = scene.servers.wall_us(1) - (scene.world.now() - Clock::time_point{}) / 1us;
      if (i > 0) seen.clock_steps += now_ahead != ahead;
      ahead = now_ahead;
    }
    seen.failovers = scene.servers.epoch() - 1;
    return seen;
  };
  auto calm = hundred_seconds({});
  CHECK(calm.connections + calm.slow_answers + calm.late_timers + calm.clock_steps == 0);
  CHECK(calm.failovers == 0);
  auto breaks = hundred_seconds({.breaks = 4});  // a quarter of them hits the socket for data
  CHECK(breaks.connections == doctest::Approx(100).epsilon(0.3));
  CHECK(breaks.late_timers + breaks.clock_steps == 0);
  auto pauses = hundred_seconds({.pauses = 0.5, .pause_most = 100ms});
  CHECK(pauses.late_timers == doctest::Approx(50).epsilon(0.5));
  CHECK(pauses.connections == 0);
  auto failovers = hundred_seconds({.failovers = 0.6});  // a third of them finds no replica
  CHECK(failovers.failovers == doctest::Approx(30).epsilon(0.5));
  CHECK(failovers.late_timers == 0);
  auto restarts = hundred_seconds({.restarts = 1, .down_most = 100ms});
  CHECK(restarts.connections == doctest::Approx(33).epsilon(0.5));
  CHECK(restarts.failovers == 0);
  auto stops = hundred_seconds({.stops = 1, .stop_most = 100ms});
  CHECK(stops.slow_answers > 20);
  CHECK(stops.connections == 0);
  auto steps = hundred_seconds({.clock_steps = 1});
  CHECK(steps.clock_steps == doctest::Approx(33).epsilon(0.5));
  CHECK(steps.slow_answers == 0);
}

TEST_CASE("a server that is out of memory, read-only or cannot save refuses writes for a while") {
  for (auto how : {FaultKind::out_of_memory, FaultKind::cannot_save, FaultKind::no_permission,
                   FaultKind::read_only}) {
    INFO(name(how));
    Scene scene;
    auto& alice = scene.process();
    CHECK(scene.ask(alice, {"SET", "k", "v"}) == "OK");
    scene.servers.refuse(0, how, 5s);
    CHECK(!scene.servers.happened().back().acted);
    auto expected = how == FaultKind::no_permission ? "denied" : "unavailable";
    CHECK(scene.ask(alice, {"SET", "k", "w"}) == expected);
    CHECK(scene.ask(alice, {"EVAL", "return redis.call('SET', KEYS[1], 'x')", "1", "k"}) ==
          expected);
    CHECK(scene.servers.happened().back().acted);
    CHECK(scene.servers.happened().back().fault == how);
    scene.run_for(5s);
    CHECK(scene.ask(alice, {"GET", "k"}) == "\"v\"");
    CHECK(scene.ask(alice, {"SET", "k", "w"}) == "OK");
  }
}

TEST_CASE("who meets a server that is loading tries again until its deadline") {
  Scene scene;
  auto& alice = scene.process();
  scene.servers.refuse(0, FaultKind::loading, 500ms);
  auto patient = scene.call(alice, {"INCR", "n"}, 1s);
  auto hasty = scene.call(alice, {"INCR", "n"}, 300ms);
  scene.run_for(1s);
  CHECK(*patient == "(integer) 1");
  CHECK(*hasty == "unavailable");
  CHECK(scene.look(0, {"GET", "n"}) == "\"1\"");
}

TEST_CASE("who meets a read-only server beside a sentinel connects again and goes on") {
  Scene scene(1, {.replicas = 1});
  auto& alice = scene.process();
  int connections = 0;
  alice.on_connected = [&] { ++connections; };
  scene.servers.refuse(0, FaultKind::read_only, 300ms);
  CHECK(scene.ask(alice, {"INCR", "n"}) == "(integer) 1");
  CHECK(connections > 0);
}

TEST_CASE("slots move with all that is in them, and whoever asks is told where to") {
  Scene scene(1,
              {.replicas = 1, .weather = {.news_most = 10s, .skew_most = 5s}, .is_cluster = true});
  auto& alice = scene.process();
  std::vector<std::string> heard;
  alice.on_message = [&](const Message& message) { heard.push_back(message.payload); };
  alice.ssubscribe("c");
  scene.run_for(1s);
  CHECK(scene.ask(alice, {"SET", "k", "v", "PX", "60000"}) == "OK");
  scene.servers.move_slots(1);
  CHECK(scene.servers.primary() == 1);
  auto epoch = alice.epoch();
  auto answer = scene.call(alice, {"PTTL", "k"});
  scene.run_for(500ms);
  CHECK(*answer > "(integer) 57000");  // whatever the clock there shows
  CHECK(*answer <= "(integer) 60000");
  CHECK(alice.epoch() == epoch);  // that news comes later
  CHECK(scene.ask(alice, {"SPUBLISH", "c", "hello"}) == "(integer) 0");
  CHECK(heard == std::vector<std::string>{"hello"});
  scene.run_for(10s);
  CHECK(alice.epoch() == epoch + 1);
  REQUIRE(!scene.servers.happened().empty());
  CHECK(scene.servers.happened()[0].fault == FaultKind::moved_slots);
  CHECK(scene.servers.happened()[0].until > scene.servers.happened()[0].from);
}

namespace {

// A cluster in which the slots of server 0 are half moved to server 1: {t}gone is there, {t}here is
// still here.
struct HalfMoved : Scene {
  explicit HalfMoved(std::uint64_t seed = 1, Weather weather = {.slow = 0})
      : Scene(seed, {.replicas = 1, .weather = weather, .is_cluster = true, .slots = {93}}),
        alice(process()) {
    CHECK(ask(alice, {"SET", "{t}here", "h"}) == "OK");
    CHECK(ask(alice, {"SET", "{t}gone", "g", "PX", "60000"}) == "OK");
    servers.begin_move(1);
    migrate("{t}gone");
  }
  void migrate(std::string key) { servers.migrate(std::span(&key, 1)); }
  // The server's own answer, which a client would otherwise follow.
  std::string told_by(int server, const Words& words, bool is_asking = false) {
    Reply reply;
    std::string answer;
    alice.call_at(
        server, words, world.now() + 1s,
        [&](const Result<Reply>& got) { answer = got ? redis::to_string(*got) : got.error().what; },
        is_asking);
    run_for(1s);
    return answer;
  }
  int asked(const Words& words) {  // which server has run it
    int by = -1;
    servers.on_executed = [&](int server, const Words&, const Reply&) { by = server; };
    ask(alice, words);
    servers.on_executed = nullptr;
    return by;
  }

  Connection& alice;
};

constexpr auto try_again = "TRYAGAIN Multiple keys request during rehashing of slot";

}  // namespace

TEST_CASE(
    "a server whose slots are half moved runs what it has all keys of, and says ASK or TRYAGAIN") {
  HalfMoved scene;
  CHECK(scene.told_by(0, {"GET", "{t}here"}) == "\"h\"");
  CHECK(scene.told_by(0, {"GET", "{t}gone"}) == "ASK 0 server-1:6379");
  CHECK(scene.told_by(0, {"GET", "{t}never"}) == "ASK 0 server-1:6379");
  CHECK(scene.told_by(0, {"MGET", "{t}gone", "{t}never"}) == "ASK 0 server-1:6379");
  CHECK(scene.told_by(0, {"MGET", "{t}here", "{t}gone"}) == try_again);
  CHECK(scene.told_by(0, {"MGET", "{t}here", "{t}never"}) == try_again);
  CHECK(scene.told_by(0, {"MGET", "{t}here", "{t}here"}) == "[\"h\", \"h\"]");
  CHECK(scene.told_by(0, {"EVAL", "return 1", "2", "{t}here", "{t}gone"}) == try_again);
  CHECK(scene.told_by(0, {"EVAL", "return 1", "1", "{t}here", "{t}gone"}) == "(integer) 1");
  CHECK(scene.told_by(0, {"EVAL", "return 1", "1", "{t}gone"}) == "ASK 0 server-1:6379");
  CHECK(scene.told_by(0, {"SPUBLISH", "{t}channel", "m"}) == "(integer) 0");
  CHECK(scene.told_by(0, {"PING"}) == "PONG");
  CHECK(scene.told_by(0, {"DBSIZE"}) == "(integer) 1");
}

TEST_CASE(
    "a server that gets slots runs what is announced with ASKING, unless a key of several is "
    "missing") {
  HalfMoved scene;
  auto owner = "MOVED 0 server-0:6379";
  CHECK(scene.told_by(1, {"GET", "{t}gone"}) == owner);
  CHECK(scene.told_by(1, {"SPUBLISH", "{t}channel", "m"}) == owner);
  CHECK(scene.told_by(1, {"DBSIZE"}) == "(integer) 1");
  CHECK(scene.told_by(1, {"GET", "{t}gone"}, true) == "\"g\"");
  CHECK(scene.told_by(1, {"GET", "{t}gone"}) == owner);  // ASKING counts for one command
  CHECK(scene.told_by(1, {"GET", "{t}never"}, true) == "(nil)");
  CHECK(scene.told_by(1, {"MGET", "{t}gone", "{t}gone"}, true) == "[\"g\", \"g\"]");
  CHECK(scene.told_by(1, {"MGET", "{t}gone", "{t}never"}, true) == try_again);
  CHECK(scene.told_by(1, {"EVAL", "return 1", "2", "{t}here", "{t}gone"}, true) == try_again);
  CHECK(scene.told_by(1, {"SPUBLISH", "{t}channel", "m"}, true) == "(integer) 0");
  CHECK(scene.told_by(1, {"SET", "{t}new", "n"}, true) == "OK");
  CHECK(scene.told_by(1, {"MGET", "{t}gone", "{t}new"}, true) == "[\"g\", \"n\"]");
}

TEST_CASE("a script that asks for a key which it has deleted ends there while its slot moves") {
  HalfMoved scene;
  constexpr auto script =
      "redis.call('SET', KEYS[2], 'seen') redis.call('DEL', KEYS[1]) "
      "redis.call('GET', KEYS[1]) redis.call('SET', KEYS[2], 'not seen')";
  Words words{"EVAL", script, "2", "{t}here", "{t}other"};
  scene.servers.model(0).run(Words{"SET", "{t}other", "o"}, scene.servers.wall_us(0));
  auto told = scene.told_by(0, words);
  CHECK(told.starts_with("ERR Script attempted to access a non local key in a cluster node"));
  CHECK(scene.look(0, {"GET", "{t}other"}) == "\"seen\"");
  CHECK(scene.look(0, {"EXISTS", "{t}here"}) == "(integer) 0");
}

TEST_CASE(
    "replicas follow a server whose slots are half moved, in what scripts did not do either") {
  Scene scene(1, {.replicas = 2, .is_cluster = true});
  auto& alice = scene.process();
  for (const char* key : {"{t}a", "{t}b", "{t}c"})
    CHECK(scene.ask(alice, {"SET", key, "1"}) == "OK");
  scene.servers.begin_move(1);
  std::string gone = "{t}c";
  scene.servers.migrate(std::span(&gone, 1));
  constexpr auto deletes =
      "redis.call('DEL', KEYS[1]) redis.call('SET', KEYS[2], '2') "
      "redis.call('GET', KEYS[1]) redis.call('SET', KEYS[2], '3')";
  CHECK(scene.ask(alice, {"EVAL", deletes, "2", "{t}a", "{t}b"}) == "refused");
  CHECK(scene.servers.is_following(2));
  CHECK(scene.look(2, {"MGET", "{t}a", "{t}b", "{t}c"}) ==
        scene.look(0, {"MGET", "{t}a", "{t}b", "{t}c"}));
  CHECK(scene.look(2, {"GET", "{t}b"}) == "\"2\"");
}

TEST_CASE("a client follows ASK with one command only, and waits for what is split, or is told") {
  HalfMoved scene;
  auto& alice = scene.alice;
  int connected = 0;
  alice.on_connected = [&] { ++connected; };
  CHECK(scene.asked({"GET", "{t}gone"}) == 1);
  CHECK(connected == 1);  // with the other server
  CHECK(scene.asked({"GET", "{t}here"}) == 0);
  CHECK(scene.asked({"SET", "{t}new", "v"}) == 1);
  CHECK(scene.ask(alice, {"GET", "{t}new"}) == "\"v\"");
  CHECK(alice.epoch() == 1);
  auto hasty = scene.call(alice, {"MGET", "{t}here", "{t}gone"}, 1s,
                          redis::CallOptions().unless_keys_are_split());
  auto impatient = scene.call(alice, {"MGET", "{t}here", "{t}gone"}, 100ms);
  auto patient = scene.call(alice, {"MGET", "{t}here", "{t}gone"}, 10s);
  auto durable = scene.durable(alice, {"INCR", "{t}n"}, 0);
  scene.run_for(500ms);
  CHECK(*hasty == "unavailable");
  CHECK(*impatient == "unavailable");
  CHECK(patient->empty());
  CHECK(durable->starts_with("(integer) 1 on"));
  CHECK(scene.look(1, {"GET", "{t}n"}) == "\"1\"");
  scene.migrate("{t}here");
  scene.run_for(500ms);
  CHECK(*patient == "[\"h\", \"g\"]");
}

TEST_CASE("slots that have moved key by key are with their new owner, with all that is in them") {
  HalfMoved scene(1, {.slow = 0, .news_most = 5s, .skew_most = 5s});
  std::vector<std::string> heard;
  scene.alice.on_message = [&](const Message& message) { heard.push_back(message.payload); };
  scene.alice.ssubscribe("{t}channel");
  scene.run_for(1s);
  CHECK(scene.servers.primary() == 0);
  CHECK(scene.servers.keys() == std::vector<std::string>{"{t}gone", "{t}here"});
  scene.servers.end_move();
  CHECK(!scene.servers.is_moving());
  CHECK(scene.servers.primary() == 1);
  CHECK(scene.servers.epoch() == 2);
  CHECK(scene.told_by(1, {"MGET", "{t}here", "{t}gone"}) == "[\"h\", \"g\"]");
  CHECK(scene.asked({"MGET", "{t}here", "{t}gone"}) == 1);
  CHECK(scene.ask(scene.alice, {"PTTL", "{t}gone"}) > "(integer) 40000");
  CHECK(scene.ask(scene.alice, {"PTTL", "{t}gone"}) <= "(integer) 60000");
  CHECK(scene.ask(scene.alice, {"SPUBLISH", "{t}channel", "hello"}) == "(integer) 0");
  CHECK(heard == std::vector<std::string>{"hello"});
  std::set<FaultKind> kinds;
  for (auto& happened : scene.servers.happened()) kinds.insert(happened.fault);
  CHECK(kinds.contains(FaultKind::half_moved_slots));
  CHECK(kinds.contains(FaultKind::moved_slots));
}

TEST_CASE("who still asks the old owner of slots is sent on, and finds no keys by looking there") {
  Scene scene(1, {.replicas = 1, .weather = {.slow = 0, .news_most = hour}, .is_cluster = true});
  auto &alice = scene.process(), &bob = scene.process();
  CHECK(scene.ask(alice, {"SET", "k", "v"}) == "OK");
  scene.servers.move_slots(1);
  CHECK(scene.ask(alice, {"DBSIZE"}) == "(integer) 0");  // without a key there is no redirection
  CHECK(scene.ask(bob, {"GET", "k"}) == "\"v\"");
  CHECK(scene.ask(bob, {"DBSIZE"}) == "(integer) 1");
}

TEST_CASE("only the owner of a slot says that it moves, and where to") {
  HalfMoved scene;
  CHECK(scene.told_by(0, {"CLUSTER", "NODES"})
            .contains("server-0 server-0:6379@16379 myself,master - 0 0 1 connected 0-16383 "
                      "[93->-server-1]"));
  CHECK(!scene.told_by(1, {"CLUSTER", "NODES"}).contains("->-"));
  scene.servers.end_move();
  CHECK(scene.told_by(1, {"CLUSTER", "NODES"})
            .contains("server-1 server-1:6379@16379 myself,master - 0 0 2 connected 0-16383"));
}

TEST_CASE(
    "in a cluster a message reaches who listens anywhere, that of a shard only who listens there") {
  HalfMoved scene;
  std::string heard;
  scene.alice.on_message = [&](const Message& message) { heard += message.payload; };
  scene.alice.subscribe("{t}channel");
  scene.alice.ssubscribe("{t}channel");
  scene.run_for(1s);
  for (const char* script : {"redis.call('PUBLISH', '{t}channel', 'to all ')",
                             "redis.call('SPUBLISH', '{t}channel', 'to the shard ')"})
    CHECK(scene.ask(scene.alice, {"EVAL", script, "1", "{t}gone"}) == "(nil)");
  CHECK(heard == "to all ");
}

TEST_CASE("slots move key by key in any order, in spite of restarts, and nothing is lost") {
  int split = how_often([](std::uint64_t seed) {
    Scene scene(seed, {.replicas = 1, .weather = {.restarts = 2}, .is_cluster = true});
    auto& alice = scene.process();
    for (int i = 0; i < 10; ++i)
      CHECK(scene.ask(alice, {"SET", fmt::format("{{t}}{}", i), "v"}) == "OK");
    scene.servers.begin_faults();
    scene.servers.move_key_by_key(1, 300ms);
    auto before = scene.servers.keys().size();
    scene.run_for(100ms);
    CHECK(scene.servers.keys().size() == before);
    bool is_split = scene.servers.is_moving() && !scene.servers.model(0).keys().empty() &&
                    !scene.servers.model(1).keys().empty();
    scene.servers.end_faults();
    scene.run_for(10s);
    CHECK(!scene.servers.is_moving());
    CHECK(scene.servers.primary() == 1);
    CHECK(scene.look(1, {"DBSIZE"}) == "(integer) 10");
    CHECK(scene.ask(alice, {"SET", "{t}new", "v"}) == "OK");
    CHECK(scene.look(0, {"DBSIZE"}) == "(integer) 11");  // which follows now
    return is_split;
  });
  CHECK(split > 30);
}

TEST_CASE("a server comes back with an older copy, and so do its replicas then") {
  Scene scene(1, {.replicas = 1});
  auto& alice = scene.process();
  CHECK(scene.ask(alice, {"SET", "k", "old"}) == "OK");
  auto copy = scene.servers.model(0);
  CHECK(scene.ask(alice, {"SET", "k", "new"}) == "OK");
  std::string forgotten;
  scene.servers.on_forget = [&](const ModelRedis& model) {
    forgotten += redis::to_string(ModelRedis(model).run(Words{"GET", "k"}, 0));
  };
  scene.servers.restore(0, 100ms, copy);
  scene.run_for(2s);
  CHECK(scene.ask(alice, {"GET", "k"}) == "\"old\"");
  CHECK(scene.look(1, {"GET", "k"}) == "\"old\"");
  CHECK(forgotten == "\"new\"\"new\"");  // by both
  CHECK(scene.servers.happened()[0].fault == FaultKind::restored);
}

TEST_CASE("a process that is cut off reaches nobody, with or without noticing") {
  Scene scene;
  auto &alice = scene.process(), &bob = scene.process();
  alice.cut_off(5s);
  auto cut = scene.call(alice, {"INCR", "n"}, 2s);
  scene.run_for(3s);
  CHECK(*cut == "unavailable");
  CHECK(!alice.is_connected());
  bob.fall_silent(5s, 1s);
  auto heard = scene.call(bob, {"INCR", "n"}, 2s);
  scene.run_for(1s);
  auto unheard = scene.call(bob, {"INCR", "n"}, 10s);
  scene.run_for(2s);
  CHECK(*heard == "unknown_outcome");
  CHECK(scene.look(0, {"GET", "n"}) == "\"1\"");
  CHECK(unheard->empty());
  CHECK(bob.is_connected());
  scene.run_for(3s);
  CHECK(*unheard == "(integer) 2");
  CHECK(scene.ask(alice, {"GET", "n"}) == "\"2\"");
}

TEST_CASE("a narrow link delays by the size of what goes through") {
  Scene scene(1, {.weather = {.slow = 0, .bandwidth = 10'000}});
  auto& alice = scene.process();
  auto large = scene.call(alice, {"SET", "k", std::string(5'000, 'x')}, 2s);
  scene.run_for(500ms);
  CHECK(large->empty());
  scene.run_for(20ms);
  CHECK(*large == "OK");
  CHECK(scene.servers.happened()[0].fault == FaultKind::narrow_link);
}

TEST_CASE("what happened is noted: who lost writes, and who went on answering") {
  Scene scene(1, {.replicas = 1, .weather = {.lag_least = 1h, .lag_most = 1h, .news_most = 1s}});
  auto& alice = scene.process();
  CHECK(scene.ask(alice, {"SET", "k", "v"}) == "OK");
  scene.servers.failover(1, 5s);
  auto kinds = [&] {
    std::set<FaultKind> seen;
    for (auto& happened : scene.servers.happened())
      if (happened.acted) seen.insert(happened.fault);
    return seen;
  };
  CHECK(kinds() == std::set{FaultKind::failover, FaultKind::lost_writes});
  CHECK(scene.servers.evict("nothing") == false);
  auto stale = scene.call(alice, {"INCR", "n"});
  scene.run_for(2s);
  CHECK(*stale == "(integer) 1");
  CHECK(kinds() == std::set{FaultKind::failover, FaultKind::lost_writes, FaultKind::stale_primary});
  CHECK(alice.epoch() == 2);
  auto& failover = scene.servers.happened()[0];
  CHECK(failover.until - failover.from <= 1s);
}

TEST_CASE("a clock that goes back twice is behind until it shows what it showed at first") {
  Scene scene;
  scene.servers.step_clock(0, -500ms);
  scene.run_for(100ms);
  scene.servers.step_clock(0, -300ms);
  auto happened = scene.servers.happened();
  REQUIRE(happened.size() == 2);
  CHECK(happened[1].fault == FaultKind::clock_back);
  CHECK(happened[0].until - happened[0].from == 500ms);
  CHECK(happened[1].until - happened[1].from == 700ms);
}

TEST_CASE("slots that move to a server whose clock is behind keep the times that they name") {
  Scene scene(1, {.replicas = 1, .is_cluster = true});
  scene.process();
  scene.servers.step_clock(1, -500ms);
  CHECK(scene.servers.happened().empty());  // not a primary's
  scene.servers.move_slots(1);
  auto happened = scene.servers.happened();
  REQUIRE(happened.size() == 2);
  CHECK(happened[1].fault == FaultKind::clock_back);
  CHECK(happened[1].until - happened[1].from == 500ms);
}

TEST_CASE("who connects to a primary hears since which epoch it is one") {
  Scene scene(1, {.replicas = 1, .weather = {.news_most = hour}});
  auto& alice = scene.process();
  alice.pause(100ms);  // so that it finds the first one as the primary again
  scene.servers.failover(1, 1ms);
  scene.run_for(20ms);
  scene.servers.failover(0, 1ms);
  CHECK(alice.epoch() == 1);
  scene.run_for(1s);
  CHECK(alice.is_connected());
  CHECK(alice.epoch() == 3);
}

TEST_CASE("a clock that drifts is ahead by more and more") {
  Scene scene(1, {.weather = {.drift_most = 0.01}});
  auto begin = scene.servers.wall_us(0);
  scene.run_for(1000s);
  auto passed = scene.servers.wall_us(0) - begin;
  CHECK(passed != 1'000'000'000);
  CHECK(std::abs(passed - 1'000'000'000) <= 10'000'000);
}

TEST_CASE("the clocks of servers differ from the start when the weather says so") {
  Scene scene(1, {.replicas = 1, .weather = {.skew_most = 1s}});
  auto skew = std::abs(scene.servers.wall_us(0) - scene.servers.wall_us(1));
  CHECK(skew > 0);
  CHECK(skew < 2'000'000);
  Scene calm(1, {.replicas = 1});
  CHECK(calm.servers.wall_us(0) == calm.servers.wall_us(1));
}

TEST_CASE("when faults end everything mends by itself") {
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    INFO("seed ", seed);
    Storm scene(seed);
    scene.run_for(5s);
    scene.servers.end_faults();
    scene.run_for(10s);
    int primary = scene.servers.primary(), failed_before = scene.failed;
    for (auto* process : scene.processes) {
      CHECK(process->is_connected());
      CHECK(process->is_connected(Socket::messages));
      CHECK(process->epoch() == scene.servers.epoch());
    }
    for (int server = 0; server < scene.servers.size(); ++server) {
      CHECK(scene.servers.acts_as_primary(server) == (server == primary));
      CHECK(scene.servers.is_following(server) == (server != primary));
    }
    scene.run_for(1s);
    for (auto* process : scene.processes) process->close();
    scene.run_for(1s);
    CHECK(scene.failed - failed_before < 20);  // deadlines of a few microseconds
    for (int server = 0; server < scene.servers.size(); ++server) {
      CHECK(scene.servers.offset(server) == scene.servers.offset(primary));
      for (const char* key : {"n", "durable"})
        CHECK(scene.look(server, {"GET", key}) == scene.look(primary, {"GET", key}));
    }
  }
}
