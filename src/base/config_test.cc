#include "base/config.h"

#include <doctest/doctest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "base/nearest.h"

using namespace warren;

namespace {

// A folder that is deleted at the end of the test.
struct Folder {
  Folder() {
    std::string pattern = std::filesystem::temp_directory_path() / "warren-config-XXXXXX";
    path = mkdtemp(pattern.data());
  }
  ~Folder() { std::filesystem::remove_all(path); }
  std::string write(const std::string& name, std::string_view text) const {
    std::ofstream(path / name, std::ios::binary) << text;
    return path / name;
  }
  std::filesystem::path path;
};

std::vector<Setting> settings() {
  return {
      {"redis.url", "REDIS_URL", "redis://localhost", "Where Redis is", false},
      {"redis.mode", "REDIS_MODE", "single", "", false, one_of({"single", "sentinel", "cluster"})},
      {"redis.addrs", "REDIS_ADDRS", "", "", false},
      {"redis.password", "REDIS_PASSWORD", "", "", true},
      {"redis.timeout", "REDIS_TIMEOUT", "2s", "", false, duration()},
      {"http.port", "", "8080", "", false, whole_number(1, 65535)},
      {"log.colour", "", "false", "", false, one_of({"true", "false"})},
  };
}

// The same, with a password that belongs to the server.
std::vector<Setting> bound_settings() {
  auto all = settings();
  for (auto& setting : all)
    if (setting.secret) setting.belongs_to = {"redis.url", "redis.addrs"};
  return all;
}

std::string error_of(const ConfigSources& sources) {
  auto config = Config::load(settings(), sources);
  REQUIRE(!config);
  CHECK(config.error().code == Errc::invalid);
  return config.error().what;
}

}  // namespace

TEST_CASE("a flag wins over the environment, that over the file, and that over the default") {
  Folder folder;
  ConfigSources sources;
  auto origin = [&] {
    auto config = Config::load(settings(), sources);
    REQUIRE(config);
    auto& value = config->at("redis.mode");
    return value.value + ", " + value.origin + (value.is_set ? "" : ", not set");
  };
  CHECK(origin() == "single, default, not set");
  sources.file = folder.write("warren.toml", "# Redis\n[redis]\nmode = \"sentinel\"\n");
  CHECK(origin() == "sentinel, file " + sources.file + ":3");
  sources.environment["REDIS_MODE"] = "cluster";
  CHECK(origin() == "cluster, environment REDIS_MODE");
  sources.flags["redis.mode"] = "single";
  CHECK(origin() == "single, flag --redis-mode");
}

TEST_CASE("values are read as text, number, time and truth, in the order of their declaration") {
  Folder folder;
  ConfigSources sources;
  sources.file = folder.write("warren.toml",
                              "http.port = 9000\nlog.colour = true\n"
                              "redis = { addrs = ['a:1', 'b:2'], timeout = '250ms' }\n");
  auto config = Config::load(settings(), sources);
  REQUIRE(config);
  CHECK(config->number("http.port") == 9000);
  CHECK(config->flag("log.colour"));
  CHECK(config->text("redis.addrs") == "a:1,b:2");
  CHECK(config->time("redis.timeout") == std::chrono::milliseconds(250));
  CHECK(config->values().front().setting->name == "redis.url");
  CHECK(config->values().size() == settings().size());
}

TEST_CASE("a variable can name a file instead, of which one newline at the end is dropped") {
  Folder folder;
  ConfigSources sources;
  sources.environment["REDIS_PASSWORD_FILE"] = folder.write("password", "s3 cret\n\n");
  auto config = Config::load(settings(), sources);
  REQUIRE(config);
  CHECK(config->text("redis.password") == "s3 cret\n");
  CHECK(config->at("redis.password").origin == "environment REDIS_PASSWORD_FILE");
}

TEST_CASE("a variable and its file together are refused, naming both") {
  ConfigSources sources;
  sources.environment = {{"REDIS_URL", "redis://a"}, {"REDIS_URL_FILE", "/etc/redis-url"}};
  CHECK(error_of(sources) == "REDIS_URL and REDIS_URL_FILE are both set; unset one");
}

TEST_CASE("an empty variable counts as not set") {
  ConfigSources sources;
  sources.environment = {{"REDIS_MODE", ""}, {"REDIS_URL", "redis://a"}, {"REDIS_URL_FILE", ""}};
  auto config = Config::load(settings(), sources);
  REQUIRE(config);
  CHECK(config->at("redis.mode").origin == "default");
  CHECK(config->text("redis.url") == "redis://a");
}

TEST_CASE("a bad value is refused with file, line, setting and what would be right") {
  Folder folder;
  ConfigSources sources;
  sources.file = folder.write("warren.toml", "\n[redis]\n\nmode = \"clutser\"\n");
  CHECK(error_of(sources) == "file " + sources.file +
                                 ":4: redis.mode is \"clutser\"; use one of single, sentinel, "
                                 "cluster");
}

