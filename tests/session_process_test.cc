// Sandboxes as processes: what the driver promises without Redis, and without who started them.
#include <doctest/doctest.h>
#include <signal.h>

#include <boost/json.hpp>

#include "services/session/process/kin.h"
#include "tests/with_sandboxes.h"

using namespace warren;
using namespace warren::session;

namespace {

struct Driven {
  TempFolder folder;
  YardKeeper keeper{folder.path() / "yard"};
  ProcessTerms terms = terms_in(keeper.root());
};

// Runs body(driver, extra…) with a driver that follows what happens.
template <class Body, class... Extra>
void with_driver(const ProcessTerms& terms, Body body, Extra&... extra) {
  auto all = [](ProcessTerms of, Body work, Extra&... more) -> awaitable<void> {
    auto executor = co_await asio::this_coro::executor;
    auto driver = ProcessDriver::create(executor, std::move(of));
    REQUIRE_MESSAGE(driver, driver.error().what);
    auto inner = [](TaskGroup& tasks, ProcessDriver& what, Body& does,
                    Extra&... uses) -> awaitable<bool> {
      tasks.start("test.driver", what.run());
      co_await does(what, uses...);
      co_return true;
    };
    co_await with_group(inner, **driver, work, more...);
  };
  testkit::run(all(terms, std::move(body), extra...), 200s);
}

awaitable<Sandbox> started(ProcessDriver& driver, SandboxSpec spec) {
  auto deadline = Clock::now() + 60s;
  auto name = spec.name;
  auto sight = co_await driver.look(name, deadline);
  REQUIRE(sight);
  auto sandbox = co_await driver.start(std::move(spec), sight->basis, deadline);
  REQUIRE_MESSAGE(sandbox, sandbox.error().what);
  co_return *sandbox;
}

awaitable<void> in_phase(ProcessDriver& driver, std::string name, Phase phase) {
  auto is_so = [](ProcessDriver& of, std::string& which, Phase& wanted) -> Result<> {
    const auto* sandbox = of.seen(which);
    if (!sandbox) return fail(Errc::not_found, "it is not there");
    if (sandbox->phase != wanted)
      return fail(Errc::invalid, "it is {}: {}", session::name(sandbox->phase), sandbox->reason);
    return ok;
  };
  co_await eventually(60s, "the sandbox is in that phase", is_so, driver, name, phase);
}

awaitable<std::string> asked(const Sandbox& sandbox, std::string method, std::string target,
                             std::string body = "") {
  HttpPool pool(co_await asio::this_coro::executor, {});
  auto port = std::to_string(sandbox.endpoints.at(Door::runtime).port);
  HttpUrl url{.host = "127.0.0.1", .port = port, .path = ""};
  HttpAsk ask{std::move(method), std::move(target), "", std::move(body)};
  auto reply = co_await pool.ask(std::move(url), std::move(ask), Clock::now() + 60s);
  REQUIRE_MESSAGE(reply, reply.error().what);
  CHECK(reply->status == 200);
  co_return reply->body;
}

// What the agent sees at a path: its entries, or why it sees nothing, as JSON.
awaitable<std::string> seen_at(const Sandbox& sandbox, std::string path) {
  co_return co_await asked(sandbox, "GET", "/see?path=" + path);
}

}  // namespace

