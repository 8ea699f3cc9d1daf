#pragma once
// A channel over gRPC. For .cc files.
#include <memory>

#include "federation.grpc.pb.h"
#include "federation/codec.h"
#include "federation/wire.h"
#include "rpc/stream.h"

namespace warren::federation {

using FrameStream = rpc::Stream<foghorn_federation::PeerMessage, foghorn_federation::PeerMessage>;

class GrpcWire final : public Wire {
 public:
  explicit GrpcWire(std::shared_ptr<FrameStream> stream,
                    std::shared_ptr<grpc::Channel> channel = {})
      : channel_(std::move(channel)), stream_(std::move(stream)) {}
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

 private:
  std::shared_ptr<grpc::Channel> channel_;
  std::shared_ptr<FrameStream> stream_;
};

}  // namespace warren::federation