TEST_CASE("a bad value in a variable or a flag is refused, naming it") {
  ConfigSources sources;
  sources.environment["REDIS_TIMEOUT"] = "5 seconds";
  CHECK(error_of(sources) ==
        "environment REDIS_TIMEOUT: redis.timeout is \"5 seconds\"; use a duration such as 250ms, "
        "5s, 2m or 1h");
  sources.environment.clear();
  sources.flags["http.port"] = "65536";
  CHECK(error_of(sources) ==
        "flag --http-port: http.port is \"65536\"; use a whole number from 1 to 65535");
}

TEST_CASE("an unknown key is refused with its line and the nearest known one") {
  Folder folder;
  ConfigSources sources;
  sources.file = folder.write("warren.toml", "[redis]\nulr = \"redis://a\"\n");
  CHECK(error_of(sources) ==
        "file " + sources.file + ":2: there is no setting redis.ulr; did you mean redis.url?");
  sources.file = folder.write("warren.toml", "\n[carrots]\nplenty = true\n");
  CHECK(error_of(sources) == "file " + sources.file + ":2: there is no setting carrots");
}

TEST_CASE("a table or a date where a value belongs is refused") {
  Folder folder;
  ConfigSources sources;
  for (auto text : {"redis.url.host = 'a'", "redis.url = 1979-05-27", "redis.addrs = [['a']]"}) {
    sources.file = folder.write("warren.toml", text);
    CHECK(error_of(sources).contains("must be a text, a number, true, false, or a list"));
  }
}

TEST_CASE("a file that is no TOML is refused with the line") {
  Folder folder;
  ConfigSources sources;
  sources.file = folder.write("warren.toml", "[redis]\nurl = redis\n");
  CHECK(error_of(sources).starts_with("file " + sources.file + ":2: "));
}

TEST_CASE("a file that is given must be there and be a file of sensible size") {
  Folder folder;
  ConfigSources sources;
  sources.file = folder.path / "missing.toml";
  CHECK(error_of(sources) == "cannot read " + sources.file + ": No such file or directory");
  sources.file = folder.path;
  CHECK(error_of(sources) == "cannot read " + sources.file + ": Is a directory");
  sources.file = "/dev/zero";
  CHECK(error_of(sources) == "/dev/zero is larger than 1048576 bytes");
  sources.file.clear();
  sources.environment["REDIS_PASSWORD_FILE"] = folder.path / "missing";
  CHECK(error_of(sources).starts_with("environment REDIS_PASSWORD_FILE: cannot read "));
}

TEST_CASE("a secret is refused as a flag, with the ways that are open, and allowed in the file") {
  Folder folder;
  ConfigSources sources;
  sources.flags["redis.password"] = "s3cret";
  auto error = error_of(sources);
  CHECK(error.starts_with("flag --redis-password: "));
  CHECK(error.ends_with("use REDIS_PASSWORD, REDIS_PASSWORD_FILE or the configuration file"));
  CHECK_FALSE(error.contains("s3cret"));
  sources.flags.clear();
  sources.file = folder.write("warren.toml", "redis.password = 's3cret'");
  auto config = Config::load(settings(), sources);
  REQUIRE(config);
  CHECK(config->text("redis.password") == "s3cret");
}

TEST_CASE("a URL with a password is a secret as a flag, and shown without it") {
  ConfigSources sources;
  sources.flags["redis.url"] = "redis://user:s3cret@host/0";
  CHECK_FALSE(error_of(sources).contains("s3cret"));
  sources.flags["redis.url"] = "redis://host:6379/0";
  CHECK(Config::load(settings(), sources));
  sources.flags.clear();
  for (auto [url, shown] : {std::pair("redis://user:s3cret@host/0", "redis://user:********@host/0"),
                            std::pair("redis://:s3/c@ret@host", "redis://:********@host"),
                            std::pair("redis://user@host:6379", "redis://user@host:6379"),
                            std::pair("unix:///run/redis.sock", "unix:///run/redis.sock")}) {
    sources.environment["REDIS_URL"] = url;
    auto config = Config::load(settings(), sources);
    REQUIRE(config);
    CHECK(Config::shown(config->at("redis.url")) == shown);
  }
}

TEST_CASE("a secret is shown as stars when it is set, and empty when it is not") {
  ConfigSources sources;
  auto shown = [&] {
    auto config = Config::load(settings(), sources);
    REQUIRE(config);
    return Config::shown(config->at("redis.password"));
  };
  CHECK(shown() == "");
  sources.environment["REDIS_PASSWORD"] = "s3cret";
  CHECK(shown() == "********");
}

TEST_CASE("a secret that fails its check is not in the error, even when the check repeats it") {
  auto repeats = [](std::string_view value) -> Result<> {
    return fail(Errc::invalid, "{} is too short", value);
  };
  ConfigSources sources;
  sources.environment["TOKEN"] = "s3cret";
  auto config = Config::load({{"token", "TOKEN", "", "", true, repeats}}, sources);
  REQUIRE(!config);
  CHECK(config.error().what ==
        "environment TOKEN: token is \"********\"; that has not the right form");
}

