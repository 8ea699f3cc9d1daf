// What every command has in common: words, flags, settings, errors, completion.
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <boost/json.hpp>

#include "cli/test_shell.h"

namespace warren {

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

TEST_CASE("called by another name, it uses that name") {
  Shell shell;
  for (std::string name : {"holt", "sett", "foghorn"}) {
    auto link = std::filesystem::path(WARREN_BINARY).parent_path() / name;
    auto help = shell.start("exec \"$0\" --help >out 2>err", link, {}, {});
    CHECK(help.exit == 0);
    CHECK(help.out.starts_with(name + " is another name of warren"));
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
  check_error(shell.run({"torture", "cats"}), 2, "use one of lease, mirror, catalog, once, all",
              "--help");
  check_error(shell.run({"torture", "--schedules", "5"}), 2, "--schedules is for --sim", "--help");
  check_error(shell.run({"torture", "--catalog", "etcd"}), 2,
              "--catalog is for warren torture catalog", "--help");
  check_error(shell.run({"torture", "catalog", "--sim", "--catalog", "etcd"}), 2,
              "--sim has a model of Redis only", "--help");
  check_error(shell.run({"--color", "blue", "doctor"}), 2, "use one of auto", "--help");
  check_error(shell.run({"--log-level", "loud", "config", "show"}), 2,
              "flag --log-level: log level \"loud\"", "--help");
}

TEST_CASE("a word in brackets is one word for every command that takes words") {
  Shell shell;
  shell.write("text/digits.txt", "room 101\n");
  shell.write("text/marks.txt", "caf\xc3\xa9 and i++;\n");
  shell.write("text/plain.txt", "nothing but letters\n");
  CHECK(shell.run({"search", "text", "[0-9]", "-l"}).out == "text/digits.txt\n");
  CHECK(shell.run({"search", "text", "[0,1]", "-l"}).out == "text/digits.txt\n");
  CHECK(shell.run({"search", "text", "[^\\x00-\\x7F]", "-l"}).out == "text/marks.txt\n");
  CHECK(shell.run({"search", "text", "[]", "-l"}).exit == 2);
  CHECK(shell.run({"search", "++"}).err.contains("\n  ++\n"));  // the query, as it was parsed
  RedisServer server;
  auto at = "REDIS_URL=" + url(server);
  for (std::string verb : {"rm", "pin", "unpin", "reindex"}) {
    auto refused = shell.run({"fleet", "repo", verb, "[a,b]"}, {at});
    CAPTURE(refused.err);
    CHECK(refused.exit == 1);
    CHECK(refused.err.contains("there is no repository [a,b]:"));
  }
  auto marked = shell.run({"fleet", "repo", "mark", "[a,b]", "--fork", "yes"}, {at});
  CHECK(marked.err.contains("there is no repository [a,b]:"));
  auto added = shell.run({"fleet", "repo", "add", "[x]"}, {at});
  CHECK(added.err.contains("no git repository matches [x]"));
  // "[]" is one session id, not an empty list.
  for (std::string verb : {"show", "explain", "stop"})
    CHECK(shell.run({"session", verb, "[]", "--url", "http://127.0.0.1:1"}).exit == 3);
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
  Words password{"REDIS_PASSWORD=p"};  // a user requires one
  auto with = [&](Words more) {
    more.push_back(password[0]);
    return more;
  };
  CHECK(shown({}, {}).at("origin") == "default");

  shell.write("warren.toml", "[redis]\nusername = \"from-file\"\n");
  REQUIRE(shell.run({"config", "allow"}).exit == 0);
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
  REQUIRE(shell.run({"config", "allow"}).exit == 0);
  CHECK(origin({}, xdg_home) == "file warren.toml:1");
  auto named = shell.write("named.toml", text);
  CHECK(origin({}, {"WARREN_CONFIG=" + named}) == "file " + named + ":1");
  auto flag = shell.write("flag.toml", text);
  CHECK(origin({"--config", flag}, {"WARREN_CONFIG=" + named}) == "file " + flag + ":1");

  check_error(shell.run({"config", "show", "--config", "nowhere.toml"}), 2, "nowhere.toml", "");
  check_error(shell.run({"config", "show"}, {"WARREN_CONFIG=nowhere.toml"}), 2, "nowhere.toml", "");
}

namespace {

// A listener that waits for passwords.
class Canary {
 public:
  Canary() : door_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)) {
    sockaddr_in here{};
    here.sin_family = AF_INET;
    here.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    REQUIRE(::bind(door_, reinterpret_cast<sockaddr*>(&here), sizeof here) == 0);
    REQUIRE(::listen(door_, 64) == 0);
    socklen_t size = sizeof here;
    REQUIRE(::getsockname(door_, reinterpret_cast<sockaddr*>(&here), &size) == 0);
    port_ = ntohs(here.sin_port);
  }
  ~Canary() { ::close(door_); }
  Canary(const Canary&) = delete;
  Canary& operator=(const Canary&) = delete;

  std::string address() const { return fmt::format("127.0.0.1:{}", port_); }
  // What it was sent since the last call.
  std::string heard() const {
    std::string all;
    for (int guest;
         (guest = ::accept4(door_, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK)) >= 0;) {
      all += "a guest: ";
      std::array<char, 4096> words{};
      for (ssize_t got; (got = ::recv(guest, words.data(), words.size(), 0)) > 0;)
        all.append(words.data(), static_cast<std::size_t>(got));
      ::close(guest);
    }
    return all;
  }

 private:
  int door_;
  unsigned short port_ = 0;
};

}  // namespace

