#pragma once
// Nodes and their leases, which are etcd leases. Include in .cc files only.
#include <string>
#include <vector>

#include "primitives/catalog/etcd/listing.h"

namespace warren::etcd {

class Nodes {
 public:
  explicit Nodes(Store& store) : store_(store) {}

  // As in catalog.h, except that the rows of a node that leaves are not freed here.
  Async<NodeSession> join(std::string name, std::string info, std::chrono::milliseconds ttl,
                          Clock::time_point deadline);
  // Writes only if the info has changed.
  Async<> beat(NodeSession session, std::string info, Clock::time_point deadline);
  Async<> leave(NodeSession session, Clock::time_point deadline);
  Async<std::vector<Node>> list(Clock::time_point deadline);

 private:
  // True: the node exists. False: its lease ended before.
  Async<bool> enter(NodeSession session, std::int64_t lease, NodeRecord record,
                    Clock::time_point deadline);

  Store& store_;
};

}  // namespace warren::etcd
