#include "redis/settings.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>

using namespace warren;
using namespace warren::redis;

namespace {

using Environment = std::map<std::string, std::string>;

Result<Settings> settings_of(Environment environment) {
  auto config = Config::load(config_settings(), {{}, std::move(environment), ""});
  if (!config) return std::unexpected(config.error());
  return settings_from(*config);
}

// The text of the error, or "" if there is none.
std::string refusal(Environment environment) {
  auto settings = settings_of(std::move(environment));
  if (settings) return "";
  CHECK(settings.error().code == Errc::invalid);
  return settings.error().what;
}

std::string url_refusal(std::string_view url) {
  auto settings = parse_url(url);
  if (settings) return "";
  CHECK(settings.error().code == Errc::invalid);
  return settings.error().what;
}

bool names(std::string_view text, std::initializer_list<std::string_view> words) {
  CAPTURE(text);
  return std::ranges::all_of(words, [&](auto word) { return text.contains(word); });
}

std::string first_address(const Result<Settings>& settings) {
  REQUIRE(settings);
  REQUIRE(settings->addresses.size() == 1);
  return to_string(settings->addresses[0]);
}

}  // namespace

TEST_CASE("with nothing set, Redis is the one on localhost") {
  auto settings = settings_of({});
  CHECK(first_address(settings) == "localhost:6379");
  CHECK(settings->mode == Mode::single);
  CHECK(!settings->tls.enabled);
  CHECK(settings->tls.verify);
  CHECK(settings->database == 0);
  CHECK(settings->connect_timeout == 2s);
  CHECK(settings->command_timeout == 2s);
}

TEST_CASE("an address is a host, a host and a port, or an IPv6 address in brackets or without") {
  auto text = [](std::string_view from) {
    auto address = parse_address(from, 6379);
    return address ? to_string(*address) : address.error().what;
  };
  CHECK(text("redis") == "redis:6379");
  CHECK(text("foghorn_redis-1.example:7000") == "foghorn_redis-1.example:7000");
  CHECK(text("10.0.0.5:1") == "10.0.0.5:1");
  CHECK(text("redis:65535") == "redis:65535");
  CHECK(text("::1") == "[::1]:6379");
  CHECK(text("[::1]") == "[::1]:6379");
  CHECK(text("[fe80::1%lo]:7000") == "[fe80::1%lo]:7000");
  CHECK(parse_address("[::1]:7000", 6379)->host == "::1");
  CHECK(to_string(Address{"", 0, "/run/redis.sock"}) == "unix:///run/redis.sock");
}

TEST_CASE("a wrong address is refused with what is wrong with it") {
  auto refused = [](std::string_view from, std::string_view why) {
    CAPTURE(from.substr(0, 100));
    auto address = parse_address(from, 6379);
    REQUIRE(!address);
    CHECK(address.error().code == Errc::invalid);
    CHECK(address.error().what.size() < 300);
    CHECK(names(address.error().what, {why}));
  };
  for (auto port : {"0", "65536", "-1", "+1", "", " 1", "1 ", "0x10", "99999999999999999999", "a"})
    refused("redis:" + std::string(port), "the port is not a number from 1 to 65535");
  refused("", "empty");
  refused(":6379", "the host is missing");
  refused("re dis", "a character that no host name has");
  refused("redis/0", "a character that no host name has");
  refused(std::string_view("red\0is", 6), "\"red?is\": the host has a character");
  refused("rédis", "a character that no host name has");
  refused(std::string(1 << 20, 'a'), "1048576 characters, at most 253");
  refused(std::string(1 << 20, ':'), "the host is missing");
  refused("[::1", "] after the IPv6 address is missing");
  refused("[::1]7000", "after ] only :port");
  refused("[::1]:", "the port is not a number");
  refused("[redis]:7000", "not an IPv6 address");
  refused("unix:///run/redis.sock", "REDIS_URL");
}

