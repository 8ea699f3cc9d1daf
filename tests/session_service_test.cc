// The session service as it is run: replicas as processes on one Redis, real sandboxes, clients over HTTP.
#include <signal.h>

#include "tests/session_replicas.h"

using namespace warren;
using namespace warren::session;

TEST_CASE(
    "sessions asked for at three replicas at once, one of which is killed, have one sandbox each") {
  Replicas replicas(3);
  constexpr std::size_t sessions = 4;
  std::vector<Told> told;
  auto all = [](Replicas& of, std::vector<Told>& into) -> awaitable<void> {
    auto body = [](TaskGroup& tasks, Replicas& at, std::vector<Told>& results) -> awaitable<bool> {
      for (std::size_t s = 0; s < sessions; ++s)
        for (int i = 0; i < 3; ++i) {
          auto id = fmt::format("Session {}", s);
          tasks.start("test.start", start_and_tell(at.url(i), at.start_body(id, {"--delay", "0.3"}),
                                                   results, {i, id}));
        }
      auto has_begun = [](Replicas& by) { return by.log(0).contains("Acquired lock"); };
      auto is_over = [](std::vector<Told>& now) { return now.size() == 3 * sessions; };
      auto has_begun_or_is_over = [&]() { return has_begun(at) || is_over(results); };
      co_await eventually(60s, "the first replica creates one", has_begun_or_is_over);
      at.process(0).kill();
      co_await eventually(160s, "all have an answer", is_over, results);
      co_return true;
    };
    co_await with_group(body, of, into);
  };
  testkit::run(all(replicas, told), 200s);
  std::map<std::string, std::set<std::string>> runtimes;
  for (const auto& one : told) {
    if (one.replica == 0) continue;
    CHECK_MESSAGE(one.status == 200, one.body);
    if (one.status != 200) continue;
    auto object = json::parse(one.body).as_object();
    runtimes[one.session].insert(text_of(object, "runtime_id") +
                                 text_of(object, "session_api_key"));
  }
  CHECK(runtimes.size() == sessions);
  for (const auto& [session, seen] : runtimes) CHECK_MESSAGE(seen.size() == 1, session);
  CHECK(replicas.yard().names().size() == sessions);
  replicas.check_no_violation();

  // Redis forgets everything: whoever asks finds the same sandbox, and the records come back.
  replicas.redis().cli({"FLUSHALL"});
  auto again = replicas.start_session(1, "Session 0", {"--delay", "0.3"});
  CHECK(runtimes["Session 0"].contains(text_of(again, "runtime_id") +
                                       text_of(again, "session_api_key")));
  replicas.check_no_violation();
}

TEST_CASE(
    "records in Redis are called and written as OpenHands has them, and logs say it in its words") {
  Replicas replicas(2);
  auto runtime = replicas.start_session(0, "session-123");
  CHECK(text_of(runtime, "status") == "running");
  auto key = "openhands:resource:k8s-pod:default:openhands-runtime-session-123";
  auto record = json::parse(replicas.redis().cli({"GET", key})).as_object();
  CHECK(text_of(record, "status") == "created");
  CHECK(text_of(record, "pod_name") == "openhands-runtime-session-123");
  CHECK(record.contains("replica_id"));
  CHECK(record.contains("timestamp"));
  auto ttl = std::stoll(replicas.redis().cli({"TTL", key}));
  CHECK(ttl > 3500);
  CHECK(ttl <= 3600);
  CHECK(replicas.redis().cli(
            {"EXISTS", "openhands:lock:k8s-pod:default:openhands-runtime-session-123"}) == "0");
  CHECK(!replicas.redis().cli({"GET", key}).contains(text_of(runtime, "session_api_key")));
  CHECK(replicas.log(0).contains("Acquired lock for pod creation"));
  CHECK(replicas.log(0).contains("COORDINATION_METRIC: {\"action\":\"create_success\""));

  replicas.start_session(1, "session-123");
  CHECK(replicas.log(1).contains("Successfully attached to existing pod"));
  CHECK(replicas.log(1).contains("COORDINATION_METRIC: {\"action\":\"attach_success\""));
  auto metrics = replicas.ask(1, "GET", "/metrics").second;
  CHECK(metrics.contains("openhands_coordination_attach_successes_total 1"));
  CHECK(metrics.contains("openhands_redis_coordination_enabled 1"));

  auto body = json::serialize(json::object{{"runtime_id", runtime.at("runtime_id")}});
  CHECK(replicas.ask(1, "POST", "/stop", body).first == 200);
  CHECK(replicas.redis().cli({"EXISTS", key}) == "0");
  CHECK(replicas.ask(0, "POST", "/stop", body).first == 404);
}

