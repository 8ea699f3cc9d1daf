#pragma once
// The balancer that one would write first, and that deployments have: one lock around a map of
// structs; each request copies everything, scores every copy and sorts them all. It is the
// benchmark's peer, and gives the same answers.
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "services/foghorn/balance/choose.h"

namespace warren::bench {

class NaiveBalancer {
 public:
  void put_node(balance::NodeFacts facts);
  void put_holding(const std::string& stream, const std::string& node, balance::Holding holding);
  // Ids, the best first.
  std::vector<std::string> choose(const balance::Query& query);

 private:
  struct Node {
    balance::NodeFacts facts;
    std::map<std::string, balance::Holding> streams;
    std::uint64_t score = 0;
  };
  static bool rate(Node& node, const balance::Query& query, bool can_pull);

  std::mutex mutex_;
  std::map<std::string, Node> nodes_;
};

}  // namespace warren::bench
