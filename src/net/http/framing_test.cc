#include "net/http/framing.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <random>

#include "net/http/message.h"

using namespace warren;

namespace {

struct Outcome {
  std::string body = {};
  std::string rest = {};  // after the body
  std::string problem = {};
  bool is_whole = false;

  bool operator==(const Outcome&) const = default;
};

// Feeds the bytes as a connection would: a few more each time, after dropping those already used.
template <class Cut>
Outcome read_body(BodyEnd end, std::string_view bytes, Cut cut) {
  BodyParser parser(end);
  Outcome outcome;
  std::size_t begin = 0, arrived = 0;
  for (;;) {
    auto step = parser.take(bytes.substr(begin, arrived - begin));
    if (!step) {
      outcome.problem = step.error().what;
      return outcome;
    }
    outcome.body += step->piece;
    begin += step->used;
    if (parser.is_whole() || (step->used == 0 && arrived == bytes.size())) break;
    if (step->used == 0) arrived = std::min(bytes.size(), arrived + cut());
  }
  outcome.is_whole = parser.may_end();
  outcome.rest = bytes.substr(begin);
  return outcome;
}

Outcome read_at_once(BodyEnd end, std::string_view bytes) {
  return read_body(end, bytes, [&] { return bytes.size(); });
}

bool is_refused(std::string_view bytes) { return !read_at_once(chunked, bytes).problem.empty(); }

std::string problem_of(std::string_view bytes) {
  HttpReplyHead head;
  auto state = parse_reply_head(bytes, head);
  return state == HeadState::whole ? "" : state == HeadState::partial ? "partial" : "wrong";
}

}  // namespace

TEST_CASE("a body ends where its length, its last chunk or its connection does") {
  auto sized = read_at_once(body_of(5), "helloGET /");
  CHECK(sized == Outcome{"hello", "GET /", "", true});
  CHECK(read_at_once(body_of(0), "GET /") == Outcome{"", "GET /", "", true});
  CHECK(!read_at_once(body_of(6), "hello").is_whole);
  CHECK(read_at_once(until_close, "hello") == Outcome{"hello", "", "", true});
  auto chunks = read_at_once(chunked, "5\r\nhello\r\nA\r\n, 23456789\r\n0\r\n\r\nGET /");
  CHECK(chunks == Outcome{"hello, 23456789", "GET /", "", true});
  CHECK(read_at_once(chunked, "0\r\nX-Sum: 1\r\n\r\nmore") == Outcome{"", "more", "", true});
  for (std::string_view cut : {"", "5", "5\r\nhello", "5\r\nhello\r\n", "5\r\nhello\r\n0\r\n"}) {
    CAPTURE(cut);
    CHECK(!read_at_once(chunked, cut).is_whole);
    CHECK(!is_refused(cut));
  }
}