TEST_CASE(
    "a sandbox runs when it listens, keeps its files over pauses, and leaves nothing when "
    "stopped") {
  Driven driven;
  with_driver(driven.terms, [](ProcessDriver& driver) -> awaitable<void> {
    auto spec = agent_spec("a");
    auto first = co_await started(driver, spec);
    CHECK(first.lives());
    CHECK(first.spec.key.size() == 64);
    co_await in_phase(driver, spec.name, Phase::running);
    co_await asked(first, "PUT", "/file?name=note", "kept");
    auto paused = co_await driver.pause(spec.name, first.incarnation, Clock::now() + 60s);
    REQUIRE_MESSAGE(paused, paused.error().what);
    CHECK(driver.seen(spec.name)->phase == Phase::paused);
    CHECK(!driver.yard().is_locked(spec.name));
    // Its ports are free for others.
    CHECK(driver.yard().lock_port(first.endpoints.at(Door::runtime).port));

    auto second = co_await started(driver, spec);
    CHECK(second.incarnation != first.incarnation);
    CHECK(second.spec.key == first.spec.key);
    co_await in_phase(driver, spec.name, Phase::running);
    auto kept = co_await asked(second, "GET", "/file?name=note");
    CHECK(kept == "kept");
    // An order for the life before does not end this one.
    auto late = co_await driver.pause(spec.name, first.incarnation, Clock::now() + 60s);
    REQUIRE(!late);
    CHECK(late.error().code == Errc::lease_lost);
    CHECK(driver.seen(spec.name)->lives());

    auto stopped = co_await driver.stop(spec.name, second.incarnation, Clock::now() + 60s);
    REQUIRE_MESSAGE(stopped, stopped.error().what);
    CHECK(!driver.seen(spec.name));
    CHECK(!fs::exists(driver.yard().sandbox(spec.name)));
    CHECK(began_at(0) == 0);
  });
}

TEST_CASE(
    "of many who start one session at once, one does, and the others are told that it exists") {
  Driven driven;
  auto judge = driven.folder.path() / "judge";
  add_judge(judge, "one");
  driven.terms.shown.push_back(judge);
  auto body = [](ProcessDriver& driver, fs::path& by) -> awaitable<void> {
    auto spec = agent_spec("one", {"--judge", by});
    auto sight = co_await driver.look(spec.name, Clock::now() + 60s);
    REQUIRE(sight);
    struct Count {
      int started = 0, held = 0, other = 0;
    } count;
    auto start = [](ProcessDriver& of, SandboxSpec what, std::string basis,
                    Count& into) -> awaitable<void> {
      auto sandbox = co_await of.start(std::move(what), std::move(basis), Clock::now() + 60s);
      if (sandbox)
        ++into.started;
      else if (sandbox.error().code == Errc::held_elsewhere)
        ++into.held;
      else
        ++into.other;
    };
    auto all = [](TaskGroup& tasks, ProcessDriver& of, SandboxSpec& what, std::string& basis,
                  Count& into, decltype(start)& does) -> awaitable<bool> {
      for (int i = 0; i < 8; ++i) tasks.start("test.start", does(of, what, basis, into));
      auto is_over = [](Count& now) { return now.started + now.held + now.other == 8; };
      co_await eventually(90s, "all have an answer", is_over, into);
      co_return true;
    };
    co_await with_group(all, driver, spec, sight->basis, count, start);
    CHECK(count.started == 1);
    CHECK(count.held == 7);
    co_await in_phase(driver, spec.name, Phase::running);
    auto log = co_await driver.log_tail(spec.name, 1000);
    CHECK(log->contains("the agent begins"));
    CHECK(!log->contains("VIOLATION"));
  };
  with_driver(driven.terms, body, judge);
}

TEST_CASE("a start that was overtaken by a stop does nothing, however late it comes") {
  Driven driven;
  with_driver(driven.terms, [](ProcessDriver& driver) -> awaitable<void> {
    auto spec = agent_spec("late");
    auto before = co_await driver.look(spec.name, Clock::now() + 60s);
    REQUIRE(before);
    co_await started(driver, spec);
    REQUIRE(co_await driver.stop(spec.name, "", Clock::now() + 60s));
    auto late = co_await driver.start(spec, before->basis, Clock::now() + 60s);
    REQUIRE(!late);
    CHECK(late.error().code == Errc::lease_lost);
    CHECK(!fs::exists(driver.yard().sandbox(spec.name)));
    CHECK(!driver.yard().is_locked(spec.name));
  });
}