TEST_CASE("the default is checked too, unless it is empty") {
  auto number = whole_number(1, 10);
  CHECK(Config::load({{"a", "", "", "", false, number}}, {}));
  CHECK_FALSE(Config::load({{"a", "", "0", "", false, number}}, {}));
  ConfigSources sources;
  sources.flags["a"] = "";
  CHECK_FALSE(Config::load({{"a", "", "", "", false, number}}, sources));
}

TEST_CASE("durations have a unit and no sign, and end before the clock does") {
  using namespace std::chrono_literals;
  CHECK(*parse_duration("250ms") == 250ms);
  CHECK(*parse_duration("5s") == 5s);
  CHECK(*parse_duration("2m") == 2min);
  CHECK(*parse_duration("1h") == 1h);
  CHECK(*parse_duration("0s") == 0ms);
  CHECK(*parse_duration("876600h") == 876600h);
  for (auto text : {"", "5", "s", "-5s", "+5s", "5 s", "5S", "1.5s", "5sec", "5d", " 5s", "876601h",
                    "9223372036854775807h", "99999999999999999999ms"})
    CHECK_FALSE(parse_duration(text));
}

TEST_CASE("the process' environment can be a source") {
  setenv("WARREN_CONFIG_TEST", "a=b", 1);
  CHECK(process_environment().at("WARREN_CONFIG_TEST") == "a=b");
  unsetenv("WARREN_CONFIG_TEST");
}

TEST_CASE(
    "the nearest word is one mistake in three letters away, and none is better than a guess") {
  std::vector<std::string> words{"redis", "doctor", "config", "up"};
  CHECK(nearest("rediss", words) == "redis");
  CHECK(nearest("rdeis", words) == "redis");
  CHECK(nearest("dctr", words) == std::nullopt);
  CHECK(nearest("docter", words) == "doctor");
  CHECK(nearest("pu", words) == "up");
  CHECK(nearest("carrots", words) == std::nullopt);
  CHECK(nearest("", words) == std::nullopt);
  CHECK(nearest("redis", {}) == std::nullopt);
  CHECK(edit_distance("kitten", "sitting") == 3);
  CHECK(edit_distance("", "abc") == 3);
  CHECK(edit_distance("abcd", "acbd") == 1);
}

TEST_CASE("a secret of the file is not for a server that a flag or the environment names") {
  Folder folder;
  ConfigSources sources;
  sources.file = folder.write("warren.toml", "[redis]\nurl = 'redis://a'\npassword = 's3cret'\n");
  auto password = [&] {
    auto config = Config::load(bound_settings(), sources);
    REQUIRE(config);
    return config->at("redis.password");
  };
  CHECK(password().value == "s3cret");
  for (auto* where : {&sources.flags, &sources.environment}) {
    auto name = where == &sources.flags ? "redis.url" : "REDIS_URL";
    (*where)[name] = "redis://b";
    CHECK(password().value.empty());
    CHECK(!password().is_set);
    CHECK(password().origin.contains("does not count"));
    // A password that is given in the same way as the server counts.
    sources.environment["REDIS_PASSWORD"] = "other";
    CHECK(password().value == "other");
    sources.environment.erase("REDIS_PASSWORD");
    where->erase(name);
  }
  sources.environment["REDIS_ADDRS"] = "b:1";
  CHECK(password().value.empty());
}

TEST_CASE("a process can take its secrets out of its environment, as others see it too") {
  setenv("REDIS_PASSWORD", "s3cret", 1);
  setenv("REDIS_URL", "redis://u:s3cret@h", 1);
  setenv("REDIS_MODE", "cluster", 1);
  const char* before = std::getenv("REDIS_PASSWORD");
  hide_secrets(settings());
  CHECK(*before == '\0');  // where /proc reads it, and not only the name is gone
  CHECK(std::getenv("REDIS_PASSWORD") == nullptr);
  CHECK(std::getenv("REDIS_URL") == nullptr);
  CHECK(std::string(std::getenv("REDIS_MODE")) == "cluster");
  unsetenv("REDIS_MODE");
}

TEST_CASE("what was read once is not read again, and what it sets can be listed without a secret") {
  ConfigSources sources;
  sources.file = "/nowhere/warren.toml";
  sources.file_text = "redis.mode = 'cluster'\nredis.password = 's3cret'\n";
  auto config = Config::load(settings(), sources);
  REQUIRE(config);
  CHECK(config->text("redis.mode") == "cluster");
  auto listed = settings_in_file(settings(), sources.file, *sources.file_text);
  REQUIRE(listed);
  REQUIRE(listed->size() == 2);
  CHECK(listed->front().name == "redis.mode");
  CHECK(listed->front().shown == "cluster");
  CHECK(listed->back().shown == "********");
  CHECK(!settings_in_file(settings(), "x", "redis.modde = 1"));
}
