#pragma once
// A stream of messages in both directions, as coroutines of one thread. For .cc files.
//
//   gRPC's threads                        our thread
//   OnReadDone ─── post ───────────────>  read() returns
//   OnWriteDone ── post ───────────────>  write() returns, the next may begin
//   OnDone ─────── post ───────────────>  the last reference of gRPC goes
//
// One read and one write are under way at a time, and only our thread begins them: so a peer that
// sends faster than we take is slowed down by gRPC itself.
#include <grpcpp/grpcpp.h>
#include <grpcpp/support/client_callback.h>

#include <memory>
#include <optional>

#include "base/task.h"
#include "net/rpc/connect.h"

namespace warren::rpc {

template <class In, class Out>
class Stream : public std::enable_shared_from_this<Stream<In, Out>> {
 public:
  explicit Stream(const asio::any_io_executor& executor)
      : executor_(tracked(executor)), changed_(executor) {}
  virtual ~Stream() = default;
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  // The next message. Errc::unavailable: there is none any more. Errc::timeout: not yet.
  Async<In> read(Clock::time_point deadline) {
    auto self = this->shared_from_this();
    if (!is_read_out_ && !is_over_ && !is_reading_ && !has_arrived_) {
      is_reading_ = true;
      begin_read(&in_);
    }
    while (!has_arrived_) {
      if (is_over_) co_return fail(Errc::unavailable, "{}", why_);
      if (Clock::now() >= deadline) co_return fail(Errc::timeout, "no message came");
      co_await changed_.wait(deadline);
      auto state = co_await asio::this_coro::cancellation_state;
      if (is_cancelled(state)) co_return fail(Errc::cancelled, "nobody reads any more");
    }
    has_arrived_ = false;
    co_return std::move(in_);
  }
  // Returns when the next one may be written. One caller at a time.
  Async<> write(Out message) {
    auto self = this->shared_from_this();
    if (is_broken_ || is_over_) co_return fail(Errc::unavailable, "{}", why_);
    out_ = std::move(message);
    is_writing_ = true;
    begin_write(&out_);
    while (is_writing_ && !is_over_) {
      co_await changed_.wait();
      auto state = co_await asio::this_coro::cancellation_state;
      if (is_cancelled(state)) co_return fail(Errc::cancelled, "nobody writes any more");
    }
    if (is_broken_ || is_over_) co_return fail(Errc::unavailable, "{}", why_);
    co_return ok;
  }
  // Ends it, once; the other side reads the status when it is the client.
  void finish(const grpc::Status& status) {
    if (is_finished_) return;
    is_finished_ = true;
    end("it was closed");
    begin_finish(status);
  }
  bool is_over() const { return is_over_; }

 protected:
  virtual void begin_read(In* message) = 0;
  virtual void begin_write(const Out* message) = 0;
  virtual void begin_finish(const grpc::Status& status) = 0;
  // Nothing more can be read: true when gRPC will still say why, by gone().
  virtual bool awaits_reason() { return false; }

  // From gRPC's threads.
  void read_done(bool good) {
    post([good](Stream& s) {
      s.is_reading_ = false;
      s.has_arrived_ = good;
      if (!good) s.is_read_out_ = s.is_broken_ = true;
      if (!good && !s.is_over_ && !s.awaits_reason()) s.end("the other side is gone");
      s.changed_.notify();
    });
  }
  // What came before the end can still be read.
  void write_done(bool good) {
    post([good](Stream& s) {
      s.is_writing_ = false;
      if (!good) s.is_broken_ = true;
      s.changed_.notify();
    });
  }
  void gone(std::string why) {
    post([why = std::move(why)](Stream& s) { s.end(why); });
  }
  // Nothing of gRPC's comes after this.
  void done() {
    post([](Stream& s) {
      s.end("it ended");
      s.self_.reset();
    });
  }
  void keep() { self_ = this->shared_from_this(); }

 private:
  template <class Function>
  void post(Function function) {
    asio::post(executor_, [self = this->shared_from_this(), function = std::move(function)] {
      function(*self);
    });
  }
  void end(std::string why) {
    if (!is_over_) why_ = std::move(why);
    is_over_ = true;
    changed_.notify();
  }

  asio::any_io_executor executor_;
  In in_;
  Out out_;
  Event changed_;
  bool is_reading_ = false, has_arrived_ = false, is_writing_ = false;
  bool is_read_out_ = false;  // nothing more comes
  bool is_broken_ = false;    // nothing more can be written
  bool is_over_ = false, is_finished_ = false;
  std::string why_;
  std::shared_ptr<Stream> self_;  // gRPC's share, until it is done with it
};

template <class In, class Out>
class ServerStream final : public grpc::ServerBidiReactor<In, Out>, public Stream<In, Out> {
 public:
  // What the service returns to gRPC is `get()`.
  static std::shared_ptr<ServerStream> create(const asio::any_io_executor& executor) {
    auto stream = std::shared_ptr<ServerStream>(new ServerStream(executor));
    stream->keep();
    return stream;
  }

 private:
  using Stream<In, Out>::Stream;
  void begin_read(In* message) override { this->StartRead(message); }
  void begin_write(const Out* message) override { this->StartWrite(message); }
  void begin_finish(const grpc::Status& status) override { this->Finish(status); }
  void OnReadDone(bool good) override { this->read_done(good); }
  void OnWriteDone(bool good) override { this->write_done(good); }
  void OnCancel() override { this->gone("the call was cancelled"); }
  void OnDone() override { this->done(); }
};

template <class In, class Out>
class ClientStream final : public grpc::ClientBidiReactor<Out, In>, public Stream<In, Out> {
 public:
  // begin(context, reactor) is the stub's call.
  template <class Begin>
  static std::shared_ptr<ClientStream> create(const asio::any_io_executor& executor,
                                              const std::string& token, Begin begin) {
    auto stream = std::shared_ptr<ClientStream>(new ClientStream(executor));
    stream->keep();
    show_token(stream->context_, token);
    begin(&stream->context_, stream.get());
    stream->AddHold();  // until finish(): we begin reads and writes outside of gRPC's callbacks
    stream->StartCall();
    return stream;
  }

 private:
  using Stream<In, Out>::Stream;
  void begin_read(In* message) override { this->StartRead(message); }
  void begin_write(const Out* message) override { this->StartWrite(message); }
  void begin_finish(const grpc::Status&) override {
    context_.TryCancel();
    let_go();
  }
  bool awaits_reason() override {
    let_go();
    return true;
  }
  void let_go() {
    if (std::exchange(is_held_, false)) this->RemoveHold();
  }
  void OnReadDone(bool good) override { this->read_done(good); }
  void OnWriteDone(bool good) override { this->write_done(good); }
  void OnDone(const grpc::Status& status) override {
    this->gone(status.ok() ? "the other side ended it" : status.error_message());
    this->done();
  }

  grpc::ClientContext context_;
  bool is_held_ = true;
};

}  // namespace warren::rpc
