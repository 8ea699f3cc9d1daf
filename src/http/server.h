#pragma once
// HTTP/1.1 for the pages and probes of this machine: GET and HEAD, and nothing that needs a body.
//
//   auto server = HttpServer::listen(executor, "127.0.0.1", 0, answer);
//   co_await (*server)->run();
//
// Whoever connects gets little: so many connections, so much of a request, so much time. A request
// for a name that is not this machine's is refused, since a browser may be led here by a foreign
// page under a name of its own.
#include <boost/asio/ip/tcp.hpp>
#include <functional>
#include <memory>
#include <string>

#include "base/task.h"

namespace warren {

struct HttpRequest {
  std::string path;   // from the first slash
  std::string query;  // behind the question mark, if there is one
};

struct HttpAnswer {
  int status = 200;
  std::string type = "text/plain; charset=utf-8";
  std::string body = {};
};

class HttpServer {
 public:
  using Handler = std::function<HttpAnswer(const HttpRequest&)>;

  // Port 0: any that is free. Errc::unavailable: the address or the port cannot be had.
  static Result<std::unique_ptr<HttpServer>> listen(const asio::any_io_executor& executor,
                                                    const std::string& address, unsigned short port,
                                                    Handler handler);
  unsigned short port() const { return port_; }
  std::string url() const;  // http://127.0.0.1:41234/
  // Until it is cancelled.
  awaitable<void> run();

 private:
  HttpServer(asio::ip::tcp::acceptor acceptor, Handler handler);
  Async<> accept(TaskGroup& connections);
  awaitable<void> serve(asio::ip::tcp::socket socket);
  bool is_here(std::string_view host) const;

  asio::ip::tcp::acceptor acceptor_;
  Handler handler_;
  unsigned short port_;
};

}  // namespace warren