TEST_CASE("a URL gives the server, the user, the database and whether to use TLS") {
  auto plain = parse_url("redis://foghorn-redis");
  CHECK(first_address(plain) == "foghorn-redis:6379");
  CHECK(!plain->tls.enabled);
  CHECK(plain->credentials.username.empty());

  auto full = parse_url("rediss://ann:s3cret@[::1]:7000/15");
  CHECK(first_address(full) == "[::1]:7000");
  CHECK(full->tls.enabled);
  CHECK(full->credentials.username == "ann");
  CHECK(full->credentials.password == "s3cret");
  CHECK(full->database == 15);

  auto only_password = parse_url("redis://:s3cret@redis/");
  CHECK(first_address(only_password) == "redis:6379");
  CHECK(only_password->credentials.username.empty());
  CHECK(only_password->credentials.password == "s3cret");
  CHECK(only_password->database == 0);

  auto local = parse_url("unix://ann:x@/run/my%20redis.sock?db=2");
  CHECK(first_address(local) == "unix:///run/my redis.sock");
  CHECK(local->credentials.username == "ann");
  CHECK(local->database == 2);
}

TEST_CASE("user and password in a URL may be percent-encoded") {
  auto settings = parse_url("redis://a%40b:%2F%3a%23%25@redis");
  REQUIRE(settings);
  CHECK(settings->credentials.username == "a@b");
  CHECK(settings->credentials.password == "/:#%");
  CHECK(parse_url("redis://ann:p@ss:word@redis")->credentials.password == "p@ss:word");
  for (auto bad : {"%", "%4", "%zz", "%-1", "% 1", "%00"}) {
    CAPTURE(bad);
    CHECK(names(url_refusal("redis://ann:" + std::string(bad) + "@redis"),
                {std::string_view(bad).contains(' ') ? "percent-encode it" : "written %25"}));
  }
}

TEST_CASE("a wrong URL is refused with what is wrong with it") {
  CHECK(names(url_refusal(""), {"starts with redis://, rediss:// or unix://"}));
  CHECK(names(url_refusal("redis:6379"), {"starts with redis://"}));
  CHECK(names(url_refusal("http://redis"), {"starts with redis://"}));
  CHECK(names(url_refusal("redis://"), {"the host is missing"}));
  CHECK(names(url_refusal("redis://redis:0"), {"from 1 to 65535"}));
  CHECK(names(url_refusal("redis://redis:65536/0"), {"from 1 to 65535"}));
  CHECK(names(url_refusal("redis://redis:-1"), {"from 1 to 65535"}));
  CHECK(names(url_refusal("redis://redis/-1"), {"database is not a whole number"}));
  CHECK(names(url_refusal("redis://redis/one"), {"database is not a whole number"}));
  CHECK(names(url_refusal("redis://redis/99999999999"), {"database is not a whole number"}));
  CHECK(names(url_refusal("redis://redis?timeout=5"), {"only /database may follow"}));
  CHECK(names(url_refusal("redis://redis /0"), {"percent-encode it"}));
  CHECK(names(url_refusal(std::string("redis://redis\0", 14)), {"percent-encode it"}));
  CHECK(names(url_refusal("redis://" + std::string(1 << 20, 'a')), {"at most 65536 make sense"}));
  CHECK(names(url_refusal("unix://run/redis.sock"), {"unix:///run/redis.sock"}));
  CHECK(names(url_refusal("unix://"), {"path of a socket"}));
  CHECK(names(url_refusal("unix:///" + std::string(107, 'a')), {"at most 107 bytes"}));
  CHECK(names(url_refusal("unix:///run/a.sock?password=x"), {"only db=number"}));
}

TEST_CASE("no error repeats a password, wherever it stands") {
  for (std::string url :
       {"redis://ann:hunter2@redis:65536", "redis://ann:hunter2@redis:6379/hunter2",
        "redis://ann:hunter2@re dis", "redis://ann:hunter2%@redis", "redis://:hunter2/@redis:6379",
        "redis://:#hunter2@redis:6379", "redis://redis:hunter2", "http://ann:hunter2@redis",
        "ann:hunter2@redis", "redis://ann:hunter2@redis?hunter2", "hunter2",
        "unix://ann:hunter2@redis/run/a.sock", "redis://ann:hunter2@[::1", "redis://hunter2@",
        "redis://ann:hunter2@[hunter2]:1"}) {
    CAPTURE(url);
    for (auto& what : {url_refusal(url), refusal({{"REDIS_URL", url}})}) {
      CHECK(!what.empty());
      CHECK(!what.contains("hunter2"));
    }
  }
  for (auto name : {"REDIS_HOST", "REDIS_ADDRS"})
    for (auto value : {"ann:hunter2@redis:6379", "redis://ann:hunter2@redis"}) {
      auto what = refusal({{name, value}});
      CHECK(names(what, {name}));
      CHECK(!what.contains("hunter2"));
    }
  auto what = refusal({{"REDIS_URL", "redis://:hunter2@redis"}, {"REDIS_PASSWORD", "hunter3"}});
  CHECK(names(what, {"REDIS_URL", "REDIS_PASSWORD"}));
  CHECK(!what.contains("hunter"));
}

