#pragma once
// How nodes talk to a cluster over gRPC: HelmsmanControl.Connect, one stream for each node.
//
//   node                            Foghorn
//     |── Register ─────────────────>|
//     |<───────────────── ConfigSeed |   who it is here, and how often it is to report
//     |── MistTrigger, Heartbeat ───>|   in order, one at a time
//     |<──────────────── Ack / Error |   of the same request_id
//     |            (the stream ends) |   the node is disconnected
//
// What one node says counts in the order in which it says it. What is wrong is answered with an
// Error that says why, and changes nothing. A node that connects again takes the place of its old
// stream, whose end then means nothing.
#include <memory>
#include <string>

#include "base/metrics.h"
#include "base/task.h"
#include "services/foghorn/state/cluster.h"

namespace grpc {
class Service;
}

namespace warren::helmsman {

struct HelmsmanTerms {
  std::string token = {};  // that nodes show as "authorization: Bearer …"; empty: none
  std::chrono::seconds heartbeat = 30s, report = 10s;  // as nodes are told
  std::chrono::milliseconds silence = 90s;             // after which a stream is taken to be dead
  bool is_durable = false;                      // a message is acknowledged only when Redis has it
  std::chrono::milliseconds durable_time = 2s;  // for Redis to have it
};

// Belongs to the executor's thread. The cluster outlives it.
class Helmsman {
 public:
  Helmsman(asio::any_io_executor executor, foghorn::Cluster& cluster, HelmsmanTerms terms);
  ~Helmsman();
  Helmsman(const Helmsman&) = delete;
  Helmsman& operator=(const Helmsman&) = delete;

  // What a gRPC server (net/rpc/server.h) carries. The server is closed before this is destroyed.
  grpc::Service& service();
  std::size_t connected_nodes() const;
  [[nodiscard]] std::shared_ptr<void> publish(Metrics& metrics) const;
  // Ends all streams.
  awaitable<void> close();

 private:
  class Core;
  std::unique_ptr<Core> core_;
};

}  // namespace warren::helmsman
