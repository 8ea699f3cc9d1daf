// The autoscaler with nodes as processes, under a load that steps up and down. The load is memory, which
// a busy machine does not change: repositories come and go while others are searched.
#include <doctest/doctest.h>

#include <boost/json.hpp>

#include "tests/with_fleet_processes.h"

namespace warren::fleet {

namespace {

constexpr std::uint64_t budget = 64u << 20;

// `warren fleet autoscale`. It ends its nodes before it ends, so it is never killed.
class Autoscaler {
 public:
  Autoscaler(FleetProcesses& fleet, const fs::path& mirrors)
      : process_(fleet.program({"fleet", "autoscale", "--router", fleet.url(), "--driver", "local",
                                "--most", "4", "--node-flags",
                                fmt::format("--name n{{}} --ttl 3s --poll 2s --budget {}M "
                                            "--allow-http --drain-time 5s --mirrors {}/{{}}",
                                            budget >> 20, mirrors.string())},
                               fleet.log_of("autoscale"))) {}
  ~Autoscaler() {
    process_.terminate();
    for (auto end = Clock::now() + 60s; process_.alive() && Clock::now() < end;)
      std::this_thread::sleep_for(10ms);
  }

 private:
  Process process_;
};

struct Look {
  std::size_t nodes, wanted;
  std::uint64_t bytes;
  double queue_seconds;  // of what is not indexed yet
};

// What the router advised, each time that it was something else; and what searches did meanwhile.
struct Course {
  FleetProcesses& fleet;
  Lines expected;
  std::string repos;  // as JSON: those that are searched
  std::vector<std::size_t> wanted = {};
  std::size_t most_nodes = 0, asked = 0;
  std::vector<std::string> wrong = {};
  bool is_over = false;

