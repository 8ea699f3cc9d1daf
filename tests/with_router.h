#pragma once
// A router as its clients see it: over HTTP.
#include <boost/json.hpp>

#include "net/http/pool.h"
#include "net/http/target.h"
#include "tests/with_fleet.h"

namespace warren::fleet {

inline awaitable<HttpReply> call(Router& router, HttpAsk ask) {
  HttpPool pool(co_await asio::this_coro::executor, {});
  auto url = parse_http_url(router.url());
  REQUIRE(url);
  auto reply = co_await pool.ask(*url, std::move(ask), Clock::now() + 60s, 64u << 20);
  REQUIRE_MESSAGE(reply, (reply ? "" : reply.error().what));
  co_return *std::move(reply);
}
inline awaitable<HttpReply> get(Router& router, std::string target, std::string headers = "") {
  HttpAsk ask{"GET", std::move(target), std::move(headers)};
  co_return co_await call(router, std::move(ask));
}
inline awaitable<HttpReply> post(Router& router, std::string target, std::string body,
                                 std::string headers = "") {
  HttpAsk ask{"POST", std::move(target), std::move(headers), std::move(body)};
  co_return co_await call(router, std::move(ask));
}

inline boost::json::value json_of(std::string_view text) {
  boost::system::error_code error;
  auto value = boost::json::parse(text, error);
  REQUIRE_MESSAGE(!error, text);
  return value;
}
inline std::vector<boost::json::object> lines_of(const HttpReply& reply) {
  std::vector<boost::json::object> lines;
  std::string_view rest = reply.body;
  while (!rest.empty()) {
    auto end = rest.find('\n');
    REQUIRE(end != rest.npos);
    lines.push_back(json_of(rest.substr(0, end)).as_object());
    rest.remove_prefix(end + 1);
  }
  return lines;
}
inline std::string text_at(const boost::json::object& object, const char* name) {
  const auto* value = object.if_contains(name);
  return value && value->is_string() ? std::string(value->get_string()) : "";
}

}  // namespace warren::fleet
