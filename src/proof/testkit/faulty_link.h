#pragma once
// A TCP proxy on 127.0.0.1 that misbehaves as it is told.
//
//   client ---- to_server ---> [ FaultyLink ] ----------> server
//          <--- to_client ----                <----------
//
// It runs on a thread of its own, so it goes on while the test blocks. Every order is in force when
// the call returns. Orders add up until heal().
#include <memory>

#include "base/clock.h"
#include "proof/testkit/ports.h"

namespace warren::inline testkit {

enum class Direction { to_server, to_client };
enum class Ending { reset, close };  // RST, or FIN after what was already delivered

class FaultyLink {
 public:
  // A target that refuses the connection shows as a connection that is reset at once.
  explicit FaultyLink(unsigned short target_port);
  ~FaultyLink();
  FaultyLink(const FaultyLink&) = delete;
  FaultyLink& operator=(const FaultyLink&) = delete;

  unsigned short port() const { return port_.number(); }

  // Every byte arrives this much later, in order; as many as ever may be under way.
  void delay(Direction direction, Clock::duration time);
  // Per direction and connection.
  void throttle(Direction direction, std::size_t bytes_per_second);
  // Connections are accepted and kept, and nothing passes, not even their end. It is only held:
  // after heal() it arrives.
  void half_open();
  // Swallows what goes this way.
  void drop(Direction direction);
  // Ends all connections and refuses new ones.
  void cut(Ending ending = Ending::reset);
  // Delivers exactly this many further bytes this way, then ends the connection that carried the
  // last of them (for 0: that would have carried the next one). New connections work.
  void cut_after(Direction direction, std::size_t bytes);
  // New connections go there, as when a name or a shared address moves; those that are open stay.
  // No order of the others: heal() does not take it back.
  void lead_to(unsigned short target_port);
  // Takes all orders back. Connections of which bytes were dropped are reset: TCP has no holes.
  void heal();

  struct Counters {
    std::size_t accepted;  // since the start
    std::size_t open;
    std::size_t bytes_to_server, bytes_to_client;  // at least what the receiver has got
  };
  // From any thread.
  Counters counters() const;

 private:
  class Proxy;
  Port port_;
  std::unique_ptr<Proxy> proxy_;
};

}  // namespace warren::inline testkit
