#pragma once
// What a node has to give back: rows whose release failed, and rows that are its own without its
// knowledge. Nobody else may have them for as long as the node lives.
//
//   node        catalog
//     |─ release ─>X            The row stays the node's, and nothing about it changes any more: so
//     |  (timeout) |            who waits for a change to be reminded of it waits forever.
//     |─ release ─>| ok         What is owed stays owed until the catalog has said that it is over.
//
//   returns.owe(claim, how);                                     // before it is asked for
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

  // The node has let go of it. Why, it says once: a release that is made again says the same.
  void owe(Claim claim, Release how);
  void on_released(const Claim& claim, const Result<>& answer);
  // What the catalog says of the rows of this session, the node's own.
  void on_changes(const Changes& changes, const NodeSession& session);

  bool owes_nothing() const { return owed_.empty(); }
  // Beside what is owed, the rows of the session that `is_known` knows nothing of: that are neither held
  // nor asked for. Also of what is owed, only that about which nothing is under way.
  std::vector<Due> due(const std::function<bool(const std::string& key)>& is_known) const;

 private:
  std::map<std::string, Due> owed_;        // by key
  std::map<std::string, Claim> own_rows_;  // by key: as the catalog told last
};

}  // namespace warren
