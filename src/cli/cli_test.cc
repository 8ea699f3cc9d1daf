// The real binary as a child: exit codes, what it writes where, and how long it takes.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <boost/asio/ip/tcp.hpp>
#include <boost/json.hpp>
#include <cstdlib>
#include <fstream>
#include <thread>

#include "testkit/process.h"
#include "testkit/redis_cluster.h"
#include "testkit/redis_server.h"
#include "testkit/run.h"
#include "testkit/sentinel_trio.h"

namespace warren {

namespace {

using Words = std::vector<std::string>;

struct Outcome {
  int exit;
  std::string out, err;
  Clock::duration elapsed;
};

std::string contents(const std::filesystem::path& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

// A folder of its own, which is also $HOME, and no variable but those that are given.
class Shell {
 public:
  Outcome run(const Words& words, const Words& environment = {}) const {
    return start("exec \"$0\" \"$@\" >out 2>err </dev/null", WARREN_BINARY, words, environment);
  }
  // On a terminal; both streams are in `out`.
  Outcome run_on_terminal(const std::string& words, const Words& environment = {}) const {
    auto line = fmt::format("{} {}", WARREN_BINARY, words);
    return start("exec script -qec \"$0\" /dev/null >out 2>err </dev/null", line, {}, environment);
  }
  Outcome start(const std::string& script, const std::string& zero, const Words& words,
                const Words& environment) const {
    auto path = std::string("PATH=") + std::getenv("PATH");
    Words argv{"env", "-i", "-C", folder_.path(), path, "HOME=" + folder_.path().string()};
    argv.insert(argv.end(), environment.begin(), environment.end());
    argv.insert(argv.end(), {"bash", "-c", script, zero});
    argv.insert(argv.end(), words.begin(), words.end());
    auto began = Clock::now();
    Process process(Program{argv, folder_.path() / "log"});
    int exit = process.wait(30s);
    return {exit, contents(folder_.path() / "out"), contents(folder_.path() / "err"),
            Clock::now() - began};
  }
  std::string write(const std::string& name, const std::string& text) const {
    std::filesystem::create_directories((folder_.path() / name).parent_path());
    std::ofstream(folder_.path() / name) << text;
    return folder_.path() / name;
  }

 private:
  TempFolder folder_;
};

// Answers whatever it hears as a web server answers what is not HTTP.
class HttpServer {
 public:
  HttpServer() : acceptor_(io_, {asio::ip::address_v4::loopback(), 0}) {
    thread_ = std::jthread([this](std::stop_token stop) {
      while (!stop.stop_requested()) answer();
    });
  }
  ~HttpServer() {
    thread_.request_stop();
    asio::ip::tcp::socket(io_).connect(acceptor_.local_endpoint());  // wakes it
  }
  unsigned short port() const { return acceptor_.local_endpoint().port(); }

 private:
  void answer() {
    boost::system::error_code ignored;
    auto peer = acceptor_.accept(ignored);
    char heard[1024];
    peer.read_some(asio::buffer(heard), ignored);
    peer.write_some(asio::buffer(std::string_view("HTTP/1.1 400 Bad Request\r\n\r\n")), ignored);
  }
  asio::io_context io_;
  asio::ip::tcp::acceptor acceptor_;
  std::jthread thread_;
};

std::string url(const RedisServer& server) { return "redis://" + server.address(); }

// Two lines: the error and the way out.
void check_error(const Outcome& outcome, int exit, const std::string& what,
                 const std::string& hint) {
  CAPTURE(outcome.err);
  CHECK(outcome.exit == exit);
  CHECK(outcome.out.empty());
  CHECK(outcome.err.starts_with("error: "));
  CHECK(outcome.err.contains(what));
  CHECK(outcome.err.contains("\nhint: "));
  CHECK(outcome.err.substr(outcome.err.find("\nhint: ")).contains(hint));
  CHECK(std::ranges::count(outcome.err, '\n') == 2);
}

// One line: the error says it all.
void check_plain_error(const Outcome& outcome, int exit, const std::string& what) {
  CAPTURE(outcome.err);
  CHECK(outcome.exit == exit);
  CHECK(outcome.err.starts_with("error: "));
  CHECK(outcome.err.contains(what));
  CHECK(std::ranges::count(outcome.err, '\n') == 1);
}

// What starting a process may cost on a busy machine, under ASan too.
constexpr auto slack = 1500ms;

Words trio_environment(SentinelTrio& trio) {
  Words addresses;
  for (auto* sentinel : trio.sentinels()) addresses.push_back(sentinel->address());
  return {"REDIS_MODE=sentinel", fmt::format("REDIS_MASTER_NAME={}", SentinelTrio::name),
          fmt::format("REDIS_ADDRS={}", fmt::join(addresses, ","))};
}

// The one check of this name.
boost::json::object finding(const Outcome& doctor, const char* name) {
  boost::json::error_code error;
  auto whole = boost::json::parse(doctor.out, error);
  REQUIRE_MESSAGE(!error, doctor.out << doctor.err);
  for (auto& check : whole.at("checks").as_array())
    if (check.at("name").as_string() == name) return check.as_object();
  FAIL("no check " << name << " in " << doctor.out);
  return {};
}

}  // namespace

TEST_CASE("the version is the name and the number, and nothing else") {
  Shell shell;
  auto version = shell.run({"--version"});
  CHECK(version.exit == 0);
  CHECK(version.out == "warren " WARREN_VERSION "\n");
  CHECK(version.err.empty());
}

TEST_CASE("help is a result: it goes to standard output and succeeds") {
  Shell shell;
  auto help = shell.run({"--help"});
  CHECK(help.exit == 0);
  CHECK(help.err.empty());
  for (auto* part : {"Usage: warren", "redis ping", "redis info", "config show", "doctor",
                     "completion", "--redis-url URL", "REDIS_PASSWORD_FILE", "Exit codes"})
    CHECK_MESSAGE(help.out.contains(part), part);
  CHECK(!help.out.contains("--redis-password "));
  auto ping = shell.run({"redis", "ping", "--help"});
  CHECK(ping.exit == 0);
  CHECK(ping.out.contains("Usage: warren redis ping"));
  CHECK(ping.out.contains("--count N"));
}

TEST_CASE("called by another name, it uses that name and says what is planned") {
  Shell shell;
  for (std::string name : {"holt", "sett", "foghorn"}) {
    auto link = std::filesystem::path(WARREN_BINARY).parent_path() / name;
    auto help = shell.start("exec \"$0\" --help >out 2>err", link, {}, {});
    CHECK(help.exit == 0);
    CHECK(help.out.starts_with(name + " is another name of warren"));
    CHECK(help.out.contains("planned"));
    CHECK(help.out.contains("Usage: " + name + " "));
    CHECK(help.out.contains("\n  " + name + " redis info --json\n"));
  }
}

TEST_CASE("without a command, help goes to standard error and the exit code is that of misuse") {
  Shell shell;
  auto nothing = shell.run({});
  CHECK(nothing.exit == 2);
  CHECK(nothing.out.empty());
  CHECK(nothing.err.contains("Usage: warren "));
  auto half = shell.run({"redis"});
  CHECK(half.exit == 2);
  CHECK(half.err.contains("Usage: warren redis "));
}

TEST_CASE("unknown commands and flags are answered with the nearest known ones") {
  Shell shell;
  check_error(shell.run({"redis", "pnig"}), 2, "unknown command 'pnig'. Did you mean 'ping'?",
              "warren redis --help");
  check_error(shell.run({"docter"}), 2, "unknown command 'docter'. Did you mean 'doctor'?",
              "warren --help");
  check_error(shell.run({"ping"}), 2, "Did you mean 'warren redis ping'?", "warren --help");
  check_error(shell.run({"redis", "ping", "--tmeout", "5s"}), 2,
              "unknown flag '--tmeout'. Did you mean '--timeout'?", "warren redis ping --help");
  check_error(shell.run({"--redis-ulr=redis://h", "doctor"}), 2,
              "unknown flag '--redis-ulr'. Did you mean '--redis-url'?", "--help");
  check_error(shell.run({"xyzzy"}), 2, "unknown command 'xyzzy'.\n", "warren --help");
}

TEST_CASE("misused values are named with what would be right") {
  Shell shell;
  check_error(shell.run({"redis", "ping", "--timeout", "5x"}), 2, "use a duration", "--help");
  check_error(shell.run({"redis", "ping", "--count", "0"}), 2, "use a whole number", "--help");
  check_error(shell.run({"redis", "ping", "--timeout"}), 2, "--timeout needs a value", "--help");
  check_error(shell.run({"redis", "ping", "more"}), 2, "unexpected argument 'more'", "--help");
  check_error(shell.run({"completion", "fish"}), 2, "use one of bash, zsh", "--help");
  check_error(shell.run({"torture", "cats"}), 2, "use one of lease, mirror, all", "--help");
  check_error(shell.run({"torture", "--schedules", "5"}), 2, "--schedules is for --sim", "--help");
  check_error(shell.run({"--color", "blue", "doctor"}), 2, "use one of auto", "--help");
  check_error(shell.run({"--log-level", "loud", "config", "show"}), 2,
              "flag --log-level: log level \"loud\"", "--help");
}

TEST_CASE("a secret is no flag, and is not repeated when it is given as one") {
  Shell shell;
  for (auto& words : {Words{"--redis-password", "hunter2", "doctor"},
                      Words{"--redis-password=hunter2", "doctor"}}) {
    auto refused = shell.run(words);
    check_error(refused, 2, "--redis-password is not a flag",
                "REDIS_PASSWORD, or REDIS_PASSWORD_FILE");
    CHECK(!refused.err.contains("hunter2"));
  }
  auto in_url = shell.run({"redis", "ping", "--redis-url", "redis://u:hunter2@127.0.0.1"});
  check_error(in_url, 2, "REDIS_URL", "--help");
  CHECK(!in_url.err.contains("hunter2"));
}

TEST_CASE("a flag wins over the environment, that over the file, and that over the default") {
  Shell shell;
  auto shown = [&](const Words& flags, const Words& environment) {
    Words words{"config", "show", "--json"};
    words.insert(words.end(), flags.begin(), flags.end());
    auto outcome = shell.run(words, environment);
    REQUIRE_MESSAGE(outcome.exit == 0, outcome.err);
    return boost::json::parse(outcome.out).at("redis.username").as_object();
  };
  Words password{"REDIS_PASSWORD=p"};  // a user needs one
  auto with = [&](Words more) {
    more.push_back(password[0]);
    return more;
  };
  CHECK(shown({}, {}).at("origin") == "default");

  shell.write("warren.toml", "[redis]\nusername = \"from-file\"\n");
  auto file = shown({}, password);
  CHECK(file.at("value") == "from-file");
  CHECK(file.at("origin") == "file warren.toml:2");

  auto other = shell.write("secret", "from-x-file\n");
  auto x_file = shown({}, with({"REDIS_USERNAME_FILE=" + other}));
  CHECK(x_file.at("value") == "from-x-file");
  CHECK(x_file.at("origin") == "environment REDIS_USERNAME_FILE");

  auto variable = shown({}, with({"REDIS_USERNAME=from-environment"}));
  CHECK(variable.at("value") == "from-environment");
  CHECK(variable.at("origin") == "environment REDIS_USERNAME");

  auto flag = shown({"--redis-username", "from-flag"}, with({"REDIS_USERNAME=from-environment"}));
  CHECK(flag.at("value") == "from-flag");
  CHECK(flag.at("origin") == "flag --redis-username");
}

TEST_CASE("the configuration file is looked for in the usual places, and a given one must exist") {
  Shell shell;
  auto origin = [&](const Words& flags, const Words& environment) {
    Words words{"config", "show", "--json"};
    words.insert(words.end(), flags.begin(), flags.end());
    auto outcome = shell.run(words, environment);
    REQUIRE_MESSAGE(outcome.exit == 0, outcome.err);
    return std::string(boost::json::parse(outcome.out).at("redis.db").at("origin").as_string());
  };
  CHECK(origin({}, {}) == "default");
  auto text = "redis.db = 1\n";
  auto home = shell.write(".config/warren/warren.toml", text);
  CHECK(origin({}, {}) == "file " + home + ":1");
  auto xdg = shell.write("xdg/warren/warren.toml", text);
  Words xdg_home{"XDG_CONFIG_HOME=" + xdg.substr(0, xdg.find("/warren/warren.toml"))};
  CHECK(origin({}, xdg_home) == "file " + xdg + ":1");
  shell.write("warren.toml", text);
  CHECK(origin({}, xdg_home) == "file warren.toml:1");
  auto named = shell.write("named.toml", text);
  CHECK(origin({}, {"WARREN_CONFIG=" + named}) == "file " + named + ":1");
  auto flag = shell.write("flag.toml", text);
  CHECK(origin({"--config", flag}, {"WARREN_CONFIG=" + named}) == "file " + flag + ":1");

  check_error(shell.run({"config", "show", "--config", "nowhere.toml"}), 2, "nowhere.toml", "");
  check_error(shell.run({"config", "show"}, {"WARREN_CONFIG=nowhere.toml"}), 2, "nowhere.toml", "");
}

TEST_CASE("a bad value in a file is an error with file, line and what would be right") {
  Shell shell;
  shell.write("warren.toml", "[redis]\n\nmode = \"clutser\"\n");
  check_error(shell.run({"config", "show"}), 2,
              "file warren.toml:3: redis.mode is \"clutser\"; use", "--help");
  shell.write("warren.toml", "[redis]\nurll = \"redis://h\"\n");
  check_error(shell.run({"config", "show"}), 2, "did you mean redis.url?", "--help");
}

TEST_CASE("config show masks secrets, and shows contradictions beside the values") {
  Shell shell;
  auto masked = shell.run({"config", "show"},
                          {"REDIS_PASSWORD=hunter2", "REDIS_URL=redis://u:hunter2@127.0.0.1"});
  CHECK(masked.exit == 0);
  CHECK(!masked.out.contains("hunter2"));
  CHECK(masked.out.contains("redis://u:********@127.0.0.1"));
  CHECK(masked.out.contains("environment REDIS_PASSWORD"));

  auto both = shell.run({"config", "show"}, {"REDIS_URL=redis://a", "REDIS_ADDRS=b:1"});
  CHECK(both.exit == 2);
  CHECK(both.out.contains("redis://a"));
  CHECK(both.err.contains("REDIS_URL and REDIS_ADDRS both say where Redis is"));
}

TEST_CASE("colour is for terminals, unless NO_COLOR or a flag says otherwise") {
  Shell shell;
  auto escape = '\x1b';
  CHECK(shell.run_on_terminal("config show").out.contains(escape));
  CHECK(shell.run_on_terminal("redis pnig").out.contains(escape));
  CHECK(!shell.run_on_terminal("config show", {"NO_COLOR=1"}).out.contains(escape));
  CHECK(!shell.run_on_terminal("redis pnig", {"NO_COLOR=1"}).out.contains(escape));
  CHECK(!shell.run_on_terminal("config show", {"TERM=dumb"}).out.contains(escape));
  CHECK(!shell.run_on_terminal("--color never config show").out.contains(escape));
  CHECK(!shell.run({"config", "show"}).out.contains(escape));
  CHECK(!shell.run({"redis", "pnig"}).err.contains(escape));
  CHECK(shell.run({"--color", "always", "config", "show"}, {"NO_COLOR=1"}).out.contains(escape));
}

TEST_CASE("results that cannot be written are a failure") {
  Shell shell;
  auto full = shell.start("exec \"$0\" --help >/dev/full 2>err", WARREN_BINARY, {}, {});
  CHECK(full.exit == 1);
  CHECK(full.err == "error: standard output cannot be written\n");
}

TEST_CASE("bash completes commands, flags and the values of flags") {
  Shell shell;
  auto script = R"(
    exec >out 2>err; source <("$0" completion bash)
    complete -p warren holt sett foghorn >/dev/null || exit 1
    try() { COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _warren; echo "${COMPREPLY[*]}"; }
    try warren redis p
    try holt redis ''
    try warren completion ''
    try warren --redis-mode s
    try warren --redis-username redis doc
    try warren redis ping --t
    try warren redis ping --redis-tls-c
    try warren --config fil
    try warren torture ''
    try warren torture lease --se
    try warren redis ping --count '')";
  shell.write("file.toml", "");
  auto outcome = shell.start(script, WARREN_BINARY, {}, {});
  CHECK(outcome.err.empty());
  CHECK(outcome.out ==
        "ping\nping info status start stop\nbash zsh\nsingle sentinel\ndoctor\n--timeout\n"
        "--redis-tls-ca --redis-tls-cert\nfile.toml\n"
        "lease mirror all\n--seconds --seed\n\n");
}

TEST_CASE("zsh accepts its script, and is offered the words of the place") {
  Shell shell;
  auto script = R"(exec zsh -f -c '
    exec >out 2>err; autoload -U compinit; compinit -D -u; source <($0 completion zsh)
    print $_comps[warren] $_comps[foghorn]
    compadd() { shift; print -- $* }
    words=(warren redis p) CURRENT=3; _warren
    words=(warren --redis-mode "") CURRENT=3; _warren
    words=(warren config show --j) CURRENT=4; _warren' "$0")";
  auto outcome = shell.start(script, WARREN_BINARY, {}, {});
  CHECK(outcome.err.empty());
  CHECK(outcome.out.starts_with(
      "_warren _warren\nping info status start stop\nsingle sentinel cluster\n--help "));
  CHECK(outcome.out.ends_with(" --json\n"));
}

TEST_CASE("ping tells which server answered, its role and the time") {
  Shell shell;
  RedisServer server({.unix_socket = true});
  auto once = shell.run({"redis", "ping", "--redis-url", url(server)});
  CHECK_MESSAGE(once.exit == 0, once.err);
  CHECK(once.err.empty());
  CHECK(once.out.starts_with("PONG  " + server.address() + "  primary  "));
  CHECK(once.out.ends_with(" ms\n"));
  CHECK(shell.run({"redis", "ping", "--count", "5"}, {"REDIS_URL=" + url(server)})
            .out.ends_with(" in 5 answers\n"));
  auto by_path = shell.run({"redis", "ping"}, {"REDIS_URL=unix://" + server.unix_path().string()});
  CHECK(by_path.out.starts_with("PONG  unix://"));
  RedisServer replica({.replica_of = &server});
  CHECK(shell.run({"redis", "ping", "--redis-url", url(replica)}).out.contains("  replica  "));
}

TEST_CASE("ping where nothing listens says so at once") {
  Shell shell;
  Port port;
  auto address = fmt::format("127.0.0.1:{}", port.number());
  auto outcome = shell.run({"redis", "ping", "--redis-url", "redis://" + address});
  check_error(outcome, 3, address + ": the connection was refused; nothing listens there",
              "redis-server");
  CHECK(outcome.elapsed < slack);
}

TEST_CASE("ping with a wrong password, or without one, is denied at once") {
  Shell shell;
  RedisServer server({.password = "right"});
  Words ping{"redis", "ping", "--redis-url", url(server)};
  auto wrong = shell.run(ping, {"REDIS_PASSWORD=wrong"});
  check_error(wrong, 4, server.address() + " does not accept this user name and password",
              "REDIS_PASSWORD");
  CHECK(wrong.elapsed < slack);
  auto without = shell.run(ping);
  check_error(without, 4, server.address() + " wants a password", "REDIS_PASSWORD_FILE");
  CHECK(without.elapsed < slack);
  CHECK(shell.run(ping, {"REDIS_PASSWORD_FILE=" + shell.write("secret", "right\n")}).exit == 0);
}

TEST_CASE("ping to a TLS server whose CA we do not know is denied, and works with the CA") {
  Shell shell;
  Certificates certificates;
  RedisServer server({.tls = &certificates});
  auto address = fmt::format("127.0.0.1:{}", server.tls_port());
  Words ping{"redis", "ping", "--redis-url", "rediss://" + address};
  auto outcome = shell.run(ping);
  check_error(outcome, 4, "the server's certificate is not signed by a CA we trust",
              "--redis-tls-ca FILE");
  CHECK(outcome.elapsed < slack);
  auto trusted = shell.run(ping, {"REDIS_TLS_CA=" + certificates.ca().string()});
  CHECK_MESSAGE(trusted.exit == 0, trusted.err);

  auto plain = shell.run({"redis", "ping", "--redis-url", "redis://" + address});
  CHECK(plain.exit != 0);
  CHECK(plain.err.contains("TLS"));
}

TEST_CASE("ping to a port that is not Redis says what is there instead") {
  Shell shell;
  HttpServer server;
  auto address = fmt::format("127.0.0.1:{}", server.port());
  auto outcome = shell.run({"redis", "ping", "--redis-url", "redis://" + address});
  check_error(outcome, 1, address + " is not a Redis server: it says \"HTTP/1.1 400 Bad Request\"",
              "check host and port");
  CHECK(outcome.elapsed < slack);
  auto tls = shell.run({"redis", "ping", "--redis-url", "rediss://" + address});
  check_error(tls, 1, "not a TLS server", "check host and port");
  CHECK(tls.elapsed < slack);
}

TEST_CASE("ping to a paused server ends at its deadline") {
  Shell shell;
  RedisServer server;
  server.pause();
  Words ping{"redis", "ping", "--redis-url", url(server)};
  auto outcome = shell.run(ping);
  check_error(outcome, 3, server.address() + " does not answer", "--timeout");
  CHECK(outcome.elapsed > 2s);
  CHECK(outcome.elapsed < 2s + slack);
  ping.insert(ping.end(), {"--timeout", "200ms"});
  auto quick = shell.run(ping);
  check_error(quick, 3, server.address() + " does not answer", "--timeout");
  CHECK(quick.elapsed < 200ms + slack);
}

TEST_CASE("with sentinels, ping and info show the primary and its replicas") {
  Shell shell;
  SentinelTrio trio;
  auto environment = trio_environment(trio);
  auto ping = shell.run({"redis", "ping"}, environment);
  CHECK_MESSAGE(ping.exit == 0, ping.err);
  CHECK(ping.out.starts_with("PONG  " + trio.primary().address() + "  primary  "));
  for (auto* replica : trio.replicas())
    CHECK(ping.out.contains("PONG  " + replica->address() + "  replica  "));

  auto info = shell.run({"redis", "info", "--json"}, environment);
  REQUIRE_MESSAGE(info.exit == 0, info.err);
  auto whole = boost::json::parse(info.out);
  CHECK(whole.at("mode") == "sentinel");
  auto& servers = whole.at("servers").as_array();
  REQUIRE(servers.size() == 3);
  CHECK(servers[0].at("role") == "primary");
  CHECK(servers[0].at("replicas") == 2);
  CHECK(servers[1].at("follows").as_string() == trio.primary().address().c_str());
  CHECK(servers[1].at("link") == "up");

  trio.replicas()[0]->pause();
  auto partly = shell.run({"redis", "ping", "--timeout", "500ms"}, environment);
  CHECK(partly.exit == 3);
  CHECK(partly.out.contains("FAIL  " + trio.replicas()[0]->address() + "  replica  "));
  CHECK(partly.err.contains("error: 1 of 3 servers did not answer\nhint: "));
  CHECK(partly.elapsed < 1s + slack);
}

TEST_CASE("with sentinels of which none answers, ping ends at its deadline and says why") {
  Shell shell;
  Port port;
  auto outcome =
      shell.run({"redis", "ping"}, {"REDIS_MODE=sentinel", "REDIS_MASTER_NAME=warren",
                                    fmt::format("REDIS_ADDRS=127.0.0.1:{}", port.number())});
  check_error(outcome, 3, "nothing listens there", "REDIS_URL");
  CHECK(outcome.elapsed < 2s + slack);
}

TEST_CASE("in a cluster, ping shows every node, and doctor that all slots are served") {
  Shell shell;
  RedisCluster cluster;
  Words environment{"REDIS_MODE=cluster", "REDIS_ADDRS=" + cluster.node(1).address()};
  // CLUSTER SLOTS leaves out replicas that have not received anything yet.
  for (auto* node : cluster.nodes()) node->cli({"CONFIG", "SET", "repl-ping-replica-period", "1"});
  wait_for(30s, "all nodes list all nodes", [&] {
    for (auto* asked : cluster.nodes())
      for (auto* listed : cluster.nodes())
        if (!asked->cli({"CLUSTER", "SLOTS"}).contains(std::to_string(listed->port())))
          return false;
    return true;
  });
  auto ping = shell.run({"redis", "ping"}, environment);
  CHECK_MESSAGE(ping.exit == 0, ping.err);
  for (std::size_t i = 0; i < 6; ++i) {
    auto role = i < 3 ? "  primary  " : "  replica  ";
    CHECK_MESSAGE(ping.out.contains("PONG  " + cluster.node(i).address() + role), ping.out);
  }
  auto info = shell.run({"redis", "info"}, environment);
  CHECK(info.out.starts_with("Redis  cluster, 6 servers\n"));

  auto doctor = shell.run({"doctor", "--json"}, environment);
  CHECK(doctor.exit == 0);
  auto topology = finding(doctor, "topology");
  CHECK(topology.at("mark") == "ok");
  CHECK(topology.at("found") == "3 primaries, 3 replicas, all slots served");

  cluster.node(2).cli({"CLUSTER", "DELSLOTS", "16383"});
  wait_for(30s, "a node knows that the slot is not served",
           [&] { return cluster.node(2).cli({"CLUSTER", "INFO"}).contains("cluster_state:fail"); });
  auto holed = shell.run({"doctor", "--json"}, environment);
  CHECK(holed.exit == 1);
  CHECK(finding(holed, "topology").at("mark") == "fail");
}

TEST_CASE("info shows the state of a server, for people and for programs") {
  Shell shell;
  RedisServer server({.appendonly = true});
  Words environment{"REDIS_URL=" + url(server)};
  auto text = shell.run({"redis", "info"}, environment);
  CHECK_MESSAGE(text.exit == 0, text.err);
  for (auto* part : {"single, 1 server", "version", "memory", "of no limit", "noeviction",
                     "append-only file", "no replicas"})
    CHECK_MESSAGE(text.out.contains(part), part);
  auto whole = boost::json::parse(shell.run({"redis", "info", "--json"}, environment).out);
  auto& only = whole.at("servers").at(0).as_object();
  CHECK(only.at("address").as_string() == server.address().c_str());
  CHECK(only.at("version").as_string() == server.info("redis_version").c_str());
  CHECK(only.at("appendonly") == true);
  CHECK(only.at("eviction_policy") == "noeviction");
  server.pause();
  auto paused = shell.run({"redis", "info", "--timeout", "200ms"}, environment);
  check_error(paused, 3, "does not answer", "--timeout");
}

TEST_CASE("doctor finds a sound server sound") {
  Shell shell;
  RedisServer server({.appendonly = true});
  auto doctor = shell.run({"doctor", "--json"}, {"REDIS_URL=" + url(server)});
  CHECK(doctor.exit == 0);
  for (auto* name : {"redis-server", "git", "redis", "version", "persistence", "eviction", "clock"})
    CHECK_MESSAGE(finding(doctor, name).at("mark") == "ok", name);
  auto text = shell.run({"doctor"}, {"REDIS_URL=" + url(server)});
  CHECK(text.exit == 0);
  CHECK(text.out.contains("ok    eviction"));
  CHECK(text.out.ends_with(" 0 failed\n"));
}

TEST_CASE("doctor says how to mend eviction, persistence and replication") {
  Shell shell;
  RedisServer server({.config = {"maxmemory-policy allkeys-lru", "save \"\""}});
  RedisServer replica({.replica_of = &server});
  wait_for(30s, "the replica is connected", [&] { return server.info("connected_slaves") == "1"; });
  Words environment{"REDIS_URL=" + url(server)};
  auto doctor = shell.run({"doctor", "--json"}, environment);
  CHECK(doctor.exit == 1);
  CHECK(finding(doctor, "eviction").at("mark") == "fail");
  CHECK(finding(doctor, "persistence").at("mark") == "warn");
  CHECK(finding(doctor, "min-replicas-to-write").at("mark") == "warn");

  // As it told us to.
  server.cli({"CONFIG", "SET", "maxmemory-policy", "noeviction"});
  server.cli({"CONFIG", "SET", "appendonly", "yes"});
  server.cli({"CONFIG", "SET", "min-replicas-to-write", "1"});
  auto mended = shell.run({"doctor", "--json"}, environment);
  CHECK(mended.exit == 0);
  for (auto* name : {"eviction", "persistence", "min-replicas-to-write"})
    CHECK_MESSAGE(finding(mended, name).at("mark") == "ok", name);
}

TEST_CASE("doctor fails for a single server that is a replica or part of a cluster") {
  Shell shell;
  RedisServer primary;
  RedisServer replica({.replica_of = &primary});
  auto doctor = shell.run({"doctor", "--json"}, {"REDIS_URL=" + url(replica)});
  CHECK(doctor.exit == 1);
  CHECK(finding(doctor, "topology").at("mend").as_string().ends_with(primary.address()));
  RedisServer node({.cluster = true});
  auto clustered = shell.run({"doctor", "--json"}, {"REDIS_URL=" + url(node)});
  CHECK(clustered.exit == 1);
  CHECK(finding(clustered, "topology").at("mend") == "set REDIS_MODE=cluster");
}

TEST_CASE("doctor counts the sentinels that answer, and fails without a majority") {
  Shell shell;
  SentinelTrio trio({.servers = {.appendonly = true}});
  auto environment = trio_environment(trio);
  auto sound = shell.run({"doctor", "--json"}, environment);
  CHECK(sound.exit == 0);
  CHECK(finding(sound, "topology").at("found") == "3 of 3 sentinels answer, 2 replicas");
  CHECK(finding(sound, "topology").at("mark") == "ok");
  trio.sentinel(0).pause();
  auto two = shell.run({"doctor", "--json"}, environment);
  CHECK(two.exit == 0);
  CHECK(finding(two, "topology").at("found") == "2 of 3 sentinels answer, 2 replicas");
  CHECK(finding(two, "topology").at("mark") == "warn");
  trio.sentinel(1).kill();
  auto one = shell.run({"doctor", "--json"}, environment);
  CHECK(one.exit == 1);
  CHECK(finding(one, "topology").at("mark") == "fail");
}

TEST_CASE("doctor fails for a configured Redis that is away, and says how to reach it") {
  Shell shell;
  Port port;
  auto away = fmt::format("REDIS_URL=redis://127.0.0.1:{}", port.number());
  auto doctor = shell.run({"doctor", "--json"}, {away});
  CHECK(doctor.exit == 1);
  CHECK(finding(doctor, "redis").at("mark") == "fail");
  RedisServer server;
  server.pause();
  auto paused = shell.run({"doctor", "--json"}, {"REDIS_URL=" + url(server)});
  CHECK(paused.exit == 1);
  CHECK(paused.elapsed < 2s + slack);
}

TEST_CASE("doctor only warns of what this user may not ask") {
  Shell shell;
  RedisServer server({.users = {"alice on >secret ~* &* +@all -config -role"}});
  auto doctor = shell.run({"doctor", "--json"}, {"REDIS_URL=" + url(server), "REDIS_USERNAME=alice",
                                                 "REDIS_PASSWORD=secret"});
  CHECK(doctor.exit == 0);
  CHECK(finding(doctor, "persistence").at("mark") == "warn");
}

TEST_CASE("doctor warns of programs that are not installed, and how to install them") {
  Shell shell;
  RedisServer server;
  shell.write("empty/x", "");
  auto doctor = shell.start("PATH=empty; exec \"$0\" doctor --json >out 2>err", WARREN_BINARY, {},
                            {"REDIS_URL=" + url(server)});
  CHECK(doctor.exit == 0);
  CHECK(finding(doctor, "git").at("mark") == "warn");
  CHECK(finding(doctor, "redis-server").at("mend").as_string().starts_with("apt install"));
}

TEST_CASE("torture in a simulation tells what ran, what was checked and that all is well") {
  Shell shell;
  auto outcome = shell.run({"torture", "all", "--sim", "--schedules", "200", "--seed", "7"});
  CAPTURE(outcome.out);
  CHECK(outcome.exit == 0);
  CHECK(outcome.out.contains("lease schedules 200, mirror schedules 200"));
  CHECK(outcome.out.contains("from seed 7"));
  CHECK(outcome.out.contains("I1  a resource accepts no token older"));
  CHECK(outcome.out.contains("I10 mirrors end equal to Redis"));
  CHECK(outcome.out.contains("every promise was kept"));
  CHECK(!outcome.out.contains("\x1b"));
  CHECK(!outcome.err.contains("\r"));  // no bar where there is no terminal
}

TEST_CASE("torture shows a bar on a terminal, and takes it away before the verdict") {
  Shell shell;
  auto outcome = shell.run_on_terminal("torture lease --sim --seconds 1 --seed 7");
  CAPTURE(outcome.out);
  CHECK(outcome.exit == 0);
  CHECK(outcome.out.contains("\r\x1b[K["));
  CHECK(outcome.out.contains("%  lease: "));
  auto cleared = outcome.out.rfind("\r\x1b[K");
  REQUIRE(cleared != outcome.out.npos);
  CHECK(outcome.out.find("every promise was kept") > cleared);
}

TEST_CASE("torture on real servers says what it needs") {
  Shell shell;
  shell.write("empty/x", "");
  auto none =
      shell.start("PATH=empty; exec \"$0\" torture lease >out 2>err", WARREN_BINARY, {}, {});
  check_plain_error(none, 2,
                    "redis-server is not installed; apt-get install redis-server, or use --sim");
}

TEST_CASE("simulate compares the policies, draws the load, and says the same for the same seed") {
  Shell shell;
  Words words{"simulate",  "--nodes", "10",        "--streams", "20",
              "--viewers", "200",     "--seconds", "60"};
  auto plain = shell.run(words);
  CHECK(plain.exit == 0);
  CHECK(plain.out.starts_with("10 nodes, 20 streams, 200 viewers at a time, 3 instances"));
  CHECK(plain.out.contains("compat                  fair      fair, not shared\n"));
  auto with_chart = words;
  with_chart.insert(with_chart.end(), {"--svg", "load.svg"});
  auto drawn = shell.start("\"$0\" \"$@\" >/dev/null 2>err && cat load.svg >out", WARREN_BINARY,
                           with_chart, {});
  CHECK(drawn.out.starts_with("<svg "));
  CHECK(shell.run(words).out == plain.out);
  words.insert(words.end(), {"--seed", "2"});
  CHECK(shell.run(words).out != plain.out);
  words.insert(words.end(), {"--faults", "fire"});
  check_error(shell.run(words), 2, "use none, all, or some of deaths,silence,drain,crowd",
              "--help");
}

TEST_CASE("an instance whose process was killed is seen to be gone, and down waits for its name") {
  Shell shell;
  RedisServer server;
  Words environment{"REDIS_URL=" + url(server)};
  auto up = shell.run({"up", "--name", "k", "--ttl", "4s"}, environment);
  REQUIRE_MESSAGE(up.exit == 0, up.err);
  auto kill = R"(kill -9 $("$0" list --json | grep -o '"orchestrator_pid":[0-9]*' | cut -d: -f2))";
  shell.start(kill, WARREN_BINARY, {}, environment);
  CHECK(shell.run({"list"}, environment).out.contains("process gone"));
  CHECK(shell.run({"status", "--name", "k"}, environment).out.contains("process gone"));
  auto hasty = shell.run({"down", "--name", "k", "--timeout", "10ms"}, environment);
  CHECK(hasty.exit == 1);
  CHECK(hasty.err.contains("of instance k is gone, and its name is free in "));
  CHECK(!hasty.err.contains("hint:"));
  auto down = shell.run({"down", "--name", "k"}, environment);
  CHECK(down.exit == 0);
  CHECK(down.err.contains(" of instance k is gone; its name is free in "));
  CHECK(down.out == "Stopped instance: k (its process was gone)\n");
  CHECK(down.elapsed < 5s + slack);
  CHECK(shell.run({"list"}, environment).out == "No active Warren instances\n");
}

TEST_CASE(
    "files that are not there, and words that are wrong, have no hint about Redis or settings") {
  Shell shell;
  check_plain_error(shell.run({"import", "--name", "c", "nofile"}), 1,
                    "nofile: No such file or directory");
  shell.write("folder/x", "");
  check_plain_error(shell.run({"import", "--name", "c", "folder"}), 1, "folder: Is a directory");
  auto broken = shell.write("broken", "{}\n");
  check_plain_error(shell.run({"import", "--name", "c", broken}), 2, "line 1: ");
  check_plain_error(shell.run({"forage", "--goal", " "}), 2, "the goal is empty");
  auto ca = shell.run({"redis", "ping", "--redis-url", "rediss://h", "--redis-tls-ca", "nofile"});
  check_error(ca, 2, "cannot read nofile: No such file", "lists the settings");
  RedisServer server;
  auto hoard = shell.run({"hoard", "--name", "c", "x", "--redis-url", url(server)});
  check_plain_error(hoard, 1, "there is no instance 'c'");
}

TEST_CASE("what an ACL does not allow has a hint about the ACL") {
  Shell shell;
  RedisServer server({.users = {"alice on >secret ~other* &* +@all"}});
  auto list = shell.run(
      {"list"}, {"REDIS_URL=" + url(server), "REDIS_USERNAME=alice", "REDIS_PASSWORD=secret"});
  check_error(list, 4, "NOPERM", "ACL of this Redis user");
  CHECK(!list.err.contains("REDIS_PASSWORD"));
}

TEST_CASE("a flag before its command is told to stand behind it, and nothing is suggested twice") {
  Shell shell;
  check_error(shell.run({"--json", "list"}), 2, "the flag '--json' belongs behind the command\n",
              "say `warren list --json`");
  check_error(shell.run({"--limit", "1", "search", "x"}), 2, "the flag '--limit' belongs behind",
              "`warren search --limit`");
  check_error(shell.run({"-n", "x", "status"}), 2, "the flag '-n' belongs behind",
              "say `warren status -n`");
  check_error(shell.run({"--ttl=5s"}), 2, "the flag '--ttl' belongs behind",
              "as in `warren up --ttl`");
  check_error(shell.run({"list", "--jsno"}), 2, "Did you mean '--json'?", "warren list --help");
}

TEST_CASE("what is only for another part of the program is not in the help") {
  Shell shell;
  CHECK(!shell.run({"orchestrate", "--help"}).out.contains("--report-to"));
  CHECK(!shell.run({"completion", "bash"}).out.contains("--report-to"));
  CHECK(shell.run({"--help"}).out.substr(0, 400).contains("search"));
  CHECK(shell.run({"lint", "nowhere.yml"}).exit == 1);
  CHECK(shell.run({"lint", "--help"}).out.contains("and 1 when there is no such file"));
}

TEST_CASE("foghorn refuses what is no place on earth, and names the flags that were typed") {
  Shell shell;
  check_error(shell.run({"balance", "demo", "--lat", "x"}), 2, "use degrees from -90 to 90",
              "--help");
  check_error(shell.run({"balance", "demo", "--lat", "999"}), 2, "--lat: \"999\": use degrees",
              "--help");
  check_error(shell.run({"balance", "--lon", "-180.5"}), 2, "use degrees from -180 to 180",
              "--help");
  check_error(shell.run({"balance", "--lon", "nan"}), 2, "use degrees from -180 to 180", "--help");
  CHECK(shell.run({"balance", "--help"}).out.contains("warren balance [OPTIONS] [STREAM]\n"));
  auto port = shell.run({"serve", "--port", "99999"});
  check_error(port, 2, "--port: \"99999\": use a whole number from 0 to 65535", "serve --help");
  auto policy = shell.run({"serve", "--policy", "foo"});
  check_error(policy, 2, "--policy: \"foo\": use one of compat, fair", "serve --help");
}

TEST_CASE("a foghorn that waits for Redis says where it looks for it, and why it waits") {
  Shell shell;
  Port port;
  auto address = fmt::format("127.0.0.1:{}", port.number());
  auto script =
      R"("$0" serve --port 0 --grpc-port 0 --listen 127.0.0.1 --instance-id i1 >out 2>err &
    until grep -q waits_for_redis err; do kill -0 $! || exit 9; sleep 0.05; done; kill $!; wait)";
  auto served = shell.start(script, WARREN_BINARY, {}, {"REDIS_URL=redis://" + address});
  CAPTURE(served.err);
  auto waits = served.err.find("foghorn.waits_for_redis");
  REQUIRE(waits != served.err.npos);
  auto line = served.err.substr(waits, served.err.find('\n', waits) - waits);
  CHECK(line.contains(address + ": the connection was refused"));
}

