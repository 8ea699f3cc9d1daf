#include "base/log.h"

#include <doctest/doctest.h>

#include <boost/json.hpp>
#include <filesystem>
#include <fstream>
#include <limits>
#include <regex>
#include <sstream>
#include <thread>

#include "base/utf8.h"

using namespace warren;

namespace {

// Sends events to a file while it exists; afterwards they go to standard error again.
struct LogFile {
  explicit LogFile(log::Format format = log::Format::logfmt, std::string levels = "info",
                   bool colour = false) {
    std::string pattern = std::filesystem::temp_directory_path() / "warren-log-XXXXXX";
    folder = mkdtemp(pattern.data());
    REQUIRE(log::configure({format, std::move(levels), colour, folder / "log"}));
  }
  ~LogFile() {
    (void)log::configure({});
    std::filesystem::remove_all(folder);
  }
  std::vector<std::string> lines() const {
    std::ifstream file(folder / "log", std::ios::binary);
    std::vector<std::string> all;
    for (std::string line; std::getline(file, line);) all.push_back(line);
    return all;
  }
  std::string only_line() const {
    auto all = lines();
    REQUIRE(all.size() == 1);
    return all[0];
  }
  std::filesystem::path folder;
};

std::string without_time(const std::string& line) { return line.substr(line.find(' ') + 1); }

}  // namespace

TEST_CASE("an event is one line: time, level, name, then the facts") {
  LogFile file;
  log::warn("lease.lost", "name", "indexer", "token", 41, "late_ms", 210u, "held", false, "load",
            0.5);
  static const std::regex expected(R"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z warn lease\.lost )"
                                   R"(name=indexer token=41 late_ms=210 held=false load=0\.5)");
  auto line = file.only_line();
  INFO(line);
  CHECK(std::regex_match(line, expected));
}

TEST_CASE("a value with blanks, quotes, equal signs or nothing in it is quoted") {
  LogFile file;
  log::info("t.t", "a", "two words", "b", R"(say "hi")", "c", "x=1", "d", "", "e", R"(back\slash)",
            "f", "k\xc3\xb6ln", "g", R"(c:\a b)");
  CHECK(without_time(file.only_line()) ==
        R"(info t.t a="two words" b="say \"hi\"" c="x=1" d="" e=back\slash f=")"
        "k\xc3\xb6ln"
        R"(" g="c:\\a b")");
}

