#pragma once
// Passes requests on to sandboxes, and their answers back, while both come: bodies of any length, and
// connections that are upgraded (WebSocket). Of either direction it holds two pieces of 64 kB at most.
//
// Whom a path leads to is looked up anew for each request, and is one incarnation: its ports. A request
// to a session that is paused resumes it, if it shows the session's key, and is held until then;
// otherwise it gets 503, which clients take for "paused".
#include <map>

#include "net/http/exchange.h"
#include "net/http/pool.h"
#include "net/http/server.h"
#include "services/session/keeper/sessions.h"
#include "services/session/proxy/frames.h"
#include "services/session/proxy/rewrite.h"

namespace warren::session {

struct ProxyTerms {
  bool requires_key = false;                     // for all but /alive and /health
  bool resumes = true;                           // what is paused; else its requests get 503
  std::chrono::milliseconds hold = 60s;          // a request to what is paused, or starts
  std::chrono::milliseconds answer_time = 600s;  // of a sandbox, for the head of its answer
};

class Proxy {
 public:
  Proxy(const asio::any_io_executor& executor, Sessions& sessions, ProxyTerms terms,
        Metrics& metrics);

  // The request and the answer are those of a handler; see HttpServer.
  awaitable<void> pass(const HttpRequest& request, HttpAnswer& answer, Route route);
  // Ends WebSockets, those that come too: their clients are told that the service restarts.
  void end_sockets();

 private:
  // Who the request is for. Errors: not_found, denied, unavailable (it is paused, or not ready).
  Async<Sandbox> find(const HttpRequest& request, const Route& route);
  Async<> forward(const HttpRequest& request, HttpAnswer& answer, const Route& route,
                  const Sandbox& sandbox);
  Async<> answer_with(HttpCall& call, HttpReply reply, const HttpRequest& request,
                      HttpAnswer& answer, const Route& route, const Sandbox& sandbox);
  Async<> join(HttpCall& call, const HttpReply& reply, const HttpRequest& request,
               HttpAnswer& answer, const Route& route, const Sandbox& sandbox);
  Async<> copy(BodyReader& from, BodyWriter& to, const Sandbox& sandbox,
               FrameTracker* frames = nullptr);
  Async<> until_ending();

  Sessions& sessions_;
  ProxyTerms terms_;
  HttpPool pool_;
  bool is_ending_ = false;
  Event ending_;
  Counter requests_, upgrades_, failures_;
  Gauge open_;
};

// Whether the body of a request to this path is streamed, and the request may be upgraded.
bool is_upgrade(const HttpRequest& request);

}  // namespace warren::session
