#include "services/foghorn/federation/wire.h"

#include <algorithm>

#include "bootstrap.grpc.pb.h"
#include "federation.grpc.pb.h"
#include "net/rpc/connect.h"
#include "net/rpc/stream.h"
#include "services/foghorn/balance/choose.h"
#include "services/foghorn/federation/codec.h"
#include "services/foghorn/federation/proof.h"
#include "services/foghorn/state/entities.h"

namespace warren::federation {

namespace pb = foghorn_federation;
namespace bootstrap = foghorn_bootstrap;

// --- channels ------------------------------------------------------------------------------------

namespace {

constexpr std::size_t most_peers = 1000;

using FrameStream = rpc::Stream<pb::PeerMessage, pb::PeerMessage>;

bool is_token_of(const FederationTerms& terms, const std::string& cluster,
                 const std::string& shown) {
  auto token = terms.token_of(cluster);
  return token && (token->empty() || rpc::is_same_token(shown, *token));
}

// Who somebody is, by what he showed: a proof that counts for one cluster, or a token.
struct Shown {
  std::string token, proven;

  bool is_of(const FederationTerms& terms, const std::string& cluster) const {
    return proven.empty() ? is_token_of(terms, cluster, token) : proven == cluster;
  }
  bool is_of_anybody(const FederationTerms& terms) const {
    return !proven.empty() || is_token_of(terms, "", token) ||
           std::ranges::any_of(terms.peers, [&](const auto& peer) {
             return is_token_of(terms, peer.cluster, token);
           });
  }
};

class GrpcWire final : public Wire {
 public:
  // Who calls has a channel, who is called was shown something.
  GrpcWire(const FederationTerms& terms, std::shared_ptr<FrameStream> stream,
           std::shared_ptr<grpc::Channel> channel, Shown shown)
      : terms_(terms),
        channel_(std::move(channel)),
        stream_(std::move(stream)),
        shown_(std::move(shown)) {}
  ~GrpcWire() override { stream_->finish(grpc::Status::OK); }

  Async<Frame> read(Clock::time_point deadline) override {
    auto message = co_await stream_->read(deadline);
    if (!message) co_return std::unexpected(message.error());
    co_return from_wire(*message);
  }
  Async<> write(Frame frame) override {
    auto message = to_wire(frame);
    auto written = co_await stream_->write(std::move(message));
    co_return written;
  }
  void finish(const Error& why) override { stream_->finish(rpc::status_of(why)); }
  bool may_speak_for(const std::string& cluster) const override {
    return shown_.is_of(terms_, cluster);
  }

