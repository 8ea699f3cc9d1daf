// Sessions when something goes wrong: ports that change hands, replicas that are killed within a step, records
// without a sandbox, no Redis.
#include <signal.h>

#include "services/session/process/kin.h"
#include "services/session/serve/service.h"
#include "tests/session_replicas.h"

using namespace warren;
using namespace warren::session;

namespace {

// ---- One sandbox has died unnoticed, and another has its ports.

struct Setup {
  TempFolder folder;
  YardKeeper keeper{folder.path() / "yard"};
  ProcessTerms terms = terms_in(keeper.root());
  Metrics metrics;
};

// A replica in this process, whose driver does not look at locks by itself; and another driver.
struct Parts {
  ProcessDriver& blind;
  ProcessDriver& other;
  Service& service;
  Metrics& metrics;
  HttpPool pool;

  HttpUrl url() const {
    return *parse_http_url(fmt::format("http://127.0.0.1:{}", service.port()));
  }
};

awaitable<HttpReply> asked(Parts& parts, HttpAsk ask) {
  auto deadline = Clock::now() + 100s;
  auto reply = co_await parts.pool.ask(parts.url(), std::move(ask), deadline);
  REQUIRE_MESSAGE(reply, reply.error().what);
  co_return *std::move(reply);
}

awaitable<Sandbox> started(ProcessDriver& driver, SandboxSpec spec) {
  auto deadline = Clock::now() + 60s;
  auto name = spec.name;
  auto sight = co_await driver.look(name, deadline);
  REQUIRE(sight);
  auto sandbox = co_await driver.start(std::move(spec), sight->basis, deadline);
  REQUIRE_MESSAGE(sandbox, sandbox.error().what);
  co_return *std::move(sandbox);
}

// Kills the shim of the first, and starts the second until it has the port that the first one had.
awaitable<Sandbox> port_taken_over(Parts& parts, std::string first, SandboxSpec second) {
  auto port = parts.blind.seen(first)->endpoints.at(Door::runtime).port;
  auto state = parts.other.yard().state(first);
  REQUIRE(state);
  auto family = descendants_of(state->pid);
  ::kill(state->pid, SIGKILL);
  auto are_gone = [](std::vector<pid_t>& all) {
    return std::ranges::all_of(all, [](pid_t pid) { return began_at(pid) == 0; });
  };
  co_await eventually(30s, "its processes are gone", are_gone, family);
  for (int attempt = 0; attempt < 100; ++attempt) {
    auto sandbox = co_await started(parts.other, second);
    if (sandbox.endpoints.at(Door::runtime).port == port) {
      auto runs = [](ProcessDriver& of, std::string& which) {
        const auto* seen = of.seen(which);
        return seen && seen->phase == Phase::running;
      };
      co_await eventually(60s, "it runs", runs, parts.other, second.name);
      co_return sandbox;
    }
    auto stopped = co_await parts.other.stop(second.name, sandbox.incarnation, Clock::now() + 60s);
    REQUIRE(stopped);
  }
  FAIL("the port is never given out again");
  std::abort();
}

awaitable<std::string> heard_by(Parts& parts, Sandbox sandbox) {
  auto port = std::to_string(sandbox.endpoints.at(Door::runtime).port);
  HttpUrl url{.host = "127.0.0.1", .port = port, .path = ""};
  HttpAsk ask{"GET", "/heard"};
  auto deadline = Clock::now() + 60s;
  auto reply = co_await parts.pool.ask(std::move(url), std::move(ask), deadline);
  REQUIRE_MESSAGE(reply, reply.error().what);
  co_return reply->body;
}

enum class Way { request, conversations, idle };

awaitable<void> look_for_leaks(Parts& parts, Way way) {
  auto first = agent_spec("first"), second = agent_spec("second");
  json::object body{{"session_id", "first"},
                    {"command", json::array(first.command.begin(), first.command.end())}};
  auto management = fmt::format("X-API-Key: {}\r\n", api_key);
  HttpAsk start{"POST", "/start", management, json::serialize(body)};
  auto runtime = co_await asked(parts, std::move(start));
  REQUIRE_MESSAGE(runtime.status == 200, runtime.body);
  auto object = json::parse(runtime.body).as_object();
  HttpAsk before{"GET", at_agent(object, "/alive"), key_header(object)};
  auto alive = co_await asked(parts, std::move(before));
  REQUIRE(alive.status == 200);

  auto taken = co_await port_taken_over(parts, first.name, second);
  REQUIRE(parts.blind.seen(first.name)->phase == Phase::running);
  auto key = text_of(object, "session_api_key");
  if (way == Way::request) {
    HttpAsk late{"GET", at_agent(object, "/env"), key_header(object)};
    auto reply = co_await asked(parts, std::move(late));
    CHECK_MESSAGE(reply.status >= 500, reply.body);
    CHECK(!reply.body.contains(taken.spec.key));
  } else if (way == Way::conversations) {
    json::object one{{"session_id", "first"}, {"conversation_ids", json::array{json::value("c")}}};
    json::object sandboxes;
    sandboxes[text_of(object, "runtime_id")] = one;
    auto question = json::serialize(json::object{{"sandboxes", sandboxes}});
    HttpAsk late{"POST", "/sessions/batch-conversations", management, std::move(question)};
    auto reply = co_await asked(parts, std::move(late));
    CHECK(reply.status == 200);
  } else {
    Telling telling(parts.metrics, {}, false, [](const std::string&) {});
    HousekeepingTerms terms;
    terms.due.idle = 1ms;
    auto executor = co_await asio::this_coro::executor;
    Housekeeping housekeeping(executor, parts.service.sessions(), nullptr, terms, telling);
    Sessions::Use use(parts.service.sessions(), second.name);
    co_await housekeeping.end_what_is_due();
  }
  auto heard = co_await heard_by(parts, taken);
  CHECK_MESSAGE(!heard.contains(key), heard);
  CHECK(!heard.contains("/env"));
  CHECK(!heard.contains("/api/conversations"));
  // The driver has looked again.
  CHECK(!parts.blind.seen(first.name)->lives());
}

awaitable<void> with_parts(Setup& setup, Way way) {
  auto executor = co_await asio::this_coro::executor;
  auto blind_terms = setup.terms;
  blind_terms.look_at_locks = 1h;
  auto blind = ProcessDriver::create(executor, std::move(blind_terms));
  REQUIRE_MESSAGE(blind, blind.error().what);
  auto other = ProcessDriver::create(executor, setup.terms);
  REQUIRE(other);
  ServiceSettings settings;
  settings.api_key = api_key;
  settings.housekeeping.due.idle = 0ms;
  auto service = Service::create(executor, **blind, nullptr, std::move(settings), setup.metrics,
                                 [](const std::string&) {});
  REQUIRE_MESSAGE(service, service.error().what);
  Parts parts{**blind, **other, **service, setup.metrics, HttpPool(executor, {})};
  auto body = [](TaskGroup& tasks, Parts& of, Way& by) -> awaitable<bool> {
    tasks.start("test.service", of.service.run());
    tasks.start("test.other", of.other.run());
    auto is_ready = [](Parts& all) { return all.service.sessions().is_ready(); };
    co_await eventually(30s, "it is ready", is_ready, of);
    co_await look_for_leaks(of, by);
    co_return true;
  };
  co_await with_group(body, parts, way);
  co_await (*service)->close();
}

// ---- Replicas that are killed.

// Asks the first replica for it, and kills that in the middle of it.
void kill_within(Replicas& replicas, const std::string& verb, const std::string& id,
                 const json::object& runtime, const std::string& step) {
  auto asking = replicas.asking(0, "/" + verb, body_for(runtime));
  await_record(replicas, id, step);
  replicas.process(0).kill();
}

}  // namespace

