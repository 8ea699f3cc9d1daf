#pragma once
// Sends requests to an HTTP server, one after the other on one connection.
//
//   HttpClient client(executor, *parse_http_url("http://127.0.0.1:18008"));
//   auto reply = co_await client.ask({"GET", "/v1/nodes"}, Clock::now() + 5s);
//
// Only for our own servers: no TLS, and answers must announce their length. For other servers,
// concurrent requests and streamed bodies, use HttpPool: see pool.h.
#include <boost/asio/ip/tcp.hpp>
#include <optional>
#include <string>

#include "base/task.h"

namespace warren {

struct HttpUrl {
  std::string host, port;  // an IPv6 address without the brackets
  std::string path;        // unchanged, from the slash; may be empty
  bool is_tls = false;
};
// Errc::invalid for anything other than http://host[:port][/path].
Result<HttpUrl> parse_http_url(std::string_view url);
// The same, but https:// is allowed too.
Result<HttpUrl> parse_web_url(std::string_view url);
// The value for the Host header: a name or an address, and the port if it is not the default.
std::string authority_of(const HttpUrl& url);

struct HttpAsk {
  std::string method = "GET";
  std::string target = "/";
  std::string headers = {};  // lines, each with its line end
  std::string body = {};
};
struct HttpReply {
  int status = 0;
  std::string headers;  // lines, as received
  std::string body;

  std::string_view header(std::string_view name) const;
};

class HttpClient {
 public:
  HttpClient(const asio::any_io_executor& executor, HttpUrl server);
  // Errors: unavailable if nothing listens; timeout or unknown_outcome if it may have been sent. If
  // the server closed the idle connection, a new one is opened.
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
