#include <doctest/doctest.h>
#include <fmt/format.h>

#include "net/http/admission.h"
#include "net/http/message.h"
#include "net/http/target.h"

using namespace warren;

namespace {

int problem_of(std::string_view bytes) {
  HttpHead head;
  auto state = parse_head(bytes, head);
  return state == HeadState::wrong ? head.problem : state == HeadState::whole ? 200 : 100;
}

}  // namespace

TEST_CASE("the head of a request is taken apart without copying it") {
  HttpHead head;
  std::string_view bytes =
      "POST /v1/nodes/a%20b/report?x=1&y HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n"
      "X-Latitude:  52.1 \r\nExpect: 100-continue\r\n\r\nhello";
  REQUIRE(parse_head(bytes, head) == HeadState::whole);
  CHECK(head.request.method == "POST");
  CHECK(head.request.path == "/v1/nodes/a%20b/report");
  CHECK(head.request.query == "x=1&y");
  CHECK(head.body_size == 5);
  CHECK(head.size == bytes.size() - 5);
  CHECK(head.keeps_alive);
  CHECK(head.waits_for_continue);
  CHECK(head.request.header("x-latitude") == "52.1");
  CHECK(head.request.header("authorization").empty());
  // Nothing of it remains when the next request is parsed into the same head.
  REQUIRE(parse_head("GET http://h:80/p HTTP/1.0\r\n\r\n", head) == HeadState::whole);
  CHECK(head.request.path == "/p");
  CHECK(head.request.header("x-latitude").empty());
  CHECK(head.body_size == 0);
  CHECK(!head.keeps_alive);
  CHECK(!head.waits_for_continue);
}

TEST_CASE(
    "a connection ends when one of the words says so, and an old one unless it is asked not to") {
  auto stays = [](std::string_view version, std::string_view words) {
    HttpHead head;
    auto bytes = fmt::format("GET / {}\r\nConnection: {}\r\n\r\n", version, words);
    REQUIRE(parse_head(bytes, head) == HeadState::whole);
    return head.keeps_alive;
  };
  CHECK(stays("HTTP/1.1", "TE"));
  CHECK(!stays("HTTP/1.1", "close, TE"));
  CHECK(!stays("HTTP/1.1", "TE,Close"));
  CHECK(!stays("HTTP/1.1", "close, keep-alive"));
  CHECK(stays("HTTP/1.0", "TE, Keep-Alive"));
  CHECK(!stays("HTTP/1.0", "TE"));
}

TEST_CASE("what could be read in two ways is refused") {
  CHECK(problem_of("GET / HTTP/1.1\r\nA: b\r\n\r\n") == 200);
  CHECK(problem_of("GET / HTTP/1.1\r\nA: b\r\n") == 100);
  CHECK(problem_of("GET / HTTP/1.1\nA: b\n\n\r\n\r\n") == 400);
  CHECK(problem_of("GET / HTTP/1.1\r\nA: b\r\n folded\r\n\r\n") == 400);
  CHECK(problem_of("GET / HTTP/1.1\r\nA : b\r\n\r\n") == 400);
  CHECK(problem_of("GET / HTTP/1.1\r\nA: b\rc\r\n\r\n") == 400);
  CHECK(problem_of(std::string_view("GET /\0 HTTP/1.1\r\n\r\n", 19)) == 400);
  CHECK(problem_of("GET  / HTTP/1.1\r\n\r\n") == 400);
  CHECK(problem_of("GET / / HTTP/1.1\r\n\r\n") == 400);
  CHECK(problem_of("GET page HTTP/1.1\r\n\r\n") == 400);
  CHECK(problem_of("GET /\r\n\r\n") == 400);
  CHECK(problem_of("GET / HTTP/3.0\r\n\r\n") == 505);
  CHECK(problem_of("PRI * HTTP/2.0\r\n\r\n") == 200);
  CHECK(problem_of("GET / HTTP/1.1\r\nHost: a\r\n\r\n") == 200);
  CHECK(problem_of("GET / HTTP/1.1\r\nHost: a\r\nhost: a\r\n\r\n") == 400);
  CHECK(problem_of("GET / HTTP/1.1\r\nHost: localhost\r\nA: b\r\nHOST: evil\r\n\r\n") == 400);
  CHECK(problem_of("POST / HTTP/1.1\r\nContent-Length: 5\r\nContent-Length: 5\r\n\r\n") == 400);
  CHECK(problem_of("POST / HTTP/1.1\r\nContent-Length: -5\r\n\r\n") == 400);
  CHECK(problem_of("POST / HTTP/1.1\r\nContent-Length: 5x\r\n\r\n") == 400);
  CHECK(problem_of("POST / HTTP/1.1\r\nContent-Length: 99999999999999999999\r\n\r\n") == 400);
  std::string chunks = "Transfer-Encoding: chunked\r\n", length = "Content-Length: 5\r\n";
  CHECK(problem_of("POST / HTTP/1.1\r\n" + chunks + "\r\n") == 200);
  CHECK(problem_of("POST / HTTP/1.1\r\n" + chunks + chunks + "\r\n") == 411);
  CHECK(problem_of("POST / HTTP/1.1\r\n" + length + chunks + "\r\n") == 411);
  CHECK(problem_of("POST / HTTP/1.1\r\n" + chunks + length + "\r\n") == 400);
  CHECK(problem_of("POST / HTTP/1.0\r\n" + chunks + "\r\n") == 411);
  CHECK(problem_of("POST / HTTP/1.1\r\nTransfer-Encoding: gzip, chunked\r\n\r\n") == 411);
  CHECK(problem_of("GET /" + std::string(17000, 'x')) == 431);
  std::string many;
  for (int i = 0; i < 65; ++i) many += "A: b\r\n";
  CHECK(problem_of("GET / HTTP/1.1\r\n" + many + "\r\n") == 431);
}

