#pragma once
// Replicas of the session service as they are run: processes on one Redis, with real sandboxes.
#include <doctest/doctest.h>

#include <boost/json.hpp>
#include <fstream>
#include <iterator>
#include <memory>

#include "net/http/client.h"
#include "net/http/target.h"
#include "proof/testkit/servers/redis_server.h"
#include "tests/with_sandboxes.h"

namespace warren::session {

namespace json = boost::json;

inline constexpr auto api_key = "the key of this test";

class Replicas {
 public:
  // So many, each with these words besides.
  explicit Replicas(int count, std::vector<std::string> words = {},
                    std::vector<std::string> environment = {})
      : words_(std::move(words)), environment_(std::move(environment)) {
    fs::create_directories(judge());
    for (int i = 0; i < count; ++i) ports_.emplace_back();
    for (int i = 0; i < count; ++i) start(i);
    for (int i = 0; i < count; ++i) await_ready(i);
  }
  void start(int i) {
    auto terms = terms_in(keeper_.root());
    std::vector<std::string> argv{WARREN_BINARY,
                                  "session",
                                  "serve",
                                  "--port",
                                  std::to_string(ports_[at(i)].number()),
                                  "--folder",
                                  keeper_.root(),
                                  "--grace",
                                  "2s",
                                  "--show-folder",
                                  fmt::format("{},{}", WARREN_TESTS, judge().string()),
                                  "--ports",
                                  fmt::format("{}-{}", terms.first_port, terms.last_port)};
    argv.insert(argv.end(), words_.begin(), words_.end());
    Program program{argv, folder_.path() / fmt::format("replica-{}.log", i)};
    program.environment = {fmt::format("REDIS_URL=redis://{}", redis_.address()),
                           fmt::format("SESSION_SERVICE_API_KEY={}", api_key)};
    for (const auto& variable : environment_) program.environment.push_back(variable);
    processes_.erase(i);
    processes_.try_emplace(i, program);
  }
  void await_ready(int i) {
    wait_for(60s, "the replica is ready", [&]() -> Result<> {
      REQUIRE_MESSAGE(processes_.at(i).alive(), log(i));
      auto reply = ask(i, "GET", "/readiness");
      if (reply.first != 200) return fail(Errc::unavailable, "{} {}", reply.first, reply.second);
      return ok;
    });
  }
  std::string url(int i) const {
    return fmt::format("http://127.0.0.1:{}", ports_[at(i)].number());
  }
  Process& process(int i) { return processes_.at(i); }
  RedisServer& redis() { return redis_; }
  fs::path judge() const { return folder_.path() / "judge"; }
  // The last 4000 bytes; and all of it.
  std::string log(int i) const { return processes_.at(i).log_text(); }
  std::string whole_log(int i) const {
    std::ifstream in(folder_.path() / fmt::format("replica-{}.log", i));
    return {std::istreambuf_iterator<char>(in), {}};
  }
  Yard yard() const { return *Yard::open(keeper_.root()); }