TEST_CASE("a client written from the description finds all of it, through the proxy too") {
  Replicas replicas(2);
  auto run = [&](const std::string& id) {
    auto log = replicas.judge() / "client.log";
    fs::remove(log);
    auto object = json::parse(replicas.start_body(id)).as_object();
    Program program{{"python3", fs::path(WARREN_TESTS) / "session_client.py", replicas.url(0),
                     api_key, id, json::serialize(object.at("command"))},
                    log};
    Process client(program);
    auto code = client.wait(150s);
    CHECK_MESSAGE(code == 0, client.log_text() << "\n" << replicas.log(0));
  };
  run("agent-server-8f14e45f-ceea-467f-9575-25b5cb6f0b7a");
  run("../Ünicode/a b");
}

TEST_CASE("hostile ids are sessions like others, and two that differ by case stay two") {
  Replicas replicas(1);
  std::vector<std::string> ids{"../../../etc/passwd", "ABC", "abc", std::string(200, 'x')};
  std::set<std::string> runtimes;
  for (const auto& id : ids) runtimes.insert(text_of(replicas.start_session(0, id), "runtime_id"));
  CHECK(runtimes.size() == ids.size());
  for (const auto& id : ids) CHECK(text_of(replicas.session(0, id), "session_id") == id);
  CHECK(replicas.yard().names().size() == ids.size());
  for (const auto& name : replicas.yard().names()) CHECK(!name.contains('/'));

  CHECK(replicas.ask(0, "POST", "/start", R"({"session_id":"a\nb"})").first == 400);
  CHECK(replicas.ask(0, "POST", "/start", "{").first == 400);
  auto large = R"({"session_id":"a","environment":{"A":")" + std::string(1'100'000, 'x') + "\"}}";
  auto refused = replicas.ask(0, "POST", "/start", large);
  CHECK(refused.first == 413);
  CHECK(json::parse(refused.second).as_object().contains("detail"));
  CHECK(replicas.ask(0, "GET", "/list", "", "X-API-Key: wrong\r\n").first == 401);
  CHECK(replicas.ask(0, "POST", "/build", "x").first == 501);
  CHECK(replicas.ask(0, "GET", "/build_status?build_id=1").first == 501);
  CHECK(replicas.ask(0, "GET", "/runtime/" + std::string(32, 'a')).first == 404);
  CHECK(replicas.ask(0, "GET", "/" + std::string(32, 'a') + "/runtime/alive").first == 404);
}

