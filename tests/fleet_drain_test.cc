// Nodes that are drained: others take over from their memory, and nobody who searches notices.
#include <random>

#include "net/http/pool.h"
#include "net/http/server.h"
#include "proof/testkit/faulty_link.h"
#include "proof/testkit/servers/etcd_server.h"
#include "proof/testkit/servers/postgres_server.h"
#include "tests/with_fleet_processes.h"

namespace warren::fleet {

namespace {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool is_sanitized = true;
#else
constexpr bool is_sanitized = false;
#endif

auto has_more_asked = [](Judge& judge, std::uint64_t& than) { return judge.asked > than; };

// Some queries begin and end from here on.
awaitable<void> more_queries(Judge& judge, std::uint64_t count = 20) {
  auto than = judge.asked + count;
  co_await eventually(60s, "queries are answered", has_more_asked, judge, than);
}

auto says = [](FleetProcesses& fleet, std::string& name, std::string& what) {
  return fleet.log(name).find(what) != std::string::npos;
};

// An initializer list within a coroutine is more than g++ 12 can do.
template <class... Words>
std::vector<std::string> words(const Words&... all) {
  return {std::string(all)...};
}

awaitable<int> said_by(FleetProcesses& fleet, std::vector<std::string> what) {
  Process process(fleet.program(std::move(what), fleet.log_of("command")));
  int code = co_await ended(process);
  co_return code;
}

// Passes everything on to a node, and flips a bit of every segment.
class Forger {
 public:
  Forger(const asio::any_io_executor& executor, unsigned short target)
      : pool_(executor, {}), target_(target) {
    HttpTerms terms;
    terms.most_body = 1u << 20;
    auto handler = [this](const HttpRequest& request, HttpAnswer& answer) {
      return HttpServer::Work(forward(request, answer));
    };
    auto server = HttpServer::listen(executor, terms, handler);
    REQUIRE(server);
    server_ = *std::move(server);
  }
  awaitable<void> run() { return server_->run(); }
  unsigned short port() const { return server_->port(); }
  int forged() const { return forged_; }

 private:
  awaitable<void> forward(const HttpRequest& request, HttpAnswer& answer) {
    HttpAsk ask{std::string(request.method), std::string(request.path)};
    if (!request.query.empty()) ask.target += "?" + std::string(request.query);
    ask.headers = fmt::format("Authorization: {}\r\n", request.header("authorization"));
    ask.body = request.body;
    auto url = parse_http_url(fmt::format("http://127.0.0.1:{}", target_));
    auto reply = co_await pool_.ask(*url, std::move(ask), Clock::now() + 60s, 256u << 20);
    if (!reply) {
      answer.status = 502;
      co_return;
    }
    answer.status = reply->status;
    answer.body = std::move(reply->body);
    if (request.path != "/v1/segments" || answer.status != 200) co_return;
    answer.body[answer.body.size() / 2] ^= 1;
    ++forged_;
  }

