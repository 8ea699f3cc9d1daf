#pragma once
// What a cluster knows, decoded, and the routing table that follows from it. No clock, no Redis.
//
// Entities refer to each other by name and may come in any order: an instance of a stream whose
// node is not known waits here, and counts when the node comes.
#include <map>
#include <set>
#include <string>
#include <vector>

#include "services/foghorn/balance/table.h"
#include "services/foghorn/state/entities.h"
#include "services/foghorn/state/left_streams.h"

namespace warren::foghorn {

struct NodeRecord {
  NodeState state;
  Clock::time_point heard_at = {};     // when it last showed life, on the clock of this process
  Clock::time_point stale_since = {};  // if it is
  bool is_silent = false;              // nothing was heard for too long
  bool is_own = false;                 // it reports to this instance
  bool lists_streams = false;          // and has told it all that it carries

  bool is_stale() const { return state.is_stale || is_silent; }
  bool is_active() const { return state.is_healthy && !is_stale(); }
};

struct StreamRecord {
  StreamState state;
  bool is_known = false;  // itself, and not only by its instances
  std::map<std::string, StreamInstanceState, std::less<>> instances;  // by node
  Clock::time_point changed_at = {};
};

// All there is of one node, known or not.
struct Carried {
  std::set<std::string, std::less<>> streams, artifacts;
  std::set<std::string, std::less<>> ended;  // of the streams: offline at this node
  std::uint64_t connections = 0;
};

class Model {
 public:
  template <class T>
  using ById = std::map<std::string, T, std::less<>>;

  explicit Model(balance::Weights weights);

  const ById<NodeRecord>& nodes() const { return nodes_; }
  const ById<StreamRecord>& streams() const { return streams_; }
  const ById<ArtifactState>& artifacts() const { return artifacts_; }
  const ById<NodeModeState>& modes() const { return modes_; }
  const NodeRecord* node(std::string_view id) const;
  const StreamRecord* stream(std::string_view name) const;
  const StreamInstanceState* instance(std::string_view stream, std::string_view node) const;
  const ArtifactState* artifact(std::string_view content_id) const;
  const Carried& carried(std::string_view node) const;
  const LeftStreams& left() const { return left_; }
  balance::NodeMode mode(const NodeRecord& node) const;

  void put_node(NodeRecord record);
  void erase_node(std::string_view id);  // alone: what it carries stays
  void put_stream(StreamState state, Clock::time_point now);
  void erase_stream(std::string_view name);  // its instances stay
  void put_instance(StreamInstanceState instance);
  void erase_instance(std::string_view stream, std::string_view node);
  void put_artifact(ArtifactState artifact);
  void erase_artifact(std::string_view content_id);
  void put_mode(NodeModeState mode);
  void erase_mode(std::string_view node);
  void set_weights(balance::Weights weights) { builder_.set_weights(weights), ++revision_; }

  // Nodes of which there is something, but not the node.
  std::vector<std::string> without_node() const;
  // The stream with the sums over its instances.
  StreamState summed(const StreamRecord& stream) const;
  // Of an average viewer, over all nodes that are active; 0 when nobody knows.
  std::uint64_t average_viewer() const;

  std::uint64_t revision() const { return revision_; }  // grows with every change
  std::shared_ptr<balance::Penalty> penalty(std::string_view node) {
    return builder_.penalty(node);
  }
  // With all changes so far.
  std::shared_ptr<const balance::RoutingTable> publish();

 private:
  void refresh_stream(const StreamRecord& stream);
  void refresh_holding(std::string_view stream, const StreamInstanceState& instance);
  void refresh_artifact(const ArtifactState& artifact);
  void restore(std::string_view node);
  void changed(std::string_view node);
  Carried& carried_to_change(std::string_view node);
  void drop_if_empty(std::string_view stream);

  ById<NodeRecord> nodes_;
  ById<StreamRecord> streams_;
  ById<ArtifactState> artifacts_;
  ById<NodeModeState> modes_;
  ById<Carried> carried_;
  LeftStreams left_;
  balance::TableBuilder builder_;
  std::set<std::string, std::less<>> stale_facts_;  // nodes whose facts the table has yet to learn
  std::uint64_t revision_ = 0;
};

// Without the time of the last change.
bool says_the_same(const StreamInstanceState& a, const StreamInstanceState& b);
bool says_the_same(const StreamState& a, const StreamState& b);  // and without what is summed

}  // namespace warren::foghorn
