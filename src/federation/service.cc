#include "balance/choose.h"
#include "federation.grpc.pb.h"
#include "federation/grpc_wire.h"
#include "rpc/connect.h"
#include "rpc/stream.h"

namespace warren::federation {

namespace pb = foghorn_federation;

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

// On gRPC's threads: looks at the token, and posts.
class Service final : public pb::FoghornFederation::CallbackService {
 public:
  Service(const asio::any_io_executor& executor, std::string token, Answerer& answerer)
      : executor_(executor), token_(std::move(token)), answerer_(answerer) {}

  grpc::ServerUnaryReactor* QueryStream(grpc::CallbackServerContext* context,
                                        const pb::QueryStreamRequest* request,
                                        pb::QueryStreamResponse* response) override {
    return answer(context, [this, request, response](auto finish) {
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
    return answer(context, [this, request, response](auto finish) {
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
    return answer(context, [this, request, response](auto finish) {
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
    bool is_known = rpc::has_token(*context, token_);
    asio::post(executor_, [this, stream, is_known] {
      if (!is_known)
        stream->finish({grpc::StatusCode::UNAUTHENTICATED, "a peer shows its token"});
      else
        answerer_.accept(std::make_shared<GrpcWire>(stream));
    });
    return stream.get();
  }

 private:
  template <class Work>
  grpc::ServerUnaryReactor* answer(grpc::CallbackServerContext* context, Work work) {
    auto* reactor = context->DefaultReactor();
    if (!rpc::has_token(*context, token_)) {
      reactor->Finish({grpc::StatusCode::UNAUTHENTICATED, "a peer shows its token"});
      return reactor;
    }
    asio::post(executor_, [work, reactor] {
      work([reactor](const grpc::Status& status) { reactor->Finish(status); });
    });
    return reactor;
  }

  asio::any_io_executor executor_;
  std::string token_;
  Answerer& answerer_;
};

}  // namespace

std::unique_ptr<grpc::Service> make_service(const asio::any_io_executor& executor,
                                            std::string token, Answerer& answerer) {
  return std::make_unique<Service>(executor, std::move(token), answerer);
}

}  // namespace warren::federation
