#pragma once
// One cluster as one instance of Foghorn knows it: everything in memory, written through to Redis,
// the same at every instance a moment later.
//
//   node ── report ──> Cluster ── now ──> model ──> routing table ──> decisions
//                         │                 ^
//                         │ one batch       │ what other instances wrote, in the order of the log
//                         v                 │
//                      Mirror <───────── Redis
//
// A change counts here at once, and is written behind: changes that wait are one batch, the newest
// value of each entity. While a change of ours is on its way, older values that come in do not undo
// it. When Redis is away the instance goes on with what it hears itself, and when history was
// rewritten by a failover it writes again what its own nodes told it, and keeps what those of others
// said until they have done the same.
//
// Merging (docs/protocols/foghorn.md): what identifies (tenant, playback id, origin) is never
// erased by an empty value; sums are derived from instances; operators' modes are records of their
// own; penalties are added up, each instance's its own.
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "primitives/lease/machine.h"
#include "primitives/mirror/mirror.h"
#include "services/foghorn/balance/choose.h"
#include "services/foghorn/state/report.h"
#include "services/foghorn/state/viewers.h"

namespace warren::foghorn {

// What one node may have: as many streams as one report may list, copies of artifacts, and streams
// that no node carries any more and this one carried last.
inline constexpr std::size_t most_copies = 20'000, most_left = 10'000;

// How much a cluster accepts from its nodes. Values from Redis were accepted by another instance.
struct ClusterLimits {
  std::size_t node_streams = most_streams, node_artifacts = most_copies, node_left = most_left;
  // Of all nodes together.
  std::size_t nodes = 10'000, streams = 1'000'000, artifacts = 2'000'000;
};

struct ClusterTerms {
  std::string cluster_id = "default";
  std::string instance_id;
  balance::Weights weights;
  std::chrono::milliseconds stale_after = 90s;
  std::chrono::milliseconds evict_after = 5min;  // after it went stale
  std::chrono::milliseconds sweep_interval = 5s;
  // For others to write again what Redis lost: until then it is kept here.
  std::chrono::milliseconds restore_time = 30s;
  ClusterLimits limits = {};
};

// Where sessions of a cluster have their keys, so that a user who may use `~{id}:*` and
// `&foghorn:{id}:*` needs no more.
LeaseRoom lease_room(const std::string& cluster_id);

struct NodeView {
  NodeState state;
  balance::NodeMode mode;  // the operator's, or else the node's
  bool is_active;          // healthy and heard of
  std::int64_t streams, viewers;
};
// With the sums over its instances.
struct StreamView {
  StreamState state;
  std::vector<StreamInstanceState> instances;
};

// A part of a list: only that is copied.
struct Page {
  std::size_t offset = 0, limit = std::size_t(-1);
};

// Belongs to the client's thread, but for table().
class Cluster {
 public:
  class Core;  // core.h

  // Errc::invalid: an id with a character it may not have. Without a client it lives in memory
  // alone.
  static Result<std::unique_ptr<Cluster>> create(asio::any_io_executor executor,
                                                 redis::Client* client, ClusterTerms terms);
  ~Cluster();
  Cluster(const Cluster&) = delete;
  Cluster& operator=(const Cluster&) = delete;

  // Takes the instance id, loads all there is, and merges it with what nodes have said meanwhile.
  // Errc::held_elsewhere: another instance that is alive uses this id. After an error it may be
  // called again, or closed.
  Async<> start(Clock::time_point deadline);
  awaitable<void> close();

  // --- decisions -------------------------------------------------------------------------------
  // What decisions are made from, for any thread. It has a change a turn of the loop after the
  // call, so that many changes are one table; table_here(), for this thread, has it at once.
  std::shared_ptr<const balance::RoutingTable> table() const;
  const balance::RoutingTable& table_here() const;
  Viewers& viewers();
  // Sends a viewer there: the id that goes with it as fwcid. What it costs the node counts from
  // here on.
  std::string redirect(std::string_view node, std::string_view stream, std::string_view client_ip);
  // What one more viewer is expected to cost this node, in bytes a second.
  std::uint64_t viewer_cost(std::string_view node) const;
  void set_weights(balance::Weights weights);  // of this instance