TEST_CASE(
    "a stop ends a start that is under way, at another replica too, and nothing comes after it") {
  Replicas replicas(2);
  std::vector<Told> told;
  auto all = [](Replicas& of, std::vector<Told>& into) -> awaitable<void> {
    auto body = [](TaskGroup& tasks, Replicas& at, std::vector<Told>& results) -> awaitable<bool> {
      tasks.start("test.start",
                  start_and_tell(at.url(0), at.start_body("brief", {"--delay", "100"}), results,
                                 {0, "brief"}));
      auto runtime = runtime_id_of("default", "brief");
      HttpPool pool(co_await asio::this_coro::executor, {});
      auto is_known = [](HttpPool& by, Replicas& there, std::string& which) -> awaitable<bool> {
        HttpAsk look{"GET", "/runtime/" + which, fmt::format("X-API-Key: {}\r\n", api_key)};
        auto seen =
            co_await by.ask(*parse_http_url(there.url(1)), std::move(look), Clock::now() + 60s);
        co_return seen && seen->status == 200;
      };
      co_await eventually(60s, "the other replica knows of it", is_known, pool, at, runtime);
      HttpAsk ask{"POST", "/stop", fmt::format("X-API-Key: {}\r\n", api_key),
                  json::serialize(json::object{{"runtime_id", runtime}})};
      auto reply =
          co_await pool.ask(*parse_http_url(at.url(1)), std::move(ask), Clock::now() + 60s);
      REQUIRE(reply);
      CHECK_MESSAGE(reply->status == 200, reply->body);
      auto is_over = [&results] { return !results.empty(); };
      co_await eventually(60s, "the start has an answer", is_over);
      co_return true;
    };
    co_await with_group(body, of, into);
  };
  testkit::run(all(replicas, told), 150s);
  CHECK_MESSAGE(told[0].status != 200, told[0].body);
  CHECK(replicas.ask(0, "GET", "/sessions/brief").first == 404);
  CHECK(!replicas.yard().is_locked(name_of("brief")));
  CHECK(text_of(replicas.start_session(1, "brief"), "status") == "running");
}

TEST_CASE("a replica that ends deletes nothing, and the next one serves the same sandbox") {
  Replicas replicas(1);
  auto before = replicas.start_session(0, "stays");
  auto state = replicas.yard().state(name_of("stays"));
  REQUIRE(state);
  replicas.process(0).terminate();
  CHECK(replicas.process(0).wait(40s) == 0);
  CHECK(replicas.yard().is_locked(name_of("stays")));
  replicas.start(0);
  replicas.await_ready(0);
  auto after = replicas.start_session(0, "stays");
  CHECK(text_of(after, "session_api_key") == text_of(before, "session_api_key"));
  auto same = replicas.yard().state(name_of("stays"));
  CHECK(same->main_pid == state->main_pid);
  CHECK(same->main_began == state->main_began);
}

TEST_CASE("a replica that begins is no use of the sandboxes that it finds") {
  Replicas replicas(1);
  replicas.start_session(0, "rests");
  replicas.process(0).terminate();
  CHECK(replicas.process(0).wait(40s) == 0);
  auto used = replicas.yard().touched_at(name_of("rests"));
  REQUIRE(used);
  replicas.start(0);
  replicas.await_ready(0);
  wait_for(60s, "it is served", [&]() -> Result<> {
    auto status = text_of(replicas.session(0, "rests"), "status");
    return status == "running" ? Result<>(ok) : fail(Errc::invalid, "it is {}", status);
  });
  CHECK(replicas.yard().touched_at(name_of("rests")) == used);
}

TEST_CASE("while Redis does not answer, sessions are started by what the driver guarantees") {
  Replicas replicas(1);
  replicas.redis().pause();
  auto runtime = replicas.start_session(0, "without");
  CHECK(text_of(runtime, "status") == "running");
  wait_for(30s, "it is said",
           [&] { return replicas.log(0).contains("Redis coordinator not available"); });
  replicas.redis().resume();
  auto key = "openhands:resource:" + resource_of("default", name_of("without"));
  wait_for(60s, "it is recorded", [&] { return replicas.redis().cli({"EXISTS", key}) == "1"; });
  replicas.check_no_violation();
}

TEST_CASE("what nobody uses is paused, and a request with the session's key brings it back") {
  Replicas replicas(1, {"--idle", "2s"});
  auto runtime = replicas.start_session(0, "idle");
  wait_for(60s, "it is paused", [&]() -> Result<> {
    auto status = text_of(replicas.session(0, "idle"), "status");
    return status == "paused" ? Result<>(ok) : fail(Errc::invalid, "it is {}", status);
  });
  auto path = "/" + text_of(runtime, "runtime_id") + "/runtime/alive";
  CHECK(replicas.ask(0, "GET", path, "", "X-Session-API-Key: wrong\r\n").first == 503);
  auto key = fmt::format("X-Session-API-Key: {}\r\n", text_of(runtime, "session_api_key"));
  CHECK(replicas.ask(0, "GET", path, "", key).first == 200);
}

