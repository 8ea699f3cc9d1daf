// A search whose client reads files as they are found: NDJSON.
#include "net/http/lines.h"
#include "services/fleet/router/router.h"

namespace warren::fleet {

namespace {

constexpr std::size_t batch_bytes = 256u << 10;
constexpr std::size_t most_line_bytes = 64u << 20;  // of a node: its part

Async<> send_found(FoundFiles& found, HttpLines& lines) {
  for (;;) {
    auto text = co_await found.next();
    if (text.empty()) co_return ok;
    auto sent = co_await lines.send(std::move(text));
    if (!sent) co_return sent;
  }
}

// The page, as far as it was not sent early, and the line that sums up.
Async<> send_rest(FoundFiles& found, HttpLines& lines, const search::Answer& answer,
                  const std::vector<Missing>& missing, Clock::time_point begin) {
  std::vector<std::size_t> page;
  std::string text;
  for (const auto& file : answer.files) {
    page.push_back(found.place_of(file, text));
    if (text.size() < batch_bytes) continue;
    auto sent = co_await lines.send(std::exchange(text, {}));
    if (!sent) co_return sent;
  }
  text += summary_line(answer, missing, Clock::now() - begin, page);
  auto sent = co_await lines.send(std::move(text));
  if (!sent) co_return sent;
  co_return co_await lines.end();
}

}  // namespace

Async<search::Answer> Router::search_into(SearchAsk ask, std::vector<Missing>& missing,
                                          FoundFiles& found) {
  auto answer = co_await search(std::move(ask), missing, &found);
  found.end();
  co_return answer;
}

awaitable<void> Router::stream_search(const HttpRequest& request, SearchAsk ask,
                                      HttpAnswer& answer) {
  using namespace asio::experimental::awaitable_operators;
  auto begin = Clock::now();
  answer.type = "application/x-ndjson";
  HttpLines lines(*request.exchange);
  // Which files are the same is known at the end.
  FoundFiles found(executor_, ask.collapses ? 0 : ask.files);
  std::vector<Missing> missing;
  auto searching = search_into(std::move(ask), missing, found);
  auto sending = send_found(found, lines);
  auto [whole, sent] = co_await (std::move(searching) && std::move(sending));
  if (!sent) co_return;  // the client has left
  if (!whole && !lines.has_begun()) {
    answer.type = "application/json";
    co_return put_refusal(answer, whole.error());
  }
  if (!whole) {
    auto line = error_line(whole.error());
    sent = co_await lines.send(std::move(line));
    if (sent) sent = co_await lines.end();
    co_return;
  }
  count_answer(missing);
  sent = co_await send_rest(found, lines, *whole, missing, begin);
}

Async<Part> Router::read_lines(HttpCall& call, FoundFiles& found) {
  LineReader reader(call.in(), most_line_bytes);
  for (;;) {
    auto text = co_await reader.next();
    if (!text) co_return std::unexpected(text.error());
    if (!*text) co_return fail(Errc::protocol, "the node ended without its part");
    auto line = parse_node_line(**text);
    if (!line) co_return std::unexpected(line.error());
    if (line->file) found.add(*line->file);
    if (!line->part) continue;
    for (const auto& file : line->part->answer.files) found.add(file);
    // To the end, so that the connection is kept.
    auto rest = co_await reader.next();
    if (!rest) co_return std::unexpected(rest.error());
    co_return *std::move(line->part);
  }
}

}  // namespace warren::fleet