  // --- what nodes and operators say --------------------------------------------------------------
  // All count at once. Errc::invalid: nothing of it was taken. Errc::overloaded: the node, or the
  // cluster, has as much as it may have; what is new and beyond that was not taken, and all else
  // was. What nodes say is taken before all is loaded, and merged then; what operators say is not
  // (Errc::unavailable).
  Result<> register_node(const Registration& registration);
  Result<> report(const std::string& node, const NodeReport& report);
  Result<> heartbeat(const std::string& node, bool is_healthy = true);
  Result<> disconnect(const std::string& node);
  // Its connection to this instance ended: as disconnect, unless it has turned to another one.
  Result<> connection_lost(const std::string& node);
  Result<> set_mode(const std::string& node, balance::NodeMode mode, std::string set_by);
  Result<> forget_node(const std::string& node);  // Errc::not_found

  Result<> stream_buffer(const std::string& node, const std::string& stream,
                         std::string buffer_state, std::string tenant, std::string playback_id,
                         std::string_view details);
  Result<> stream_tracks(const std::string& node, const std::string& stream,
                         std::string track_list);
  Result<> stream_stats(const std::string& node, const std::string& stream,
                        const StreamReport& report);
  Result<> stream_progress(const std::string& node, const std::string& stream,
                           const boost::json::object& details);  // merged into raw_details
  Result<> stream_offline(const std::string& node, const std::string& stream);
  Result<> forget_stream(const std::string& stream);
  Result<> viewer_connected(const std::string& node, const std::string& stream,
                            const ViewerContact& contact);
  Result<> viewer_disconnected(const std::string& node, const std::string& stream,
                               const ViewerContact& contact);
  Result<> add_artifact(const std::string& node, const ArtifactReport& artifact);
  Result<> remove_artifact(const std::string& node, const std::string& content_id);

  // Waits until Redis has all that was said here so far. An error does not undo it: it counts here,
  // and will be written. Errc::unavailable: Redis is away, or there is none. Errc::timeout: not by
  // the deadline. Errc::refused, denied: what Redis said.
  Async<> durable(Clock::time_point deadline);

  // --- what is known -----------------------------------------------------------------------------
  std::optional<NodeView> node(const std::string& id) const;
  std::vector<NodeView> nodes(Page page = {}) const;  // by id
  std::size_t node_count() const;
  // What a node carries.
  std::vector<StreamInstanceState> instances_on(const std::string& node) const;
  std::vector<std::string> streams_on(const std::string& node) const;
  std::optional<StreamView> stream(const std::string& bare_name) const;
  std::vector<StreamView> streams(Page page = {}) const;  // by name
  std::size_t stream_count() const;
  std::optional<ArtifactState> artifact(const std::string& content_id) const;
  std::vector<ArtifactState> artifacts(Page page = {}) const;
  std::size_t artifact_count() const;
  // Equal at two instances that agree on all that is shared.
  std::string digest() const;
  // Changes with every change of what is known; wait for it instead of polling.
  std::uint64_t revision() const;
  awaitable<void> changed(std::uint64_t seen);

  const ClusterTerms& terms() const;
  MirrorHealth health() const;  // current when there is no Redis
  // What a person must mend: another process uses our id since we lost it. From then on nothing is
  // taken and nothing is written here.
  std::optional<Error> problem() const;
  awaitable<Error> lost_id();           // waits until that is so
  Clock::duration age() const;          // of what was heard from Redis
  std::size_t waiting_changes() const;  // not yet in Redis
  [[nodiscard]] std::shared_ptr<void> publish(Metrics& metrics) const;
  // Only the leader removes what is dead: called by whoever leads, every sweep_interval.
  void sweep();

 private:
  explicit Cluster(std::unique_ptr<Core> core);
  std::unique_ptr<Core> core_;
};

}  // namespace warren::foghorn
