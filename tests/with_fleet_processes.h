#pragma once
// A fleet as it is run: nodes and a router as processes, a real Redis, and a real git server that counts
// what is cloned. Nodes share no mirrors.
#include <list>
#include <map>
#include <random>
#include <set>
#include <sstream>

#include "net/http/client.h"
#include "proof/testkit/servers/redis_server.h"
#include "services/fleet/wire/wire.h"
#include "tests/with_git_server.h"

namespace warren::fleet {

using Lines = std::set<std::string>;  // "repo:path:line:text"

class FleetProcesses {
 public:
  // With a catalog there; empty: on a Redis of its own.
  explicit FleetProcesses(std::string catalog = "") : catalog_(std::move(catalog)) {
    if (catalog_.empty()) catalog_ = fmt::format("redis://{}", redis_.address());
  }

  // A repository with these files, wanted by the fleet. What has apple_ in it is to be found.
  void add(const std::string& name, const std::map<std::string, std::string>& files) {
    auto work = folder_.path() / "work" / name;
    for (const auto& [path, text] : files) {
      fs::create_directories((work / path).parent_path());
      write(work / path, text);
      std::istringstream in(text);
      int number = 1;
      for (std::string line; std::getline(in, line); ++number)
        if (line.find("apple_") != line.npos)
          expected_.insert(fmt::format("{}:{}:{}:{}", name, path, number, line));
    }
    const auto& git = server_.repositories();
    git.git({"init", "-q", "-b", "main", work});
    git.git({"-C", work, "add", "-A"});
    git.git({"-C", work, "commit", "-q", "-m", "x"});
    git.git({"clone", "-q", "--bare", work, git.path(name)});
    git.git({"-C", git.path(name), "config", "uploadpack.allowFilter", "true"});
    auto said = run({"fleet", "repo", "add", server_.url("open/" + name), "--as", name});
    REQUIRE_MESSAGE(said.first == 0, said.second);
  }
  void add_small(int count) {
    for (int i = 0; i < count; ++i) {
      std::map<std::string, std::string> files;
      for (int k = 0; k < 3; ++k)
        files[fmt::format("src/f{}.c", k)] =
            fmt::format("int apple_{0}_{1}(void);\n// tree {0}\nint x{1};\n", i, k);
      add(fmt::format("r{}", i), files);
    }
  }
  // So many megabytes of text, no two lines alike, in files that are not too long to be indexed.
  void add_large(const std::string& name, int megabytes) {
    std::map<std::string, std::string> files;
    std::mt19937_64 random(7);
    for (int i = 0; i < megabytes; ++i) {
      auto& text = files[fmt::format("f{}.c", i)];
      text = fmt::format("int apple_{};\n", i);
      while (text.size() < (1u << 20))
        text += fmt::format("int x{:x} = {}; // {:x}\n", random(), random() % 1000, random());
    }
    add(name, files);
  }

  Process& start_node(const std::string& name, std::vector<std::string> words = {}) {
    std::vector<std::string> all{"fleet",
                                 "node",
                                 "--name",
                                 name,
                                 "--ttl",
                                 "5s",
                                 "--poll",
                                 "2s",
                                 "--budget",
                                 "512M",
                                 "--allow-http",
                                 "--mirrors",
                                 (folder_.path() / ("mirrors-" + name)).string()};
    all.insert(all.end(), words.begin(), words.end());
    return nodes_.try_emplace(name, program(all, log_of(name))).first->second;
  }
  Process& node(const std::string& name) { return nodes_.at(name); }
  std::string log(const std::string& name) const { return contents(log_of(name)); }
  void start_router(const std::vector<std::string>& words = {}) {
    std::vector<std::string> all{"fleet", "router", "--port", "0"};
    all.insert(all.end(), words.begin(), words.end());
    router_.emplace(program(all, log_of("router")));
    wait_for(30s, "the router listens", [&] { return !url().empty(); });
  }
  std::string url() const {
    auto text = log("router");
    auto at = text.find("url=http");
    if (at == text.npos) return "";
    return text.substr(at + 4, text.find_first_of(" \n", at) - at - 4);
  }

  // The exit code and what it said.
  std::pair<int, std::string> run(const std::vector<std::string>& words) const {
    auto log = folder_.path() / "said";
    fs::remove(log);
    Process process(program(words, log));
    int code = process.wait(120s);
    return {code, contents(log)};
  }
  Program program(std::vector<std::string> words, fs::path log) const {
    words.insert(words.begin(), WARREN_BINARY);
    std::vector<std::string> variables{"HOME=" + folder_.path().string(), "FLEET_TOKEN=mangrove",
                                       "FLEET_CATALOG=" + catalog_};
    variables.insert(variables.end(), environment.begin(), environment.end());
    return {std::move(words), std::move(log), std::move(variables)};
  }
  fs::path log_of(const std::string& name) const { return folder_.path() / (name + ".log"); }

