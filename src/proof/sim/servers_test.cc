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

// What a process was told: "OK", "(nil)", "(integer) 1", or the name of an error.
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
  // Its answer will be in the place that is returned; empty until then.
  std::shared_ptr<std::string> call(Connection& connection, Words words,
                                    Clock::duration patience = 1s,
                                    redis::CallOptions options = {}) {
    auto answer = std::make_shared<std::string>();
    connection.call(
        std::move(words), world.now() + patience,
        [answer](const Result<Reply>& reply) {
          CHECK(answer->empty());  // once
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
  // Behind the back of everybody.
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
  CHECK(connected == 2);  // the epoch, and then the connection
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
  alice.pause(5s);  // so that it does not hear
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
  CHECK(*answer == "unknown_outcome");  // alice has gone to the new one
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

// Some processes in a storm; all that they hear, with its time.
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
