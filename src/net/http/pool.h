#pragma once
// Sends requests to HTTP servers, many at a time, over connections that are kept for later calls.
//
//   HttpPool pool(executor, {});
//   HttpAsk ask{"POST", "/v1/segments/7"};
//   auto call = co_await pool.begin(url, ask, body_of(size), Clock::now() + 60s);
//   while (…) co_await (*call)->out().write(piece);      // then out().end()
//   auto reply = co_await (*call)->answer();              // status and headers
//   while (…) co_await (*call)->in().read();
//
// A call owns its connection until its answer has been read completely. If the call is dropped
// before that, the connection is closed, so neither side takes half a body for a complete one. The
// number of connections to each origin (scheme, host, port and peer) is limited, and so is the number of
// calls that wait for one. They are served in order.
#include <functional>
#include <memory>
#include <optional>

#include "base/task.h"
#include "net/http/body.h"
#include "net/http/client.h"
#include "net/http/tls.h"

namespace warren {

struct HttpPoolTerms {
  std::size_t most_connections = 16;  // to each origin
  std::size_t most_waiting = 256;     // calls waiting, for each origin
  std::chrono::milliseconds idle_time = 30s;
  std::chrono::milliseconds connect_time = 5s;
  // The longest that a server may be silent within the body of its answer, or take nothing of what
  // we send.
  std::chrono::milliseconds piece_time = 10s;
  std::uint64_t most_body = 4ull << 30;          // in an answer
  std::optional<TlsContext> tls = std::nullopt;  // for https://: see tls_for_client
};

// Tells apart the servers that listen at one address one after the other. A connection to one of them is
// never used for another.
struct HttpPeer {
  HttpPeer() = default;
  HttpPeer(std::string who, std::function<Result<>()> confirms)
      : id(std::move(who)), confirm(std::move(confirms)) {}

  std::string id = {};
  // Called after each new connection is made and before anything is sent on it: checks that the peer is
  // the one that accepted it. The call fails with its error.
  std::function<Result<>()> confirm = nullptr;
};

class HttpLink;
class HttpCall;

class HttpPool {
 public:
  HttpPool(asio::any_io_executor executor, HttpPoolTerms terms);
  // Calls may outlive the pool. Their connections are closed when they end.
  ~HttpPool();

  // Connects, or takes an idle connection, and sends the request with its body. With `streamed` the
  // body is written through out() instead. The deadline covers the whole call. If the connection is
  // upgraded, it covers only the answer, and the caller limits the rest. Errors: invalid (https://
  // without TLS, or line ends in the head), unavailable, denied (a certificate), timeout,
  // overloaded (too many wait), unknown_outcome.
  Async<std::unique_ptr<HttpCall>> begin(HttpUrl to, HttpAsk ask, std::optional<BodyEnd> streamed,
                                         Clock::time_point deadline, HttpPeer peer);
  Async<std::unique_ptr<HttpCall>> begin(HttpUrl to, HttpAsk ask, std::optional<BodyEnd> streamed,
                                         Clock::time_point deadline) {
    return begin(std::move(to), std::move(ask), streamed, deadline, HttpPeer());
  }
  // Like begin(), and reads the whole answer. Errc::overloaded: its body is longer than `most`.
  Async<HttpReply> ask(HttpUrl to, HttpAsk ask, Clock::time_point deadline, std::size_t most,
                       HttpPeer peer);
  Async<HttpReply> ask(HttpUrl to, HttpAsk ask, Clock::time_point deadline,
                       std::size_t most = 16u << 20) {
    return this->ask(std::move(to), std::move(ask), deadline, most, HttpPeer());
  }
  // Closes idle connections.
  void drop_idle();

  struct Counters {
    std::uint64_t connected = 0, reused = 0;
    std::size_t open = 0, idle = 0, waiting = 0;
  };
  Counters counters() const;

  struct Core;  // for HttpCall

 private:
  std::shared_ptr<Core> core_;  // owners: this pool and its calls
};

// One request and its answer. One coroutine may write while another reads.
class HttpCall {
 public:
  ~HttpCall();
  HttpCall(const HttpCall&) = delete;
  HttpCall& operator=(const HttpCall&) = delete;

  // The request's body, for begin() with `streamed`: write, then end(). The server may answer
  // before it has read everything, so after a failed write answer() may still return the reason.
  BodyWriter& out();
  // Waits for the head of the answer. Its body is read through in(). If the connection turns out to
  // be stale, a request that only reads (GET, HEAD) is sent once more. Errors: protocol, timeout,
  // unknown_outcome, cancelled.
  Async<HttpReply> answer();
  // After answer(). If the status is 101, in() and out() are the bytes of the connection, both
  // ways.
  BodyReader& in();

 private:
  friend class HttpPool;
  // The head of the request, and its body or how its streamed body ends.
  struct Request {
    std::string method, head, body;
    std::optional<BodyEnd> streamed;
  };
  HttpCall(std::shared_ptr<HttpPool::Core> core, HttpUrl to, HttpPeer peer, Request request,
           Clock::time_point deadline);
  Async<> send(bool on_new_connection);
  Async<HttpReply> read_head();

  std::shared_ptr<HttpPool::Core> core_;
  HttpUrl to_;
  HttpPeer peer_;
  Request request_;  // kept so that it can be sent again
  Clock::time_point deadline_;
  std::unique_ptr<HttpLink> link_;
  std::optional<BodyWriter> out_ = {};
  std::optional<BodyReader> in_ = {};
  bool keeps_alive_ = false;
};

}  // namespace warren