 private:
  const FederationTerms terms_;
  std::shared_ptr<grpc::Channel> channel_;
  std::shared_ptr<FrameStream> stream_;
  Shown shown_;
};

// A method of a stub, as rpc::ask begins it. The stub lives as long as the call.
template <class Service, class Method>
auto method_of(const std::shared_ptr<grpc::Channel>& channel, Method method) {
  std::shared_ptr<typename Service::Stub> stub = Service::NewStub(channel);
  return [stub, method](auto* context, const auto* request, auto* response, auto done) {
    (stub->async()->*method)(
        context, request, response,
        [stub, done = std::move(done)](grpc::Status status) mutable { done(std::move(status)); });
  };
}

template <class Request, class Response>
using Method = void (pb::FoghornFederation::StubInterface::async_interface::*)(
    grpc::ClientContext*, const Request*, Response*, std::function<void(grpc::Status)>);

// What is shown to a peer, for one call: once it has proved that it knows the token.
Async<std::string> credential_for(std::shared_ptr<grpc::Channel> channel, FederationTerms terms,
                                  std::string self, std::string peer, Clock::time_point deadline) {
  auto token = terms.token_of(peer).value_or("");
  if (token.empty() || terms.bearer_peers.contains(peer)) co_return token;
  Dialogue dialogue{self, peer, make_nonce(), {}};
  pb::ProveRequest request;
  request.set_caller(dialogue.caller);
  request.set_callee(dialogue.callee);
  request.set_nonce(dialogue.caller_nonce);
  auto method = method_of<pb::FoghornFederation>(
      channel, Method<pb::ProveRequest, pb::ProveResponse>(
                   &pb::FoghornFederation::StubInterface::async_interface::Prove));
  auto answer = co_await rpc::ask<pb::ProveResponse>(method, std::move(request), "", deadline);
  if (!answer && answer.error().code == Errc::protocol)
    co_return fail(Errc::denied,
                   "it cannot prove that it is {}: if it is of another kind, or older, name it in "
                   "FOGHORN_BEARER_PEERS",
                   peer);
  if (!answer) co_return std::unexpected(answer.error());
  dialogue.callee_nonce = answer->nonce();
  if (answer->nonce().size() > 256 || !is_proof(answer->proof(), token, Role::callee, dialogue))
    co_return fail(Errc::denied, "it does not know the token of {}", peer);
  co_return credential_of(token, dialogue);
}

constexpr auto dial_time = 5s;

}  // namespace

Async<std::shared_ptr<Wire>> dial(FederationTerms terms, std::string self, std::string peer,
                                  std::string address) {
  auto executor = co_await asio::this_coro::executor;
  auto channel = rpc::connect(address, terms.tls);
  if (!channel) co_return std::unexpected(channel.error());
  auto shown = co_await credential_for(*channel, terms, self, peer, Clock::now() + dial_time);
  if (!shown) co_return std::unexpected(shown.error());
  auto stub = pb::FoghornFederation::NewStub(*channel);
  using Client = rpc::ClientStream<pb::PeerMessage, pb::PeerMessage>;
  auto stream = Client::create(executor, *shown, [&](auto* context, auto* reactor) {
    stub->async()->PeerChannel(context, reactor);
  });
  co_return std::make_shared<GrpcWire>(terms, std::move(stream), std::move(*channel), Shown{});
}

// --- calls ---------------------------------------------------------------------------------------

struct Caller::Channels {
  std::map<std::string, std::shared_ptr<grpc::Channel>> open;

