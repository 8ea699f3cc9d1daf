#pragma once
// A leader is whoever holds a lease. Candidates wait in line; when the leader resigns the next one
// leads at once, and when it dies, one ttl later.
//
//   Election election(session, {"{c}:leader:peer_manager", "foghorn-1"});
//   co_await election.campaign([](Term term) -> Async<> { … });   // runs only while we lead
#include <functional>
#include <optional>
#include <string>

#include "primitives/lease/lease.h"

namespace warren {

struct ElectionTerms {
  std::string key;
  std::string candidate;  // what others read in the key while we lead
  std::chrono::milliseconds ttl = 15s;
  // Leads without a lease when no Redis can be reached, as a lone instance may, and until it
  // reaches one again. With more than one instance there would then be as many leaders.
  bool leads_alone = false;
};

// The time for which somebody leads.
struct Term {
  Lease* lease;  // null when leading alone, without Redis
  FencingToken token;
};

struct Leader {
  std::string candidate;
  FencingToken token;
  WallClock::time_point since;  // by the server's clock
};

class Election {
 public:
  // The session outlives it.
  Election(LeaseSession& session, ElectionTerms terms);
  Election(const Election&) = delete;
  Election& operator=(const Election&) = delete;

  // Campaigns until it is cancelled, or until `reign` returns by itself, with whose result it
  // returns then. Reign runs while we lead and is cancelled when that ends; then the campaign goes
  // on. A campaign that is cancelled resigns.
  Async<> campaign(std::function<Async<>(Term)> reign);
  // Ends our term; the campaign goes on at the end of the line.
  void resign();

  // Never true longer than the lease lasts, even when nothing has run since it ended.
  bool is_leader() const;
  // As Redis has it now; no value when nobody leads. Somebody who is not one of ours has no token.
  Async<std::optional<Leader>> observe();

 private:
  Async<> lead(Lease lease, const std::function<Async<>(Term)>& reign, bool& is_over);
  Async<> lead_alone(const std::function<Async<>(Term)>& reign, bool& is_over);
  awaitable<void> resigned();
  awaitable<void> redis_is_back();

  LeaseSession& session_;
  ElectionTerms terms_;
  Event resign_;
  const Lease* lease_ = nullptr;  // while we lead
  bool is_alone_ = false;
};

}  // namespace warren
