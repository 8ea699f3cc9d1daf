#pragma once
// Keeps a node's lease alive: carries out what NodeMachine decides.
//
//   NodeLease lease(executor, catalog, {.name = "n1", .ttl = 30s}, [&] { return info(); });
//   tasks.start("fleet.lease", lease.run());
//   if (lease.may_serve()) …
//
// run() does nothing else, and its catalog has a connection of its own for it, so that neither
// builds nor queries nor a long list delay a beat. Run it on a thread that is never busy for long.
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
  // Calls `info` before every beat for what the node says of itself. The catalog must outlive the
  // lease.
  NodeLease(const asio::any_io_executor& executor, Catalog& catalog, NodeTerms terms,
            std::function<std::string()> info);

  // Returns when it is cancelled, or after leave().
  awaitable<void> run();
  // Ends this life of the node and begins no other: its rows are free at once.
  Async<> leave(Clock::time_point deadline);

  bool may_serve() const { return machine_.may_serve(Clock::now()); }
  bool may_claim() const { return machine_.may_claim(Clock::now()); }
  NodeState state() const { return machine_.state(Clock::now()); }
  Clock::time_point deadline() const { return machine_.deadline(); }
  const NodeSession& session() const { return machine_.session(); }
  // Reports a change of the node's info now, instead of with the next beat.
  void tell();
  // The catalog refused a call with this session, because the session is over.
  void on_lost(const NodeSession& session);
  // Returns when the session is no longer `from`, or when the caller is cancelled.
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
