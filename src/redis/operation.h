#pragma once
// The result of `command` and `batch`: something to co_await, in place and once.
//
// It lives in the awaiting coroutine's frame and is resumed directly by the loop that parses the
// answers: no allocation, no second coroutine, no trip through the event loop. To combine it with
// && and ||, use Client::ask, which returns an ordinary awaitable.
#include <boost/asio/associated_cancellation_slot.hpp>
#include <boost/asio/async_result.hpp>
#include <cstddef>
#include <new>
#include <vector>

#include "base/task.h"
#include "redis/call.h"

namespace warren::redis {

// The waiting coroutine. Asio's handler for it is two pointers, stored here without a heap
// allocation.
template <class T>
class Waiter {
 public:
  Waiter() = default;
  Waiter(const Waiter&) = delete;
  Waiter& operator=(const Waiter&) = delete;

  template <class Handler>
  void set(Handler handler) {
    static_assert(sizeof(Handler) <= sizeof(storage_), "await it in place, in an asio::awaitable");
    new (storage_) Handler(std::move(handler));
    resume_ = [](std::byte* storage, T value) {
      auto* stored = std::launder(reinterpret_cast<Handler*>(storage));
      Handler taken(std::move(*stored));
      stored->~Handler();
      std::move(taken)(std::move(value));
    };
  }
  void resume(T value) { std::exchange(resume_, nullptr)(storage_, std::move(value)); }
  bool is_set() const { return resume_; }

 private:
  alignas(void*) std::byte storage_[4 * sizeof(void*)];
  void (*resume_)(std::byte*, T) = nullptr;
};

// What operations are submitted to: the client.
class Submitter {
 public:
  virtual ~Submitter() = default;
  virtual void submit(Call& call) = 0;
  virtual asio::any_io_executor executor() const = 0;
};

// Completes a call from the event loop, for callers that must not resume a coroutine right now.
void complete_later(asio::any_io_executor executor, Call& call, Error why);

// Starts when it is awaited. Derived has start() and cancel(). Neither resumes the coroutine before
// it returns.
template <class Derived, class T>
class Operation {
 public:
  // Asio also tests whether this is invocable with its own frame pointers. It is not.
  template <class Token>
    requires(!std::is_pointer_v<std::remove_cvref_t<Token>>)
  auto operator()(Token&& token) {
    return asio::async_initiate<Token, void(T)>(Start{static_cast<Derived*>(this)}, token);
  }

 protected:
  Waiter<T> waiter_;

 private:
  friend Derived;
  Operation() = default;

  struct Start {
    Derived* self;
    template <class Handler>
    void operator()(Handler handler) const {
      auto slot = asio::get_associated_cancellation_slot(handler);
      if (slot.is_connected()) slot.assign([op = self](asio::cancellation_type) { op->cancel(); });
      self->waiter_.set(std::move(handler));
      self->start();
    }
  };
};

class [[nodiscard]] CommandOperation final : public Call,
                                             public Operation<CommandOperation, Result<Reply>> {
 public:
  CommandOperation(Submitter& submitter, Command command, CallOptions options)
      : Call(std::move(command), options), submitter_(submitter) {}
  void start() { submitter_.submit(*this); }
  void cancel();
  void complete(Result<Reply> result) override { waiter_.resume(std::move(result)); }

 private:
  Submitter& submitter_;
};

// Many commands, one await. Each command is routed separately. The results are in order.
class [[nodiscard]] BatchOperation final
    : public Operation<BatchOperation, std::vector<Result<Reply>>> {
 public:
  BatchOperation(Submitter& submitter, std::vector<Command> commands, CallOptions options);
  BatchOperation(const BatchOperation&) = delete;
  BatchOperation& operator=(const BatchOperation&) = delete;
  void start();
  void cancel();

 private:
  struct Item final : Call {
    Item(BatchOperation& owner, Command command, CallOptions options)
        : Call(std::move(command), options), batch(owner) {}
    void complete(Result<Reply> result) override { batch.finish(*this, std::move(result)); }
    BatchOperation& batch;
  };
  void finish(const Item& item, Result<Reply> result);

  Submitter& submitter_;
  std::vector<Item> items_;
  std::vector<Result<Reply>> results_;
  std::size_t missing_;
};

}  // namespace warren::redis
