#pragma once
// Nodes and their leases, which are etcd's own. For .cc files.
#include <string>
#include <vector>

#include "primitives/catalog/etcd/listing.h"

namespace warren::etcd {

class Nodes {
 public:
  explicit Nodes(Store& store) : store_(store) {}

  // As in catalog.h, but for the rows of a node that leaves.
  Async<NodeSession> join(std::string name, std::string info, std::chrono::milliseconds ttl,
                          Clock::time_point deadline);
  // Writes only if the info is another one than before.
  Async<> beat(NodeSession session, std::string info, Clock::time_point deadline);
  Async<> leave(NodeSession session, Clock::time_point deadline);
  Async<std::vector<Node>> list(Clock::time_point deadline);

 private:
  // True: it is there. False: its lease ended before.
  Async<bool> enter(NodeSession session, std::int64_t lease, NodeRecord record,
                    Clock::time_point deadline);

  Store& store_;
};

}  // namespace warren::etcd
