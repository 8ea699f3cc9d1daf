#pragma once
// A TCP proxy on 127.0.0.1 that misbehaves on command.
//
//   client ---- to_server ---> [ FaultyLink ] ----------> server
//          <--- to_client ----                <----------
//
// It runs on a thread of its own, so it keeps working while the test blocks. A command is in force
// when its call returns. Commands add up until heal().
#include <memory>

#include "base/clock.h"
#include "proof/testkit/ports.h"

namespace warren::inline testkit {

enum class Direction { to_server, to_client };
enum class Ending { reset, close };  // RST, or FIN after everything already delivered

class FaultyLink {
 public:
  // If the target refuses a connection, the client's connection is reset at once.
  explicit FaultyLink(unsigned short target_port);
  ~FaultyLink();
  FaultyLink(const FaultyLink&) = delete;
  FaultyLink& operator=(const FaultyLink&) = delete;

  unsigned short port() const { return port_.number(); }

  // Delays every byte by this much, in order; any number may be under way.
  void delay(Direction direction, Clock::duration time);
  // Per direction and connection.
  void throttle(Direction direction, std::size_t bytes_per_second);
  // Accepts and keeps connections, but lets nothing through, not even their end. Held bytes
  // arrive after heal().
  void half_open();
  // Drops everything that goes this way.
  void drop(Direction direction);
  // Ends all connections and refuses new ones.
  void cut(Ending ending = Ending::reset);
  // Delivers exactly this many further bytes this way, then ends the connection that carried the
  // last of them (for 0: that would have carried the next one). New connections work.
  void cut_after(Direction direction, std::size_t bytes);
  // Sends new connections there, as when a name or a shared address moves; open ones stay. Not
  // undone by heal().
  void lead_to(unsigned short target_port);
  // Undoes all other commands. Connections that have lost bytes are reset: TCP has no holes.
  void heal();

  struct Counters {
    std::size_t accepted;  // since the start
    std::size_t open;
    std::size_t bytes_to_server, bytes_to_client;  // at least what the receiver has received
  };
  // May be called from any thread.
  Counters counters() const;

 private:
  class Proxy;
  Port port_;
  std::unique_ptr<Proxy> proxy_;
};

}  // namespace warren::inline testkit
