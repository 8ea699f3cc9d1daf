#pragma once
// An election on top of a lease: the process that holds the lease leads. Candidates wait in line.
// When the leader resigns, the next one leads at once; when it dies, one ttl later.
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
  // Leads without a lease while no Redis can be reached, as a single instance may. Do not set this
  // with more than one instance: each of them would lead.
  bool leads_alone = false;
};

// A period of leadership.
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
  // The session must outlive the election.
  Election(LeaseSession& session, ElectionTerms terms);
  Election(const Election&) = delete;
  Election& operator=(const Election&) = delete;

  // Campaigns until it is cancelled, or until `reign` returns by itself; then returns that result.
  // Runs reign while we lead and cancels it when the lead ends; then it campaigns again. A
  // cancelled campaign resigns.
  Async<> campaign(std::function<Async<>(Term)> reign);
  // Ends our term. The campaign continues at the end of the line.
  void resign();

  // Never true for longer than the lease lasts, even if nothing has run since it ended.
  bool is_leader() const;
  // The leader according to Redis, or nullopt if there is none. A leader that is not a Warren
  // process has no token.
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
