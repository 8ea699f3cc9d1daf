#pragma once
// The client's side of gRPC: channels, and a call as a coroutine. For .cc files: gRPC's headers are
// large.
#include <grpcpp/grpcpp.h>

#include <memory>
#include <string>

#include "base/task.h"
#include "net/rpc/terms.h"

namespace warren::rpc {

struct TlsTexts {
  std::string certificate, key, authority;
};
Result<TlsTexts> read(const TlsFiles& files);

// Connects when it is first used. Reconnects at once when it is used again: how long to wait is for
// the caller to decide.
Result<std::shared_ptr<grpc::Channel>> connect(const std::string& address, const TlsFiles& tls);

// "authorization: Bearer <token>", compared in constant time. An empty token asks for nothing.
void show_token(grpc::ClientContext& context, const std::string& token);
bool has_token(const grpc::CallbackServerContext& context, const std::string& token);
// What the caller shows; empty: nothing.
std::string shown_token(const grpc::CallbackServerContext& context);
bool is_same_token(const std::string& shown, const std::string& token);  // in constant time

grpc::Status status_of(const Error& error);
Error error_of(const grpc::Status& status);

// An executor whose context does not end while gRPC may still call back.
inline asio::any_io_executor tracked(const asio::any_io_executor& executor) {
  return asio::prefer(executor, asio::execution::outstanding_work.tracked);
}

// One call with one answer: method(context, request, response, done) begins it.
template <class Response, class Request, class Method>
Async<Response> ask(Method method, Request request, std::string token, Clock::time_point deadline) {
  struct Call {
    explicit Call(asio::any_io_executor e) : executor(tracked(e)), done(e) {}
    asio::any_io_executor executor;
    grpc::ClientContext context;
    Request request;
    Response response;
    std::optional<grpc::Status> status;
    Event done;
  };
  // Owned by whoever waits and by gRPC: either may be gone first.
  auto call = std::make_shared<Call>(co_await asio::this_coro::executor);
  call->request = std::move(request);
  show_token(call->context, token);
  auto left = gpr_time_from_nanos((deadline - Clock::now()).count(), GPR_TIMESPAN);
  call->context.set_deadline(gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC), left));
  method(&call->context, &call->request, &call->response, [call](grpc::Status status) mutable {
    auto executor = call->executor;
    asio::post(executor, [call = std::move(call), status = std::move(status)] {
      call->status = status;
      call->done.notify();
    });
  });
  while (!call->status) {
    co_await call->done.wait();
    auto state = co_await asio::this_coro::cancellation_state;
    if (is_cancelled(state)) {
      call->context.TryCancel();
      co_return fail(Errc::cancelled, "nobody waits for the answer");
    }
  }
  if (!call->status->ok()) co_return std::unexpected(error_of(*call->status));
  co_return std::move(call->response);
}

}  // namespace warren::rpc
