#pragma once
// Writes that are answered once replicas have them.
//
//   callers   w1 w2 w3 ────────▶ w4 w5 … gather while the first group is in progress
//   server    w1 w2 w3 WAIT n ▶  w4 w5 … WAIT n
//
// WAIT blocks its connection, and covers only the writes made by that same connection. So durable
// writes have a connection of their own, a group never outlives it, and one WAIT serves all the
// writes before it. With one WAIT per write, the same server achieves a fortieth of the throughput.
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
  int replicas;  // that had the write at the time of the answer; perhaps fewer than requested
};

// The durable writes to one server.
class DurableLane {
 public:
  using Dial = std::function<Async<std::unique_ptr<Conversation>>(Clock::time_point deadline)>;
  using Owner = std::function<Address()>;  // the server to use; empty for any
  DurableLane(asio::any_io_executor executor, const Settings& settings, Dial dial, Owner owner);

  // Requires a deadline and makes one attempt. If the lane cannot connect, all its waiting writes
  // fail. A write that was refused or not sent is up to the caller to route again.
  Async<Durable> write(Command command, int replicas, CallOptions options);
  // Runs until cancelled. Then every unanswered write, and every later one, ends with
  // Errc::cancelled.
  awaitable<void> run();

 private:
  enum class State { queued, sent, answered, done };
  // Shared by the caller, which may leave at any time, and the lane, which may still be sending it.
  struct Write {
    Command command;
    int wanted;
    Timer wake;  // fires at the deadline; cancelled when it is done earlier
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
  Group answered_;  // answered on this connection, but not yet on enough replicas
  std::size_t callers_ = 0, bytes_ = 0;
  Event arrived_;
  std::optional<Error> problem_;
  std::unique_ptr<Conversation> conversation_;
  bool closed_ = false;
};

}  // namespace warren::redis