  awaitable<void> follow() {
    HttpClient client(co_await asio::this_coro::executor, *parse_http_url(fleet.url()));
    for (;;) {
      auto look = co_await look_at(client);
      if (look && (wanted.empty() || wanted.back() != look->wanted)) wanted.push_back(look->wanted);
      if (look) most_nodes = std::max(most_nodes, look->nodes);
      co_await sleep_for(50ms);
    }
  }
  awaitable<void> search_on() {
    HttpClient client(co_await asio::this_coro::executor, *parse_http_url(fleet.url()));
    for (;;) {
      auto answer = co_await search(client);
      ++asked;
      if (!answer && !is_over) wrong.push_back(answer.error().what);
      co_await sleep_for(20ms);
    }
  }
  Async<> search(HttpClient& client) {
    HttpAsk ask{"POST", "/v1/search"};
    ask.headers = "Authorization: Bearer mangrove\r\n";
    ask.body = fmt::format(
        R"({{"q":"apple_","repos":{},"limit":1000,"matches":0,"timeout_ms":30000}})", repos);
    auto reply = co_await client.ask(std::move(ask), Clock::now() + 60s);
    if (!reply) co_return std::unexpected(reply.error());
    std::vector<Missing> missing;
    auto answer = parse_answer(reply->body, missing);
    if (reply->status != 200 || !answer) co_return fail(Errc::unavailable, "{}", reply->body);
    Lines found;
    for (const auto& file : answer->files)
      for (const auto& line : file.lines)
        found.insert(fmt::format("{}:{}:{}:{}", file.repo, file.path, line.line, line.text));
    if (!missing.empty() || !answer->is_complete || found != expected)
      co_return fail(Errc::invalid, "{} lines of {}", found.size(), expected.size());
    co_return ok;
  }
  static Async<Look> look_at(HttpClient& client) {
    HttpAsk ask{"GET", "/v1/scale"};
    ask.headers = "Authorization: Bearer mangrove\r\n";
    auto reply = co_await client.ask(std::move(ask), Clock::now() + 30s);
    if (!reply) co_return std::unexpected(reply.error());
    if (reply->status != 200) co_return fail(Errc::unavailable, "{}", reply->body);
    auto said = boost::json::parse(reply->body).as_object();
    co_return Look{said["nodes"].to_number<std::size_t>(), said["wanted"].to_number<std::size_t>(),
                   said["wanted_bytes"].to_number<std::uint64_t>(),
                   said["queue_seconds"].to_number<double>()};
  }
};

// Two megabytes of text, no two lines alike.
std::map<std::string, std::string> texts(int seed, bool is_found) {
  std::map<std::string, std::string> files;
  std::mt19937_64 random(static_cast<std::uint64_t>(seed));
  for (int i = 0; i < 3; ++i) {
    auto& text = files[fmt::format("f{}.c", i)];
    if (is_found) text = fmt::format("int apple_{}_{};\n", seed, i);
    while (text.size() < (700u << 10))
      text += fmt::format("int x{:x} = {}; // {:x}\n", random(), random() % 1000, random());
  }
  return files;
}

awaitable<void> step_up_and_down(FleetProcesses& fleet, Course& course) {
  HttpClient client(co_await asio::this_coro::executor, *parse_http_url(fleet.url()));
  auto is_found = [](Course& by, HttpClient& with) -> awaitable<Result<>> {
    auto answer = co_await by.search(with);
    co_return answer;
  };
  co_await eventually(120s, "what is searched is served", is_found, course, client);
  auto all = [](TaskGroup& tasks, FleetProcesses& of, Course& by,
                HttpClient& with) -> awaitable<bool> {
    tasks.start("test.follow", by.follow());
    tasks.start("test.search", by.search_on());
    // Before that nobody knows what they take.
    auto is_indexed = [](HttpClient& through) -> awaitable<bool> {
      auto look = co_await Course::look_at(through);
      co_return look && look->queue_seconds == 0;
    };
    co_await eventually(120s, "what is searched is indexed", is_indexed, with);
    auto before = co_await Course::look_at(with);
    REQUIRE(before);
    CHECK(before->nodes == 1);
    // As many as make two nodes three quarters full, by what a repository takes.
    auto each = before->bytes / 2;
    auto count = static_cast<int>((budget * 8 / 10) * 3 / 2 / each) - 2;
    MESSAGE(fmt::format("{} repositories of {} MB", count + 2, each >> 20));
    REQUIRE(count > 0);
    for (int i = 0; i < count; ++i) of.add(fmt::format("more{}", i), texts(100 + i, false));
    auto has = [](HttpClient& through, std::size_t nodes, std::size_t wanted) -> awaitable<bool> {
      auto look = co_await Course::look_at(through);
      co_return look && look->nodes == nodes && look->wanted == wanted;
    };
    std::size_t two = 2, one = 1;
    co_await eventually(120s, "there are two nodes", has, with, two, two);
    for (int i = 0; i < count; ++i) {
      auto said = of.run({"fleet", "repo", "rm", fmt::format("more{}", i)});
      REQUIRE_MESSAGE(said.first == 0, said.second);
    }
    co_await eventually(120s, "there is one node again", has, with, one, one);
    by.is_over = true;
    co_return true;
  };
  co_await with_group(all, fleet, course, client);
}

}  // namespace

TEST_CASE("a load that steps up and down leads there and back: nothing flaps and no query fails") {
  FleetProcesses fleet;
  TempFolder mirrors;
  for (int i = 0; i < 2; ++i) fleet.add(fmt::format("r{}", i), texts(i, true));
  fleet.start_router(
      {"--scale-up-after", "2s", "--scale-settle", "4s", "--scale-down-after", "5s"});
  Course course{fleet, fleet.expected(), R"(["r0","r1"])"};
  Autoscaler scaler(fleet, mirrors.path());
  testkit::run(step_up_and_down(fleet, course), 400s);
  MESSAGE(fmt::format("{} searches; wanted {}", course.asked, fmt::join(course.wanted, " ")));
  CHECK_MESSAGE(course.wrong.empty(), (course.wrong.empty() ? "" : course.wrong[0]));
  CHECK(course.asked > 0);
  // Up, and then down.
  auto top = std::ranges::max_element(course.wanted);
  CHECK(std::is_sorted(course.wanted.begin(), top));
  CHECK(std::is_sorted(top, course.wanted.end(), std::greater<>()));
  CHECK(*top <= 3);
  CHECK(course.most_nodes <= 3);
  auto log = fleet.log("autoscale");
  CHECK_MESSAGE(log.find("node_died") == log.npos, log);
}

}  // namespace warren::fleet
