#include "services/foghorn/helmsman/helmsman.h"

#include "base/log.h"
#include "helmsman.grpc.pb.h"
#include "net/rpc/connect.h"
#include "net/rpc/stream.h"
#include "services/foghorn/helmsman/messages.h"

namespace warren::helmsman {

namespace pb = foghorn_control;

namespace {

constexpr std::size_t most_streams_open = 10'000;

using ControlStream = rpc::Stream<pb::ControlMessage, pb::ControlMessage>;

pb::ControlMessage answer_to(const pb::ControlMessage& message) {
  pb::ControlMessage answer;
  answer.set_request_id(message.request_id());
  auto now = WallClock::now().time_since_epoch();
  answer.set_sent_at(std::chrono::duration_cast<std::chrono::milliseconds>(now).count());
  return answer;
}

}  // namespace

class Helmsman::Core final : public pb::HelmsmanControl::CallbackService {
 public:
  Core(asio::any_io_executor executor, foghorn::Cluster& cluster, HelmsmanTerms terms)
      : executor_(executor), cluster_(cluster), terms_(std::move(terms)), streams_(executor) {}

  // On gRPC's thread.
  grpc::ServerBidiReactor<pb::ControlMessage, pb::ControlMessage>* Connect(
      grpc::CallbackServerContext* context) override {
    auto stream = rpc::ServerStream<pb::ControlMessage, pb::ControlMessage>::create(executor_);
    bool is_known = rpc::has_token(*context, terms_.token);
    asio::post(executor_, [this, stream, is_known, host = host_of_peer(context->peer())] {
      if (!is_known)
        stream->finish({grpc::StatusCode::UNAUTHENTICATED, "a node shows its token"});
      else if (is_closing_)
        stream->finish({grpc::StatusCode::UNAVAILABLE, "this instance is closing"});
      else if (streams_.running() >= most_streams_open)
        stream->finish({grpc::StatusCode::RESOURCE_EXHAUSTED, "too many nodes"});
      else
        streams_.start("helmsman.stream", serve(stream, host));
    });
    return stream.get();
  }

  awaitable<void> close() {
    is_closing_ = true;
    for (auto& [node, stream] : nodes_)
      stream->finish({grpc::StatusCode::UNAVAILABLE, "this instance is closing"});
    streams_.stop();
    co_await streams_.join();
  }

  std::size_t connected() const { return nodes_.size(); }

  std::shared_ptr<void> publish(Metrics& metrics) const {
    return metrics.on_collect(
        [this, nodes = metrics.gauge("warren_helmsman_nodes", "Nodes with an open stream."),
         good = metrics.counter("warren_helmsman_messages_total", "Messages of nodes.",
                                {{"outcome", "counted"}}),
         bad = metrics.counter("warren_helmsman_messages_total", "Messages of nodes.",
                               {{"outcome", "refused"}})]() mutable {
          nodes.set(double(nodes_.size()));
          good.raise_to(double(counted_));
          bad.raise_to(double(refused_));
        });
  }

 private:
  // One message at a time: so they count in their order, and a fast node is slowed down.
  awaitable<void> serve(std::shared_ptr<ControlStream> stream, std::string host) {
    std::string node;  // once it is registered
    struct Ending {
      Core& core;
      std::string& node;
      std::shared_ptr<ControlStream> stream;
      ~Ending() { core.leave(node, stream); }
    } ending{*this, node, stream};
    for (;;) {
      auto message = co_await stream->read(Clock::now() + terms_.silence);
      if (!message) {
        if (message.error().code == Errc::timeout)
          stream->finish({grpc::StatusCode::DEADLINE_EXCEEDED, "nothing was heard"});
        co_return;
      }
      auto answer = answer_to(*message);
      auto done = handle(*message, stream, host, node, answer);
      if (done && terms_.is_durable)
        done = co_await cluster_.durable(Clock::now() + terms_.durable_time);
      ++(done ? counted_ : refused_);
      if (!done) {
        answer.mutable_error()->set_code(std::string(name(done.error().code)));
        answer.mutable_error()->set_message(done.error().what);
      }
      auto written = co_await stream->write(std::move(answer));
      if (!written) co_return;
    }
  }

