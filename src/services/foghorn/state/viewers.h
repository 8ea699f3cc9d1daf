#pragma once
// Viewers that were sent somewhere and are expected there: what they will cost their node is
// counted from the redirect on, or a burst of viewers would all be sent to the node that was idle a
// moment ago.
//
//   redirect ──> pending ── connect ──> active ── disconnect ──> gone after 5 min
//                   └── 30 s without one ──> abandoned ──> gone after 5 min
//
// Of this instance alone; only the sums per node are shared with others.
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "services/foghorn/balance/table.h"

namespace warren::foghorn {

// What a node says of a viewer who came or went.
struct ViewerContact {
  std::string correlation_id;  // fwcid of the redirect, if it was kept
  std::string session_id;
  std::string client_ip;
};

enum class ViewerState : std::uint8_t { pending, active, abandoned, disconnected };

class Viewers {
 public:
  using PenaltyOf = std::function<std::shared_ptr<balance::Penalty>(std::string_view node)>;

  explicit Viewers(PenaltyOf penalty_of);
  ~Viewers();

  // A viewer is sent to this node: its id (a UUID) goes with it as fwcid. `estimate` is what it is
  // expected to cost, in bytes a second. Beyond 32 that wait at one place an id is all there is.
  std::string redirect(Clock::time_point now, std::string_view node, std::string_view stream,
                       std::string_view client_ip, std::uint64_t estimate);
  // Found by correlation id, else the oldest pending one of this node, stream and address. False:
  // nobody was expected.
  bool connected(Clock::time_point now, std::string_view node, std::string_view stream,
                 const ViewerContact& contact);
  // Another instance heard that he arrived.
  void connected_elsewhere(Clock::time_point now, const std::string& correlation_id);
  // An active one, by session id first; else a pending one is abandoned.
  bool disconnected(Clock::time_point now, std::string_view node, std::string_view stream,
                    const ViewerContact& contact);
  // Somebody came, expected or not: its cost counts until the next report of the node has it.
  void arrived(std::string_view node, std::uint64_t estimate);
  // At a report of the node: abandons who did not come for 30 s, forgets who is gone for 5 min, and
  // sets the node's penalty to what is still pending.
  void settle(Clock::time_point now, std::string_view node);
  // The first two for all nodes, since those that report to another instance are not heard here.
  void expire(Clock::time_point now);
  void forget(std::string_view node);

  std::uint64_t active(std::string_view node) const;
  std::uint64_t pending(std::string_view node) const;
  std::uint64_t pending_bandwidth(std::string_view node) const;
  std::size_t size() const;
  // What others are told: bandwidth by node, where there is any.
  std::map<std::string, std::uint64_t> pending_sums() const;

 private:
  struct Book;
  std::unique_ptr<Book> book_;
};

// What one more viewer costs: up speed per connection, kept between 64 KiB/s and 1 MiB/s;
// 128 KiB/s when nothing is known.
std::uint64_t viewer_estimate(double up_speed, std::uint64_t connections);

}  // namespace warren::foghorn