  // Status and body; 0 when nobody answers.
  std::pair<int, std::string> ask(int i, std::string method, std::string target,
                                  std::string body = "", std::string headers = "") {
    std::pair<int, std::string> answer{0, "nobody answers"};
    if (headers.empty()) headers = fmt::format("X-API-Key: {}\r\n", api_key);
    HttpAsk what{std::move(method), std::move(target), std::move(headers), std::move(body)};
    auto all = [](std::string to, HttpAsk asks,
                  std::pair<int, std::string>& into) -> awaitable<void> {
      HttpPool pool(co_await asio::this_coro::executor, {});
      auto where = *parse_http_url(to);
      auto reply = co_await pool.ask(where, std::move(asks), Clock::now() + 150s);
      if (reply) into = {reply->status, reply->body};
      if (!reply) into.second = reply.error().what;
    };
    testkit::run(all(url(i), std::move(what), answer), 160s);
    return answer;
  }
  // Asks a replica in the background, by curl; what it says is in the log of what is returned.
  std::unique_ptr<Process> asking(int i, const std::string& target, const std::string& body) {
    Program program{{"curl", "-sS", "-m", "120", "-H", fmt::format("X-API-Key: {}", api_key), "-d",
                     body, url(i) + target},
                    folder_.path() / fmt::format("asking-{}.log", ++asked_)};
    return std::make_unique<Process>(program);
  }
  // What others see of the session's record; empty: there is none.
  std::string record(const std::string& id) {
    auto text = redis_.cli({"GET", "openhands:resource:" + resource_of("default", name_of(id))});
    boost::system::error_code error;
    auto value = json::parse(text, error);
    const auto* object = error ? nullptr : value.if_object();
    return object ? std::string(object->at("status").as_string()) : "";
  }
  // The runtime object of a start.
  json::object start_session(int i, const std::string& id, std::vector<std::string> options = {}) {
    auto answer = ask(i, "POST", "/start", start_body(id, std::move(options)));
    REQUIRE_MESSAGE(answer.first == 200, answer.second << "\n" << log(i));
    return json::parse(answer.second).as_object();
  }
  json::object session(int i, const std::string& id) {
    auto answer = ask(i, "GET", "/sessions/" + percent_encoded(id));
    REQUIRE_MESSAGE(answer.first == 200, answer.second);
    return json::parse(answer.second).as_object();
  }
  std::string start_body(const std::string& id, std::vector<std::string> options = {}) {
    add_judge(judge(), id);
    json::array command{"python3", agent_file().string(), "--judge", judge().string()};
    for (auto& option : options) command.emplace_back(option);
    command.emplace_back("60000");
    return json::serialize(json::object{{"session_id", id},
                                        {"image", "test"},
                                        {"working_dir", "/workspace"},
                                        {"command", command}});
  }
  // No sandbox ever found that another of its session lived; and none ended by itself.
  void check_no_violation() const {
    auto places = yard();
    for (const auto& name : places.names()) {
      auto text = places.log_tail(name, 100'000);
      CHECK_MESSAGE(!text.contains("VIOLATION"), name);
      CHECK_MESSAGE(places.state(name)->restarts == 0, name << ": " << text);
    }
  }

 private:
  static std::size_t at(int i) { return static_cast<std::size_t>(i); }
  TempFolder folder_;
  YardKeeper keeper_{folder_.path() / "yard"};
  RedisServer redis_;
  std::vector<std::string> words_, environment_;
  std::vector<Port> ports_;
  std::map<int, Process> processes_;
  int asked_ = 0;
};

inline std::string text_of(const json::object& object, std::string_view name) {
  return std::string(object.at(name).as_string());
}

inline std::string body_for(const json::object& runtime) {
  return json::serialize(json::object{{"runtime_id", runtime.at("runtime_id")}});
}

inline std::string key_header(const json::object& runtime) {
  return fmt::format("X-Session-API-Key: {}\r\n", text_of(runtime, "session_api_key"));
}

inline std::string at_agent(const json::object& runtime, std::string_view target) {
  return fmt::format("/{}/runtime{}", text_of(runtime, "runtime_id"), target);
}

inline void await_record(Replicas& replicas, const std::string& id, const std::string& status) {
  wait_for(90s, fmt::format("the record says \"{}\"", status), [&]() -> Result<> {
    auto is = replicas.record(id);
    return is == status ? Result<>(ok) : fail(Errc::invalid, "it says \"{}\"", is);
  });
}

inline std::string status_at(Replicas& replicas, int i, const std::string& id) {
  auto answer = replicas.ask(i, "GET", "/sessions/" + id);
  if (answer.first != 200) return std::to_string(answer.first);
  return text_of(json::parse(answer.second).as_object(), "status");
}

inline void await_status(Replicas& replicas, int i, const std::string& id,
                         const std::string& status) {
  wait_for(90s, fmt::format("{} is {}", id, status), [&]() -> Result<> {
    auto is = status_at(replicas, i, id);
    return is == status ? Result<>(ok) : fail(Errc::invalid, "it is {}", is);
  });
}

// Starts of one session by many, and what each was told.
struct Told {
  int replica = 0;
  std::string session = {};
  int status = 0;
  std::string body = {};
};

inline awaitable<void> start_and_tell(std::string url, std::string body, std::vector<Told>& all,
                                      Told told) {
  HttpPool pool(co_await asio::this_coro::executor, {});
  HttpAsk ask{"POST", "/start", fmt::format("X-API-Key: {}\r\n", api_key), std::move(body)};
  auto reply = co_await pool.ask(*parse_http_url(url), std::move(ask), Clock::now() + 150s);
  if (reply) {
    told.status = reply->status;
    told.body = reply->body;
  }
  all.push_back(std::move(told));
}

}  // namespace warren::session
