#pragma once
// One instance of Foghorn in a simulation: what it was told, and how it decides.
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "services/foghorn/simulate/world.h"
#include "services/foghorn/state/viewers.h"

namespace warren::simulate {

class Observer {
 public:
  Observer();

  // What the node says now.
  void hear(Clock::time_point now, const World& world, const WorldNode& node);
  void lose(const WorldNode& node);     // its connection is closed
  void outdate(Clock::time_point now);  // nodes that were silent for too long are stale
  struct Sent {
    std::size_t node;
    std::string correlation_id;
  };
  // No value: nobody can serve it.
  std::optional<Sent> send(Clock::time_point now, const World& world, const Visit& visit,
                           const std::string& address, balance::Policy policy);
  // Somebody came to the node or left it, whoever had sent him there.
  void arrived(const WorldNode& node);
  void settle(Clock::time_point now, const WorldNode& node, const std::string& stream,
              const std::string& correlation_id, const std::string& address);
  void left(Clock::time_point now, const WorldNode& node, const std::string& stream,
            const std::string& address);

  std::map<std::string, std::uint64_t> penalties() const { return viewers_.pending_sums(); }
  // All penalties of the other instances.
  void set_peer_penalties(const std::map<std::string, std::uint64_t>& sums);

 private:
  struct Known {
    balance::NodeFacts facts;
    Clock::time_point heard_at;
    std::set<int> streams;
  };

  // What one more viewer costs this node, as Cluster::viewer_cost has it.
  std::uint64_t viewer_cost(const balance::NodeFacts& facts) const;
  void know(Known& known, balance::NodeFacts facts);

  balance::TableBuilder builder_;
  foghorn::Viewers viewers_;
  std::map<std::string, Known> nodes_;
  std::vector<std::string> penalised_;
  double up_speed_ = 0;  // of all nodes, as connections
  std::uint64_t connections_ = 0;
};

}  // namespace warren::simulate
