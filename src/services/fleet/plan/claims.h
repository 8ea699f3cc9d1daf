#pragma once
// Which of the rows on offer a node claims, and when: facts in, one intention at a time out.
//
// Every node sees the same offers. If all claimed at once, one would win and the others would have
// asked in vain; if only the best one claimed, its silence would leave the row alone. So each waits
// its turn: its place in the order of the repository, times a step, and a little chance. Nearly always
// the right node wins with the first claim made, and the next ones are there when it does not.
// Whoever has a mirror of the repository on disk waits a fraction of that: bringing it is cheap there.
//
// Nothing is claimed that does not fit: the peak of its build is reserved first (Shelf). A node
// leaves a repository that it has evicted to the others for a while, unless it is wanted or no other node
// has room for it.
#include <functional>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "base/clock.h"
#include "services/fleet/plan/placement.h"
#include "services/fleet/plan/records.h"
#include "services/fleet/plan/settings.h"
#include "services/fleet/plan/shelf.h"

namespace warren::fleet {

struct ClaimTerms {
  std::string node;                         // our name
  std::chrono::milliseconds step = 250ms;   // between two places in the order
  std::chrono::milliseconds patience = 5s;  // who is refused as too small asks again after this
  std::size_t most_unready = defaults::most_unready;  // rows that are claimed and not yet served
  std::uint64_t seed = 0;
};

struct Offer {
  std::string key, repo;
  std::uint64_t bytes = 0;              // what it will take, as far as is known
  std::uint64_t demand = 0;             // how often it was asked for in vain
  double rebuild_seconds = 1;           // what it cost its last owner
  std::vector<std::string> zones = {};  // where other slots of it are
  bool is_here = false;     // its text is still in our memory: claiming it costs nothing
  bool is_ours = false;     // we own another slot of it
  bool has_mirror = false;  // on our disk
  bool is_pinned = false;
  bool was_evicted = false;  // by this node, not long ago

  // Others may be evicted for it.
  bool is_wanted() const { return demand > 0 || is_pinned; }
};

class Claims {
 public:
  static constexpr std::size_t least_offers = 64, most_offers = 4096;

  explicit Claims(ClaimTerms terms) : terms_(std::move(terms)), random_(terms_.seed) {}

  // All nodes that live, ourselves among them.
  void on_nodes(std::vector<Candidate> nodes) { nodes_ = Placement(std::move(nodes)); }
  // What is on offer now, the most wanted first; what was and is not is forgotten.
  void on_offers(Clock::time_point now, std::vector<Offer> offers);
  // The claim was answered, whatever the answer: the next look tells.
  void on_answer(const std::string& key) { seen_.erase(key); }
  // Somebody has it, as the catalog's changes tell: nobody needs to look again to know.
  void on_taken(const std::string& key) { seen_.erase(key); }
  // These nodes have other slots of the repository of this row: if it is on offer, its order may be
  // another one from now on.
  void on_beside(Clock::time_point now, const std::string& key,
                 const std::vector<std::string>& nodes);
  std::vector<std::string> zones_of(const std::vector<std::string>& nodes) const {
    return nodes_.zones_of(nodes);
  }

  // The next row to be claimed: its turn has come, and there is room for it, or room can be made. While
  // `unready` rows of ours are too many, only what is in memory already.
  using HasRoom = std::function<bool(const Offer& offer)>;
  std::optional<Offer> next(Clock::time_point now, const HasRoom& has_room,
                            std::size_t unready = 0);
  std::optional<Offer> next(Clock::time_point now, std::uint64_t free_bytes,
                            std::size_t unready = 0);
  // The most bytes of an offer for which we are to demote: no node has room, and we could free most; or
  // people wait for it, and we had to refuse it.
  std::uint64_t lacks_room() const { return lacks_room_; }
  // How many offers to look at: some for each node, since all see the same ones; and more when none of
  // the last ones could be ours, since what nobody has room for would hide all that comes after it.
  std::size_t wanted_offers() const { return wanted_; }
  // There are more offers than those that were seen, and these are gone: look again soon.
  bool wants_look() const { return is_cut_off_ && seen_.empty(); }
  // Call next() again by then.
  Clock::time_point wake_at() const;
  // pause_after() with a random chance.
  std::chrono::milliseconds pause(std::uint32_t attempts);

  // Why an offer is not claimed by us: "its turn comes later: n2 is nearer", "it needs 4.1 GB, and
  // 1.2 GB are free". Empty: it is about to be.
  std::string why_not(Clock::time_point now, const std::string& key,
                      std::uint64_t free_bytes) const;

 private:
  struct Seen {
    Offer offer;
    std::size_t place = 0;  // of the offers
    Clock::time_point turn{};
    bool is_refused = false;  // there was no room for it
    bool can_never = false;   // we own another slot, or it is larger than what we have free
    bool is_left = false;     // to other nodes: this one has evicted it
  };
  void take_place(Clock::time_point now, const Candidate* us, Seen& seen);

  ClaimTerms terms_;
  std::mt19937_64 random_;
  Placement nodes_;
  std::map<std::string, Seen> seen_;
  std::size_t wanted_ = least_offers;
  bool is_cut_off_ = false;
  std::uint64_t lacks_room_ = 0;
};

// A row that is on offer, by what its last owner said of it; whether it is here or ours the node knows.
Offer offer_of(std::string key, std::string repo, std::int64_t rank, const RepoNote& note);
// What is to be said of a row that turned out to be too large: the next one reserves that before it
// fetches anything.
RepoNote with_peak(RepoNote note, std::uint64_t peak_bytes);
// Which repositories must be evicted for an offer; nullopt if it does not fit even so. Only for a pinned
// repository, or one that people ask for, are others evicted, and only those that are worth less.
std::optional<std::vector<std::string>> room_for(Clock::time_point now, const Shelf& shelf,
                                                 const Offer& offer);

// Why a node does not claim what nobody has, by what it says of itself: "has 3.0 of 80.0 MB free".
// Empty: it has room.
std::string why_refused(const NodeInfo& node, const Offer& offer);

// How long a row that failed so many times is not offered: 5 s, 10 s, 20 s, … 10 minutes, so that what
// fails for all of them is not tried by each in turn. `chance` (0 to 1)
// makes it half to one and a half of that, so that rows that failed together, as when a git host was down,
// are not all retried together.
std::chrono::milliseconds pause_after(std::uint32_t attempts, double chance);

}  // namespace warren::fleet