TEST_CASE("an answer has its length, and no value can begin a line of its own") {
  HttpAnswer answer{.status = 307, .body = "there"};
  CHECK(answer.add("Location", "https://edge/x"));
  CHECK(!answer.add("X-Evil", "a\r\nSet-Cookie: b"));
  std::string out;
  write_answer(out, answer, "now", "F: g\r\n", true, true);
  CHECK(out ==
        "HTTP/1.1 307 Temporary Redirect\r\nDate: now\r\nContent-Type: text/plain; "
        "charset=utf-8\r\nContent-Length: 5\r\nF: g\r\nLocation: https://edge/x\r\n\r\nthere");
  out.clear();
  write_answer(out, answer, "now", "", false, false);
  CHECK(out.ends_with("Connection: close\r\n\r\n"));
}

TEST_CASE("names in paths and queries are decoded after they were cut out") {
  std::string_view path = "/v1/nodes/a%2Fb/";
  CHECK(next_part(path) == "v1");
  CHECK(next_part(path) == "nodes");
  CHECK(percent_decoded(next_part(path)) == "a/b");
  CHECK(next_part(path).empty());
  CHECK(next_part(path).empty());
  CHECK(percent_decoded("a+b%20%c3%a9") == "a+b \xc3\xa9");
  CHECK(percent_decoded("100%") == std::nullopt);
  CHECK(percent_decoded("%zz") == std::nullopt);
  CHECK(percent_decoded("%4") == std::nullopt);
  CHECK(percent_decoded("%00") == std::nullopt);
  CHECK(percent_encoded("a b/ü+1") == "a%20b%2F%C3%BC+1");
  CHECK(query_value("lat=1&lon=2", "lon") == "2");
  CHECK(query_value("lat=1&lat=2", "lat") == "1");
  CHECK(query_value("x&q=a+b%26%20", "q") == "a+b& ");
  CHECK(query_value("x&q=%", "q") == "");
  CHECK(query_value("x", "x") == "");
  CHECK(query_value("xy=1", "x") == std::nullopt);
  CHECK(query_without("a=1&fwcid=2&b=3&fwcid", "fwcid") == "a=1&b=3");
  CHECK(query_without("", "a").empty());
}

TEST_CASE("a secret is the same only when all of it is, and none is nobody's") {
  CHECK(same_secret("abc", "abc"));
  CHECK(!same_secret("abd", "abc"));
  CHECK(!same_secret("ab", "abc"));
  CHECK(!same_secret("", ""));
  CHECK(bearer_token("Bearer xyz") == "xyz");
  CHECK(bearer_token("bearer xyz") == "xyz");
  CHECK(bearer_token("Basic xyz").empty());
  CHECK(bearer_token("Bear").empty());
}

TEST_CASE("a client gets its burst and then its rate, whatever the others do") {
  RateLimit limit({.per_second = 10, .burst = 20, .most_clients = 1024});
  auto alice = asio::ip::make_address("192.0.2.1"), bob = asio::ip::make_address("192.0.2.2");
  Clock::time_point now{1h};
  int admitted = 0;
  for (int i = 0; i < 100; ++i) admitted += limit.admits(alice, now) ? 1 : 0;
  CHECK(admitted == 20);
  CHECK(limit.admits(bob, now));
  CHECK(!limit.admits(alice, now + 99ms));
  CHECK(limit.admits(alice, now + 201ms));
  CHECK(limit.admits(alice, now + 201ms));
  CHECK(!limit.admits(alice, now + 201ms));
  // Addresses in one /64 are one client.
  auto one = asio::ip::make_address("2001:db8::1"), other = asio::ip::make_address("2001:db8::2");
  for (int i = 0; i < 20; ++i) CHECK(limit.admits(one, now));
  CHECK(!limit.admits(other, now));
  CHECK(limit.admits(asio::ip::make_address("2001:db8:0:1::1"), now));
}
