#include "cli/search/fleet.h"

#include <boost/json.hpp>

#include "net/http/pool.h"

namespace warren::cli {

namespace {

constexpr auto usual_timeout = 10s;
constexpr std::size_t most_files_of_a_page = 1000;
constexpr std::size_t most_page_bytes = 256u << 20;

// The router's explanation of why it refused a request.
std::string words_of(const HttpReply& reply) {
  boost::system::error_code error;
  auto value = boost::json::parse(reply.body, error);
  const auto* object = error ? nullptr : value.if_object();
  const auto* says = object ? object->if_contains("error") : nullptr;
  if (says && says->is_string()) return std::string(says->get_string());
  return fmt::format("it answered {}", reply.status);
}

}  // namespace

Result<search::Answer> ask_fleet(const Context& context, const FleetPlace& place,
                                 const std::string& query, const search::SearchTerms& terms,
                                 std::optional<std::chrono::milliseconds> timeout,
                                 std::vector<fleet::Missing>& missing) {
  auto url = parse_web_url(place.url);
  if (!url) return std::unexpected(url.error());
  fleet::SearchAsk ask;
  ask.query = query;
  ask.files = std::min(terms.most_files, most_files_of_a_page);
  ask.lines_per_file = terms.lines_per_file;
  ask.matches = terms.most_matches;
  ask.context = terms.context_lines;
  ask.explains = terms.explains;
  ask.cursor = terms.after;
  ask.timeout = timeout.value_or(usual_timeout);
  HttpAsk request{"POST", "/v1/search"};
  request.headers = "Content-Type: application/json\r\n";
  if (!place.token.empty())
    request.headers += fmt::format("Authorization: Bearer {}\r\n", place.token);
  request.body = to_json(ask);
  Result<HttpReply> reply = fail(Errc::cancelled, "it was not asked");
  HttpPool pool(context.io.get_executor(), {.tls = place.tls});
  auto all = [](HttpPool& open, HttpUrl to, HttpAsk what, Clock::time_point deadline,
                Result<HttpReply>& into) -> awaitable<void> {
    into = co_await open.ask(std::move(to), std::move(what), deadline, most_page_bytes);
    open.drop_idle();
  };
  auto deadline = Clock::now() + ask.timeout + 5s;
  asio::co_spawn(
      context.io, all(pool, *std::move(url), std::move(request), deadline, reply),
      [](std::exception_ptr thrown) { ensure(!thrown, "a command returns its errors"); });
  context.io.restart();
  context.io.run();
  if (!reply) return std::unexpected(reply.error());
  if (reply->status == 401)
    return fail(Errc::denied, "the fleet wants a token: set FLEET_TOKEN, or FLEET_TOKEN_FILE");
  if (reply->status != 200)
    return fail(reply->status == 400 ? Errc::invalid : Errc::unavailable, "{}", words_of(*reply));
  return fleet::parse_answer(reply->body, missing);
}

}  // namespace warren::cli