TEST_CASE("a shim that is killed takes its sandbox with it, and the next start has the files") {
  Driven driven;
  auto body = [](ProcessDriver& driver) -> awaitable<void> {
    auto spec = agent_spec("killed");
    auto first = co_await started(driver, spec);
    co_await in_phase(driver, spec.name, Phase::running);
    co_await asked(first, "PUT", "/file?name=note", "kept");
    auto state = driver.yard().state(spec.name);
    REQUIRE(state);
    auto family = descendants_of(state->pid);
    CHECK(!family.empty());
    REQUIRE(began_at(state->pid) == state->began);
    ::kill(state->pid, SIGKILL);
    co_await in_phase(driver, spec.name, Phase::ended);
    auto are_gone = [](std::vector<pid_t>& all) {
      return std::ranges::all_of(all, [](pid_t pid) { return began_at(pid) == 0; });
    };
    co_await eventually(30s, "its processes are gone", are_gone, family);
    auto second = co_await started(driver, spec);
    CHECK(second.restarts == 1);
    co_await in_phase(driver, spec.name, Phase::running);
    auto kept = co_await asked(second, "GET", "/file?name=note");
    CHECK(kept == "kept");
  };
  SUBCASE("isolated") { with_driver(driven.terms, body); }
  SUBCASE("not isolated") {
    driven.terms.is_isolated = false;
    // Its files are not at /workspace then.
    with_driver(driven.terms, [](ProcessDriver& driver) -> awaitable<void> {
      auto spec = agent_spec("killed");
      co_await started(driver, spec);
      co_await in_phase(driver, spec.name, Phase::running);
      auto state = driver.yard().state(spec.name);
      REQUIRE(state);
      auto main = state->main_pid;
      ::kill(state->pid, SIGKILL);
      co_await in_phase(driver, spec.name, Phase::ended);
      auto is_gone = [](pid_t& pid) { return began_at(pid) == 0; };
      co_await eventually(30s, "its process is gone", is_gone, main);
    });
  }
}

TEST_CASE("a sandbox sees its own files, and nothing of others, of the service or of Redis") {
  Driven driven;
  auto secret = driven.folder.path() / "redis.sock";
  std::ofstream(secret) << "here would be the private Redis";
  setenv("REDIS_PASSWORD", "do not tell", 1);
  auto body = [](ProcessDriver& driver, fs::path& redis) -> awaitable<void> {
    auto other = co_await started(driver, agent_spec("other"));
    auto one = co_await started(driver, agent_spec("one"));
    co_await in_phase(driver, one.spec.name, Phase::running);
    co_await in_phase(driver, other.spec.name, Phase::running);
    auto environment = co_await asked(one, "GET", "/env");
    CHECK(environment.contains(one.spec.key));
    CHECK(!environment.contains(other.spec.key));
    CHECK(!environment.contains("do not tell"));
    CHECK(!environment.contains("REDIS"));
    for (auto path : {redis, driver.yard().root(), driver.yard().sandbox(other.spec.name),
                      driver.yard().states(), fs::path("/root"), fs::path("/home")}) {
      auto seen = co_await seen_at(one, path.string());
      CHECK_MESSAGE(seen.contains("error"), path.string() << ": " << seen);
    }
    // Its processes are its own: the first of its namespace, and the agent.
    auto processes = co_await seen_at(one, "/proc");
    CHECK(processes.contains("\"1\""));
    auto number = std::to_string(driver.yard().state(other.spec.name)->pid);
    CHECK(!processes.contains("\"" + number + "\""));
    auto shadow = co_await seen_at(one, "/etc/shadow");
    CHECK(shadow.contains("error"));
    auto work = co_await seen_at(one, "/workspace");
    CHECK(work.contains("entries"));
  };
  with_driver(driven.terms, body, secret);
  unsetenv("REDIS_PASSWORD");
}

TEST_CASE("who floods its output is slowed down, and only the end of it is kept") {
  Driven driven;
  driven.terms.log_bytes = 1u << 20;
  with_driver(driven.terms, [](ProcessDriver& driver) -> awaitable<void> {
    auto spec = agent_spec("flood");
    spec.command = {"sh", "-c", "head -c 8000000 /dev/zero | tr '\\0' x; echo the end; exit 3"};
    co_await started(driver, spec);
    co_await in_phase(driver, spec.name, Phase::ended);
    CHECK(driver.seen(spec.name)->exit_code == 3);
    CHECK(driver.seen(spec.name)->restarts == 1);
    auto log = driver.yard().log(spec.name);
    auto kept = fs::file_size(log) + fs::file_size(log.string() + ".1");
    CHECK(kept <= (1u << 20));
    auto tail = co_await driver.log_tail(spec.name, 20);
    CHECK(tail->contains("the end"));
  });
}

