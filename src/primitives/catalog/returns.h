#pragma once
// What a node has to give back: rows whose release failed, and rows that it owns without knowing
// it. No other node can have them while this node lives.
//
//   node        catalog
//     |─ release ─>X            The row stays the node's, and nothing about it changes any more. So
//     |  (timeout) |            a node that waited for a change as a reminder would wait forever.
//     |─ release ─>| ok         What is owed stays owed until the catalog has said that it is over.
//
//   returns.owe(claim, how);                                     // before the release is sent
//   returns.on_released(claim, co_await catalog.release(claim, how, deadline));
//   returns.on_changes(changes, session);
//   for (auto& due : returns.due(is_known)) …                    // again, from time to time
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "primitives/catalog/catalog.h"

namespace warren {

class Returns {
 public:
  struct Due {
    Claim claim;
    Release how;
  };

  // The node has let go of the row. `how` is kept: a repeated release gives the same reason.
  void owe(Claim claim, Release how);
  void on_released(const Claim& claim, const Result<>& answer);
  // Takes what the catalog says of the rows of this node's session.
  void on_changes(const Changes& changes, const NodeSession& session);

  bool owes_nothing() const { return owed_.empty(); }
  // Returns what is owed, and the session's rows that `is_known` does not know: neither held nor
  // asked for. Leaves out a row that is owed while something about it is under way.
  std::vector<Due> due(const std::function<bool(const std::string& key)>& is_known) const;

 private:
  std::map<std::string, Due> owed_;        // by key
  std::map<std::string, Claim> own_rows_;  // by key: as last reported by the catalog
};

}  // namespace warren
