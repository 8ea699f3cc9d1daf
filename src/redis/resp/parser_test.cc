#include "redis/resp/parser.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <cmath>
#include <limits>

#include "redis/resp/reply_bytes.h"

using namespace warren::redis;
using Kind = Reply::Kind;
using Status = Parser::Status;
using namespace std::string_literals;

namespace {

struct Outcome {
  std::vector<Reply> replies;
  std::string problem;     // empty: not broken
  std::size_t left = 0;    // bytes not consumed
  std::size_t needed = 0;  // needed() at the end

  bool operator==(const Outcome&) const = default;
};

// Feeds `bytes` in two pieces, or byte by byte if `split` is 0.
Outcome parse_all(std::string_view bytes, std::size_t split, ParserLimits limits = {}) {
  Parser parser(limits);
  Outcome outcome;
  std::string buffer;
  auto feed = [&](std::string_view piece) {
    buffer += piece;
    for (;;) {
      Reply reply;
      auto progress = parser.parse(buffer, reply);
      REQUIRE(progress.consumed <= buffer.size());
      buffer.erase(0, progress.consumed);
      if (progress.status == Status::complete) {
        outcome.replies.push_back(std::move(reply));
        continue;
      }
      CHECK(reply == Reply{});
      if (progress.status == Status::incomplete) CHECK(parser.needed() > buffer.size());
      return;
    }
  };
  if (split == 0) {
    for (char c : bytes) feed({&c, 1});
  } else {
    feed(bytes.substr(0, split));
    feed(bytes.substr(split));
  }
  outcome.problem = parser.problem();
  if (outcome.problem.empty()) {
    outcome.left = buffer.size();
    outcome.needed = parser.needed();
  }
  return outcome;
}

// The result must not depend on how the bytes arrive.
Outcome parse_all(std::string_view bytes, ParserLimits limits = {}) {
  Outcome whole = parse_all(bytes, bytes.size(), limits);
  for (std::size_t split = 0; split < bytes.size(); ++split) {
    CAPTURE(split);
    CHECK(parse_all(bytes, split, limits) == whole);
  }
  return whole;
}

Reply parse_one(std::string_view bytes) {
  CAPTURE(bytes);
  Outcome outcome = parse_all(bytes);
  CHECK(outcome.problem == "");
  CHECK(outcome.left == 0);
  REQUIRE(outcome.replies.size() == 1);
  return outcome.replies[0];
}

std::string problem_of(std::string_view bytes, ParserLimits limits = {}) {
  CAPTURE(bytes);
  Outcome outcome = parse_all(bytes, limits);
  CHECK(outcome.replies.empty());
  return outcome.problem;
}

Reply text(Kind kind, std::string value) { return {kind, 0, std::move(value), {}}; }
Reply integer(std::int64_t value) { return {Kind::integer, value, {}, {}}; }
Reply list(Kind kind, std::vector<Reply> items) { return {kind, 0, {}, std::move(items)}; }
double real_of(std::string_view bytes) {
  Reply reply = parse_one(bytes);
  CHECK(reply.kind == Kind::real);
  return reply.real();
}

}  // namespace

TEST_CASE("every type of RESP2 is read") {
  CHECK(parse_one("+OK\r\n") == text(Kind::status, "OK"));
  CHECK(parse_one("+\r\n") == text(Kind::status, ""));
  CHECK(parse_one("+a status that is longer\r\n") == text(Kind::status, "a status that is longer"));
  CHECK(parse_one("-ERR no\r\n") == text(Kind::error, "ERR no"));
  CHECK(parse_one(":0\r\n") == integer(0));
  CHECK(parse_one(":-12\r\n") == integer(-12));
  CHECK(parse_one(":9223372036854775807\r\n") == integer(std::numeric_limits<std::int64_t>::max()));
  CHECK(parse_one(":-9223372036854775808\r\n") ==
        integer(std::numeric_limits<std::int64_t>::min()));
  CHECK(parse_one("$0\r\n\r\n") == text(Kind::string, ""));
  CHECK(parse_one("$6\r\na\r\nb\0c\r\n"s) == text(Kind::string, "a\r\nb\0c"s));
  CHECK(parse_one("$-1\r\n") == Reply{});
  CHECK(parse_one("*-1\r\n") == Reply{});
  CHECK(parse_one("*0\r\n") == list(Kind::array, {}));
  CHECK(parse_one("*3\r\n:1\r\n*2\r\n$1\r\na\r\n*0\r\n$-1\r\n") ==
        list(Kind::array,
             {integer(1), list(Kind::array, {text(Kind::string, "a"), list(Kind::array, {})}),
              Reply{}}));
}