  std::vector<std::string> environment = {};  // further variables, of what is started from then on
  GitServer& server() { return server_; }

  const Lines& expected() const { return expected_; }
  long clones() const {
    auto all = server_.requests();
    return std::ranges::count_if(all, [](const auto& line) { return line.starts_with("fetch "); });
  }
  // Which node has a repository, by the catalog.
  std::string owner_of(const std::string& repo) const {
    auto said = run({"fleet", "explain", repo}).second;
    auto at = said.find("is served by ");
    return at == said.npos ? "" : said.substr(at + 13, said.find(' ', at + 13) - at - 13);
  }

 private:
  TempFolder folder_;
  RedisServer redis_;
  std::string catalog_;
  GitServer server_;
  Lines expected_;
  std::map<std::string, Process> nodes_;
  std::optional<Process> router_;
};

// One query, judged: 200, complete, and exactly these lines.
inline Async<> ask_for_all(HttpClient& client, const Lines& expected) {
  HttpAsk ask{"POST", "/v1/search"};
  ask.headers = "Authorization: Bearer mangrove\r\n";
  ask.body = R"({"q":"apple_","limit":10000,"matches":0,"timeout_ms":30000})";
  auto reply = co_await client.ask(std::move(ask), Clock::now() + 60s);
  if (!reply) co_return std::unexpected(reply.error());
  if (reply->status != 200)
    co_return fail(Errc::unavailable, "it answered {}: {}", reply->status, reply->body);
  std::vector<Missing> missing;
  auto answer = parse_answer(reply->body, missing);
  if (!answer) co_return std::unexpected(answer.error());
  if (!missing.empty())
    co_return fail(Errc::unavailable, "{} of {} is missing: {} {}", missing.size(), missing[0].repo,
                   missing[0].reason, missing[0].detail);
  if (!answer->is_complete) co_return fail(Errc::unavailable, "it is not complete");
  Lines found;
  for (const auto& file : answer->files)
    for (const auto& line : file.lines)
      found.insert(fmt::format("{}:{}:{}:{}", file.repo, file.path, line.line, line.text));
  if (found != expected)
    co_return fail(Errc::invalid, "{} lines instead of {}", found.size(), expected.size());
  co_return ok;
}

// Asks without pause, and remembers what was not as it should be.
struct Judge {
  std::string url;
  const Lines& expected;
  std::uint64_t asked = 0;
  std::vector<std::string> wrong = {};
  bool is_over = false;  // whoever asks is about to be cancelled

  awaitable<void> ask_on() {
    HttpClient client(co_await asio::this_coro::executor, *parse_http_url(url));
    for (;;) {
      auto answer = co_await ask_for_all(client, expected);
      ++asked;
      if (!answer && !is_over) wrong.push_back(answer.error().what);
    }
  }
};

// Runs body(fleet, judge) while several clients ask; before it, every answer is right once.
template <class Body>
void under_queries(FleetProcesses& fleet, Body body) {
  auto all = [](FleetProcesses& of, Body work) -> awaitable<void> {
    Judge judge{of.url(), of.expected()};
    auto is_served = [](Judge& by) -> awaitable<Result<>> {
      HttpClient client(co_await asio::this_coro::executor, *parse_http_url(by.url));
      auto answer = co_await ask_for_all(client, by.expected);
      co_return answer;
    };
    co_await eventually(120s, "everything is served", is_served, judge);
    auto inner = [](TaskGroup& tasks, FleetProcesses& f, Judge& j, Body& w) -> awaitable<bool> {
      for (int i = 0; i < 3; ++i) tasks.start("test.ask", j.ask_on());
      co_await w(f, j);
      j.is_over = true;
      co_return true;
    };
    co_await with_group(inner, of, judge, work);
    MESSAGE(judge.asked << " queries");
    CHECK(judge.asked > 0);
    CHECK_MESSAGE(judge.wrong.empty(), judge.wrong.size()
                                           << " answers, the first: "
                                           << (judge.wrong.empty() ? "" : judge.wrong[0]));
  };
  testkit::run(all(fleet, std::move(body)), 500s);
}

// Without keeping queries from going on.
inline awaitable<int> ended(Process& process, Clock::duration limit = 120s) {
  auto has_ended = [](Process& what) { return !what.alive(); };
  co_await eventually(limit, "the process ends", has_ended, process);
  co_return process.wait(10s);
}

}  // namespace warren::fleet