  Result<std::shared_ptr<grpc::Channel>> to(const std::string& address, const rpc::TlsFiles& tls) {
    auto at = open.find(address);
    if (at != open.end()) return at->second;
    if (open.size() >= 1000) open.clear();  // addresses that come and go
    auto channel = rpc::connect(address, tls);
    if (channel) open.emplace(address, *channel);
    return channel;
  }
};

Caller::Caller(const FederationTerms& terms)
    : terms_(terms), channels_(std::make_unique<Channels>()) {}
Caller::~Caller() = default;

namespace {

void set_place(pb::QueryStreamRequest& to, const StreamQuery& from) {
  if (!balance::is_place(from.latitude, from.longitude)) return;
  to.set_viewer_lat(from.latitude);
  to.set_viewer_lon(from.longitude);
}

}  // namespace

Async<StreamAnswer> Caller::query(std::string peer, std::string address, StreamQuery query,
                                  Clock::time_point deadline) {
  auto channel = channels_->to(address, terms_.tls);
  if (!channel) co_return std::unexpected(channel.error());
  pb::QueryStreamRequest request;
  request.set_stream_name(query.stream);
  request.set_requesting_cluster(query.requesting_cluster);
  request.set_tenant_id(query.tenant);
  request.set_is_source_selection(query.for_source);
  set_place(request, query);
  auto method = method_of<pb::FoghornFederation>(
      *channel, Method<pb::QueryStreamRequest, pb::QueryStreamResponse>(
                    &pb::FoghornFederation::StubInterface::async_interface::QueryStream));
  auto shown = co_await credential_for(*channel, terms_, query.requesting_cluster, peer, deadline);
  if (!shown) co_return std::unexpected(shown.error());
  auto response =
      co_await rpc::ask<pb::QueryStreamResponse>(method, std::move(request), *shown, deadline);
  if (!response) co_return std::unexpected(response.error());
  auto checked = check_text("public_url", response->public_url());
  if (!checked) co_return std::unexpected(checked.error());
  StreamAnswer answer{{}, response->origin_cluster_id(), response->public_url()};
  for (const auto& each : response->candidates()) {
    if (answer.candidates.size() == 10) break;
    StreamCandidate candidate;
    auto& edge = candidate.edge;
    edge.node_id = each.node_id();
    edge.base_url = each.base_url();
    edge.bw_available = each.bw_available();
    edge.bw_limit = each.bw_limit();
    edge.cpu_percent = each.cpu_percent();
    edge.ram_used = each.ram_used();
    edge.ram_max = each.ram_max();
    edge.viewer_count = each.viewer_count();
    if (each.has_geo_lat() && each.has_geo_lon()) {
      edge.geo_lat = each.geo_lat();
      edge.geo_lon = each.geo_lon();
    }
    candidate.dtsc_url = each.dtsc_url();
    candidate.buffer_state = each.buffer_state();
    candidate.is_origin = each.is_origin();
    candidate.score = each.bw_score();
    if (check(candidate)) answer.candidates.push_back(std::move(candidate));
  }
  co_return answer;
}

Async<PullAnswer> Caller::pull(std::string peer, std::string address, PullRequest from,
                               Clock::time_point deadline) {
  auto channel = channels_->to(address, terms_.tls);
  if (!channel) co_return std::unexpected(channel.error());
  pb::OriginPullRequest request;
  request.set_stream_name(from.stream);
  request.set_source_node_id(from.source_node);
  request.set_dest_cluster_id(from.dest_cluster);
  request.set_dest_node_id(from.dest_node);
  request.set_tenant_id(from.tenant);
  request.set_est_viewers(1);
  auto method = method_of<pb::FoghornFederation>(
      *channel, Method<pb::OriginPullRequest, pb::OriginPullResponse>(
                    &pb::FoghornFederation::StubInterface::async_interface::NotifyOriginPull));
  auto shown = co_await credential_for(*channel, terms_, from.dest_cluster, peer, deadline);
  if (!shown) co_return std::unexpected(shown.error());
  auto response =
      co_await rpc::ask<pb::OriginPullResponse>(method, std::move(request), *shown, deadline);
  if (!response) co_return std::unexpected(response.error());
  PullAnswer answer{response->accepted(), response->reason(), response->dtsc_url(),
                    response->source_node_id(), response->base_url()};
  auto checked = check(answer);
  if (!checked) co_return std::unexpected(checked.error());
  co_return answer;
}

namespace {

using Bootstrap = bootstrap::BootstrapService::StubInterface::async_interface;
template <class Request, class Response>
using RegistryMethod = void (Bootstrap::*)(grpc::ClientContext*, const Request*, Response*,
                                           std::function<void(grpc::Status)>);

}  // namespace

Async<> Caller::register_here(std::string cluster, std::string instance,
                              Clock::time_point deadline) {
  auto channel = channels_->to(terms_.registry, terms_.tls);
  if (!channel) co_return std::unexpected(channel.error());
  bootstrap::RegisterClusterRequest here;
  here.set_cluster_id(cluster);
  here.set_instance_id(instance);
  here.set_foghorn_addr(terms_.address);
  here.set_ttl_seconds(std::uint32_t(3 * terms_.registry_interval / 1s));
  auto method = method_of<bootstrap::BootstrapService>(
      *channel,
      RegistryMethod<bootstrap::RegisterClusterRequest, bootstrap::RegisterClusterResponse>(
          &Bootstrap::RegisterCluster));
  auto registered = co_await rpc::ask<bootstrap::RegisterClusterResponse>(method, std::move(here),
                                                                          terms_.token, deadline);
  if (!registered) co_return std::unexpected(registered.error());
  co_return ok;
}

// An entry that cannot be is left out.
Async<std::vector<PeerTerms>> Caller::list_peers(std::string cluster, Clock::time_point deadline) {
  auto channel = channels_->to(terms_.registry, terms_.tls);
  if (!channel) co_return std::unexpected(channel.error());
  bootstrap::ListPeersRequest request;
  request.set_cluster_id(cluster);
  auto method = method_of<bootstrap::BootstrapService>(
      *channel, RegistryMethod<bootstrap::ListPeersRequest, bootstrap::ListPeersResponse>(
                    &Bootstrap::ListPeers));
  auto listed = co_await rpc::ask<bootstrap::ListPeersResponse>(method, std::move(request),
                                                                terms_.token, deadline);
  if (!listed) co_return std::unexpected(listed.error());
  std::vector<PeerTerms> peers;
  for (const auto& each : listed->peers()) {
    if (!foghorn::check_id("peer", each.cluster_id()) || !is_address(each.foghorn_addr())) continue;
    PeerTerms peer{each.cluster_id(), {each.foghorn_addr()}, {}};
    for (const auto& tenant : each.shared_tenant_ids()) peer.tenants.insert(tenant);
    if (peers.size() < most_peers) peers.push_back(std::move(peer));
  }
  co_return peers;
}

// --- the service ---------------------------------------------------------------------------------

namespace {

void write(const StreamAnswer& answer, pb::QueryStreamResponse& to) {
  to.set_origin_cluster_id(answer.origin_cluster);
  to.set_public_url(answer.public_url);
  for (const auto& each : answer.candidates) {
    auto& out = *to.add_candidates();
    const auto& edge = each.edge;
    out.set_node_id(edge.node_id);
    out.set_base_url(edge.base_url);
    out.set_dtsc_url(each.dtsc_url);
    out.set_bw_score(each.score);
    out.set_is_origin(each.is_origin);
    out.set_buffer_state(each.buffer_state);
    if (balance::is_place(edge.geo_lat, edge.geo_lon)) {
      out.set_geo_lat(edge.geo_lat);
      out.set_geo_lon(edge.geo_lon);
    }
    out.set_viewer_count(edge.viewer_count);
    out.set_cpu_percent(edge.cpu_percent);
    out.set_bw_available(edge.bw_available);
    out.set_bw_limit(edge.bw_limit);
    out.set_ram_used(edge.ram_used);
    out.set_ram_max(edge.ram_max);
  }
}

// On gRPC's threads: posts. On ours: looks whether the caller is the cluster that it says it is.
class Service final : public pb::FoghornFederation::CallbackService {
 public:
  Service(const asio::any_io_executor& executor, const FederationTerms& terms, std::string self,
          Answerer& answerer)
      : executor_(executor), terms_(terms), self_(std::move(self)), answerer_(answerer) {}

