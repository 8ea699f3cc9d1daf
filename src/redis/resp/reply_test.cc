#include "redis/resp/reply.h"

#include <doctest/doctest.h>

#include <limits>

using namespace warren::redis;
using Kind = Reply::Kind;

namespace {

Reply text(Kind kind, std::string value) { return {kind, 0, std::move(value), {}}; }
Reply integer(std::int64_t value) { return {Kind::integer, value, {}, {}}; }
Reply real(double value) { return {Kind::real, std::bit_cast<std::int64_t>(value), {}, {}}; }
Reply list(Kind kind, std::vector<Reply> items) { return {kind, 0, {}, std::move(items)}; }

}  // namespace

TEST_CASE("find gives the value behind a key of a map, or of an array that lists pairs") {
  std::vector<Reply> pairs{text(Kind::string, "role"), text(Kind::string, "master"),
                           text(Kind::status, "epoch"), integer(7)};
  for (Kind kind : {Kind::map, Kind::array}) {
    Reply reply = list(kind, pairs);
    REQUIRE(reply.find("role"));
    CHECK(reply.find("role")->text == "master");
    REQUIRE(reply.find("epoch"));
    CHECK(reply.find("epoch")->number == 7);
  }
}

TEST_CASE("find does not take a value for a key, and has nothing to find in other replies") {
  Reply reply = list(Kind::array,
                     {text(Kind::string, "a"), text(Kind::string, "b"), text(Kind::string, "c")});
  CHECK(reply.find("b") == nullptr);
  CHECK(reply.find("c") == nullptr);  // a key without a value
  CHECK(list(Kind::set, reply.items).find("a") == nullptr);
  CHECK(list(Kind::push, reply.items).find("a") == nullptr);
  CHECK(text(Kind::string, "a").find("a") == nullptr);
  CHECK(list(Kind::array, {integer(1), integer(2)}).find("") == nullptr);
}

TEST_CASE("replies are equal when every part is, and a NaN equals a NaN") {
  CHECK(text(Kind::string, "OK") == text(Kind::string, "OK"));
  CHECK(text(Kind::string, "OK") != text(Kind::status, "OK"));
  CHECK(list(Kind::array, {integer(1)}) != list(Kind::array, {integer(2)}));
  CHECK(real(std::numeric_limits<double>::quiet_NaN()) ==
        real(std::numeric_limits<double>::quiet_NaN()));
  CHECK(real(1.5).real() == 1.5);
  CHECK(Reply{}.is_null());
  CHECK(text(Kind::error, "ERR").is_error());
}

TEST_CASE("a reply is shown in one line, much as redis-cli shows it") {
  CHECK(to_string(Reply{}) == "(nil)");
  CHECK(to_string(integer(-3)) == "(integer) -3");
  CHECK(to_string(text(Kind::status, "OK")) == "OK");
  CHECK(to_string(text(Kind::string, "a\r\nb\"\\\t\x01\xff")) == R"("a\r\nb\"\\\t\x01\xff")");
  CHECK(to_string(text(Kind::error, "ERR no\nway")) == R"((error) ERR no\nway)");
  CHECK(to_string(real(0.1)) == "(double) 0.1");
  CHECK(to_string({Kind::boolean, 1, {}, {}}) == "(true)");
  CHECK(to_string({Kind::boolean, 0, {}, {}}) == "(false)");
  CHECK(to_string(text(Kind::big_number, "12345678901234567890")) ==
        "(integer) 12345678901234567890");
  CHECK(to_string(text(Kind::verbatim, "a b")) == R"("a b")");
  CHECK(to_string(list(Kind::array, {})) == "[]");
  CHECK(to_string(list(Kind::array, {integer(1), Reply{}, real(2), list(Kind::array, {})})) ==
        "[1, nil, 2, []]");
  CHECK(to_string(list(Kind::map, {text(Kind::string, "a"),
                                   integer(1),
                                   text(Kind::status, "b"),
                                   {Kind::boolean, 1, {}, {}}})) == R"({"a": 1, b: true})");
  CHECK(to_string(list(Kind::set, {text(Kind::string, "a"), integer(1)})) == R"({"a", 1})");
  CHECK(to_string(list(Kind::push, {text(Kind::string, "invalidate"), Reply{}})) ==
        R"(push ["invalidate", nil])");
}
