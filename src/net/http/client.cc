#include "net/http/client.h"

#include <algorithm>
#include <boost/asio/connect.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/read_until.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/write.hpp>
#include <charconv>

#include "net/http/message.h"

namespace warren {

using asio::ip::tcp;
using boost::system::error_code;

namespace {

constexpr std::size_t most_reply_bytes = 256u << 20;

}  // namespace

Result<HttpUrl> parse_web_url(std::string_view url) {
  if (!url.starts_with("https://")) return parse_http_url(url);
  auto rest = url.substr(std::string_view("https://").size());
  auto found = parse_http_url(fmt::format("http://{}", rest));
  if (!found) return fail(Errc::invalid, "{}: use https://HOST or https://HOST:PORT", url);
  auto host = rest.substr(0, rest.find('/'));
  bool has_port = host.ends_with(":" + found->port);
  if (!has_port) found->port = "443";
  found->is_tls = true;
  return found;
}

std::string authority_of(const HttpUrl& url) {
  auto host = url.host.contains(':') ? "[" + url.host + "]" : url.host;
  return url.port == (url.is_tls ? "443" : "80") ? host : host + ":" + url.port;
}

Result<HttpUrl> parse_http_url(std::string_view url) {
  constexpr std::string_view scheme = "http://";
  auto wrong = [&] { return fail(Errc::invalid, "{}: use http://HOST:PORT", url); };
  if (!url.starts_with(scheme)) return wrong();
  auto rest = url.substr(scheme.size());
  auto slash = std::min(rest.size(), rest.find('/'));
  HttpUrl found{.host = std::string(rest.substr(0, slash)),
                .port = "80",
                .path = std::string(rest.substr(slash))};
  auto colon = found.host.rfind(':');
  auto bracket = found.host.rfind(']');
  if (colon != found.host.npos && (bracket == found.host.npos || colon > bracket)) {
    found.port = found.host.substr(colon + 1);
    found.host.resize(colon);
  }
  if (found.host.starts_with('[') && found.host.ends_with(']'))
    found.host = found.host.substr(1, found.host.size() - 2);
  unsigned short port = 0;
  const auto* end = found.port.data() + found.port.size();
  auto read = std::from_chars(found.port.data(), end, port);
  bool is_plain = std::ranges::all_of(url, [](char c) { return c > ' ' && c < 0x7f; });
  bool is_host = found.host.find_first_of("@?#[]\\") == found.host.npos;
  if (!is_plain || !is_host) return wrong();
  if (found.host.empty() || read.ec != std::errc() || read.ptr != end || port == 0) return wrong();
  return found;
}

std::string_view HttpReply::header(std::string_view name) const { return header_in(headers, name); }

HttpClient::HttpClient(const asio::any_io_executor& executor, HttpUrl server)
    : socket_(executor), server_(std::move(server)) {}

void HttpClient::close() {
  error_code ignored;
  socket_.close(ignored);
  in_.clear();
}

Async<> HttpClient::connect() {
  if (socket_.is_open()) co_return ok;
  tcp::resolver resolver(socket_.get_executor());
  error_code error;
  auto into = asio::redirect_error(asio::use_awaitable, error);
  auto found = co_await resolver.async_resolve(server_.host, server_.port, into);
  if (!error) co_await asio::async_connect(socket_, found, into);
  if (!error) socket_.set_option(tcp::no_delay(true), error);
  if (!error) co_return ok;
  close();
  co_return fail(Errc::unavailable, "nobody answers at {}:{}: {}", server_.host, server_.port,
                 error.message());
}

Async<HttpReply> HttpClient::exchange(std::string bytes, bool with_body) {
  error_code error;
  auto into = asio::redirect_error(asio::use_awaitable, error);
  co_await asio::async_write(socket_, asio::buffer(bytes), into);
  auto room = asio::dynamic_buffer(in_, most_reply_bytes);
  std::size_t head = 0;
  if (!error) head = co_await asio::async_read_until(socket_, room, "\r\n\r\n", into);
  HttpReply reply;
  bool keeps_alive = true;
  if (!error) {
    HttpReplyHead parsed;
    auto state = parse_reply_head(std::string_view(in_).substr(0, head), parsed);
    auto end = with_body ? body_end(parsed, "GET") : body_of(0);
    auto length = end.length;
    if (state != HeadState::whole || end.kind != BodyEnd::by_length || length > most_reply_bytes) {
      close();
      co_return fail(Errc::protocol, "{}:{} does not speak HTTP as we do: {}", server_.host,
                     server_.port, parsed.what.empty() ? "a body needs a length" : parsed.what);
    }
    reply.status = parsed.status;
    reply.headers = parsed.headers;
    keeps_alive = parsed.keeps_alive;
    if (in_.size() < head + length)
      co_await asio::async_read(socket_, room, asio::transfer_exactly(head + length - in_.size()),
                                into);
    if (!error) {
      reply.body = in_.substr(head, length);
      in_.erase(0, head + length);
    }
  }
  if (error) {
    close();
    co_return fail(Errc::unknown_outcome, "{}:{}: {}", server_.host, server_.port, error.message());
  }
  if (!keeps_alive) close();
  co_return reply;
}

Async<HttpReply> HttpClient::ask(HttpAsk ask, Clock::time_point deadline) {
  auto host = server_.host.contains(':') ? "[" + server_.host + "]" : server_.host;
  auto bytes = fmt::format("{} {} HTTP/1.1\r\nHost: {}:{}\r\n{}", ask.method, ask.target, host,
                           server_.port, ask.headers);
  if (!ask.body.empty() || ask.method == "POST" || ask.method == "PUT")
    bytes += fmt::format("Content-Length: {}\r\n", ask.body.size());
  bytes += "\r\n" + ask.body;
  bool with_body = ask.method != "HEAD";
  // The server may close an idle connection at the moment it is reused.
  bool is_reused = socket_.is_open();
  for (;;) {
    auto connected = co_await with_deadline(deadline, connect());
    if (!connected) co_return std::unexpected(connected.error());
    auto reply = co_await with_deadline(deadline, exchange(bytes, with_body));
    if (reply) co_return reply;
    close();
    // Unless the request only reads, it may already have been executed.
    bool is_reading = ask.method == "GET" || ask.method == "HEAD";
    bool may_repeat = is_reading && is_reused && reply.error().code == Errc::unknown_outcome;
    if (!may_repeat) co_return reply;
    is_reused = false;
  }
}

}  // namespace warren