TEST_CASE("every type of RESP3 is read") {
  CHECK(parse_one("_\r\n") == Reply{});
  CHECK(parse_one("#t\r\n") == Reply{Kind::boolean, 1, {}, {}});
  CHECK(parse_one("#f\r\n") == Reply{Kind::boolean, 0, {}, {}});
  CHECK(parse_one("(-3492890328409238509324850943850943825024385\r\n") ==
        text(Kind::big_number, "-3492890328409238509324850943850943825024385"));
  CHECK(parse_one("=8\r\ntxt:a\r\nb\r\n") == text(Kind::verbatim, "a\r\nb"));
  CHECK(parse_one("=4\r\nmkd:\r\n") == text(Kind::verbatim, ""));
  CHECK(parse_one("!7\r\nERR\r\nno\r\n") == text(Kind::error, "ERR\r\nno"));
  CHECK(parse_one("~2\r\n+a\r\n:1\r\n") == list(Kind::set, {text(Kind::status, "a"), integer(1)}));
  CHECK(parse_one("%2\r\n+a\r\n:1\r\n+b\r\n*1\r\n_\r\n") ==
        list(Kind::map, {text(Kind::status, "a"), integer(1), text(Kind::status, "b"),
                         list(Kind::array, {Reply{}})}));
  CHECK(parse_one("%0\r\n") == list(Kind::map, {}));
  CHECK(parse_one(">2\r\n+invalidate\r\n*1\r\n$1\r\nk\r\n") ==
        list(Kind::push,
             {text(Kind::status, "invalidate"), list(Kind::array, {text(Kind::string, "k")})}));
}

TEST_CASE("a double may be fractional, have an exponent, be infinite or not a number") {
  CHECK(real_of(",1.25\r\n") == 1.25);
  CHECK(real_of(",10\r\n") == 10);
  CHECK(real_of(",-0.5\r\n") == -0.5);
  CHECK(real_of(",1e20\r\n") == 1e20);
  CHECK(real_of(",1E+20\r\n") == 1e20);
  CHECK(real_of(",-2.5e-7\r\n") == -2.5e-7);
  CHECK(real_of(",5e-324\r\n") == 5e-324);
  CHECK(std::signbit(real_of(",-0\r\n")));
  CHECK(real_of(",inf\r\n") == std::numeric_limits<double>::infinity());
  CHECK(real_of(",-inf\r\n") == -std::numeric_limits<double>::infinity());
  CHECK(std::isnan(real_of(",nan\r\n")));
  CHECK(parse_one(",-nan\r\n") == parse_one(",nan\r\n"));
}

TEST_CASE("attributes are dropped, wherever they stand") {
  CHECK(parse_one("|1\r\n+ttl\r\n:3600\r\n:5\r\n") == integer(5));
  CHECK(parse_one("|0\r\n+OK\r\n") == text(Kind::status, "OK"));
  CHECK(parse_one("|1\r\n+a\r\n*1\r\n:1\r\n|1\r\n+b\r\n%1\r\n:1\r\n:2\r\n+OK\r\n") ==
        text(Kind::status, "OK"));
  // Inside an array they do not count as elements, not even inside each other.
  CHECK(parse_one("*2\r\n:1\r\n|1\r\n+ttl\r\n|1\r\n+x\r\n_\r\n:3\r\n:2\r\n") ==
        list(Kind::array, {integer(1), integer(2)}));
  Outcome outcome = parse_all("|1\r\n+ttl\r\n:3600\r\n");
  CHECK(outcome.replies.empty());
  CHECK(outcome.problem == "");
}

TEST_CASE("replies that arrive together are read one after the other") {
  Outcome outcome = parse_all("+OK\r\n:1\r\n>1\r\n+x\r\n$3\r\nabc\r\n*1\r\n+a\r\n-no\r\n$5\r\nab");
  CHECK(outcome.replies ==
        std::vector{text(Kind::status, "OK"), integer(1),
                    list(Kind::push, {text(Kind::status, "x")}), text(Kind::string, "abc"),
                    list(Kind::array, {text(Kind::status, "a")}), text(Kind::error, "no")});
  CHECK(outcome.left == 6);
  CHECK(outcome.needed == 11);
}