TEST_CASE("where that is asked for a request to a paused session gets 503, and resumes nothing") {
  Replicas replicas(1, {"--idle", "2s", "--no-resume"});
  auto runtime = replicas.start_session(0, "stays-paused");
  auto status = [&] { return text_of(replicas.session(0, "stays-paused"), "status"); };
  wait_for(60s, "it is paused", [&] { return status() == "paused"; });
  auto path = "/" + text_of(runtime, "runtime_id") + "/runtime/alive";
  auto key = fmt::format("X-Session-API-Key: {}\r\n", text_of(runtime, "session_api_key"));
  CHECK(replicas.ask(0, "GET", path, "", key).first == 503);
  CHECK(status() == "paused");
  auto id = text_of(runtime, "runtime_id");
  CHECK(replicas.ask(0, "POST", "/resume", fmt::format(R"({{"runtime_id":"{}"}})", id)).first ==
        200);
  CHECK(replicas.ask(0, "GET", path, "", key).first == 200);
}

TEST_CASE("where keys are required only probes do without the session's own") {
  Replicas replicas(1, {"--require-key"});
  auto runtime = replicas.start_session(0, "locked");
  auto base = "/" + text_of(runtime, "runtime_id") + "/runtime";
  auto none = "Accept: */*\r\n";
  CHECK(replicas.ask(0, "GET", base + "/alive", "", none).first == 200);
  CHECK(replicas.ask(0, "GET", base + "/path", "", none).first == 401);
  CHECK(replicas.ask(0, "GET", base + "/path", "", "X-Session-API-Key: wrong\r\n").first == 401);
  auto key = fmt::format("X-Session-API-Key: {}\r\n", text_of(runtime, "session_api_key"));
  CHECK(replicas.ask(0, "GET", base + "/path", "", key).first == 200);
}

TEST_CASE("a session that runs is not started with another command, and what it has stays") {
  Replicas replicas(1);
  auto runtime = replicas.start_session(0, "one");
  auto other = replicas.ask(0, "POST", "/start", replicas.start_body("one", {"--judge", "/tmp"}));
  CHECK_MESSAGE(other.first == 409, other.second);
  CHECK(other.second.contains("another image or command"));
  CHECK(text_of(replicas.start_session(0, "one"), "runtime_id") == text_of(runtime, "runtime_id"));
  replicas.check_no_violation();
}

TEST_CASE("images are asked for as OpenHands does it") {
  Replicas replicas(1);
  auto prefix = replicas.ask(0, "GET", "/registry_prefix");
  CHECK(prefix.first == 200);
  CHECK(json::parse(prefix.second).as_object().contains("registry_prefix"));
  auto there = replicas.ask(0, "GET", "/image_exists?image=test");
  CHECK(there.first == 200);
  CHECK(json::parse(there.second).as_object().contains("exists"));
  CHECK(replicas.ask(0, "GET", "/image_exists").first == 400);
  auto build = replicas.ask(0, "POST", "/build", "{}");
  CHECK(build.first == 501);
  CHECK(replicas.ask(0, "GET", "/build_status").first == 501);
}

TEST_CASE("a sandbox that cannot start is told with its reason, and can be tried again") {
  Replicas replicas(1);
  auto body = R"({"session_id":"broken","command":["sh","-c","echo it is broken; exit 9"]})";
  auto answer = replicas.ask(0, "POST", "/start", body);
  CHECK(answer.first == 500);
  CHECK(answer.second.contains("exit code 9"));
  CHECK(answer.second.contains("it is broken"));
  auto view = replicas.session(0, "broken");
  CHECK(text_of(view, "status") == "error");
  CHECK(text_of(view, "pod_status") == "failed");
  CHECK(text_of(view, "pod_logs").contains("it is broken"));
}