TEST_CASE("warren.toml of a folder sends no password anywhere before its content was allowed") {
  Shell shell;
  Canary canary;
  const Words secret{"REDIS_PASSWORD=hunter2", "REDIS_SENTINEL_PASSWORD=hunter3"};
  auto ping = [&] { return shell.run({"redis", "ping", "--timeout", "300ms"}, secret); };
  auto at = canary.address();
  for (const auto& text : {fmt::format("[redis]\nurl = \"redis://{}\"\n", at),
                           fmt::format("[redis]\nhost = \"{}\"\n", at),
                           fmt::format("[redis]\nmode = \"cluster\"\naddrs = \"{}\"\n", at),
                           fmt::format("[redis]\nmode = \"sentinel\"\naddrs = \"{}\"\n"
                                       "master-name = \"m\"\n",
                                       at)}) {
    CAPTURE(text);
    shell.write("warren.toml", text);
    // A sentinel's password is refused if there are no sentinels.
    bool is_sentinel = text.contains("sentinel");
    auto asks = [&] {
      return is_sentinel ? ping() : shell.run({"redis", "ping", "--timeout", "300ms"}, {secret[0]});
    };
    auto refused = asks();
    check_error(refused, 2, "`warren config allow`", "--help");
    CHECK(!refused.err.contains("hunter"));
    CHECK(canary.heard() == "");
    // The counterpart, which shows that the canary would have heard it.
    REQUIRE(shell.run({"config", "allow"}).exit == 0);
    asks();
    CHECK(canary.heard().contains("hunter"));
    // An edit revokes that, and so does deny.
    shell.write("warren.toml", text + "# edited\n");
    check_error(asks(), 2, "`warren config allow`", "--help");
    shell.write("warren.toml", text);
    REQUIRE(shell.run({"config", "deny"}).exit == 0);
    check_error(asks(), 2, "`warren config allow`", "--help");
    CHECK(canary.heard() == "");
  }
}

TEST_CASE("warren.toml of a folder may set the log without leave, and is nobody else's file") {
  Shell shell;
  auto file = shell.write("warren.toml", "[log]\nformat = \"json\"\n");
  CHECK(shell.run({"config", "show"}).out.contains("file warren.toml:2"));
  auto other = shell.write("other.toml", "[redis]\ndb = 1\n");
  std::filesystem::remove(file);
  std::filesystem::create_symlink(other, file);
  auto linked = shell.run({"config", "show"});
  CHECK(linked.exit != 0);
  CHECK(linked.err.contains("is a symbolic link"));
  CHECK(shell.run({"config", "allow"}).exit != 0);
  // A file that is named may be a link.
  CHECK(shell.run({"config", "show", "--config", "warren.toml"}).exit == 0);
  std::filesystem::remove(file);
  REQUIRE(::mkfifo(file.c_str(), 0600) == 0);
  CHECK(shell.run({"config", "show"}).err.contains("is not a regular file"));
}

TEST_CASE("a file does not weaken the check of a server that the environment names") {
  Shell shell;
  shell.write("warren.toml", "[redis]\ntls-verify = false\npassword = \"of-another\"\n");
  REQUIRE(shell.run({"config", "allow"}).exit == 0);
  auto shown = shell.run({"config", "show", "--json"}, {"REDIS_URL=rediss://127.0.0.1"});
  REQUIRE_MESSAGE(shown.exit == 0, shown.err);
  auto all = boost::json::parse(shown.out);
  CHECK(all.at("redis.tls-verify").at("value") == "true");
  CHECK(all.at("redis.password").at("is_set") == false);
}

TEST_CASE("a bad value in a file is an error with file, line and what would be right") {
  Shell shell;
  shell.write("warren.toml", "[redis]\n\nmode = \"clutser\"\n");
  REQUIRE(shell.run({"config", "allow"}).exit == 0);
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
        "lease mirror catalog once all\n--seconds --seed\n\n");
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
