// Nodes that talk to a cluster over gRPC.
#include "helmsman.grpc.pb.h"
#include "net/rpc/server.h"
#include "net/rpc/stream.h"
#include "services/foghorn/helmsman/helmsman.h"
#include "with_client.h"

using namespace warren;
namespace pb = foghorn_control;

namespace {

using NodeStream = rpc::Stream<pb::ControlMessage, pb::ControlMessage>;

// A cluster in memory, and the server that nodes connect to.
struct Site {
  std::unique_ptr<foghorn::Cluster> cluster;
  std::unique_ptr<helmsman::Helmsman> helmsman;
  std::unique_ptr<rpc::Server> server;
  asio::any_io_executor executor;
  std::shared_ptr<grpc::Channel> channel;

  std::shared_ptr<NodeStream> connect(const std::string& token = "secret") {
    auto to = rpc::connect(fmt::format("127.0.0.1:{}", server->port()), {});
    REQUIRE(to);
    channel = *to;
    auto stub = pb::HelmsmanControl::NewStub(channel);
    using Client = rpc::ClientStream<pb::ControlMessage, pb::ControlMessage>;
    return Client::create(executor, token, [&](auto* context, auto* reactor) {
      stub->async()->Connect(context, reactor);
    });
  }
};

// Nothing is loaded yet.
awaitable<void> open(Site& site, redis::Client* client, helmsman::HelmsmanTerms how) {
  site.executor = co_await asio::this_coro::executor;
  foghorn::ClusterTerms terms;
  terms.cluster_id = "c1";
  terms.instance_id = "foghorn-1";
  auto cluster = foghorn::Cluster::create(site.executor, client, terms);
  REQUIRE(cluster);
  site.cluster = std::move(*cluster);
  site.helmsman = std::make_unique<helmsman::Helmsman>(site.executor, *site.cluster, how);
  rpc::ServerTerms at{"127.0.0.1:0"};
  auto server = rpc::Server::listen(at, {&site.helmsman->service()});
  REQUIRE(server);
  site.server = std::move(*server);
}

awaitable<void> close(Site& site) {
  co_await site.helmsman->close();
  co_await site.server->close();
  co_await site.cluster->close();
}

template <class Body>
void with_site(Body body) {
  auto session = [](Body& test) -> awaitable<void> {
    Site site;
    helmsman::HelmsmanTerms how{"secret"};
    co_await open(site, nullptr, how);
    std::exception_ptr thrown;
    try {
      auto started = co_await site.cluster->start(Clock::now() + 5s);
      REQUIRE(started);
      co_await test(site);
    } catch (...) {
      thrown = std::current_exception();
    }
    co_await close(site);
    if (thrown) std::rethrow_exception(thrown);
  };
  run(session(body));
}

awaitable<pb::ControlMessage> say(NodeStream& stream, pb::ControlMessage message) {
  auto id = message.request_id();
  auto written = co_await stream.write(std::move(message));
  REQUIRE(written);
  auto answer = co_await stream.read(Clock::now() + 10s);
  REQUIRE(answer);
  CHECK(answer->request_id() == id);
  co_return std::move(*answer);
}

pb::ControlMessage registration(const std::string& node) {
  pb::ControlMessage message;
  message.set_request_id("r-" + node);
  message.mutable_register_()->set_node_id(node);
  message.mutable_register_()->set_cap_edge(true);
  message.mutable_register_()->set_base_url("https://edge-1.example");
  return message;
}

pb::ControlMessage trigger() {
  pb::ControlMessage message;
  message.set_request_id("t");
  message.mutable_mist_trigger()->set_node_id("edge-1");
  return message;
}

pb::ControlMessage report(double cpu_tenths, const std::string& stream = {}) {
  auto message = trigger();
  auto& update = *message.mutable_mist_trigger()->mutable_node_lifecycle_update();
  update.set_cpu_tenths(cpu_tenths);
  update.set_ram_max(32e9);
  update.set_ram_current(8e9);
  update.set_bw_limit(1e9);
  update.set_up_speed(1e6);
  update.set_latitude(52.1);
  update.set_longitude(4.3);
  update.set_is_healthy(true);
  update.set_outputs_json(R"({"HLS":"https://HOST/hls/$/index.m3u8"})");
  auto& by_name = *update.mutable_streams()->mutable_by_name();
  if (stream.empty()) return message;
  by_name[stream].set_inputs(1);
  by_name[stream].set_total(2);
  by_name[stream].set_viewers(2);
  return message;
}

}  // namespace

TEST_CASE("a node registers, reports and leaves, and the cluster follows") {
  with_site([](Site& site) -> awaitable<void> {
    auto node = site.connect();
    auto seed = co_await say(*node, registration("edge-1"));
    REQUIRE(seed.has_config_seed());
    CHECK(seed.config_seed().cluster_id() == "c1");
    CHECK(seed.config_seed().heartbeat_seconds() == 30);
    CHECK(site.helmsman->connected_nodes() == 1);

    auto counted = co_await say(*node, report(375, "live+demo"));
    REQUIRE(counted.has_ack());
    auto known = site.cluster->node("edge-1");
    REQUIRE(known);
    CHECK(known->is_active);
    CHECK(known->state.cpu == 37.5);
    CHECK(known->state.host == "127.0.0.1");
    CHECK(site.cluster->stream("demo"));
    auto decided = balance::choose(site.cluster->table_here(), {.stream = "demo"});
    CHECK(decided.count == 1);

    auto beyond = report(375, "live+demo");
    auto& update = *beyond.mutable_mist_trigger()->mutable_node_lifecycle_update();
    update.set_ram_current(64e9);
    update.set_disk_total_bytes(1);
    update.set_disk_used_bytes(2);
    counted = co_await say(*node, beyond);
    CHECK(counted.has_ack());  // using more than there is costs points, not the report
    CHECK(site.cluster->node("edge-1")->state.ram_current == 64e9);

    auto ended = trigger();
    ended.mutable_mist_trigger()->mutable_stream_end()->set_stream_name("live+demo");
    auto heard = co_await say(*node, ended);
    CHECK(heard.has_ack());
    CHECK(site.cluster->stream("demo")->state.status == "offline");

    node->finish(grpc::Status::OK);
    auto gone = [&] { return !site.cluster->node("edge-1")->is_active; };
    co_await eventually(10s, "the node is disconnected", gone);
    CHECK(site.helmsman->connected_nodes() == 0);
  });
}

TEST_CASE("a viewer that was sent to a node is recognised when it comes and goes") {
  with_site([](Site& site) -> awaitable<void> {
    auto node = site.connect();
    auto seed = co_await say(*node, registration("edge-1"));
    auto counted = co_await say(*node, report(100, "demo"));
    auto id = site.cluster->redirect("edge-1", "demo", "198.51.100.7");
    CHECK(site.cluster->viewers().pending("edge-1") == 1);
    auto comes = trigger();
    auto& connect = *comes.mutable_mist_trigger()->mutable_viewer_connect();
    connect.set_stream_name("live+demo");
    connect.set_host("198.51.100.7");
    connect.set_session_id("s-1");
    connect.set_request_url("https://edge-1.example/hls/demo/index.m3u8?x=1&fwcid=" + id + "&y=2");
    auto came = co_await say(*node, comes);
    CHECK(came.has_ack());
    CHECK(site.cluster->viewers().pending("edge-1") == 0);
    CHECK(site.cluster->viewers().active("edge-1") == 1);
    auto goes = trigger();
    auto& leave = *goes.mutable_mist_trigger()->mutable_viewer_disconnect();
    leave.set_stream_name("demo");
    leave.set_session_id("s-1");
    auto went = co_await say(*node, goes);
    CHECK(went.has_ack());
    CHECK(site.cluster->viewers().active("edge-1") == 0);
    node->finish(grpc::Status::OK);
  });
}

TEST_CASE("what a node says counts in its order, however fast it says it") {
  with_site([](Site& site) -> awaitable<void> {
    auto node = site.connect();
    auto seed = co_await say(*node, registration("edge-1"));
    auto talk = [](NodeStream& to) -> Async<> {
      for (int i = 1; i <= 500; ++i) {
        auto written = co_await to.write(report(i, "demo"));
        if (!written) co_return written;
      }
      co_return ok;
    };
    auto listen = [](NodeStream& from, foghorn::Cluster& cluster) -> Async<> {
      double before = 0;
      for (int i = 1; i <= 500; ++i) {
        auto answer = co_await from.read(Clock::now() + 10s);
        if (!answer) co_return std::unexpected(answer.error());
        REQUIRE(answer->has_ack());
        auto now = cluster.node("edge-1")->state.cpu;
        REQUIRE(now >= before);
        before = now;
      }
      co_return ok;
    };
    using namespace asio::experimental::awaitable_operators;
    auto [talked, heard] = co_await (talk(*node) && listen(*node, *site.cluster));
    REQUIRE(talked);
    REQUIRE(heard);
    CHECK(site.cluster->node("edge-1")->state.cpu == 50);
    node->finish(grpc::Status::OK);
  });
}

TEST_CASE("what cannot be is refused with the reason, and changes nothing") {
  with_site([](Site& site) -> awaitable<void> {
    auto node = site.connect();
    auto early = co_await say(*node, report(1));
    CHECK(early.error().message() == "the first message of a node is Register");
    for (const auto& id : {std::string("a:b"), std::string("a*"), std::string("with space"),
                           std::string(10'000, 'x'), std::string()}) {
      auto refused = co_await say(*node, registration(id));
      CHECK(refused.error().code() == "invalid");
    }
    CHECK(site.cluster->nodes().empty());
    auto seed = co_await say(*node, registration("edge-1"));
    auto counted = co_await say(*node, report(100, "demo"));
    REQUIRE(counted.has_ack());
    auto digest = site.cluster->digest();

    auto change = [](pb::ControlMessage& message) -> pb::NodeLifecycleUpdate& {
      return *message.mutable_mist_trigger()->mutable_node_lifecycle_update();
    };
    std::vector<pb::ControlMessage> wrong;
    wrong.push_back(report(5e9));
    wrong.push_back(report(std::numeric_limits<double>::quiet_NaN()));
    wrong.push_back(report(100));
    change(wrong.back()).set_latitude(std::numeric_limits<double>::quiet_NaN());
    wrong.push_back(report(100));
    change(wrong.back()).set_longitude(std::numeric_limits<double>::infinity());
    wrong.push_back(report(100));
    change(wrong.back()).set_bw_limit(-1);
    wrong.push_back(report(100));
    change(wrong.back()).set_outputs_json("[1");
    wrong.push_back(report(100, "a:b"));
    wrong.push_back(report(100, std::string(10'000, 'x')));
    wrong.push_back(report(100));
    wrong.back().mutable_mist_trigger()->set_node_id("edge-2");
    wrong.push_back(trigger());
    wrong.push_back(trigger());
    wrong.back().mutable_mist_trigger()->mutable_stream_end()->set_stream_name("*");
    wrong.push_back(trigger());
    auto& buffer = *wrong.back().mutable_mist_trigger()->mutable_stream_buffer();
    buffer.set_stream_name("demo");
    buffer.set_details_json("{truncated");
    wrong.emplace_back().mutable_ack();
    wrong.push_back(registration("edge-2"));
    for (const auto& message : wrong) {
      CAPTURE(message.ShortDebugString());
      auto refused = co_await say(*node, message);
      CHECK(refused.error().code() == "invalid");
      CHECK(!refused.error().message().empty());
      CHECK(site.cluster->digest() == digest);
    }
    node->finish(grpc::Status::OK);
  });
}

TEST_CASE("a node that connects anew takes the place of its old stream") {
  with_site([](Site& site) -> awaitable<void> {
    auto old = site.connect();
    auto seed = co_await say(*old, registration("edge-1"));
    auto fresh = site.connect();
    seed = co_await say(*fresh, registration("edge-1"));
    auto ended = co_await old->read(Clock::now() + 10s);
    REQUIRE(!ended);
    CHECK(ended.error().what == "the node connected anew");
    auto counted = co_await say(*fresh, report(100, "demo"));
    REQUIRE(counted.has_ack());
    CHECK(site.cluster->node("edge-1")->is_active);
    CHECK(site.helmsman->connected_nodes() == 1);
    fresh->finish(grpc::Status::OK);
    old->finish(grpc::Status::OK);
  });
}

TEST_CASE("a node without the token is sent away") {
  with_site([](Site& site) -> awaitable<void> {
    auto node = site.connect("wrong");
    auto written = co_await node->write(registration("edge-1"));
    auto answer = co_await node->read(Clock::now() + 10s);
    REQUIRE(!answer);
    CHECK(answer.error().what == "a node shows its token");
    CHECK(site.cluster->nodes().empty());
    node->finish(grpc::Status::OK);
  });
}

TEST_CASE("nodes are heard before all is loaded, and told when what they say is not in Redis") {
  RedisServer server;
  auto steps = [](Site& site, RedisServer& redis) -> awaitable<void> {
    auto node = site.connect();
    auto early = co_await say(*node, registration("edge-1"));
    CHECK(early.error().code() == "unavailable");
    CHECK(site.cluster->node("edge-1"));  // it counts here all the same
    auto started = co_await site.cluster->start(Clock::now() + 20s);
    REQUIRE(started);
    auto counted = co_await say(*node, report(375, "live+demo"));
    CHECK(counted.has_ack());
    CHECK(redis.cli({"EXISTS", "{c1}:nodes:edge-1", "{c1}:stream_instances:demo:edge-1"}) == "2");
    redis.pause();
    auto refused = co_await say(*node, report(400, "live+demo"));
    // By the time limit, or as soon as it is known that Redis is away.
    bool is_told = refused.error().code() == "timeout" || refused.error().code() == "unavailable";
    CHECK_MESSAGE(is_told, refused.error().code());
    CHECK(site.cluster->node("edge-1")->state.cpu == 40);
    redis.resume();
    auto is_heard = [&] { return site.cluster->health() == MirrorHealth::current; };
    co_await eventually(20s, "Redis is heard", is_heard);
    auto again = co_await say(*node, report(500, "live+demo"));
    CHECK(again.has_ack());
    node->finish(grpc::Status::OK);
  };
  auto session = [](redis::Client& client, RedisServer& redis,
                    decltype(steps)& test) -> awaitable<void> {
    Site site;
    helmsman::HelmsmanTerms how{"secret"};
    how.is_durable = true;
    co_await open(site, &client, how);
    std::exception_ptr thrown;
    try {
      co_await test(site, redis);
    } catch (...) {
      thrown = std::current_exception();
    }
    co_await close(site);
    if (thrown) std::rethrow_exception(thrown);
  };
  with_client(settings_for(server), session, server, steps);
}