TEST_CASE("nobody can forge a line or move the cursor of who reads it") {
  LogFile file;
  log::info("t.t", "name", "a\n2026-01-01T00:00:00.000Z error process.aborted", "more",
            "\r\x1b[2J\x7f\xc2\x9b\xe2\x80\xa8\t");
  log::info("bad\nevent name", "k=\"\n", 1);
  log::info("t.t", "reversed", "\xe2\x80\xaetxt.exe", "hidden", "a\xe2\x80\x8b\xf3\xa0\x81\x81z");
  auto lines = file.lines();
  REQUIRE(lines.size() == 3);
  CHECK(without_time(lines[2]) ==
        R"(info t.t reversed="\u202etxt.exe" hidden="a\u200b\udb40\udc41z")");
  CHECK(without_time(lines[0]) ==
        R"(info t.t name="a\n2026-01-01T00:00:00.000Z error process.aborted" )"
        R"(more="\u000d\u001b[2J\u007f\u009b\u2028\u0009")");
  CHECK(without_time(lines[1]) == "info bad_event_name k___=1");
}

TEST_CASE("JSON keeps numbers and truths bare, and everything else is text") {
  LogFile file(log::Format::json);
  log::error("t.t", "text", "a \"b\"\n", "number", -3, "half", 0.5, "yes", true, "letter", 'x',
             "endless", std::numeric_limits<double>::infinity());
  auto object = boost::json::parse(file.only_line()).as_object();
  CHECK(object["level"] == "error");
  CHECK(object["event"] == "t.t");
  CHECK(object["time"].as_string().size() == 24);
  CHECK(object["text"] == "a \"b\"\n");
  CHECK(object["number"] == -3);
  CHECK(object["half"] == 0.5);
  CHECK(object["yes"] == true);
  CHECK(object["letter"] == "x");
  CHECK(object["endless"] == "inf");
}

TEST_CASE("JSON is valid UTF-8 whatever the facts are") {
  LogFile file(log::Format::json);
  for (int first = 0; first < 256; ++first)
    for (std::string rest : {"", "\x80", "\xbf\xbf", "\x80\x80\x80", "a"})
      log::info("t.t", "key", std::string(1, char(first)) + rest);
  auto lines = file.lines();
  REQUIRE(lines.size() == 256 * 5);
  for (auto& line : lines) {
    CHECK(valid_utf8(line) == line);
    boost::system::error_code error;
    auto parsed = boost::json::parse(line, error);
    CHECK_MESSAGE(!error, line);
  }
}

TEST_CASE("what is no UTF-8 is replaced byte by byte, and what is stays") {
  auto replacement = std::string("\xef\xbf\xbd");
  for (std::string text : {"", "plain", "\xc3\xa4", "\xe2\x82\xac", "\xf0\x9f\x90\x87",
                           "\xef\xbf\xbd", "\xed\x9f\xbf", "\xf4\x8f\xbf\xbf"})
    CHECK(valid_utf8(text) == text);
  CHECK(valid_utf8("a\xff"
                   "b") == "a" + replacement + "b");
  CHECK(valid_utf8("\xc3") == replacement);
  CHECK(valid_utf8("\xc0\xaf") == replacement + replacement);  // overlong
  CHECK(valid_utf8("\xe0\x80\xaf") == replacement + replacement + replacement);
  CHECK(valid_utf8("\xed\xa0\x80") == replacement + replacement + replacement);  // a surrogate
  CHECK(valid_utf8("\xf4\x90\x80\x80") == replacement + replacement + replacement + replacement);
}

TEST_CASE("levels are set for all and for single modules") {
  LogFile file(log::Format::logfmt, "warn,redis=debug,lease=off");
  CHECK(log::enabled(log::Level::debug, "redis.connected"));
  CHECK_FALSE(log::enabled(log::Level::error, "lease.lost"));
  CHECK_FALSE(log::enabled(log::Level::info, "redistribution.done"));
  log::debug("redis.connected");
  log::info("http.request");
  log::warn("http.slow");
  log::error("lease.lost");
  auto lines = file.lines();
  REQUIRE(lines.size() == 2);
  CHECK(without_time(lines[0]) == "debug redis.connected");
  CHECK(without_time(lines[1]) == "warn http.slow");
}

TEST_CASE("a wrong level is refused, naming the word and what would be right") {
  auto error_of = [](std::string levels) {
    auto done = log::configure({log::Format::logfmt, levels, false, ""});
    REQUIRE(!done);
    CHECK(done.error().code == Errc::invalid);
    return done.error().what;
  };
  CHECK(error_of("inof") ==
        R"(log level "inof": use debug, info, warn, error or off; did you mean info?)");
  CHECK(error_of("info,redis=loud") ==
        R"(log level "redis=loud": use debug, info, warn, error or off)");
  CHECK(error_of("") == R"(log level "": use debug, info, warn, error or off)");
  CHECK(error_of("info,") == R"(log level "": use debug, info, warn, error or off)");
  CHECK(error_of("info,warn") == R"(log level "warn": there is already one for all modules)");
  CHECK(error_of("=info") == R"(log level "=info": name a module before the =)");
}

TEST_CASE("a file that cannot be opened is refused by name, and the old output stays") {
  LogFile file;
  auto done = log::configure({log::Format::logfmt, "info", false, "/dev/null/log"});
  REQUIRE(!done);
  CHECK(done.error().code == Errc::invalid);
  CHECK(done.error().what.contains("/dev/null/log"));
  log::info("t.t");
  CHECK(file.lines().size() == 1);
}

TEST_CASE("a file is appended to") {
  LogFile file;
  log::info("t.first");
  REQUIRE(log::configure({log::Format::logfmt, "info", false, file.folder / "log"}));
  log::info("t.second");
  CHECK(file.lines().size() == 2);
}

TEST_CASE("colour is there only when it was asked for, and never in JSON") {
  {
    LogFile file(log::Format::logfmt, "info", true);
    log::warn("t.t", "a", 1);
    CHECK(without_time(file.only_line()) == "\x1b[33mwarn\x1b[0m t.t a=1");
  }
  LogFile file(log::Format::json, "info", true);
  log::warn("t.t", "a", 1);
  CHECK_FALSE(file.only_line().contains('\x1b'));
}

TEST_CASE("lines of many threads do not mix") {
  LogFile file;
  std::string value(300, 'x');
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < 4; ++t)
      threads.emplace_back([&value, t] {
        for (int i = 0; i < 250; ++i) log::info("t.t", "thread", t, "value", value);
      });
  }
  auto lines = file.lines();
  CHECK(lines.size() == 1000);
  for (auto& line : lines) CHECK(line.ends_with("value=" + value));
}