  // Anybody may ask: the answer tells only those something who know the token.
  grpc::ServerUnaryReactor* Prove(grpc::CallbackServerContext* context,
                                  const pb::ProveRequest* request,
                                  pb::ProveResponse* response) override {
    auto* reactor = context->DefaultReactor();
    asio::post(executor_, [this, reactor, request, response] {
      auto token = terms_.token_of(request->caller());
      bool is_asked_well = request->callee() == self_ && request->nonce().size() <= 256 &&
                           foghorn::check_id("caller", request->caller());
      if (!is_asked_well || !token || token->empty())
        return reactor->Finish(
            {grpc::StatusCode::PERMISSION_DENIED,
             fmt::format("this is cluster {}, and there is nothing to prove", self_)});
      Dialogue dialogue{request->caller(), self_, request->nonce(), nonces_.next(Clock::now())};
      response->set_nonce(dialogue.callee_nonce);
      response->set_proof(proof_of(*token, Role::callee, dialogue));
      reactor->Finish(grpc::Status::OK);
    });
    return reactor;
  }

  grpc::ServerUnaryReactor* QueryStream(grpc::CallbackServerContext* context,
                                        const pb::QueryStreamRequest* request,
                                        pb::QueryStreamResponse* response) override {
    return answer(context, request->requesting_cluster(), [this, request, response](auto finish) {
      StreamQuery query{request->stream_name(), request->requesting_cluster(),
                        request->tenant_id()};
      if (request->has_viewer_lat() && request->has_viewer_lon()) {
        query.latitude = request->viewer_lat();
        query.longitude = request->viewer_lon();
      }
      query.for_source = request->is_source_selection();
      auto found = answerer_.query(query);
      if (!found) return finish(rpc::status_of(found.error()));
      write(*found, *response);
      finish(grpc::Status::OK);
    });
  }