TEST_CASE("a reply can be taken from the parser, and one not taken leaves no trace in the next") {
  Parser parser;
  CHECK(parser.parse("*1\r\n$20\r\n01234567890123456789\r\n").status == Status::complete);
  CHECK(parser.parse("+a longer status line\r\n").status == Status::complete);
  CHECK(parser.parse(":1\r\n").status == Status::complete);
  CHECK(parser.take() == integer(1));
  CHECK(parser.parse("+OK\r\n").status == Status::complete);
  CHECK(parser.take() == text(Kind::status, "OK"));
}

TEST_CASE("what is not consumed yet tells how much is needed") {
  Parser parser;
  CHECK(parser.needed() == 1);
  CHECK(parser.parse("").status == Status::incomplete);
  auto progress = parser.parse("*2\r\n:1\r\n$1000\r\nab");
  CHECK(progress.status == Status::incomplete);
  CHECK(progress.consumed == 8);
  CHECK(parser.needed() == 7 + 1000 + 2);
  CHECK(parser.parse("$1000\r\nabc").consumed == 0);
  CHECK(parser.parse("$1000\r\n" + std::string(1000, 'a') + "\r\n").status == Status::complete);
  CHECK(parser.needed() == 1);
}

TEST_CASE("tokens are views into the bytes given") {
  std::string bytes = "$5\r\nhello\r\n";
  Token token;
  TokenResult result = read_token(bytes, {}, token);
  CHECK(result.status == TokenResult::Status::complete);
  CHECK(result.size == bytes.size());
  CHECK(token.text.data() == bytes.data() + 4);
  CHECK(token.text == "hello");
  CHECK(read_token("%3\r\n", {}, token).size == 4);
  CHECK(token.kind == Kind::map);
  CHECK(token.number == 6);
  CHECK(read_token("|1\r\n", {}, token).size == 4);
  CHECK(token.is_attribute);
  CHECK(read_token("$5\r\nhe", {}, token).size == 11);
}

TEST_CASE("a number is written in one way only, as hiredis has it") {
  for (std::string number : {"", "-", "+1", "+0", "-0", "00", "01", "-01", " 1", "1 ", "1x", "0x1",
                             "1.0", "--1", "9223372036854775808", "-9223372036854775809",
                             "18446744073709551617", "99999999999999999999"}) {
    CHECK(problem_of(":" + number + "\r\n") == R"(RESP type ":": not an integer of 64 bits)");
    CHECK(problem_of("$" + number + "\r\n") == R"(RESP type "$": not a length)");
    CHECK(problem_of("*" + number + "\r\n") == R"(RESP type "*": not a length)");
  }
}