  HttpPool pool_;
  unsigned short target_;
  std::unique_ptr<HttpServer> server_;
  int forged_ = 0;
};

std::uint64_t kilobytes_of(pid_t pid, const std::string& what) {
  std::ifstream file(fmt::format("/proc/{}/status", pid));
  for (std::string line; std::getline(file, line);)
    if (line.starts_with(what + ":")) return std::stoull(line.substr(what.size() + 1));
  return 0;
}

// All nodes are replaced, one after the other.
void check_rolling_drain(FleetProcesses& fleet) {
  fleet.add_small(8);
  fleet.add_large("large", 4);
  for (const char* name : {"n1", "n2", "n3"}) fleet.start_node(name);
  fleet.start_router();
  under_queries(fleet, [](FleetProcesses& all, Judge& judge) -> awaitable<void> {
    auto clones = all.clones();
    for (const auto& name : words("n1", "n2", "n3")) {
      std::string next = "next-of-" + name, joined = "catalog.joined";
      all.start_node(next);
      co_await eventually(60s, "the next one runs", says, all, next, joined);
      auto& process = all.node(name);
      process.terminate();
      int code = co_await ended(process);
      CHECK(code == 0);
      auto log = all.log(name);
      CHECK_MESSAGE(log.find("released=0") != log.npos, log);
      co_await more_queries(judge);
    }
    CHECK(all.clones() == clones);
  });
}

}  // namespace

TEST_CASE(
    "nodes that end one after the other hand everything over: every answer is whole, and nothing "
    "is cloned") {
  FleetProcesses fleet;
  check_rolling_drain(fleet);
}

TEST_CASE("so it is with a catalog in PostgreSQL, whose news come late") {
  PostgresServer server(PostgresOptions{.fsync = false});
  FleetProcesses fleet(server.url());
  check_rolling_drain(fleet);
}

TEST_CASE("so it is with a catalog in etcd") {
  EtcdServer server;
  FleetProcesses fleet(server.url());
  check_rolling_drain(fleet);
}

TEST_CASE("a node is drained by a command, from anywhere, and claims again when it is cancelled") {
  FleetProcesses fleet;
  fleet.add_small(6);
  fleet.start_node("n1");
  fleet.start_node("n2");
  fleet.start_router();
  under_queries(fleet, [](FleetProcesses& all, Judge& judge) -> awaitable<void> {
    auto clones = all.clones();
    for (int i = 0; i < 2; ++i) {
      std::string from = i == 0 ? "n1" : "n2", to = i == 0 ? "n2" : "n1";
      int code = co_await said_by(all, words("fleet", "drain", from));
      CHECK_MESSAGE(code == 0, contents(all.log_of("command")));
      for (int r = 0; r < 6; ++r) CHECK(all.owner_of(fmt::format("r{}", r)) == to);
      CHECK(all.node(from).alive());
      code = co_await said_by(all, words("fleet", "drain", from, "--cancel"));
      CHECK(code == 0);
      co_await more_queries(judge);
    }
    CHECK(all.clones() == clones);
    int unknown = co_await said_by(all, words("fleet", "drain", "nobody"));
    CHECK(unknown == 1);
    int nothing = co_await said_by(all, words("fleet", "drain", "n1", "--cancel"));
    CHECK(nothing == 1);
  });
}

TEST_CASE("the last node cannot be drained, and when it ends it says that nobody took over") {
  FleetProcesses fleet;
  fleet.add_small(2);
  auto& node = fleet.start_node("n1");
  fleet.start_router();
  under_queries(fleet, [](FleetProcesses& all, Judge& judge) -> awaitable<void> {
    int code = co_await said_by(all, words("fleet", "drain", "n1"));
    CHECK(code == 1);
    auto said = contents(all.log_of("command"));
    CHECK_MESSAGE(said.find("no other node") != said.npos, said);
    co_await more_queries(judge);
  });
  node.terminate();
  CHECK(node.wait(30s) == 0);  // and not only at the end of --drain-time
  auto log = fleet.log("n1");
  CHECK(log.find("there is no other node") != log.npos);
  CHECK(log.find("handed_over=0 released=2") != log.npos);
}

TEST_CASE("a segment that was damaged on its way is refused, and built from the origin instead") {
  FleetProcesses fleet;
  fleet.add_small(3);
  Port port;
  testkit::run(
      [](FleetProcesses& all, unsigned short target) -> awaitable<void> {
        auto body = [](TaskGroup& tasks, FleetProcesses& of,
                       unsigned short& behind) -> awaitable<bool> {
          Forger forger(co_await asio::this_coro::executor, behind);
          tasks.start("test.forger", forger.run());
          of.start_node("n1", words("--port", std::to_string(behind), "--endpoint",
                                    fmt::format("http://127.0.0.1:{}", forger.port())));
          of.start_router();
          Judge judge{of.url(), of.expected()};
          auto is_served = [](Judge& by) -> awaitable<Result<>> {
            HttpClient client(co_await asio::this_coro::executor, *parse_http_url(by.url));
            auto answer = co_await ask_for_all(client, by.expected);
            co_return answer;
          };
          co_await eventually(120s, "everything is served", is_served, judge);
          auto clones = of.clones();
          tasks.start("test.ask", judge.ask_on());
          of.start_node("n2");
          std::string name = "n2", joined = "catalog.joined";
          co_await eventually(60s, "the next one runs", says, of, name, joined);
          of.node("n1").terminate();
          int code = co_await ended(of.node("n1"));
          CHECK(code == 0);
          CHECK(forger.forged() == 3);
          CHECK(of.clones() == clones + 3);
          auto log = of.log("n2");
          CHECK_MESSAGE(log.find("segment_refused") != log.npos, log);
          log = of.log("n1");
          CHECK_MESSAGE(log.find("handed_over=3 released=0") != log.npos, log);
          co_await more_queries(judge);
          CHECK_MESSAGE(judge.wrong.empty(), (judge.wrong.empty() ? "" : judge.wrong[0]));
          // The forger ends first, and judges are asked no more.
          judge.is_over = true;
          tasks.stop();
          co_await tasks.join();
          co_return true;
        };
        co_await with_group(body, all, target);
      }(fleet, port.number()),
      300s);
}

TEST_CASE("a node that is killed while it is drained costs its lease, and nothing else") {
  FleetProcesses fleet;
  fleet.add_small(2);
  fleet.add_large("large", 6);
  Port port;
  FaultyLink link(port.number());
  auto& first =
      fleet.start_node("n1", {"--listen", "0.0.0.0", "--port", std::to_string(port.number()),
                              "--endpoint", fmt::format("http://127.0.0.1:{}", link.port())});
  fleet.start_router();
  testkit::run(
      [](FleetProcesses& all, FaultyLink& slow, Process& old) -> awaitable<void> {
        auto executor = co_await asio::this_coro::executor;
        HttpClient client(executor, *parse_http_url(all.url()));
        auto is_served = [](HttpClient& by, const Lines& lines) -> awaitable<Result<>> {
          auto answer = co_await ask_for_all(by, lines);
          co_return answer;
        };
        co_await eventually(120s, "everything is served", is_served, client, all.expected());
        auto clones = all.clones();
        all.start_node("n2");
        std::string name = "n2", joined = "catalog.joined";
        co_await eventually(60s, "the next one runs", says, all, name, joined);
        slow.throttle(Direction::to_client, 1u << 20);
        auto before = slow.counters().bytes_to_client;
        old.terminate();
        auto has_streamed = [](FaultyLink& through, std::size_t& since) {
          return through.counters().bytes_to_client > since + (2u << 20);
        };
        co_await eventually(60s, "it is in the middle of it", has_streamed, slow, before);
        CHECK(old.alive());
        old.kill();
        co_await eventually(120s, "the other one serves all of it", is_served, client,
                            all.expected());
        CHECK(all.owner_of("large") == "n2");
        CHECK(all.clones() <= clones + 3);
      }(fleet, link, first),
      400s);
}

// The node in front of the link has the repository, and another one is in the middle of taking it.
struct SlowFleet {
  SlowFleet() {
    fleet.add_large("large", 6);
    fleet.start_node("n1", {"--listen", "0.0.0.0", "--port", std::to_string(port.number()),
                            "--endpoint", fmt::format("http://127.0.0.1:{}", link.port())});
    fleet.start_router();
  }
  awaitable<void> get_into_the_middle() {
    std::string first = "n1", indexed = "fleet.indexed", name = "n2", joined = "catalog.joined";
    co_await eventually(60s, "it is indexed", says, fleet, first, indexed);
    fleet.start_node("n2");
    co_await eventually(60s, "the next one runs", says, fleet, name, joined);
    link.throttle(Direction::to_client, 1u << 20);
    auto before = link.counters().bytes_to_client;
    fleet.node("n1").terminate();
    auto has_streamed = [](FaultyLink& through, std::size_t& since) {
      return through.counters().bytes_to_client > since + (2u << 20);
    };
    co_await eventually(60s, "it is in the middle of it", has_streamed, link, before);
    CHECK(fleet.node("n1").alive());
  }

