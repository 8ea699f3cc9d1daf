#include "services/fleet/autoscale/autoscaler.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/json.hpp>
#include <cstdio>

#include "base/log.h"

namespace warren::fleet {

namespace {

namespace json = boost::json;

Result<ScaleWish> parse_wish(std::string_view text) {
  boost::system::error_code error;
  auto value = json::parse(text, error);
  const auto* members = error ? nullptr : value.if_object();
  const auto* nodes = members ? members->if_contains("nodes") : nullptr;
  const auto* wanted = members ? members->if_contains("wanted") : nullptr;
  const auto* reason = members ? members->if_contains("reason") : nullptr;
  ScaleWish wish;
  if (nodes) wish.nodes = nodes->to_number<std::size_t>(error);
  if (wanted && !error) wish.wanted = wanted->to_number<std::size_t>(error);
  if (!nodes || !wanted || error || !reason || !reason->is_string())
    return fail(Errc::protocol, "the router does not say how many nodes there should be");
  wish.reason = reason->get_string();
  return wish;
}

Async<ScaleWish> ask(HttpPool& pool, const AutoscaleTerms& terms) {
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

Async<> PrintDriver::set(ScaleWish wish) {
  if (wish.wanted == std::exchange(last_, wish.wanted)) co_return ok;
  fmt::print("{} {}: {}\n", wish.wanted, wish.wanted == 1 ? "node" : "nodes", wish.reason);
  std::fflush(stdout);
  co_return ok;
}

awaitable<void> autoscale(AutoscaleTerms terms, ScaleDriver& driver) {
  HttpPool pool(co_await asio::this_coro::executor, {.most_connections = 1, .tls = terms.tls});
  std::size_t last = 0;
  for (;;) {
    auto wish = co_await ask(pool, terms);
    if (!wish) {
      log::warn("autoscale.not_told", "why", wish.error().what);
    } else {
      wish->wanted = std::clamp(wish->wanted, terms.least, terms.most);
      auto wanted = wish->wanted;
      if (wanted != std::exchange(last, wanted))
        log::info("autoscale.wanted", "nodes", wanted, "why", wish->reason);
      auto done = co_await driver.set(*std::move(wish));
      if (!done) log::error("autoscale.failed", "nodes", wanted, "why", done.error().what);
    }
    co_await sleep_for(terms.look);
  }
}

}  // namespace warren::fleet
