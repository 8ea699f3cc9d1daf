#include "services/fleet/autoscale/autoscaler.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/json.hpp>
#include <cstdio>

#include "base/log.h"

namespace warren::fleet {

namespace {

namespace json = boost::json;

struct Wish {
  std::size_t nodes = 0;
  std::string reason = {};
};

Result<Wish> parse_wish(std::string_view text) {
  boost::system::error_code error;
  auto value = json::parse(text, error);
  const auto* members = error ? nullptr : value.if_object();
  const auto* nodes = members ? members->if_contains("wanted") : nullptr;
  const auto* reason = members ? members->if_contains("reason") : nullptr;
  auto count = nodes ? nodes->to_number<std::size_t>(error) : 0;
  if (!nodes || error || !reason || !reason->is_string())
    return fail(Errc::protocol, "the router does not say how many nodes there should be");
  return Wish{count, std::string(reason->get_string())};
}

Async<Wish> ask(HttpPool& pool, const AutoscaleTerms& terms) {
  HttpAsk request{"GET", "/v1/scale"};
  if (!terms.token.empty())
    request.headers = fmt::format("Authorization: Bearer {}\r\n", terms.token);
  auto url = terms.router;
  auto reply = co_await pool.ask(std::move(url), std::move(request), Clock::now() + 10s);
  if (!reply) co_return std::unexpected(reply.error());
  if (reply->status == 401)
    co_return fail(Errc::denied, "the router wants a token: set FLEET_TOKEN");
  if (reply->status != 200)
    co_return fail(Errc::unavailable, "the router answered {}", reply->status);
  co_return parse_wish(reply->body);
}

}  // namespace

Result<> PrintDriver::set(std::size_t nodes, const std::string& reason) {
  if (nodes == std::exchange(last_, nodes)) return ok;
  fmt::print("{} {}: {}\n", nodes, nodes == 1 ? "node" : "nodes", reason);
  std::fflush(stdout);
  return ok;
}

awaitable<void> autoscale(AutoscaleTerms terms, ScaleDriver& driver) {
  HttpPool pool(co_await asio::this_coro::executor, {.most_connections = 1});
  std::size_t last = 0;
  for (;;) {
    auto wish = co_await ask(pool, terms);
    if (!wish) {
      log::warn("autoscale.not_told", "why", wish.error().what);
    } else {
      auto nodes = std::clamp(wish->nodes, terms.least, terms.most);
      if (nodes != std::exchange(last, nodes))
        log::info("autoscale.wanted", "nodes", nodes, "why", wish->reason);
      auto done = driver.set(nodes, wish->reason);
      if (!done) log::error("autoscale.failed", "nodes", nodes, "why", done.error().what);
    }
    co_await sleep_for(terms.look);
  }
}

}  // namespace warren::fleet
