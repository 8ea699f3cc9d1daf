#pragma once
// Asks HTTP servers, many at a time, over connections that are kept for the next call.
//
//   HttpPool pool(executor, {});
//   HttpAsk ask{"POST", "/v1/segments/7"};
//   auto call = co_await pool.begin(url, ask, body_of(size), Clock::now() + 60s);
//   while (…) co_await (*call)->out().write(piece);      // then out().end()
//   auto reply = co_await (*call)->answer();              // status and headers
//   while (…) co_await (*call)->in().read();
//
// A call owns its connection until its answer was read to the end. A call that is given up before
// closes it: neither side takes half of something for the whole. There are at most so many
// connections to each origin (scheme, host and port), and so many calls that wait for one, in order.
#include <memory>
#include <optional>

#include "base/task.h"
#include "net/http/body.h"
#include "net/http/client.h"
#include "net/http/tls.h"

namespace warren {

struct HttpPoolTerms {
  std::size_t most_connections = 16;  // to each origin
  std::size_t most_waiting = 256;     // calls, for each origin
  std::chrono::milliseconds idle_time = 30s;
  std::chrono::milliseconds connect_time = 5s;
  // How long a server may be silent within the body of its answer, or not take what it is sent.
  std::chrono::milliseconds piece_time = 10s;
  std::uint64_t most_body = 4ull << 30;          // of an answer
  std::optional<TlsContext> tls = std::nullopt;  // for https://: see tls_for_client
};

class HttpLink;
class HttpCall;

class HttpPool {
 public:
  HttpPool(asio::any_io_executor executor, HttpPoolTerms terms);
  // Calls may outlive it; their connections are closed when they end.
  ~HttpPool();

  // Connects, or takes a connection that is free, and sends the request with the body it has. With
  // `streamed` the body is written through out() instead. The deadline is that of the whole call;
  // for a connection that is upgraded, it ends with the answer, and the caller bounds what follows.
  // Errors: invalid (https:// without TLS, a head with line ends), unavailable, denied (a
  // certificate), timeout, overloaded (too many wait), unknown_outcome.
  Async<std::unique_ptr<HttpCall>> begin(HttpUrl to, HttpAsk ask, std::optional<BodyEnd> streamed,
                                         Clock::time_point deadline);
  // The same, and all of the answer. Errc::overloaded: its body is longer than `most`.
  Async<HttpReply> ask(HttpUrl to, HttpAsk ask, Clock::time_point deadline,
                       std::size_t most = 16u << 20);
  // Drops connections that nobody uses.
  void drop_idle();

  struct Counters {
    std::uint64_t connected = 0, reused = 0;
    std::size_t open = 0, idle = 0, waiting = 0;
  };
  Counters counters() const;

  struct Core;  // for HttpCall

 private:
  std::shared_ptr<Core> core_;  // owners: this, and the calls
};

// One request and its answer. One coroutine may write while another reads.
class HttpCall {
 public:
  ~HttpCall();
  HttpCall(const HttpCall&) = delete;
  HttpCall& operator=(const HttpCall&) = delete;

  // Of the request, for begin() with `streamed`: write, then end(). A server may answer before it has
  // taken all: after a write that failed, answer() may still say why.
  BodyWriter& out();
  // Waits for the head of the answer; its body follows through in(). Reading requests (GET, HEAD)
  // whose connection turns out to be stale are sent once more. Errors: protocol, timeout,
  // unknown_outcome, cancelled.
  Async<HttpReply> answer();
  // After an answer. When that is 101, in() and out() are the bytes of the connection, both ways.
  BodyReader& in();

 private:
  friend class HttpPool;
  // The request: its head, and its body or how the one that is streamed ends.
  struct Request {
    std::string method, head, body;
    std::optional<BodyEnd> streamed;
  };
  HttpCall(std::shared_ptr<HttpPool::Core> core, HttpUrl to, Request request,
           Clock::time_point deadline);
  Async<> send(bool on_new_connection);
  Async<HttpReply> read_head();

  std::shared_ptr<HttpPool::Core> core_;
  HttpUrl to_;
  Request request_;  // kept for sending it once more
  Clock::time_point deadline_;
  std::unique_ptr<HttpLink> link_;
  std::optional<BodyWriter> out_ = {};
  std::optional<BodyReader> in_ = {};
  bool keeps_alive_ = false;
};

}  // namespace warren