TEST_CASE(
    "where another sandbox has the port of one that died, it gets no request and no key of that") {
  Setup setup;
  setup.terms.last_port = static_cast<unsigned short>(setup.terms.first_port + 3);
  auto way = Way::request;
  SUBCASE("of a client") { way = Way::request; }
  SUBCASE("for conversations") { way = Way::conversations; }
  SUBCASE("of who looks whether it is idle") { way = Way::idle; }
  testkit::run(with_parts(setup, way), 200s);
}

TEST_CASE(
    "a pause whose replica is killed is finished by another one, and nobody has to ask for it") {
  Replicas replicas(2);
  auto runtime = replicas.start_session(0, "a", {"--deaf"});
  kill_within(replicas, "pause", "a", runtime, "pausing");
  await_record(replicas, "a", "paused");
  CHECK(replicas.yard().state(name_of("a"))->phase == Phase::paused);
  CHECK(!replicas.yard().is_locked(name_of("a")));
  CHECK(text_of(replicas.start_session(1, "a", {"--deaf"}), "status") == "running");
  replicas.check_no_violation();
}

TEST_CASE("a stop whose replica is killed is finished by another one, files and all") {
  Replicas replicas(2);
  auto runtime = replicas.start_session(0, "a", {"--deaf"});
  kill_within(replicas, "stop", "a", runtime, "stopping");
  await_record(replicas, "a", "");
  wait_for(60s, "it is gone", [&] { return status_at(replicas, 1, "a") == "404"; });
  CHECK(!replicas.yard().state(name_of("a")));
  CHECK(replicas.yard().names().empty());
  CHECK(!replicas.yard().is_locked(name_of("a")));
  CHECK(text_of(replicas.start_session(1, "a"), "status") == "running");
  replicas.check_no_violation();
}

