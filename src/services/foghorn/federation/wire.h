#pragma once
// What the federation needs of gRPC, without its headers: channels of frames, calls to other
// clusters, and a service that hands calls of others over to our thread.
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/task.h"
#include "services/foghorn/federation/frames.h"
#include "services/foghorn/federation/terms.h"

namespace grpc {
class Service;
}

namespace warren::federation {

// One end of a PeerChannel.
class Wire {
 public:
  virtual ~Wire() = default;
  // Errc::unavailable: it is over. Errc::invalid: a frame that cannot be.
  virtual Async<Frame> read(Clock::time_point deadline) = 0;
  virtual Async<> write(Frame frame) = 0;
  virtual void finish(const Error& why) = 0;
  // Whether who called knows the token of this cluster.
  virtual bool may_speak_for(const std::string& cluster) const = 0;
};
// Opens a channel once the peer has proved itself. Errc::denied: it did not.
Async<std::shared_ptr<Wire>> dial(FederationTerms terms, std::string self, std::string peer,
                                  std::string address);

struct StreamQuery {
  std::string stream, requesting_cluster, tenant;
  double latitude = balance::unknown_place, longitude = balance::unknown_place;
  bool for_source = false;
};
struct StreamCandidate {
  EdgeTelemetry edge;
  std::string dtsc_url, buffer_state;
  bool is_origin = false;
  std::uint64_t score = 0;
};
struct StreamAnswer {
  std::vector<StreamCandidate> candidates;
  std::string origin_cluster, public_url;
};

struct PullRequest {
  std::string stream, source_node, dest_cluster, dest_node, tenant;
};
struct PullAnswer {
  bool is_accepted = false;
  std::string reason, dtsc_url, source_node, base_url;
};

struct ArtifactRequest {
  std::string hash, requesting_cluster, tenant;
};
struct ArtifactAnswer {
  bool is_ready = false;
  std::string reason, type;
  struct Copy {
    std::string node, base_url, path;
    std::uint64_t size = 0;
  };
  std::vector<Copy> copies;
};

// Calls to instances of other clusters; each address has one connection. Who does not prove itself
// is asked nothing (Errc::denied). Of answers only what can be is returned.
class Caller {
 public:
  explicit Caller(const FederationTerms& terms);
  ~Caller();
  Async<StreamAnswer> query(std::string peer, std::string address, StreamQuery query,
                            Clock::time_point deadline);
  Async<PullAnswer> pull(std::string peer, std::string address, PullRequest request,
                         Clock::time_point deadline);
  // Tells the registry where this cluster is.
  Async<> register_here(std::string cluster, std::string instance, Clock::time_point deadline);
  // Who else there is, as the registry has it.
  Async<std::vector<PeerTerms>> list_peers(std::string cluster, Clock::time_point deadline);

 private:
  struct Channels;
  const FederationTerms& terms_;
  std::unique_ptr<Channels> channels_;
};

// Who answers; all on our thread.
struct Answerer {
  virtual ~Answerer() = default;
  virtual Result<StreamAnswer> query(const StreamQuery& query) = 0;
  virtual void pull(PullRequest request, std::function<void(Result<PullAnswer>)> answer) = 0;
  virtual Result<ArtifactAnswer> prepare(const ArtifactRequest& request) = 0;
  virtual void accept(std::shared_ptr<Wire> wire) = 0;
};
// The answerer outlives the server that carries the service.
std::unique_ptr<grpc::Service> make_service(const asio::any_io_executor& executor,
                                            const FederationTerms& terms, std::string self,
                                            Answerer& answerer);

}  // namespace warren::federation