TEST_CASE("ports are given out once, and who finds none is told so") {
  Driven driven;
  driven.terms.last_port = static_cast<unsigned short>(driven.terms.first_port + 7);
  with_driver(driven.terms, [](ProcessDriver& driver) -> awaitable<void> {
    auto one = co_await started(driver, agent_spec("one"));
    auto two = co_await started(driver, agent_spec("two"));
    std::set<unsigned short> ports;
    for (const auto* sandbox : {&one, &two})
      for (const auto& [door, at] : sandbox->endpoints) ports.insert(at.port);
    CHECK(ports.size() == 8);
    auto spec = agent_spec("three");
    auto sight = co_await driver.look(spec.name, Clock::now() + 60s);
    auto none = co_await driver.start(spec, sight->basis, Clock::now() + 60s);
    REQUIRE(!none);
    CHECK(none.error().code == Errc::overloaded);
    REQUIRE(co_await driver.pause(one.spec.name, one.incarnation, Clock::now() + 60s));
    co_await started(driver, spec);
  });
}

TEST_CASE("a command that cannot be run is told, with its name") {
  Driven driven;
  with_driver(driven.terms, [](ProcessDriver& driver) -> awaitable<void> {
    auto spec = agent_spec("wrong");
    spec.command = {"no-such-program", "60000"};
    auto sandbox = co_await driver.start(spec, "0", Clock::now() + 60s);
    REQUIRE(!sandbox);
    CHECK(sandbox.error().code == Errc::invalid);
    CHECK(sandbox.error().what.contains("no-such-program"));
  });
}

TEST_CASE("a removal that was cut short is finished by the next driver, which takes nothing else") {
  Driven driven;
  with_driver(driven.terms, [](ProcessDriver& driver) -> awaitable<void> {
    for (std::string id : {"renamed", "described", "again"}) {
      auto sandbox = co_await started(driver, agent_spec(id));
      REQUIRE(co_await driver.pause(sandbox.spec.name, sandbox.incarnation, Clock::now() + 60s));
    }
  });
  auto yard = *Yard::open(driven.terms.root);
  auto going = [&](const std::string& id) {
    auto folder = yard.sandbox(name_of(id));
    return folder.parent_path() / ("." + folder.filename().string() + ".going");
  };
  // The folder has its other name, and the state is there; the folder is gone, and the state is there; the
  // session has been started again.
  fs::rename(yard.sandbox(name_of("renamed")), going("renamed"));
  fs::remove_all(yard.sandbox(name_of("described")));
  fs::create_directories(going("again") / "work");
  with_driver(driven.terms, [](ProcessDriver& driver) -> awaitable<void> {
    auto is_over = [](ProcessDriver& of) { return of.yard().half_removed().empty(); };
    co_await eventually(30s, "nothing is half removed", is_over, driver);
    CHECK(driver.yard().names() == std::vector{name_of("again")});
    CHECK(!driver.yard().state(name_of("renamed")));
    CHECK(!driver.yard().state(name_of("described")));
    co_await in_phase(driver, name_of("again"), Phase::paused);
  });
}

TEST_CASE("a driver that begins knows what lived, and what was paused, before it") {
  Driven driven;
  with_driver(driven.terms, [](ProcessDriver& driver) -> awaitable<void> {
    co_await started(driver, agent_spec("lives"));
    auto paused = co_await started(driver, agent_spec("rests"));
    REQUIRE(co_await driver.pause(paused.spec.name, paused.incarnation, Clock::now() + 60s));
  });
  with_driver(driven.terms, [](ProcessDriver& driver) -> awaitable<void> {
    auto is_settled = [](ProcessDriver& of) { return of.is_settled(); };
    co_await eventually(30s, "it has looked", is_settled, driver);
    CHECK(driver.all_seen().size() == 2);
    co_await in_phase(driver, name_of("lives"), Phase::running);
    CHECK(driver.seen(name_of("rests"))->phase == Phase::paused);
    CHECK(driver.seen(name_of("rests"))->spec.session_id == "rests");
  });
}