TEST_CASE("REDIS_URL alone is a single server") {
  auto settings = settings_of({{"REDIS_URL", "redis://foghorn-redis:6379"}});
  CHECK(first_address(settings) == "foghorn-redis:6379");
  CHECK(settings->mode == Mode::single);
}

TEST_CASE("sentinel mode takes the sentinels, the name of the master, and users for both") {
  auto settings = settings_of({{"REDIS_MODE", "sentinel"},
                               {"REDIS_ADDRS", "sentinel-1:26379, sentinel-2 ,10.0.0.3:7"},
                               {"REDIS_MASTER_NAME", "foghorn-master"},
                               {"REDIS_USERNAME", "foghorn-cluster-abc"},
                               {"REDIS_PASSWORD", "secret"},
                               {"REDIS_SENTINEL_USERNAME", "watcher"},
                               {"REDIS_SENTINEL_PASSWORD", "other"},
                               {"REDIS_DB", "3"}});
  REQUIRE(settings);
  CHECK(settings->mode == Mode::sentinel);
  REQUIRE(settings->addresses.size() == 3);
  CHECK(to_string(settings->addresses[1]) == "sentinel-2:26379");
  CHECK(to_string(settings->addresses[2]) == "10.0.0.3:7");
  CHECK(settings->master_name == "foghorn-master");
  CHECK(settings->credentials.username == "foghorn-cluster-abc");
  CHECK(settings->credentials.password == "secret");
  CHECK(settings->sentinel_credentials.username == "watcher");
  CHECK(settings->sentinel_credentials.password == "other");
  CHECK(settings->database == 3);
}

TEST_CASE("cluster mode takes some nodes, or the URL of one") {
  auto nodes = settings_of(
      {{"REDIS_MODE", "cluster"}, {"REDIS_ADDRS", "node-1:6379,node-2:6379,node-3:6379"}});
  REQUIRE(nodes);
  CHECK(nodes->mode == Mode::cluster);
  CHECK(nodes->addresses.size() == 3);
  auto endpoint = settings_of({{"REDIS_MODE", "cluster"}, {"REDIS_URL", "rediss://endpoint:6380"}});
  CHECK(first_address(endpoint) == "endpoint:6380");
  CHECK(endpoint->mode == Mode::cluster);
  CHECK(endpoint->tls.enabled);
}

TEST_CASE("REDIS_HOST is a server with an optional port, and REDIS_PASSWORD goes with it") {
  auto settings = settings_of({{"REDIS_HOST", "redis-server:6380"}, {"REDIS_PASSWORD", "secret"}});
  CHECK(first_address(settings) == "redis-server:6380");
  CHECK(settings->credentials.password == "secret");
  CHECK(first_address(settings_of({{"REDIS_HOST", "redis-server"}})) == "redis-server:6379");
  CHECK(names(refusal({{"REDIS_HOST", "a:1,b:2"}}), {"REDIS_HOST", "REDIS_ADDRS"}));
}

TEST_CASE("TLS is a matter of the URL or of REDIS_TLS, with files and a map of names") {
  auto settings = settings_of({{"REDIS_HOST", "redis"},
                               {"REDIS_TLS", "true"},
                               {"REDIS_TLS_CA", "/etc/ca.pem"},
                               {"REDIS_TLS_CERT", "/etc/cert.pem"},
                               {"REDIS_TLS_KEY", "/etc/key.pem"},
                               {"REDIS_TLS_VERIFY", "false"},
                               {"REDIS_TLS_NAMES",
                                "10.0.0.5:6379=redis-1.example,10.0.0.6=redis-2.example, "
                                "[::1]:7000=redis-3.example,::2=redis-4.example"}});
  REQUIRE(settings);
  auto& tls = settings->tls;
  CHECK(tls.enabled);
  CHECK(!tls.verify);
  CHECK(tls.ca_file == "/etc/ca.pem");
  CHECK(tls.cert_file == "/etc/cert.pem");
  CHECK(tls.key_file == "/etc/key.pem");
  CHECK(tls.names == std::map<std::string, std::string>{{"10.0.0.5:6379", "redis-1.example"},
                                                        {"10.0.0.6", "redis-2.example"},
                                                        {"[::1]:7000", "redis-3.example"},
                                                        {"::2", "redis-4.example"}});
  for (auto bad : {"a", "=b", "a=", "a=b c", "a=b,", "a:0=b", "a=b=c"}) {
    CAPTURE(bad);
    CHECK(names(refusal({{"REDIS_URL", "rediss://redis"}, {"REDIS_TLS_NAMES", bad}}),
                {"REDIS_TLS_NAMES", "address=name"}));
  }
  CHECK(names(refusal({{"REDIS_URL", "rediss://redis"}, {"REDIS_TLS_NAMES", "a=b,a=c"}}),
              {"REDIS_TLS_NAMES has a twice"}));
}