  Result<> handle(const pb::ControlMessage& message, const std::shared_ptr<ControlStream>& stream,
                  const std::string& host, std::string& node, pb::ControlMessage& answer) {
    if (message.payload_case() == pb::ControlMessage::kRegister)
      return register_node(message.register_(), stream, host, node, answer);
    if (node.empty()) return fail(Errc::invalid, "the first message of a node is Register");
    auto current = nodes_.find(node);
    if (current == nodes_.end() || current->second != stream)
      return fail(Errc::held_elsewhere, "{} connected anew", node);
    auto of = [&](const std::string& said) -> Result<> {
      if (said.empty() || said == node) return ok;
      return fail(Errc::invalid, "node_id: this stream is that of {}", node);
    };
    answer.mutable_ack();
    switch (message.payload_case()) {
      case pb::ControlMessage::kHeartbeat: {
        auto own = of(message.heartbeat().node_id());
        if (!own) return own;
        return cluster_.heartbeat(node);
      }
      case pb::ControlMessage::kMistTrigger: {
        const auto& trigger = message.mist_trigger();
        for (const auto* said : {&trigger.node_id(), &trigger.node_lifecycle_update().node_id(),
                                 &trigger.stream_lifecycle_update().node_id()}) {
          auto own = of(*said);
          if (!own) return own;
        }
        return apply(cluster_, node, trigger);
      }
      default:  // what goes to nodes, and what a newer one says
        return fail(Errc::invalid, "a message that is not a node's");
    }
  }

  Result<> register_node(const pb::Register& message, const std::shared_ptr<ControlStream>& stream,
                         const std::string& host, std::string& node, pb::ControlMessage& answer) {
    if (!node.empty() && message.node_id() != node)
      return fail(Errc::invalid, "node_id: this stream is that of {}", node);
    auto registration = registration_of(message, host);
    auto checked = foghorn::check_id("node_id", registration.node_id);
    if (!checked) return checked;
    auto registered = cluster_.register_node(registration);
    if (!registered) return registered;
    node = registration.node_id;
    auto& current = nodes_[node];
    if (current && current != stream)
      current->finish({grpc::StatusCode::ABORTED, "the node connected anew"});
    current = stream;
    // A stream that stands is a sign of life.
    auto alive = cluster_.heartbeat(node);
    if (!alive) return alive;
    log::info("helmsman.node_registered", "node", node, "host", host);
    auto& seed = *answer.mutable_config_seed();
    seed.set_node_id(node);
    seed.set_cluster_id(cluster_.terms().cluster_id);
    auto known = cluster_.node(node);
    auto mode = known ? known->mode : balance::NodeMode::normal;
    seed.set_operational_mode(std::string(foghorn::name(mode)));
    seed.set_heartbeat_seconds(std::uint32_t(terms_.heartbeat.count()));
    seed.set_report_seconds(std::uint32_t(terms_.report.count()));
    return ok;
  }

  void leave(const std::string& node, const std::shared_ptr<ControlStream>& stream) {
    stream->finish(grpc::Status::OK);
    auto current = nodes_.find(node);
    if (node.empty() || current == nodes_.end() || current->second != stream) return;
    nodes_.erase(current);
    // When we leave, the node turns to another instance; that is not its end.
    if (is_closing_) return;
    auto gone = cluster_.connection_lost(node);
    log::info("helmsman.node_disconnected", "node", node);
    if (!gone) log::warn("helmsman.disconnect_failed", "node", node, "why", gone.error().what);
  }

  asio::any_io_executor executor_;
  foghorn::Cluster& cluster_;
  HelmsmanTerms terms_;
  std::map<std::string, std::shared_ptr<ControlStream>> nodes_;  // the one that counts
  bool is_closing_ = false;
  std::uint64_t counted_ = 0, refused_ = 0;
  TaskGroup streams_;
};

Helmsman::Helmsman(asio::any_io_executor executor, foghorn::Cluster& cluster, HelmsmanTerms terms)
    : core_(std::make_unique<Core>(std::move(executor), cluster, std::move(terms))) {}
Helmsman::~Helmsman() = default;

grpc::Service& Helmsman::service() { return *core_; }
std::size_t Helmsman::connected_nodes() const { return core_->connected(); }
std::shared_ptr<void> Helmsman::publish(Metrics& metrics) const { return core_->publish(metrics); }
awaitable<void> Helmsman::close() { co_await core_->close(); }

}  // namespace warren::helmsman