TEST_CASE("torture that is interrupted leaves no folder and no server behind") {
  Shell shell;
  auto script = R"(mkdir scratch; export TMPDIR=$PWD/scratch
    (trap - INT; exec "$0" torture lease --seconds 60 >out 2>err) & torture=$!
    until ls scratch/*/* >/dev/null 2>&1; do kill -0 $torture || exit 9; done
    kill -$1 $torture; wait $torture
    for i in {1..200}; do [[ -z $(ls scratch) ]] && exit 0; sleep 0.05; done; exit 1)";
  for (auto* signal : {"INT", "TERM", "KILL"}) {
    auto ended = shell.start(script, WARREN_BINARY, {signal}, {});
    CHECK_MESSAGE(ended.exit == 0, signal);
    shell.start("rmdir scratch", "", {}, {});
  }
}

TEST_CASE("an instance that is not ready in time has a hint about the time, not about a firewall") {
  Shell shell;
  RedisServer server;
  auto up = shell.run({"up", "--name", "k", "--timeout", "1ms"}, {"REDIS_URL=" + url(server)});
  check_error(up, 3, "the orchestrator was not ready within 1 ms", "--timeout");
  CHECK(!up.err.contains("firewall"));
}

TEST_CASE("events are logged as asked, on standard error") {
  Shell shell;
  RedisServer server;
  auto quiet = shell.run({"redis", "ping", "--redis-url", url(server)});
  CHECK(quiet.err.empty());
  auto loud = shell.run({"redis", "info", "--redis-url", url(server), "--log-level", "debug",
                         "--log-format", "json"});
  CHECK(loud.exit == 0);
  auto first = loud.err.substr(0, loud.err.find('\n'));
  CHECK(boost::json::parse(first).at("event") == "redis.connected");
}

}  // namespace warren
