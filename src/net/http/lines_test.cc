#include "net/http/lines.h"

#include "net/http/pool.h"
#include "net/http/target.h"
#include "net/http/test_client.h"

using namespace warren;

namespace {

// Lines that begin in one piece and end in another.
awaitable<void> odd_pieces(const HttpRequest& request, HttpAnswer& answer) {
  answer.type = "application/x-ndjson";
  HttpLines lines(*request.exchange);
  CHECK_FALSE(lines.has_begun());
  for (const auto& piece : {std::string("one\ntw"), std::string("o\n"), std::string("\nlo"),
                            std::string(200'000, 'x'), std::string("ng\n")}) {
    auto sent = co_await lines.send(piece);
    CHECK(sent);
  }
  CHECK(lines.has_begun());
  if (request.path == "/cut") co_return;
  if (request.path == "/half") {
    auto sent = co_await lines.send("no end");
    CHECK(sent);
  }
  auto ended = co_await lines.end();
  CHECK(ended);
}

Async<std::vector<std::string>> lines_at(HttpServer& server, std::string path, std::size_t most) {
  HttpPool pool(co_await asio::this_coro::executor, {});
  auto url = parse_http_url(server.url());
  REQUIRE(url);
  HttpAsk ask{"GET", std::move(path)};
  auto call = co_await pool.begin(*url, std::move(ask), std::nullopt, Clock::now() + 30s);
  if (!call) co_return std::unexpected(call.error());
  auto head = co_await (*call)->answer();
  if (!head) co_return std::unexpected(head.error());
  LineReader reader((*call)->in(), most);
  std::vector<std::string> lines;
  for (;;) {
    auto line = co_await reader.next();
    if (!line) co_return std::unexpected(line.error());
    if (!*line) co_return lines;
    lines.push_back(**std::move(line));
  }
}

}  // namespace

TEST_CASE("lines are read as they were sent, however they were cut into pieces") {
  auto handler = [](const HttpRequest& request, HttpAnswer& answer) -> HttpServer::Work {
    return odd_pieces(request, answer);
  };
  auto body = [](HttpServer& server) -> awaitable<void> {
    auto lines = co_await lines_at(server, "/", 1u << 20);
    REQUIRE(lines);
    REQUIRE(lines->size() == 4);
    CHECK((*lines)[0] == "one");
    CHECK((*lines)[1] == "two");
    CHECK((*lines)[2].empty());
    CHECK((*lines)[3] == "lo" + std::string(200'000, 'x') + "ng");
    auto long_line = co_await lines_at(server, "/", 1'000);
    REQUIRE_FALSE(long_line);
    CHECK(long_line.error().code == Errc::overloaded);
    auto half = co_await lines_at(server, "/half", 1u << 20);
    REQUIRE_FALSE(half);
    CHECK(half.error().code == Errc::protocol);
    auto cut = co_await lines_at(server, "/cut", 1u << 20);
    CHECK_FALSE(cut);
  };
  with_server(public_terms(), handler, +body);
}

TEST_CASE("a parameter that stands several times has several values") {
  using Values = std::vector<std::optional<std::string>>;
  CHECK(query_values("a=1&b=2&a=%20x&a=%zz&a=", "a") == Values{"1", " x", std::nullopt, ""});
  CHECK(query_values("a=1", "b").empty());
  CHECK(query_values("", "b").empty());
}