TEST_CASE("a resume whose replica is killed is recorded as far as it came, and serves") {
  Replicas replicas(2);
  auto runtime = replicas.start_session(0, "a", {"--delay", "1"});
  REQUIRE(replicas.ask(0, "POST", "/pause", body_for(runtime)).first == 200);
  kill_within(replicas, "resume", "a", runtime, "creating");
  await_status(replicas, 1, "a", replicas.yard().is_locked(name_of("a")) ? "running" : "paused");
  wait_for(90s, "the record is settled", [&] { return replicas.record("a") != "creating"; });
  auto resumed = replicas.ask(1, "POST", "/resume", body_for(runtime));
  CHECK(resumed.first == 200);
  CHECK(replicas.session(1, "a").at("session_api_key") == runtime.at("session_api_key"));
  replicas.check_no_violation();
}

TEST_CASE(
    "a record whose sandbox has gone unnoticed is removed by the leader, counted and logged") {
  Replicas replicas(1);
  replicas.start_session(0, "kept");
  replicas.start_session(0, "lost");
  CHECK(replicas.record("lost") == "created");
  auto remove = [](ProcessTerms terms, std::string name) -> awaitable<void> {
    auto driver = ProcessDriver::create(co_await asio::this_coro::executor, std::move(terms));
    REQUIRE(driver);
    auto stopped = co_await (*driver)->stop(name, "", Clock::now() + 60s);
    REQUIRE(stopped);
  };
  testkit::run(remove(terms_in(replicas.yard().root()), name_of("lost")), 90s);
  // The leader looks at all records when Redis may have lost something.
  replicas.redis().cli({"CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"});
  await_record(replicas, "lost", "");
  CHECK(replicas.whole_log(0).contains("Cleaning up Redis state for non-existent pod " +
                                       name_of("lost")));
  wait_for(30s, "it is counted", [&] {
    return replicas.ask(0, "GET", "/metrics")
        .second.contains("warren_session_inconsistent_records 1");
  });
  CHECK(replicas.record("kept") == "created");
}

TEST_CASE(
    "of two that start one session with different images at once, one is told of the conflict") {
  Replicas replicas(2);
  auto other_body = [&](const std::string& id) {
    auto object = json::parse(replicas.start_body(id, {"--delay", "0.3"})).as_object();
    object["image"] = "other";
    return json::serialize(object);
  };
  auto both = [&](const std::string& id, int second) {
    std::vector<Told> told;
    auto all = [](Replicas& of, std::string session, std::string other, int at,
                  std::vector<Told>& into) -> awaitable<void> {
      auto body = [](TaskGroup& tasks, Replicas& by, std::string& which, std::string& with,
                     int& where, std::vector<Told>& results) -> awaitable<bool> {
        auto usual = by.start_body(which, {"--delay", "0.3"});
        tasks.start("test.start", start_and_tell(by.url(0), usual, results, {0, which}));
        tasks.start("test.start", start_and_tell(by.url(where), with, results, {where, which}));
        auto is_over = [](std::vector<Told>& now) { return now.size() == 2; };
        co_await eventually(120s, "both have an answer", is_over, results);
        co_return true;
      };
      co_await with_group(body, of, session, other, at, into);
    };
    testkit::run(all(replicas, id, other_body(id), second, told), 150s);
    auto lower = std::min(told[0].status, told[1].status);
    auto higher = std::max(told[0].status, told[1].status);
    CHECK_MESSAGE(lower == 200, told[0].body << "\n" << told[1].body);
    CHECK_MESSAGE(higher == 409, told[0].body << "\n" << told[1].body);
    for (const auto& one : told)
      if (one.status == 409) CHECK(one.body.contains("another image or command"));
  };
  SUBCASE("at one replica") { both("a", 0); }
  SUBCASE("at two") { both("b", 1); }
  replicas.check_no_violation();
}