TEST_CASE("what a URL leaves open may be set beside it, and what agrees is no contradiction") {
  auto settings = settings_of({{"REDIS_URL", "redis://ann@redis/3"},
                               {"REDIS_USERNAME", "ann"},
                               {"REDIS_PASSWORD", "secret"},
                               {"REDIS_DB", "3"},
                               {"REDIS_TLS", "false"}});
  REQUIRE(settings);
  CHECK(settings->credentials.username == "ann");
  CHECK(settings->credentials.password == "secret");
  CHECK(settings->database == 3);
}

TEST_CASE("variables that contradict each other are refused, and both are named") {
  struct Case {
    Environment environment;
    std::vector<std::string> named;
  };
  std::vector<Case> cases = {
      {{{"REDIS_URL", "redis://a"}, {"REDIS_ADDRS", "a:1"}}, {"REDIS_URL", "REDIS_ADDRS"}},
      {{{"REDIS_URL", "redis://a"}, {"REDIS_HOST", "a"}}, {"REDIS_URL", "REDIS_HOST"}},
      {{{"REDIS_HOST", "a"}, {"REDIS_ADDRS", "a:1"}}, {"REDIS_HOST", "REDIS_ADDRS"}},
      {{{"REDIS_ADDRS", "a:1,b:1"}}, {"REDIS_ADDRS", "REDIS_MODE=single"}},
      {{{"REDIS_ADDRS", "a:1,a:1"}, {"REDIS_MODE", "cluster"}}, {"REDIS_ADDRS has a:1 twice"}},
      {{{"REDIS_ADDRS", "a:1,"}, {"REDIS_MODE", "cluster"}}, {"REDIS_ADDRS", "empty"}},
      {{{"REDIS_MODE", "sentinel"}}, {"REDIS_MODE=sentinel", "REDIS_ADDRS"}},
      {{{"REDIS_MODE", "sentinel"}, {"REDIS_URL", "redis://a"}, {"REDIS_MASTER_NAME", "m"}},
       {"REDIS_MODE=sentinel", "REDIS_ADDRS"}},
      {{{"REDIS_MODE", "sentinel"}, {"REDIS_ADDRS", "a:1"}},
       {"REDIS_MODE=sentinel", "REDIS_MASTER_NAME"}},
      {{{"REDIS_MODE", "cluster"}}, {"REDIS_MODE=cluster", "REDIS_ADDRS"}},
      {{{"REDIS_MODE", "ring"}}, {"REDIS_MODE", "single", "sentinel", "cluster"}},
      {{{"REDIS_MASTER_NAME", "m"}}, {"REDIS_MASTER_NAME", "REDIS_MODE=single"}},
      {{{"REDIS_MASTER_NAME", "m"}, {"REDIS_MODE", "cluster"}, {"REDIS_ADDRS", "a:1"}},
       {"REDIS_MASTER_NAME", "REDIS_MODE=cluster"}},
      {{{"REDIS_SENTINEL_PASSWORD", "x"}}, {"REDIS_SENTINEL_PASSWORD", "REDIS_MODE=single"}},
      {{{"REDIS_MODE", "sentinel"}, {"REDIS_ADDRS", "a"}, {"REDIS_MASTER_NAME", "m n"}},
       {"REDIS_MASTER_NAME", "space"}},
      {{{"REDIS_URL", "redis://:x@a"}, {"REDIS_PASSWORD", "y"}}, {"REDIS_URL", "REDIS_PASSWORD"}},
      {{{"REDIS_URL", "redis://ann:x@a"}, {"REDIS_USERNAME", "bob"}},
       {"REDIS_URL", "REDIS_USERNAME"}},
      {{{"REDIS_USERNAME", "ann"}}, {"REDIS_USERNAME", "REDIS_PASSWORD"}},
      {{{"REDIS_URL", "redis://ann@a"}}, {"REDIS_URL", "REDIS_PASSWORD"}},
      {{{"REDIS_URL", "redis://a/0"}, {"REDIS_DB", "2"}}, {"REDIS_URL", "REDIS_DB"}},
      {{{"REDIS_MODE", "cluster"}, {"REDIS_ADDRS", "a"}, {"REDIS_DB", "2"}},
       {"REDIS_MODE=cluster", "REDIS_DB"}},
      {{{"REDIS_MODE", "cluster"}, {"REDIS_URL", "redis://a/2"}},
       {"REDIS_MODE=cluster", "REDIS_URL"}},
      {{{"REDIS_MODE", "cluster"}, {"REDIS_URL", "unix:///a"}},
       {"REDIS_MODE=cluster", "REDIS_URL"}},
      {{{"REDIS_URL", "rediss://a"}, {"REDIS_TLS", "false"}}, {"REDIS_URL", "REDIS_TLS"}},
      {{{"REDIS_URL", "redis://a"}, {"REDIS_TLS", "true"}}, {"REDIS_URL", "REDIS_TLS"}},
      {{{"REDIS_URL", "unix:///a"}, {"REDIS_TLS", "true"}}, {"REDIS_URL", "REDIS_TLS"}},
      {{{"REDIS_TLS", "yes"}}, {"REDIS_TLS", "true", "false"}},
      {{{"REDIS_TLS_CA", "/ca"}}, {"REDIS_TLS_CA", "REDIS_TLS "}},
      {{{"REDIS_TLS_NAMES", "a=b"}, {"REDIS_TLS", "false"}}, {"REDIS_TLS_NAMES", "REDIS_TLS is"}},
      {{{"REDIS_TLS", "true"}, {"REDIS_TLS_CERT", "/c"}}, {"REDIS_TLS_CERT", "REDIS_TLS_KEY"}},
      {{{"REDIS_TLS", "true"}, {"REDIS_TLS_KEY", "/k"}}, {"REDIS_TLS_KEY", "REDIS_TLS_CERT"}},
      {{{"REDIS_DB", "-1"}}, {"REDIS_DB"}},
      {{{"REDIS_CONNECT_TIMEOUT", "0s"}}, {"REDIS_CONNECT_TIMEOUT", "longer than 0"}},
      {{{"REDIS_COMMAND_TIMEOUT", "2h"}}, {"REDIS_COMMAND_TIMEOUT", "at most 1h"}},
      {{{"REDIS_COMMAND_TIMEOUT", "soon"}}, {"REDIS_COMMAND_TIMEOUT"}},
  };
  for (auto& [environment, named] : cases) {
    auto what = refusal(environment);
    for (auto& name : named) {
      CAPTURE(what);
      CHECK(names(what, {name}));
    }
  }
}

TEST_CASE("a value that is far too long or has a NUL byte is refused, whichever it is") {
  for (auto& setting : config_settings()) {
    if (setting.check) continue;
    CAPTURE(setting.environment);
    CHECK(names(refusal({{setting.environment, std::string(1 << 20, 'x')}}),
                {setting.environment, "1048576 bytes"}));
    CHECK(names(refusal({{setting.environment, std::string("a\0b", 3)}}),
                {setting.environment, "NUL"}));
  }
}

TEST_CASE("an error says whether the value came from a flag, the environment or a file") {
  char folder[] = "/tmp/settings_test.XXXXXX";
  REQUIRE(mkdtemp(folder));
  auto path = std::string(folder) + "/warren.toml";
  std::ofstream(path) << "[redis]\nhost = \"a\"\n";
  auto config = Config::load(config_settings(), {{{"redis.url", "redis://b"}}, {}, path});
  REQUIRE(config);
  auto settings = settings_from(*config);
  REQUIRE(!settings);
  CHECK(names(settings.error().what, {"--redis-url", "redis.host in " + path + ":2"}));
  std::remove(path.c_str());
  std::remove(folder);
}
