#pragma once
// HTTP/1.1: many connections, little given to each of them.
//
//   auto server = HttpServer::listen(executor, terms, answer);
//   co_await (*server)->run();
//
// A handler answers at once, or returns the work that will. Requests of one connection are answered
// in order; those that came together are answered with one write. Work may also stream, either way,
// or take the connection over: see exchange.h. It is cancelled when the client leaves; a client that
// ends its side of the connection counts as gone.
//
//   bytes ── parse_head ──> handler ── at once ──> answers ── one write ──> socket
//                              └── work (a task) ──────^
//
// No connection has a timer: a sweep looks at all of them now and then, and ends those that are
// idle, that take too long to say what they want, or that do not read what they are told. When
// there are as many as allowed, one makes room for the next: the one that has been idle for
// longest, or else one whose request is incomplete. Of the 64 oldest of those it is one of the
// address with the most connections, so that a client with thousands of half-sent requests
// displaces its own.
#include <array>
#include <boost/asio/ip/tcp.hpp>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "base/task.h"
#include "net/http/message.h"
#include "net/http/tls.h"

namespace warren {

// As it is, for pages and probes of this machine.
struct HttpTerms {
  std::string address = "127.0.0.1";
  unsigned short port = 0;  // any that is free
  std::size_t most_connections = 256;
  std::size_t most_body = 0;  // 413 beyond
  // A request for a name that is not this machine's is refused, since a
  // browser may be led here by a foreign page under a name of its own.
  bool is_for_this_machine = true;
  // Other names that requests may have then, such as those that a proxy on this machine passes on.
  std::vector<std::string> names = {};
  // From the first byte of a request to its last, and for an answer that was given at once. What is
  // streamed has so long for each piece.
  std::chrono::milliseconds request_time = 10s;
  std::chrono::milliseconds head_time =
      5s;  // part of that: for a handshake, or for the lines before the body
  std::chrono::milliseconds idle_time = 60s;
  std::chrono::milliseconds silence_time = 1h;  // of the client, on an upgraded connection
  // Lines that each answer has.
  std::string headers =
      "Cache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\n"
      "Content-Security-Policy: default-src 'self'; style-src 'unsafe-inline'\r\n";
  // How many connections one address may have; null: all of them. Of IPv6, a /64 is one.
  std::function<std::size_t(const asio::ip::address& client)> most_from = nullptr;
  // What this request may have as a body, known by its head; at most most_body.
  std::function<std::size_t(const HttpRequest& head)> body_limit = nullptr;
  // How long a body this request may have for its work to read as it comes, with a length or in
  // chunks; 0, or null: it is collected before the handler is asked, and chunks are refused.
  std::function<std::uint64_t(const HttpRequest& head)> stream_limit = nullptr;
  // Speaks TLS: see tls_for_server.
  std::optional<TlsContext> tls = std::nullopt;
};

class HttpConnection;

class HttpServer {
 public:
  // None: the answer is complete. The request and the answer live until the work is done.
  using Work = std::optional<awaitable<void>>;
  using Handler = std::function<Work(const HttpRequest&, HttpAnswer&)>;

  // Errc::unavailable: the address or the port cannot be had.
  static Result<std::unique_ptr<HttpServer>> listen(const asio::any_io_executor& executor,
                                                    HttpTerms terms, Handler handler);
  ~HttpServer();

  unsigned short port() const { return port_; }
  std::string url() const;  // http://127.0.0.1:41234/
  // Until it is cancelled; then all connections are ended.
  awaitable<void> run();
  // For connections that are made from now on; those that are there go on with what they have.
  void use_tls(TlsContext tls) { terms_.tls = std::move(tls); }
  // Accepts nobody any more, and waits for the requests that are being answered.
  awaitable<void> drain(Clock::time_point deadline);

  struct Counters {
    std::uint64_t accepted = 0, turned_away = 0, requests = 0, timeouts = 0;
    std::size_t connections = 0;
  };
  Counters counters() const;

 private:
  friend class HttpConnection;
  using Connections = std::list<std::shared_ptr<HttpConnection>>;
  // A connection waits for a request, is receiving one, or is being answered.
  enum class Doing : std::uint8_t { idle, asking, other };

  HttpServer(asio::ip::tcp::acceptor acceptor, HttpTerms terms, Handler handler);
  Async<> accept(TaskGroup& tasks);
  void welcome(asio::ip::tcp::socket socket);
  bool has_room_for(const asio::ip::address& client);
  awaitable<void> sweep();
  void look_at_clock();
  void end_all();
  std::shared_ptr<HttpConnection> dispensable() const;
  Connections& doing(Doing what) { return connections_[static_cast<std::size_t>(what)]; }
  const Connections& doing(Doing what) const {
    return connections_[static_cast<std::size_t>(what)];
  }
  std::size_t connection_count() const;
  void does(Connections::iterator connection, Doing before, Doing now);
  void ended(Connections::iterator connection, Doing what);
  bool is_here(std::string_view host) const;

  asio::ip::tcp::acceptor acceptor_;
  HttpTerms terms_;
  Handler handler_;
  unsigned short port_;
  // By what they do; those that have done it for longest are last. Owners: this, and what is under
  // way.
  std::array<Connections, 3> connections_;
  std::map<asio::ip::address, std::size_t> by_client_;  // how many connections it has
  TaskGroup* tasks_ = nullptr;                          // while it runs
  Event fewer_;
  Counters counters_;
  Clock::time_point now_;  // as of the last sweep
  std::string date_;
  bool is_draining_ = false;
};

// For what can only be read: GET and HEAD, 405 for the rest.
HttpServer::Handler reading(std::function<HttpAnswer(const HttpRequest&)> answer);

}  // namespace warren
