#pragma once
// Finds claimable rows: first puts some rows on offer whose owner is gone or whose wait is over,
// then lists the rows on offer. Include in .cc files only.
#include <string>
#include <vector>

#include "primitives/catalog/etcd/rows.h"

namespace warren::etcd {

class Offers {
 public:
  Offers(Store& store, Rows& rows) : store_(store), rows_(rows) {}

  // As in catalog.h.
  Async<std::vector<Row>> claimable(std::size_t most, Clock::time_point deadline);
  // Frees all rows of a node whose lease has ended. Does nothing to the rows of a live node.
  Async<> free_rows_of(NodeSession session, Clock::time_point deadline);

 private:
  // The result of one look, at one revision.
  struct Look {
    std::int64_t revision = 0;
    std::vector<std::string> offered;  // keys of rows, best first
    std::vector<std::string> lengths;  // of waits
    bool has_dead_nodes = false;
  };
  Async<Look> look(std::size_t most, Clock::time_point deadline);
  // Each returns whether a row has become claimable, here or by another process meanwhile.
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