  grpc::ServerUnaryReactor* NotifyOriginPull(grpc::CallbackServerContext* context,
                                             const pb::OriginPullRequest* request,
                                             pb::OriginPullResponse* response) override {
    return answer(context, request->dest_cluster_id(), [this, request, response](auto finish) {
      PullRequest pull{request->stream_name(), request->source_node_id(),
                       request->dest_cluster_id(), request->dest_node_id(), request->tenant_id()};
      answerer_.pull(std::move(pull), [response, finish](Result<PullAnswer> answered) {
        if (!answered) return finish(rpc::status_of(answered.error()));
        response->set_accepted(answered->is_accepted);
        response->set_reason(answered->reason);
        response->set_dtsc_url(answered->dtsc_url);
        response->set_source_node_id(answered->source_node);
        response->set_base_url(answered->base_url);
        finish(grpc::Status::OK);
      });
    });
  }

  grpc::ServerUnaryReactor* PrepareArtifact(grpc::CallbackServerContext* context,
                                            const pb::PrepareArtifactRequest* request,
                                            pb::PrepareArtifactResponse* response) override {
    return answer(context, request->requesting_cluster(), [this, request, response](auto finish) {
      auto found = answerer_.prepare(
          {request->artifact_hash(), request->requesting_cluster(), request->tenant_id()});
      if (!found) return finish(rpc::status_of(found.error()));
      response->set_ready(found->is_ready);
      response->set_reason(found->reason);
      response->set_artifact_type(found->type);
      for (const auto& copy : found->copies) {
        auto& out = *response->add_copies();
        out.set_node_id(copy.node);
        out.set_base_url(copy.base_url);
        out.set_path(copy.path);
        out.set_size_bytes(copy.size);
      }
      finish(grpc::Status::OK);
    });
  }

  grpc::ServerBidiReactor<pb::PeerMessage, pb::PeerMessage>* PeerChannel(
      grpc::CallbackServerContext* context) override {
    auto stream = rpc::ServerStream<pb::PeerMessage, pb::PeerMessage>::create(executor_);
    // Of which cluster it is, the first frame says.
    asio::post(executor_, [this, stream, text = rpc::shown_token(*context)] {
      auto shown = look_at(text);
      if (!shown.is_of_anybody(terms_))
        stream->finish({grpc::StatusCode::UNAUTHENTICATED, "a peer shows its token"});
      else
        answerer_.accept(std::make_shared<GrpcWire>(terms_, stream, nullptr, std::move(shown)));
    });
    return stream.get();
  }

 private:
  template <class Work>
  grpc::ServerUnaryReactor* answer(grpc::CallbackServerContext* context, const std::string& cluster,
                                   Work work) {
    auto* reactor = context->DefaultReactor();
    asio::post(executor_, [this, work, reactor, cluster, text = rpc::shown_token(*context)] {
      if (!look_at(text).is_of(terms_, cluster))
        return reactor->Finish({grpc::StatusCode::UNAUTHENTICATED, "a peer shows its token"});
      work([reactor](const grpc::Status& status) { reactor->Finish(status); });
    });
    return reactor;
  }

  // A proof counts once; one that is none is a token that nobody has.
  Shown look_at(const std::string& text) {
    auto credential = parse_credential(text);
    if (!credential) return {text, {}};
    auto& dialogue = credential->dialogue;
    dialogue.callee = self_;
    auto token = terms_.token_of(dialogue.caller);
    bool is_good = token && !token->empty() &&
                   is_proof(credential->proof, *token, Role::caller, dialogue) &&
                   nonces_.use(dialogue.callee_nonce, Clock::now());
    return is_good ? Shown{{}, dialogue.caller} : Shown{text, {}};
  }

  asio::any_io_executor executor_;
  const FederationTerms& terms_;
  std::string self_;
  Answerer& answerer_;
  Nonces nonces_;
};

}  // namespace

std::unique_ptr<grpc::Service> make_service(const asio::any_io_executor& executor,
                                            const FederationTerms& terms, std::string self,
                                            Answerer& answerer) {
  return std::make_unique<Service>(executor, terms, std::move(self), answerer);
}

}  // namespace warren::federation