TEST_CASE("malformed values of RESP3 are refused") {
  for (auto bytes : {",\r\n", ",-\r\n", ",+1\r\n", ",.5\r\n", ",1x\r\n", ",0x10\r\n", ",1e400\r\n",
                     ",infinity\r\n", ",INF\r\n", ",+inf\r\n", ",nan(1)\r\n", ",1 \r\n"}) {
    CHECK(problem_of(bytes) == R"(RESP type ",": not a double)");
  }
  for (auto bytes : {"#\r\n", "#T\r\n", "#true\r\n", "#1\r\n"}) {
    CHECK(problem_of(bytes) == R"(RESP type "#": neither t nor f)");
  }
  for (auto bytes : {"(\r\n", "(-\r\n", "(+1\r\n", "(12x\r\n", "(1.5\r\n"}) {
    CHECK(problem_of(bytes) == R"(RESP type "(": not a big number)");
  }
  CHECK(problem_of("_x\r\n") == R"(RESP type "_": not a null)");
  CHECK(problem_of("=3\r\ntxt\r\n") == R"(RESP type "=": without a format)");
  CHECK(problem_of("=5\r\ntxt-a\r\n") == R"(RESP type "=": without a format)");
}

TEST_CASE("a negative length is a null only in the two places where RESP2 has one") {
  for (auto bytes : {"$-2\r\n", "*-2\r\n", "!-1\r\n", "=-1\r\n", "~-1\r\n", "%-1\r\n", ">-1\r\n",
                     "|-1\r\n", "$-9223372036854775808\r\n", "%-9223372036854775808\r\n"}) {
    CHECK(problem_of(bytes).ends_with("a negative length"));
  }
}

TEST_CASE("streamed types are refused in so many words") {
  for (std::string type : {"$", "=", "!", "*", "~", "%", ">", "|"}) {
    CHECK(problem_of(type + "?\r\n") ==
          "RESP type \"" + type + "\": streamed, which is not supported");
  }
}

TEST_CASE("a CR is followed by LF, and a string by both") {
  CHECK(problem_of("+OK\rX") == R"(RESP type "+": a CR without LF)");
  CHECK(problem_of("+OK\r\r\n") == R"(RESP type "+": a CR without LF)");
  CHECK(problem_of(":1\rX") == R"(RESP type ":": a CR without LF)");
  CHECK(problem_of("$1\rXa\r\n") == R"(RESP type "$": a CR without LF)");
  CHECK(problem_of("$1\r\nab\r\n") == R"(RESP type "$": no CR LF behind it)");
  CHECK(problem_of("$1\r\na\n\r") == R"(RESP type "$": no CR LF behind it)");
  CHECK(problem_of("$2\r\na\r\n\r\n") == R"(RESP type "$": no CR LF behind it)");
  // A LF alone is text, as in hiredis 0.14.
  CHECK(parse_one("+a\nb\r\n") == text(Kind::status, "a\nb"));
}

TEST_CASE("a peer that is not Redis is recognised at its first byte") {
  CHECK(problem_of("HTTP/1.1 400 Bad Request\r\n\r\n") ==
        R"(RESP type "H": unknown; is this a Redis server?)");
  CHECK(problem_of("\x15\x03\x01\x00\x02"s) ==  // a TLS alert
        R"(RESP type "\x15": unknown; is this a Redis server?)");
  CHECK(problem_of("\r\n") == R"(RESP type "\r": unknown; is this a Redis server?)");
  CHECK(problem_of("\0"s) == R"(RESP type "\x00": unknown; is this a Redis server?)");
}

TEST_CASE("a problem never quotes what may be a secret") {
  CHECK(problem_of("$6\r\nsecretsecret\r\n").find("secret") == std::string::npos);
  CHECK(problem_of(":secret\r\n").find("secret") == std::string::npos);
}

TEST_CASE("a broken parser stays broken, and keeps what it read before") {
  Parser parser;
  CHECK(parser.parse("+OK\r\n?").status == Status::complete);
  CHECK(parser.parse("?").status == Status::broken);
  std::string problem = parser.problem();
  CHECK(problem != "");
  CHECK(parser.parse("+OK\r\n").status == Status::broken);
  CHECK(parser.parse("").status == Status::broken);
  CHECK(parser.problem() == problem);
}

TEST_CASE("lengths are bounded as soon as they are claimed") {
  ParserLimits limits{.depth = 3, .bulk_bytes = 10, .items = 4, .line_bytes = 20};
  CHECK(parse_all("$10\r\n0123456789\r\n", limits).replies.size() == 1);
  CHECK(problem_of("$11\r\n", limits) == R"(RESP type "$": longer than allowed)");
  CHECK(problem_of("!11\r\n", limits) == R"(RESP type "!": longer than allowed)");
  CHECK(parse_all("*4\r\n:1\r\n:2\r\n:3\r\n:4\r\n", limits).replies.size() == 1);
  CHECK(problem_of("*5\r\n", limits) == R"(RESP type "*": longer than allowed)");
  CHECK(parse_all("%2\r\n:1\r\n:2\r\n:3\r\n:4\r\n", limits).replies.size() == 1);
  CHECK(problem_of("%3\r\n", limits) == R"(RESP type "%": longer than allowed)");
  CHECK(problem_of("|3\r\n", limits) == R"(RESP type "|": longer than allowed)");
  CHECK(problem_of("$536870913\r\n") == R"(RESP type "$": longer than allowed)");
  CHECK(problem_of("*4194305\r\n") == R"(RESP type "*": longer than allowed)");
  CHECK(problem_of("%9223372036854775807\r\n") == R"(RESP type "%": longer than allowed)");

  CHECK(parse_all("+" + std::string(20, 'x') + "\r\n", limits).replies.size() == 1);
  CHECK(problem_of("+" + std::string(21, 'x') + "\r\n", limits) ==
        R"(RESP type "+": a line longer than allowed)");
  CHECK(problem_of(":" + std::string(30, '1'), limits) ==
        R"(RESP type ":": a line longer than allowed)");

  ParserLimits none{.bulk_bytes = std::numeric_limits<std::size_t>::max(),
                    .items = std::numeric_limits<std::size_t>::max(),
                    .line_bytes = std::numeric_limits<std::size_t>::max()};
  CHECK(parse_all("+OK and more than that\r\n", none).replies.size() == 1);
  CHECK(parse_all("$9223372036854775807\r\n", none).needed == 22 + (1ull << 63) - 1 + 2);
}

TEST_CASE("aggregates are nested up to a bound") {
  ParserLimits limits{.depth = 3};
  CHECK(parse_all("*1\r\n%1\r\n:1\r\n~1\r\n:1\r\n", limits).replies.size() == 1);
  CHECK(parse_all("*1\r\n*1\r\n*1\r\n*0\r\n", limits).replies.size() == 1);
  CHECK(problem_of("*1\r\n*1\r\n*1\r\n*1\r\n", limits) ==
        R"(RESP type "*": nested deeper than allowed)");
  std::string deep;
  for (int i = 0; i < 64; ++i) deep += "*1\r\n";
  CHECK(parse_all(deep + ":1\r\n").replies.size() == 1);
  CHECK(problem_of(deep + "*1\r\n") == R"(RESP type "*": nested deeper than allowed)");
}

TEST_CASE("what all elements of a reply take together is bounded, in memory and not on the wire") {
  constexpr std::size_t item = 2 * sizeof(Reply);
  ParserLimits limits{.reply_bytes = 4 * item};
  auto problem = [](char type) {
    return "RESP type \"" + std::string(1, type) + "\": more in one reply than allowed";
  };
  CHECK(parse_all("*3\r\n:1\r\n:2\r\n:3\r\n", limits).replies.size() == 1);
  CHECK(problem_of("*4\r\n:1\r\n:2\r\n:3\r\n:4\r\n", limits) == problem(':'));
  CHECK(parse_all("*1\r\n*1\r\n*1\r\n:1\r\n", limits).replies.size() == 1);
  CHECK(problem_of("*2\r\n*1\r\n:1\r\n*1\r\n*1\r\n:1\r\n", limits) == problem('*'));
  // Texts count too, and one that is too long is refused as soon as it is announced.
  std::string fits(2 * item, 'x'), more(2 * item + 1, 'x');
  CHECK(parse_all(fmt::format("*1\r\n${}\r\n{}\r\n", fits.size(), fits), limits).replies.size() ==
        1);
  CHECK(problem_of(fmt::format("*1\r\n${}\r\n{}\r\n", more.size(), more), limits) == problem('$'));
  CHECK(problem_of(fmt::format("*1\r\n${}\r\n", 4 * item), limits) == problem('$'));
  // Attributes are dropped, but count until the reply is complete.
  CHECK(problem_of("|1\r\n:1\r\n:1\r\n|1\r\n:1\r\n:1\r\n+OK\r\n", limits) == problem(':'));
  // A string alone has its own bound, and every reply is counted from zero.
  CHECK(parse_all(fmt::format("${}\r\n{}\r\n", 8 * item, std::string(8 * item, 'x')), limits)
            .replies.size() == 1);
  CHECK(
      parse_all("*3\r\n:1\r\n:2\r\n:3\r\n*3\r\n:1\r\n:2\r\n:3\r\n|1\r\n:1\r\n:2\r\n:1\r\n", limits)
          .replies.size() == 3);
}

TEST_CASE("61 MB of \":1\" do not become gigabytes, however they are nested") {
  std::string flat = "*4194304\r\n", nested = "*4000000\r\n";
  for (int i = 0; i < 4'194'304; ++i) flat += ":1\r\n";
  while (nested.size() < 61'000'000)
    nested += "*8\r\n:1\r\n:1\r\n:1\r\n:1\r\n:1\r\n:1\r\n:1\r\n:1\r\n";
  for (auto* bytes : {&flat, &nested}) {
    Parser parser;
    auto progress = parser.parse(*bytes);
    CHECK(progress.status == Status::broken);
    CHECK(parser.is_too_large());
    CHECK(progress.consumed < 10'000'000);  // of which 144 bytes are held for each four
  }
}

TEST_CASE("what was read can be written and read again") {
  for (auto bytes :
       {"+OK\r\n", "-ERR no\r\n", ":-5\r\n", "$3\r\na\r\n\r\n", "_\r\n", "#t\r\n", ",1.5\r\n",
        ",0.1\r\n", ",-inf\r\n", ",nan\r\n", ",1e300\r\n", "(123\r\n", "=5\r\ntxt:x\r\n",
        "!4\r\na\r\nb\r\n", "*2\r\n~1\r\n:1\r\n%1\r\n+a\r\n>1\r\n*0\r\n"}) {
    Reply reply = parse_one(bytes);
    CHECK(parse_one(reply_bytes(reply)) == reply);
  }
}
