#pragma once
// One command on its way to an answer.
//
// A Call lives in the coroutine frame of the one who waits for it, and allocates nothing of its
// own. Whoever works on it (a pipeline, a list of parked calls) only points at it, and is told at
// once when the caller leaves: the destructor takes the call out of wherever it is.
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

// Renewals have a connection and a budget of their own, so that no amount of other traffic, and no
// large answer, can delay a heartbeat.
enum class Lane : std::uint8_t { data, renewal };

class CallOptions {
 public:
  // Not later than this. Without it: the client's command_timeout from now.
  CallOptions by(Clock::time_point deadline) const {
    return with(&CallOptions::deadline_, deadline);
  }
  CallOptions within(Clock::duration time) const {
    auto now = Clock::now();
    return by(time < Clock::time_point::max() - now ? now + time : Clock::time_point::max());
  }
  // Running it twice does no harm: it is sent again when the connection broke before its answer.
  CallOptions idempotent() const { return with(&CallOptions::idempotent_, true); }
  // Does not wait for a connection to come back: `unavailable` when an attempt fails.
  CallOptions fail_fast() const { return with(&CallOptions::fail_fast_, true); }
  // Does not wait for the end of a slot's move when its keys are on two servers: `unavailable`, with
  // the server's TRYAGAIN, at once.
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

// What is said of a call that may have run, when the last attempt ended like this.
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

  // The answer, or why there is none; called exactly once, as the last thing its holder does.
  virtual void complete(Result<Reply> result) = 0;
  // Ends it without an answer. Once an attempt may have run, what became of a later one says nothing
  // about it: the outcome is unknown, unless the command itself was answered (Errc::refused).
  void fail(Error why);
  bool may_have_run() const { return may_have_run_; }
  // Some other call for the same may have.
  void set_may_have_run() { may_have_run_ = true; }
  // Takes the call out of wherever it is. What was sent for it is answered to nobody.
  void leave();
  bool is_pending() const { return list_ || pipeline_; }

  // How it came to be refused so far; most calls never need this.
  struct Detours {
    std::vector<std::string> trail;  // where a cluster sent it
    bool asking = false;             // the next attempt is announced with ASKING
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
  std::unique_ptr<Reply> early_error_;  // of an answer before the last
  // In a list, or in the pipeline that sent it, or nowhere.
  CallList* list_ = nullptr;
  Call* before_ = nullptr;
  Call* after_ = nullptr;
  Pipeline* pipeline_ = nullptr;
  std::uint64_t ticket_ = 0;
  Clock::time_point sent_at_{};
};

// Calls in order; taking one out of the middle is as cheap as from the front.
class CallList {
 public:
  CallList() = default;
  CallList(const CallList&) = delete;
  CallList& operator=(const CallList&) = delete;

  void push_back(Call& call) { insert_before(nullptr, call); }
  // Keeps the order of both: all of `other` comes before what is here.
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
