#pragma once
// One command on its way to an answer.
//
// A Call lives in the coroutine frame of its caller and allocates nothing itself. The pipeline or
// list that works on it only holds a pointer. When the caller leaves, the destructor takes the call
// out of wherever it is.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/error.h"
#include "redis/resp/command.h"
#include "redis/resp/reply.h"

namespace warren::redis {

// Renewals have their own connection and their own budget, so no amount of other traffic, and no
// large answer, can delay a heartbeat.
enum class Lane : std::uint8_t { data, renewal };

class CallOptions {
 public:
  // The deadline of the call. Default: the client's command_timeout from now.
  CallOptions by(Clock::time_point deadline) const {
    return with(&CallOptions::deadline_, deadline);
  }
  CallOptions within(Clock::duration time) const {
    auto now = Clock::now();
    return by(time < Clock::time_point::max() - now ? now + time : Clock::time_point::max());
  }
  // Running it twice is harmless: if the connection breaks before the answer, it is sent again.
  CallOptions idempotent() const { return with(&CallOptions::idempotent_, true); }
  // Does not wait for a reconnection: fails with `unavailable` when an attempt fails.
  CallOptions fail_fast() const { return with(&CallOptions::fail_fast_, true); }
  // While a slot moves and the command's keys are on two servers, does not wait for the move to
  // end: fails at once with `unavailable` and the server's TRYAGAIN.
  CallOptions unless_keys_are_split() const { return with(&CallOptions::tells_split_, true); }
  CallOptions lane(Lane lane) const { return with(&CallOptions::lane_, lane); }
  // Where a command without a key goes in a cluster: to any node, or to the owner of this key.
  CallOptions on_any_node() const { return with(&CallOptions::slot_, any_node); }
  CallOptions where(std::string_view key) const { return with(&CallOptions::slot_, slot_of(key)); }

  Clock::time_point deadline() const { return deadline_; }
  bool is_idempotent() const { return idempotent_; }
  bool fails_fast() const { return fail_fast_; }
  bool tells_split() const { return tells_split_; }
  Lane lane() const { return lane_; }
  static constexpr int by_key = -1, any_node = -2;
  int slot() const { return slot_; }

 private:
  template <class T>
  CallOptions with(T CallOptions::* member, T value) const {
    CallOptions copy = *this;
    copy.*member = value;
    return copy;
  }
  Clock::time_point deadline_{};
  int slot_ = by_key;
  bool idempotent_ = false;
  bool fail_fast_ = false;
  bool tells_split_ = false;
  Lane lane_ = Lane::data;
};

// The error for a call that may have run, when its last attempt ended with `why`.
Error in_doubt(Error why);

class CallList;
class Pipeline;

class Call {
 public:
  Call(Command command, CallOptions options)
      : command_(std::move(command)), options_(options), deadline_(options.deadline()) {}
  // Only before it is submitted.
  Call(Call&& other) noexcept : Call(std::move(other.command_), other.options_) {
    ensure(!other.is_pending(), "a call that somebody points at stays where it is");
  }
  Call& operator=(Call&&) = delete;
  virtual ~Call() { leave(); }

  const Command& command() const { return command_; }
  const CallOptions& options() const { return options_; }
  Clock::time_point deadline() const { return deadline_; }
  void set_deadline(Clock::time_point deadline) { deadline_ = deadline; }

  // Delivers the answer, or the reason why there is none. Called exactly once, as the last thing
  // that the call's holder does with it.
  virtual void complete(Result<Reply> result) = 0;
  // Ends the call without an answer. Once an attempt may have run, the failure of a later attempt
  // proves nothing: the outcome is unknown, unless the command itself was answered (Errc::refused).
  void fail(Error why);
  bool may_have_run() const { return may_have_run_; }
  // Another call for the same operation may have run.
  void set_may_have_run() { may_have_run_ = true; }
  // Takes the call out of wherever it is. If it was already sent, its answer is dropped.
  void leave();
  bool is_pending() const { return list_ || pipeline_; }

  // How the call was refused so far. Most calls never need this.
  struct Detours {
    std::vector<std::string> trail;  // the servers that a cluster sent it to
    bool asking = false;             // the next attempt is preceded by ASKING
    Error last;                      // why the last server refused it
  };
  Detours& detours() {
    if (!detours_) detours_ = std::make_unique<Detours>();
    return *detours_;
  }
  bool had_detours() const { return detours_ != nullptr; }

 private:
  friend class CallList;
  friend class Pipeline;
  Command command_;
  CallOptions options_;
  Clock::time_point deadline_;
  bool may_have_run_ = false;  // some of its bytes left, on this or an earlier connection
  std::unique_ptr<Detours> detours_;
  std::unique_ptr<Reply> early_error_;  // an error among the answers before the last
  // The list that holds it, or the pipeline that sent it, or neither.
  CallList* list_ = nullptr;
  Call* before_ = nullptr;
  Call* after_ = nullptr;
  Pipeline* pipeline_ = nullptr;
  std::uint64_t ticket_ = 0;
  Clock::time_point sent_at_{};
};

// An ordered list of calls. Removing a call is cheap anywhere in the list.
class CallList {
 public:
  CallList() = default;
  CallList(const CallList&) = delete;
  CallList& operator=(const CallList&) = delete;

  void push_back(Call& call) { insert_before(nullptr, call); }
  // Moves all of `other` in front of the calls here. Both keep their order.
  void put_before(CallList& other);
  Call* front() const { return front_; }
  static Call* next(const Call& call) { return call.after_; }
  Call* pop_front();
  void remove(Call& call);
  bool empty() const { return !front_; }
  std::size_t size() const { return size_; }
  std::size_t bytes() const { return bytes_; }

 private:
  void insert_before(Call* next, Call& call);
  Call* front_ = nullptr;
  Call* back_ = nullptr;
  std::size_t size_ = 0;
  std::size_t bytes_ = 0;
};

}  // namespace warren::redis
