#pragma once
// One replica of the session service: the remote runtime API of OpenHands, and the proxy to sandboxes.
//
//   POST /start /stop /pause /resume        GET /runtime/{id} /sessions/{id} /sessions/batch?ids=…
//   GET  /list /registry_prefix /image_exists?image=…        POST /sessions/batch-conversations
//   POST /force-release                                                          for operators
//   POST /build, GET /build_status: 501, in words                                with X-API-Key
//   GET  /liveness /health /readiness /metrics                                   without
//   any  /<runtime id>/{runtime,vscode,work-1,work-2}/…                          see proxy.h
//
// Any number of replicas answer the same; none has state of its own that matters. No GET waits for a
// sandbox. Work that a client asked for goes on when the client leaves. A replica that ends deletes
// nothing.
#include "net/http/server.h"
#include "primitives/election/election.h"
#include "primitives/once/once.h"
#include "services/session/keeper/accounts.h"
#include "services/session/keeper/housekeeping.h"
#include "services/session/keeper/sessions.h"
#include "services/session/proxy/proxy.h"
#include "services/session/serve/answer.h"

namespace warren::session {

struct ServiceSettings {
  SessionTerms sessions = {};
  HousekeepingTerms housekeeping = {};
  ProxyTerms proxy = {};
  HttpTerms http = {};
  std::string api_key = {};     // of management calls; never empty
  std::string public_url = {};  // where clients reach it; by default where it listens
  // Other names under which clients reach it, when it listens for this machine only; a proxy on it may
  // pass on the name that it was asked by. That of public_url is one of them.
  std::vector<std::string> host_names = {};
  std::string registry_prefix = {};                 // what /registry_prefix says
  std::chrono::milliseconds lock_ttl = 30s;         // redis_coordination_timeout
  std::chrono::milliseconds start_deadline = 170s;  // of POST /start and /resume
};

class Service {
 public:
  // Redis is null where replicas do not coordinate. All that is given outlives it. Errc::unavailable: it
  // cannot listen; Errc::invalid: a setting.
  static Result<std::unique_ptr<Service>> create(const asio::any_io_executor& executor,
                                                 Driver& driver, redis::Client* redis,
                                                 ServiceSettings settings, Metrics& metrics,
                                                 Telling::Sink sink = nullptr);

  // Until it is cancelled. Then close() must be awaited.
  awaitable<void> run();
  // Accepts nobody any more, ends WebSockets, and waits for what is being answered.
  awaitable<void> drain(Clock::time_point deadline) {
    proxy_->end_sockets();
    return http_->drain(deadline);
  }
  awaitable<void> close();

  std::string url() const { return http_->url(); }
  unsigned short port() const { return http_->port(); }
  Sessions& sessions() { return *sessions_; }
  const Actor& actor() const { return actor_; }

 private:
  Service(const asio::any_io_executor& executor, Driver& driver, redis::Client* redis,
          ServiceSettings settings, Metrics& metrics, Telling::Sink sink);
  Result<> listen();
  void assemble();
  Async<> keep_house();
  awaitable<void> watch_redis();
  HttpServer::Work handle(const HttpRequest& request, HttpAnswer& answer);
  bool answer_open(const HttpRequest& request, HttpAnswer& answer);
  HttpServer::Work handle_post(const HttpRequest& request, HttpAnswer& answer);
  HttpServer::Work handle_get(const HttpRequest& request, HttpAnswer& answer);
  awaitable<void> answer_start(SandboxSpec spec, HttpAnswer& answer);
  awaitable<void> answer_change(std::string verb, std::string runtime_id, HttpAnswer& answer);
  awaitable<void> answer_release(std::string session_id, HttpAnswer& answer);
  awaitable<void> answer_runtime(std::string runtime_id, HttpAnswer& answer);
  awaitable<void> answer_session(std::string session_id, HttpAnswer& answer);
  awaitable<void> answer_conversations(std::map<std::string, std::vector<std::string>> asked,
                                       HttpAnswer& answer);
  Async<std::string> conversations_of(Sandbox sandbox, std::vector<std::string> ids);
  void put_batch(const HttpRequest& request, HttpAnswer& answer) const;
  awaitable<View> with_account(View view);
  awaitable<Account> account_of(std::string name);

  asio::any_io_executor executor_;
  Driver& driver_;
  redis::Client* redis_;
  ServiceSettings settings_;
  Metrics& metrics_;
  Actor actor_;
  Telling telling_;
  std::unique_ptr<Once> once_;
  std::unique_ptr<LeaseSession> leases_;
  std::unique_ptr<Sessions> sessions_;
  std::unique_ptr<Housekeeping> housekeeping_;
  std::unique_ptr<Proxy> proxy_;
  std::unique_ptr<HttpServer> http_;
  HttpPool agents_;
  PublicUrl public_;
  Accounts accounts_;
  TaskGroup* tasks_ = nullptr;  // while it runs
  bool has_redis_ = false;      // it answered lately
  std::vector<std::shared_ptr<void>> published_;
};

}  // namespace warren::session
