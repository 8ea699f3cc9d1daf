#pragma once
// What is claimable: the rows that are offered, and before that some of those that should be, because
// their owner is gone or their wait is over. For .cc files.
#include <string>
#include <vector>

#include "primitives/catalog/etcd/rows.h"

namespace warren::etcd {

class Offers {
 public:
  Offers(Store& store, Rows& rows) : store_(store), rows_(rows) {}

  // As in catalog.h.
  Async<std::vector<Row>> claimable(std::size_t most, Clock::time_point deadline);
  // All rows of a node whose lease has ended. Nothing happens to those of one that lives.
  Async<> free_rows_of(NodeSession session, Clock::time_point deadline);

 private:
  // What one look shows, at one revision.
  struct Look {
    std::int64_t revision = 0;
    std::vector<std::string> offered;  // keys of rows, best first
    std::vector<std::string> lengths;  // of waits
    bool has_dead_nodes = false;
  };
  Async<Look> look(std::size_t most, Clock::time_point deadline);
  // Each says whether it made a row claimable, or somebody else did meanwhile.
  Async<bool> free_some(const Look& look, Clock::time_point deadline);
  Async<bool> free_some_of(NodeSession session, Clock::time_point deadline);
  Async<bool> end_waits(const Look& look, Clock::time_point deadline);
  Async<bool> offer_again(std::vector<std::string> places, Clock::time_point deadline);
  Async<std::vector<NodeSession>> dead_nodes(Clock::time_point deadline);
  Async<std::vector<Row>> offered_rows(Look look, Clock::time_point deadline);

  Store& store_;
  Rows& rows_;
};

}  // namespace warren::etcd
