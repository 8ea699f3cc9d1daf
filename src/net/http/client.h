#pragma once
// Asks an HTTP server, one request after the other on one connection.
//
//   HttpClient client(executor, *parse_http_url("http://127.0.0.1:18008"));
//   auto reply = co_await client.ask({"GET", "/v1/nodes"}, Clock::now() + 5s);
//
// Without TLS, and for answers that say how long they are: those of our own servers. For strangers,
// for many requests at a time, and for bodies that are streamed there is HttpPool: see pool.h.
#include <boost/asio/ip/tcp.hpp>
#include <optional>
#include <string>

#include "base/task.h"

namespace warren {

struct HttpUrl {
  std::string host, port;  // of an IPv6 address without the brackets
  std::string path;        // as it is, from the slash; may be empty
  bool is_tls = false;
};
// Errc::invalid: something other than http://host[:port][/path].
Result<HttpUrl> parse_http_url(std::string_view url);
// The same, or https://.
Result<HttpUrl> parse_web_url(std::string_view url);
// As it stands behind Host: a name or an address, and the port unless it is the usual one.
std::string authority_of(const HttpUrl& url);

struct HttpAsk {
  std::string method = "GET";
  std::string target = "/";
  std::string headers = {};  // lines, each with its end
  std::string body = {};
};
struct HttpReply {
  int status = 0;
  std::string headers;  // lines, as they came
  std::string body;

  std::string_view header(std::string_view name) const;
};

class HttpClient {
 public:
  HttpClient(const asio::any_io_executor& executor, HttpUrl server);
  // Errc::unavailable: nobody listens. Errc::timeout, unknown_outcome: it was sent, maybe. A
  // connection that was closed while idle is opened again.
  Async<HttpReply> ask(HttpAsk ask, Clock::time_point deadline);
  void close();

 private:
  Async<> connect();
  Async<HttpReply> exchange(std::string bytes, bool with_body);

  asio::ip::tcp::socket socket_;
  HttpUrl server_;
  std::string in_;
};

}  // namespace warren