TEST_CASE("what is no size of a chunk, or no end of one, is refused") {
  CHECK(is_refused("\r\n"));
  CHECK(is_refused("-1\r\n"));
  CHECK(is_refused("+5\r\nhello\r\n"));
  CHECK(is_refused("0x5\r\nhello\r\n"));
  CHECK(is_refused("5 \r\nhello\r\n"));
  CHECK(is_refused(" 5\r\nhello\r\n"));
  CHECK(is_refused("5;a=b\r\nhello\r\n"));
  CHECK(is_refused("5\nhello\n0\n\n\r\n"));
  CHECK(is_refused("g\r\n"));
  CHECK(is_refused("ffffffffffffffff\r\n"));
  CHECK(is_refused("10000000000000005\r\nhello\r\n"));
  CHECK(is_refused("5\r\nhelloo\r\n0\r\n\r\n"));
  CHECK(is_refused("5\r\nhello0\r\n\r\n"));
  CHECK(is_refused("0\r\n folded: a\r\n\r\n"));
  CHECK(is_refused("0\r\nno colon\r\n\r\n"));
  CHECK(is_refused("0\r\nX: " + std::string(20'000, 'x')));
}

TEST_CASE("the same bytes, cut at any place, are the same body or the same refusal") {
  std::mt19937 random(11);
  auto below = [&random](std::size_t bound) { return std::size_t(random() % bound); };
  int refused = 0, whole = 0;
  for (int round = 0; round < 3000; ++round) {
    std::string bytes, body;
    for (auto left = below(6); left > 0; --left) {
      std::string piece(1 + below(40), char('a' + below(26)));
      body += piece;
      write_chunk(bytes, piece);
    }
    bytes += round % 5 == 0 ? "0\r\nX: y\r\n\r\n" : std::string(last_chunk);
    bytes += "GET / HTTP/1.1\r\n";
    bool is_spoilt = round % 2 == 1;
    if (is_spoilt) bytes[below(bytes.size())] = "\r\n0159af; :xz"[below(12)];
    auto expected = read_at_once(chunked, bytes);
    if (!is_spoilt) CHECK(expected == Outcome{body, "GET / HTTP/1.1\r\n", "", true});
    refused += expected.problem.empty() ? 0 : 1;
    whole += expected.is_whole ? 1 : 0;
    for (int cuts = 0; cuts < 4; ++cuts) {
      auto seen = read_body(chunked, bytes, [&] { return cuts == 0 ? 1 : 1 + below(20); });
      REQUIRE(seen == expected);
    }
  }
  CHECK(refused > 300);
  CHECK(whole > 1500);
}

TEST_CASE("the head of an answer says how its body ends") {
  auto end_of = [](std::string_view headers, int status = 200, std::string_view method = "GET") {
    HttpReplyHead head;
    auto bytes = fmt::format("HTTP/1.1 {} OK\r\n{}\r\n", status, headers);
    REQUIRE(parse_reply_head(bytes, head) == HeadState::whole);
    CHECK(head.status == status);
    CHECK(head.size == bytes.size());
    return body_end(head, method);
  };
  CHECK(end_of("Content-Length: 12\r\n") == body_of(12));
  CHECK(end_of("Transfer-Encoding: Chunked\r\n") == chunked);
  CHECK(end_of("A: b\r\n") == until_close);
  CHECK(end_of("Content-Length: 12\r\n", 200, "HEAD") == body_of(0));
  CHECK(end_of("Content-Length: 12\r\n", 304) == body_of(0));
  CHECK(end_of("", 204) == body_of(0));
  HttpReplyHead head;
  REQUIRE(parse_reply_head("HTTP/1.0 200\r\nA:  b \r\nSet-Cookie: c\r\n\r\n", head) ==
          HeadState::whole);
  CHECK(!head.keeps_alive);
  CHECK(header_in(head.headers, "a") == "b");
  CHECK(header_in(head.headers, "set-cookie") == "c");
  CHECK(header_in(head.headers, "cookie").empty());
  REQUIRE(parse_reply_head("HTTP/1.1 200 \r\nConnection: TE, close\r\n\r\n", head) ==
          HeadState::whole);
  CHECK(!head.keeps_alive);
}

TEST_CASE("an answer that could be read in two ways is refused") {
  CHECK(problem_of("HTTP/1.1 200 OK\r\n\r\n").empty());
  CHECK(problem_of("HTTP/1.1 200 OK\r\n") == "partial");
  for (std::string head :
       {"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 5\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Length: 5\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: identity\r\n",
        "HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 5, 5\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: +5\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: \r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 0x5\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999\r\n",
        "HTTP/1.1 200 OK\r\nA: b\r\n folded\r\n",
        "HTTP/1.1 200 OK\r\nA : b\r\n",
        "HTTP/1.1 200 OK\r\nA: b\nContent-Length: 5\r\n",
        "HTTP/1.1 200 OK\r\n: b\r\n",
        "HTTP/1.1 20 OK\r\n",
        "HTTP/1.1 2000 OK\r\n",
        "HTTP/1.1 099 OK\r\n",
        "HTTP/1.1 600 OK\r\n",
        "HTTP/1.1  200 OK\r\n",
        "HTTP/2.0 200 OK\r\n",
        "HTTP/1.1\r\n",
        "200 OK\r\n",
        "\r\n"}) {
    CAPTURE(head);
    CHECK(problem_of(head + "\r\n") == "wrong");
  }
  CHECK(problem_of("HTTP/1.1 200 " + std::string(17'000, 'x')) == "wrong");
}

TEST_CASE("the head of an answer is the same wherever it is cut") {
  std::mt19937 random(12);
  const std::string good =
      "HTTP/1.1 200 OK\r\nContent-Type: a/b\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n";
  for (int round = 0; round < 2000; ++round) {
    auto bytes = good;
    if (round > 0) bytes[random() % bytes.size()] = "\r\n :1aT\t"[random() % 8];
    HttpReplyHead expected;
    auto state = parse_reply_head(bytes, expected);
    HttpReplyHead seen;
    auto cut_state = HeadState::partial;
    for (std::size_t size = 0; size < bytes.size() && cut_state == HeadState::partial;) {
      size = std::min(bytes.size(), size + 1 + random() % 9);
      cut_state = parse_reply_head(std::string_view(bytes).substr(0, size), seen);
    }
    REQUIRE(cut_state == state);
    REQUIRE(seen.status == expected.status);
    REQUIRE(seen.headers == expected.headers);
    REQUIRE(seen.end == expected.end);
    REQUIRE(seen.what == expected.what);
  }
}
