#pragma once
// Clusters of Foghorn that know of each other: a stream that is live only there is found from here.
//
//   cluster a                                        cluster b
//   instance 1  leader  <══ one PeerChannel, both ══>  leader   instance 1
//   instance 2     │         directions on it            │      instance 2
//                  v                                     v
//               Redis a: what b told                  Redis b: what a told
//
//   auto federation = Federation::create(executor, client, session, cluster, terms);
//   auto placed = co_await federation->place(query, Clock::now() + 3s);
//   switch (placed->way) …
//
// One instance of each cluster leads: it alone holds channels, and it alone writes what it hears,
// under its fencing token. All others hear the same from Redis, so that every instance decides from
// memory. docs/protocols/federation.md has the frames and the keys.
//
// Of two clusters the one with the smaller id dials at once, the other one after a moment without a
// channel; between them there is one (dialling.h). Whoever is dialled and does not lead says who
// does.
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/metrics.h"
#include "base/task.h"
#include "primitives/election/election.h"
#include "services/foghorn/balance/choose.h"
#include "services/foghorn/federation/terms.h"
#include "services/foghorn/federation/view.h"
#include "services/foghorn/state/cluster.h"

namespace grpc {
class Service;
}

namespace warren::federation {

struct PlaceQuery {
  std::string stream;  // bare name
  std::string tenant = {};
  double latitude = balance::unknown_place, longitude = balance::unknown_place;
  balance::BinaryHost client = {};
  std::vector<balance::TagAdjustment> adjustments = {};
  std::string capabilities = "edge";
  balance::Policy policy = balance::Policy::compat;
  // The cluster that sent this viewer here: he is not sent on, so that nobody goes in circles.
  std::string from_cluster = {};
};

// An edge of another cluster, for a viewer.
struct RemoteChoice {
  std::string cluster, node_id, base_url;
  std::string dtsc_url;  // empty: it cannot be pulled from there
  std::string play_url;  // https://host, in front of /play/<viewkey>
  bool is_origin = false;
  std::uint64_t score = 0;
};

enum class Way : std::uint8_t {
  nowhere,   // neither here nor there
  local,     // local.best[0] of `table`
  pull,      // `node_id` of this cluster, which gets it from `remote.front()`: see source_of()
  redirect,  // to remote.front()
};

struct Placement {
  Way way = Way::nowhere;
  // What the decisions were made from; also what remains when the remote fails.
  std::shared_ptr<const balance::RoutingTable> table;
  balance::Decision local;
  std::string node_id = {};               // for local and pull
  std::vector<RemoteChoice> remote = {};  // the best first, at most five

  // https://play.b.example/play/<viewkey>?from=a
  std::string redirect_url(std::string_view view_key, std::string_view own_cluster) const;
};

// What is known of a peer.
struct PeerView {
  std::string cluster;
  std::vector<std::string> addresses;
  bool is_connected = false;           // by a channel of this instance
  std::optional<std::string> problem;  // why there is no channel, where this instance leads
  std::optional<PeerHeartbeat> heartbeat = {};  // the last one, while it counts
  std::size_t streams = 0, edges = 0, artifacts = 0;
  std::uint64_t frames_in = 0, frames_out = 0, frames_dropped = 0, resyncs = 0;
};

// Belongs to the executor's thread. The client, the session and the cluster outlive it.
class Federation {
 public:
  // Errc::invalid: a peer or an address that cannot be, or certificates that cannot be read.
  static Result<std::unique_ptr<Federation>> create(asio::any_io_executor executor,
                                                    redis::Client& client, LeaseSession& session,
                                                    foghorn::Cluster& cluster,
                                                    FederationTerms terms);
  ~Federation();
  Federation(const Federation&) = delete;
  Federation& operator=(const Federation&) = delete;

  // What a gRPC server (net/rpc/server.h) carries. The server is closed before this.
  grpc::Service& service();
  // Begins to follow, and to campaign.
  void start();
  // Withdraws what was told, and gives leadership to the next in line.
  awaitable<void> close();

  // --- decisions -------------------------------------------------------------------------------
  // From memory alone. No value: another cluster has to be asked, see place().
  std::optional<Placement> place_now(const PlaceQuery& query);
  // Asks other clusters when nothing is known, and prepares a pull; no longer than until the
  // deadline. An error never hides a node of this cluster: then the answer is local.
  Async<Placement> place(PlaceQuery query, Clock::time_point deadline);
  // Where a node of this cluster pulls a stream from that is made elsewhere: a DTSC URL.
  std::optional<std::string> source_of(const std::string& stream) const;
  // The cluster that already ingests this stream, unless it is this one.
  std::optional<std::string> ingested_at(const std::string& stream) const;
  // The stream that other clusters know under this public id.
  std::optional<std::string> stream_of_playback(const std::string& playback_id) const;
  // Content that other clusters store. At most five, the nearest first.
  std::vector<RemoteChoice> artifact_at(const std::string& content_id, double latitude,
                                        double longitude) const;

  // --- what is known -----------------------------------------------------------------------------
  bool is_leader() const;
  Async<std::optional<Leader>> leader();  // as Redis has it
  const View& view() const;
  std::vector<PeerView> peers() const;  // by cluster id
  // Returns at the next change of what is known of other clusters, or at the deadline.
  awaitable<void> changed(Clock::time_point deadline);
  [[nodiscard]] std::shared_ptr<void> publish(Metrics& metrics) const;

 private:
  class Core;
  explicit Federation(std::unique_ptr<Core> core);
  std::unique_ptr<Core> core_;
};

}  // namespace warren::federation
