#pragma once
// Writes that are answered when replicas have them.
//
//   callers   w1 w2 w3 ────────▶ w4 w5 … gather while the first group is under way
//   server    w1 w2 w3 WAIT n ▶  w4 w5 … WAIT n
//
// WAIT blocks its connection, and speaks only of the writes that this same connection made. So
// durable writes have a connection of their own, a group never outlives it, and one WAIT serves all
// the writes before it. With a WAIT for each write the same server does a fortieth of the work.
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "base/task.h"
#include "redis/call.h"
#include "redis/connection/conversation.h"

namespace warren::redis {

struct Durable {
  Reply reply;
  int replicas;  // that had the write when the answer was given; perhaps fewer than asked for
};

// The durable writes to one server.
class DurableLane {
 public:
  using Dial = std::function<Async<std::unique_ptr<Conversation>>(Clock::time_point deadline)>;
  using Owner = std::function<Address()>;  // the server that should be used; empty: any
  DurableLane(asio::any_io_executor executor, const Settings& settings, Dial dial, Owner owner);

  // Needs a deadline, and makes one attempt: a lane that cannot connect says so to everyone who
  // waits. What was refused or not sent is the caller's to route anew.
  Async<Durable> write(Command command, int replicas, CallOptions options);
  // Works until it is cancelled; then every write without an answer, also a later one, ends
  // with Errc::cancelled.
  awaitable<void> run();

 private:
  enum class State { queued, sent, answered, done };
  // Owned by the caller, who may leave at any time, and by the lane, which may still be sending it.
  struct Write {
    Command command;
    int wanted;
    Timer wake;  // the deadline; cancelled when it is done earlier
    State state = State::queued;
    bool left = false;
    Reply reply{};
    int reached = 0;
    std::optional<Error> error{};
  };
  using Group = std::vector<std::shared_ptr<Write>>;

  Async<> commit_round();
  void take_group(std::vector<Command>& commands);
  void hang_up(const Error& why);
  void finish(Write& write);
  template <class Writes>
  void end(Writes& writes, const Error& why);
  void leave(Write& write);

  const Settings& settings_;
  Dial dial_;
  Owner owner_;
  std::deque<std::shared_ptr<Write>> queue_;
  Group sent_;
  Group answered_;  // done by this connection, but not yet on enough replicas
  std::size_t callers_ = 0, bytes_ = 0;
  Event arrived_;
  std::optional<Error> problem_;
  std::unique_ptr<Conversation> conversation_;
  bool closed_ = false;
};

}  // namespace warren::redis
