#include "net/http/pool.h"

#include <algorithm>

#include "net/http/message.h"
#include "net/http/origin.h"

namespace warren {

namespace {

// Nothing in it can start a header line or a second request, and it does not state its own length.
bool is_one_request(const HttpAsk& ask) {
  auto is_word = [](std::string_view text) {
    return !text.empty() && std::ranges::all_of(text, [](char c) { return c > ' ' && c != 0x7f; });
  };
  std::string_view rest = ask.headers;
  while (!rest.empty()) {
    auto at = rest.find("\r\n");
    if (at == rest.npos || !is_header(rest.substr(0, at))) return false;
    rest.remove_prefix(at + 2);
  }
  bool says_its_end = !header_in(ask.headers, "content-length").empty() ||
                      !header_in(ask.headers, "transfer-encoding").empty();
  return is_word(ask.method) && is_word(ask.target) && !says_its_end;
}

std::string head_of(const HttpUrl& to, const HttpAsk& ask, const std::optional<BodyEnd>& streamed) {
  auto head = fmt::format("{} {} HTTP/1.1\r\n", ask.method, ask.target);
  if (header_in(ask.headers, "host").empty()) head += "Host: " + authority_of(to) + "\r\n";
  head += ask.headers;
  bool has_body = !ask.body.empty() || ask.method == "POST" || ask.method == "PUT";
  if (streamed && streamed->kind == BodyEnd::by_chunks)
    head += "Transfer-Encoding: chunked\r\n";
  else if (streamed || has_body)
    head += fmt::format("Content-Length: {}\r\n", streamed ? streamed->length : ask.body.size());
  return head + "\r\n";
}

}  // namespace

HttpPool::HttpPool(asio::any_io_executor executor, HttpPoolTerms terms)
    : core_(std::make_shared<Core>(executor, std::move(terms))) {}

HttpPool::~HttpPool() { core_->stop(); }

Async<std::unique_ptr<HttpCall>> HttpPool::begin(HttpUrl to, HttpAsk ask,
                                                 std::optional<BodyEnd> streamed,
                                                 Clock::time_point deadline, HttpPeer peer) {
  ensure(!streamed || (ask.body.empty() && *streamed != until_close),
         "a body that is streamed has a length or comes in chunks");
  if (!is_one_request(ask))
    co_return fail(Errc::invalid, "{} {}: this is not one request", ask.method, ask.target);
  HttpCall::Request request{.method = ask.method,
                            .head = head_of(to, ask, streamed),
                            .body = std::move(ask.body),
                            .streamed = streamed};
  std::unique_ptr<HttpCall> call(
      new HttpCall(core_, std::move(to), std::move(peer), std::move(request), deadline));
  auto sent = co_await call->send(false);
  if (!sent) co_return std::unexpected(sent.error());
  co_return call;
}

Async<HttpReply> HttpPool::ask(HttpUrl to, HttpAsk ask, Clock::time_point deadline,
                               std::size_t most, HttpPeer peer) {
  auto call =
      co_await begin(std::move(to), std::move(ask), std::nullopt, deadline, std::move(peer));
  if (!call) co_return std::unexpected(call.error());
  auto reply = co_await (*call)->answer();
  if (!reply) co_return reply;
  auto body = co_await (*call)->in().rest(most);
  if (!body) co_return std::unexpected(body.error());
  reply->body = *std::move(body);
  co_return reply;
}

void HttpPool::drop_idle() { core_->drop_idle(Clock::time_point::max()); }

HttpPool::Counters HttpPool::counters() const { return core_->counters(); }

}  // namespace warren
