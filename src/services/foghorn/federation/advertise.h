#pragma once
// What this cluster has to tell others, made from what it knows.
#include <deque>
#include <map>
#include <memory>
#include <set>
#include <string>

#include "services/foghorn/federation/session.h"
#include "services/foghorn/federation/view.h"
#include "services/foghorn/state/cluster.h"

namespace warren::federation {

// Averages over the last half minute, by node.
class Averages {
 public:
  struct Sample {
    double bw_available = 0, cpu_percent = 0;
  };
  void add(Clock::time_point now, const std::string& node, Sample sample);
  // No value: nothing in the last half minute.
  std::optional<Sample> of(Clock::time_point now, const std::string& node) const;
  void prune(Clock::time_point now);

 private:
  std::map<std::string, std::deque<std::pair<Clock::time_point, Sample>>> samples_;
};

// Where a stream can be pulled from a node: its DTSC output, "dtsc://host:4200/live+demo". Empty:
// it has none.
std::string dtsc_url(std::string_view outputs_json, std::string_view base_url,
                     std::string_view stream);
std::string host_of(std::string_view base_url);  // without scheme, port and path

// The tenant of stored content, empty if it is not known.
std::string tenant_of(const foghorn::ArtifactState& artifact);

EdgeTelemetry telemetry_of(const balance::RoutingTable& table, std::uint32_t place);

class Advertiser {
 public:
  Advertiser(const foghorn::Cluster& cluster, const View& view, const FederationTerms& terms,
             Clock::time_point now);
  // Samples are taken at most once per telemetry interval, content is listed every half minute.
  std::shared_ptr<const Offer> make(Clock::time_point now);

 private:
  void add_streams(Offer& offer, const balance::RoutingTable& table, Clock::time_point now);
  void add_edges(Offer& offer, const balance::RoutingTable& table, Clock::time_point now);
  void list_artifacts(const balance::RoutingTable& table);
  void add(Offer& offer, Item item);
  bool is_fit(const std::string& what, const Result<>& checked);
  const std::string& dtsc_base(const balance::NodeFacts& node);

  const foghorn::Cluster& cluster_;
  const View& view_;
  const FederationTerms& terms_;
  Clock::time_point began_, next_sample_, next_artifacts_;
  Averages averages_;
  struct Dtsc {
    std::string outputs, url;
  };
  std::map<std::string, Dtsc> dtsc_;  // of nodes, for a stream without a name
  std::vector<RemoteArtifact> artifacts_;
  std::set<std::string> unfit_;  // what is not told, and somebody was told so
};

}  // namespace warren::federation
