// What the leader does for sessions that nobody asks about, and what the log says of it all.
#include "tests/session_replicas.h"

using namespace warren;
using namespace warren::session;

TEST_CASE("an open WebSocket that says nothing, and a request that takes long, are a use") {
  Replicas replicas(1, {"--idle", "2s"});
  auto runtime = replicas.start_session(0, "a");
  auto used_at = [&] { return *replicas.yard().touched_at(name_of("a")); };
  auto hold = [&](HttpAsk ask) {
    auto all = [](std::string to, HttpAsk what,
                  std::function<bool()> is_enough) -> awaitable<void> {
      HttpPool pool(co_await asio::this_coro::executor, {});
      auto url = *parse_http_url(to);
      auto deadline = Clock::now() + 100s;
      auto call = co_await pool.begin(url, std::move(what), std::nullopt, deadline);
      REQUIRE(call);
      co_await eventually(60s, "it counts as used all the time", is_enough);
    };
    auto began = used_at();
    auto is_enough = [&] { return used_at() - began > 6s; };
    testkit::run(all(replicas.url(0), std::move(ask), is_enough), 120s);
    CHECK(status_at(replicas, 0, "a") == "running");
  };
  SUBCASE("a WebSocket") {
    hold({"GET", at_agent(runtime, "/socket"),
          key_header(runtime) +
              "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
              "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"});
  }
  SUBCASE("a request") {
    replicas.ask(0, "GET", at_agent(runtime, "/idle?seconds=silent"), "", key_header(runtime));
    hold({"GET", at_agent(runtime, "/server_info"), key_header(runtime)});
  }
  await_status(replicas, 0, "a", "paused");
}

TEST_CASE("an agent that works is not paused, and is asked once more before it is") {
  Replicas replicas(1, {"--idle", "2s"});
  auto runtime = replicas.start_session(0, "a");
  auto says = [&](const std::string& seconds) {
    auto target = at_agent(runtime, "/idle?seconds=" + seconds);
    REQUIRE(replicas.ask(0, "GET", target, "", key_header(runtime)).first == 200);
  };
  auto used_at = [&] { return *replicas.yard().touched_at(name_of("a")); };
  SUBCASE("it works all the time") { says("0"); }
  SUBCASE("it begins to work when it is about to be paused") { says("1000,0"); }
  auto began = used_at();
  wait_for(60s, "its work counts as use", [&] { return used_at() - began > 4s; });
  CHECK(status_at(replicas, 0, "a") == "running");
  says("1000");
  await_status(replicas, 0, "a", "paused");
}

TEST_CASE("an agent that does not answer may be at work, and is given the idle time once more") {
  Replicas replicas(1, {"--idle", "3s"});
  auto runtime = replicas.start_session(0, "a");
  auto target = at_agent(runtime, "/idle?seconds=broken");
  REQUIRE(replicas.ask(0, "GET", target, "", key_header(runtime)).first == 200);
  auto used = *replicas.yard().touched_at(name_of("a"));
  await_record(replicas, "a", "paused");
  CHECK(WallClock::now() - used >= 6s);
}

TEST_CASE("what is due ends together, not one after the other") {
  Replicas replicas(1, {"--idle", "4s"});
  for (const auto* id : {"a", "b", "c", "d"}) replicas.start_session(0, id, {"--deaf"});
  wait_for(90s, "several end at once", [&] {
    auto yard = replicas.yard();
    auto ends = [&](const std::string& name) {
      auto state = yard.state(name);
      return state && state->phase == Phase::ending;
    };
    return std::ranges::count_if(yard.names(), ends) >= 3;
  });
  for (const auto* id : {"a", "b", "c", "d"}) await_status(replicas, 0, id, "paused");
}

TEST_CASE("a sandbox that fails is started again, though nobody asks for it") {
  Replicas replicas(2);
  auto runtime = replicas.start_session(0, "a");
  auto before = replicas.yard().state(name_of("a"));
  replicas.ask(0, "GET", at_agent(runtime, "/exit?code=3"), "", key_header(runtime));
  wait_for(90s, "another life has begun", [&] {
    auto state = replicas.yard().state(name_of("a"));
    return state && state->incarnation != before->incarnation && state->phase == Phase::running;
  });
  CHECK(replicas.yard().state(name_of("a"))->restarts == 1);
  await_status(replicas, 1, "a", "running");
  // One that ended in good order has done what it was for.
  auto done = replicas.start_session(0, "done");
  replicas.ask(0, "GET", at_agent(done, "/exit?code=0"), "", key_header(done));
  await_status(replicas, 0, "done", "error");
}

TEST_CASE("the log has OpenHands' lines, word for word, each at its moment") {
  Replicas replicas(2, {"--ready-time", "10s"}, {"WARREN_LOG_LEVEL=info,session=debug"});
  auto said = [&](int i, const std::string& line) {
    wait_for(90s, "replica " + std::to_string(i) + " says: " + line,
             [&] { return replicas.whole_log(i).contains("message=\"" + line); });
  };
  auto silent = [&](int i, const std::string& line) {
    CHECK_MESSAGE(!replicas.whole_log(i).contains(line), line);
  };
  auto pod = name_of("golden");
  auto creating = replicas.asking(0, "/start", replicas.start_body("golden", {"--delay", "3"}));
  said(0, "Pod coordination attempt 1/3\"");
  said(0, "Acquired lock for pod creation\"");
  wait_for(60s, "the other has heard of it",
           [&] { return status_at(replicas, 1, "golden") != "404"; });
  silent(1, "Another replica is creating");
  auto runtime = replicas.start_session(1, "golden", {"--delay", "3"});
  said(1, fmt::format("Another replica is creating pod {} (age: ", pod));
  CHECK(replicas.whole_log(1).contains("s), waiting...\""));
  said(1, "Successfully attached to existing pod\"");
  silent(1, "Acquired lock");
  silent(0, "Successfully attached");
  CHECK(creating->wait(60s) == 0);

  // Its sandbox goes behind everybody's back.
  auto remove = [](ProcessTerms terms, std::string name) -> awaitable<void> {
    auto driver = ProcessDriver::create(co_await asio::this_coro::executor, std::move(terms));
    REQUIRE(driver);
    REQUIRE(co_await (*driver)->stop(name, "", Clock::now() + 60s));
  };
  testkit::run(remove(terms_in(replicas.yard().root()), pod), 90s);
  wait_for(30s, "it is known to be gone",
           [&] { return status_at(replicas, 0, "golden") == "404"; });
  silent(0, "Cleaning up Redis state");
  replicas.start_session(0, "golden");
  said(0, fmt::format("Cleaning up Redis state for non-existent pod {}\"", pod));

  // Another program holds the lock for longer than anybody waits.
  auto key = resource_of("default", name_of("locked"));
  replicas.redis().cli({"SET", "openhands:lock:" + key, "1700000000", "EX", "300"});
  silent(0, "Could not acquire lock");
  auto refused = replicas.asking(0, "/start", replicas.start_body("locked"));
  said(0, fmt::format("Could not acquire lock for {}\"", key));

  silent(1, "Redis coordinator not available");
  replicas.redis().pause();
  replicas.start_session(1, "alone");
  said(1, "Redis coordinator not available\"");
  said(1, "Redis coordination failed, falling back to legacy pod creation\"");
  replicas.redis().resume();
}
