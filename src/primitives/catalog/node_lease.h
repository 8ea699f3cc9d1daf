#pragma once
// Keeps a node's lease alive: what NodeMachine decides, done.
//
//   NodeLease lease(executor, catalog, {.name = "n1", .ttl = 30s}, [&] { return info(); });
//   tasks.start("fleet.lease", lease.run());
//   if (lease.may_serve()) …
//
// run() has nothing else to do, and its catalog a connection of its own for it, so that neither builds
// nor queries nor a long list delay a beat. It is to run on a thread that is never busy for long.
#include <functional>
#include <string>

#include "primitives/catalog/catalog.h"
#include "primitives/catalog/node_machine.h"

namespace warren {

struct NodeTerms {
  std::string name;
  std::chrono::milliseconds ttl = 30s;
};

class NodeLease {
 public:
  // What a node says of itself is asked for with every beat. The catalog outlives the lease.
  NodeLease(const asio::any_io_executor& executor, Catalog& catalog, NodeTerms terms,
            std::function<std::string()> info);

  // Until it is cancelled, or has left.
  awaitable<void> run();
  // Ends this life of the node, and begins no other: its rows are free at once.
  Async<> leave(Clock::time_point deadline);

  bool may_serve() const { return machine_.may_serve(Clock::now()); }
  bool may_claim() const { return machine_.may_claim(Clock::now()); }
  NodeState state() const { return machine_.state(Clock::now()); }
  Clock::time_point deadline() const { return machine_.deadline(); }
  const NodeSession& session() const { return machine_.session(); }
  // Says now what has changed about the node, instead of with the next beat.
  void tell();
  // A call with this session was told that it is over.
  void on_lost(const NodeSession& session);
  // Returns when the session is another one than this; when the caller is cancelled.
  awaitable<void> session_changed(NodeSession from);

 private:
  awaitable<void> ask(NodeMachine::Intent intent);
  Async<> beat(NodeSession session, std::string info, Clock::time_point deadline);
  void note_change(const NodeSession& before);

  Catalog& catalog_;
  NodeTerms terms_;
  std::function<std::string()> info_;
  NodeMachine machine_;
  Event changed_, woken_;
  bool has_left_ = false;
};

}  // namespace warren