TEST_CASE("a service of this machine is found under the names that a proxy on it passes on") {
  Replicas replicas(1,
                    {"--public-url", "https://agents.example:8443", "--host-names", "b.example"});
  auto status = [&](const std::string& host) {
    return replicas.ask(0, "GET", "/readiness", "", "Host: " + host + "\r\n").first;
  };
  CHECK(status("agents.example") == 200);
  CHECK(status("agents.example:8443") == 200);
  CHECK(status("b.example") == 200);
  CHECK(status("localhost") == 200);
  CHECK(status("evil.example") == 421);
}

TEST_CASE("while Redis does not answer the gauge of coordination is 0, and /readiness says so") {
  Replicas replicas(1);
  auto says = [&](const std::string& target, const std::string& text) {
    return replicas.ask(0, "GET", target).second.contains(text);
  };
  auto is_on = [&](int on) {
    return says("/metrics", fmt::format("openhands_redis_coordination_enabled {}", on));
  };
  wait_for(30s, "it coordinates", [&] { return is_on(1) && says("/readiness", "\"redis\""); });
  replicas.redis().pause();
  wait_for(60s, "it does not", [&] { return is_on(0) && says("/readiness", "\"degraded\""); });
  replicas.redis().resume();
  wait_for(60s, "it does again", [&] { return is_on(1) && says("/readiness", "\"redis\""); });
}

TEST_CASE("where that is asked for nothing is started or ended while Redis does not answer") {
  Replicas replicas(1, {"--without-redis", "fail"});
  auto runtime = replicas.start_session(0, "there");
  replicas.redis().pause();
  wait_for(60s, "it is noticed",
           [&] { return replicas.ask(0, "GET", "/readiness").second.contains("\"degraded\""); });
  auto refused = replicas.ask(0, "POST", "/start", replicas.start_body("new"));
  CHECK_MESSAGE(refused.first == 503, refused.second);
  CHECK(refused.second.contains("Redis does not answer"));
  CHECK(replicas.ask(0, "POST", "/stop", body_for(runtime)).first == 503);
  CHECK(replicas.yard().names() == std::vector{name_of("there")});
  // What is there is there.
  replicas.start_session(0, "there");
  CHECK(replicas.ask(0, "GET", at_agent(runtime, "/alive"), "", key_header(runtime)).first == 200);
  replicas.redis().resume();
  wait_for(60s, "it starts again", [&] {
    return replicas.ask(0, "POST", "/start", replicas.start_body("new")).first == 200;
  });
}

TEST_CASE(
    "a step that hangs is ended by force-release, at whichever replica it is, and can be taken "
    "again") {
  Replicas replicas(2);
  auto creating = replicas.asking(0, "/start", replicas.start_body("a", {"--delay", "100"}));
  await_record(replicas, "a", "creating");
  wait_for(60s, "its sandbox is there", [&] { return replicas.yard().is_locked(name_of("a")); });
  auto body = R"({"session_id":"a"})";
  auto released = replicas.ask(1, "POST", "/force-release", body);
  CHECK_MESSAGE(released.first == 200, released.second);
  CHECK(released.second.contains("created"));
  CHECK(replicas.record("a") == "created");
  CHECK(replicas.ask(1, "POST", "/force-release", R"({"session_id":"none"})").first == 404);
  CHECK(replicas.ask(1, "POST", "/force-release", "{}").first == 400);
  auto runtime = replicas.session(1, "a");
  CHECK(replicas.ask(1, "POST", "/stop", body_for(runtime)).first == 200);
  CHECK(replicas.record("a").empty());
}