  FleetProcesses fleet;
  Port port;
  FaultyLink link{port.number()};
};

awaitable<void> second_try(SlowFleet& slow, Judge& judge) {
  auto clones = slow.fleet.clones();
  co_await slow.get_into_the_middle();
  slow.fleet.node("n2").kill();
  slow.link.heal();
  slow.fleet.start_node("n3");
  int code = co_await ended(slow.fleet.node("n1"));
  CHECK(code == 0);
  CHECK(slow.fleet.owner_of("large") == "n3");
  CHECK(slow.fleet.clones() == clones);
  co_await more_queries(judge);
}

TEST_CASE("when the next owner is killed in the middle, another one takes over") {
  SlowFleet slow;
  auto body = [&slow](FleetProcesses&, Judge& judge) { return second_try(slow, judge); };
  under_queries(slow.fleet, body);
}

TEST_CASE("a node that sleeps past its lease while it drains finds it lost, and ends") {
  SlowFleet slow;
  testkit::run(
      [](SlowFleet& all) -> awaitable<void> {
        HttpClient client(co_await asio::this_coro::executor, *parse_http_url(all.fleet.url()));
        auto is_served = [](HttpClient& by, const Lines& lines) -> awaitable<Result<>> {
          auto answer = co_await ask_for_all(by, lines);
          co_return answer;
        };
        co_await eventually(120s, "everything is served", is_served, client, all.fleet.expected());
        co_await all.get_into_the_middle();
        auto& old = all.fleet.node("n1");
        old.pause();
        auto is_taken = [](FleetProcesses& of) { return of.owner_of("large") == "n2"; };
        co_await eventually(120s, "the other one has it", is_taken, all.fleet);
        co_await eventually(120s, "and serves it", is_served, client, all.fleet.expected());
        old.resume();
        int code = co_await ended(old);
        CHECK(code == 0);
        auto answer = co_await ask_for_all(client, all.fleet.expected());
        CHECK_MESSAGE(answer, (answer ? "" : answer.error().what));
      }(slow),
      400s);
}

TEST_CASE("who takes a repository over needs memory for it, and hardly more") {
  FleetProcesses fleet;
  fleet.add_large("large", 48);
  fleet.start_node("n1");
  fleet.start_router();
  under_queries(fleet, [](FleetProcesses& all, Judge& judge) -> awaitable<void> {
    auto& next = all.start_node("n2");
    std::string name = "n2", joined = "catalog.joined", taken = "fleet.taken_over",
                indexed = "fleet.indexed", first = "n1";
    co_await eventually(60s, "it is indexed", says, all, first, indexed);
    co_await eventually(60s, "the next one runs", says, all, name, joined);
    auto before = kilobytes_of(next.pid(), "VmHWM");
    all.node("n1").terminate();
    co_await eventually(120s, "it is taken over", says, all, name, taken);
    auto peak = kilobytes_of(next.pid(), "VmHWM") - before;
    auto log = all.log("n2");
    auto bytes = std::stoull(log.substr(log.find("bytes=", log.find("standing_by")) + 6));
    MESSAGE(fmt::format("{} MB for a segment of {} MB", peak >> 10, bytes >> 20));
    if (!is_sanitized) CHECK(peak * 1024 <= bytes + (16u << 20));
    int code = co_await ended(all.node("n1"));
    CHECK(code == 0);
    co_await more_queries(judge, 3);
  });
}

}  // namespace warren::fleet
