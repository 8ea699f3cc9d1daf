#pragma once
// Where the board of an instance lies in Redis.
//
//   holt:demo:artefact:<id>       as the Go program has it
//   holt:demo:x:artefacts         ours: what that program never looks at
//   holt:{demo}:artefact:<id>     in a cluster, so that one script can reach all of it
//
// Rejected: to put indexes beside what they index. That program reads every key under :claim: and
// :artefact: as a hash, and its orchestrator exits when one is not.
#include <string>
#include <string_view>

#include "services/board/store/types.h"

namespace warren::board {

enum class Layout { plain, cluster };

class BoardKeys {
 public:
  // Errc::invalid: what cannot stand in a key. A prefix is 1 to 32 of a-z, A-Z, 0-9, '_', '.', '-';
  // an instance is 1 to 63 of a-z, 0-9 and '-', and does not begin with '-'.
  static Result<BoardKeys> create(std::string_view prefix, std::string_view instance,
                                  Layout layout);

  std::string artefact(std::string_view id) const { return in("artefact:", id); }
  std::string claim(std::string_view id) const { return in("claim:", id); }
  std::string bids(std::string_view claim) const { return in("claim:", claim) + ":bids"; }
  std::string claim_by_artefact(std::string_view id) const { return in("claim_by_artefact:", id); }
  std::string thread(std::string_view logical_id) const { return in("thread:", logical_id); }
  std::string grant_queue(std::string_view role) const { return in("grant_queue:", role); }
  std::string agent_images() const { return in("agent_images"); }

  std::string artefact_events() const { return in("artefact_events"); }
  std::string claim_events() const { return in("claim_events"); }
  std::string workflow_events() const { return in("workflow_events"); }
  std::string agent_events(std::string_view role) const { return in("agent:", role) + ":events"; }

  // Our indexes. The type stands in the middle, since whoever looks for `holt:*:lock` must not find
  // the artefacts of a type called lock.
  std::string artefacts() const { return in("x:artefacts"); }  // by time of creation
  std::string artefacts(std::string_view type) const { return in("x:type:", type) + ":artefacts"; }
  std::string types() const { return in("x:types"); }
  std::string artefact_ids() const { return in("x:artefact_ids"); }  // by name
  std::string claims(ClaimStatus status) const { return in("x:claims:", name(status)); }
  std::string claim_ids() const { return in("x:claim_ids"); }  // by name
  std::string unclaimed() const { return in("x:unclaimed"); }  // artefacts by time of creation
  // What came of an artefact, in the order in which it was heard of.
  std::string children(std::string_view id) const { return in("x:children:", id); }
  std::string orchestrator() const { return in("x:orchestrating"); }  // a lease
  std::string paused() const { return in("x:paused"); }
  std::string cancelled() const { return in("x:cancelled"); }            // goals
  std::string cancel_reasons() const { return in("x:cancel_reasons"); }  // by goal
  std::string nothing() const { return in("x:-"); }                      // never exists

  const std::string& root() const { return root_; }  // "holt:demo:"
  // Where whoever holds that lease has the key of its session, and hears of grants.
  std::string sessions() const { return in("x:"); }
  // A glob that matches all keys and channels that begin so, and no others.
  std::string all(std::string_view begin = "") const;

 private:
  explicit BoardKeys(std::string root) : root_(std::move(root)) {}
  std::string in(std::string_view what, std::string_view which = "") const {
    std::string key;
    key.reserve(root_.size() + what.size() + which.size() + 10);
    return key.append(root_).append(what).append(which);
  }
  std::string root_;
};

}  // namespace warren::board
