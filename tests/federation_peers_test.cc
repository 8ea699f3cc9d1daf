// Who may be a peer, how peers are found, and on which kinds of Redis.
#include "bootstrap.grpc.pb.h"
#include "federation.grpc.pb.h"
#include "net/rpc/connect.h"
#include "with_federations.h"

using namespace warren;
using federation::Frame;
using federation::Goodbye;
using federation::Hello;

namespace {

// What the other side says at last to these frames.
Async<Goodbye> answer_to(FederationTerms terms, std::string address, std::vector<Frame> frames) {
  terms.bearer_peers = {""};  // it shows the token, so that its frames may say what they like
  auto wire = co_await federation::dial(terms, "x", "", address);
  REQUIRE(wire);
  for (auto& frame : frames) {
    auto written = co_await (*wire)->write(std::move(frame));
    if (!written) break;
  }
  for (;;) {
    auto read = co_await (*wire)->read(Clock::now() + 5s);
    if (!read) co_return std::unexpected(read.error());
    if (auto* goodbye = std::get_if<Goodbye>(&read->payloads.front())) co_return *goodbye;
  }
}

// Nothing of ours asks this yet.
Async<foghorn_federation::PrepareArtifactResponse> prepare(std::string address, std::string hash) {
  auto channel = rpc::connect(address, {});
  REQUIRE(channel);
  std::shared_ptr<foghorn_federation::FoghornFederation::Stub> stub =
      foghorn_federation::FoghornFederation::NewStub(*channel);
  foghorn_federation::PrepareArtifactRequest request;
  request.set_artifact_hash(hash);
  request.set_requesting_cluster("a");
  auto method = [stub](auto* context, const auto* from, auto* to, auto done) {
    stub->async()->PrepareArtifact(
        context, from, to, [stub, done](grpc::Status status) mutable { done(std::move(status)); });
  };
  auto by = Clock::now() + 10s;
  auto answer = co_await rpc::ask<foghorn_federation::PrepareArtifactResponse>(
      method, std::move(request), "secret", by);
  co_return answer;
}

// A registry as simple as can be: whoever registered is everybody's peer.
class Registry final : public foghorn_bootstrap::BootstrapService::CallbackService {
 public:
  grpc::ServerUnaryReactor* RegisterCluster(
      grpc::CallbackServerContext* context,
      const foghorn_bootstrap::RegisterClusterRequest* request,
      foghorn_bootstrap::RegisterClusterResponse*) override {
    std::lock_guard lock(mutex_);
    if (request->cluster_id() != forgotten_)
      addresses_[request->cluster_id()] = request->foghorn_addr();
    instances_[request->instance_id()] = request->foghorn_addr();
    auto* reactor = context->DefaultReactor();
    reactor->Finish(grpc::Status::OK);
    return reactor;
  }
  grpc::ServerUnaryReactor* ListPeers(grpc::CallbackServerContext* context,
                                      const foghorn_bootstrap::ListPeersRequest* request,
                                      foghorn_bootstrap::ListPeersResponse* response) override {
    std::lock_guard lock(mutex_);
    for (const auto& [cluster, address] : addresses_) {
      if (cluster == request->cluster_id()) continue;
      auto& peer = *response->add_peers();
      peer.set_cluster_id(cluster);
      peer.set_foghorn_addr(address);
      peer.add_shared_tenant_ids(tenant_);
    }
    auto* reactor = context->DefaultReactor();
    reactor->Finish(grpc::Status::OK);
    return reactor;
  }

  std::map<std::string, std::string> instances() {
    std::lock_guard lock(mutex_);
    return instances_;
  }
  void share(const std::string& tenant) {
    std::lock_guard lock(mutex_);
    tenant_ = tenant;
  }
  void forget(const std::string& cluster) {
    std::lock_guard lock(mutex_);
    forgotten_ = cluster;
    addresses_.erase(cluster);
  }

 private:
  std::mutex mutex_;
  std::map<std::string, std::string> addresses_, instances_;
  std::string tenant_ = "acme", forgotten_;
};

awaitable<void> steps(Members& a, Members& b, FederationTerms of_a, FederationTerms of_b) {
  for (auto& member : a) co_await start(*member, of_a);
  for (auto& member : b) co_await start(*member, of_b);
  report(*b[0], "b-edge", {{"demo", live()}});
  for (auto& member : a)
    co_await eventually(30s, "it is known", [&] { return knows(*member, "demo"); });
  auto* leader = leader_of(a);
  REQUIRE(leader);
  co_await stop(*leader);
  auto* next = a[0]->federation ? a[0].get() : a[1].get();
  co_await eventually(20s, "the other leads", [&] { return next->federation->is_leader(); });
  report(*b[1], "b-edge-2", {{"new", live()}});
  co_await eventually(30s, "it is known", [&] { return knows(*next, "new"); });
}

}  // namespace

TEST_CASE("who is not a peer, or says that it is another, is sent away with the reason") {
  auto body = [](Members& a, Members& b, RedisServer&, RedisServer& rb) -> awaitable<void> {
    co_await eventually(10s, "the channel is open", [&] { return is_connected(a); });
    auto* leader = leader_of(b);
    REQUIRE(leader);
    auto address = leader->address();
    auto terms = federation_terms();
    Hello hello{1, "x", {1u << 20, ~0ull}};
    federation::StreamAd ad;
    ad.internal_name = "forged";
    ad.is_live = true;
    struct Case {
      std::vector<Frame> frames;
      std::string reason;
    };
    std::vector<Case> cases;
    cases.push_back({{{"nobody", {hello}}}, "cluster nobody is not a peer of b"});
    cases.push_back({{{"b", {hello}}}, "b is this cluster"});
    cases.push_back({{{"a", {ad}}}, "the first frame is not a greeting"});
    cases.push_back({{{"a", {Hello{1, "x", {0, 1}}}}}, "a newer leader of a is here"});
    cases.push_back({{{"a", {Hello{2, "x", {1, 1}}}}}, "protocol version 2"});
    for (auto& each : cases) {
      auto answer = co_await answer_to(terms, address, each.frames);
      REQUIRE(answer);
      CHECK(answer->reason == each.reason);
    }
    // Also who has the larger id, of whom another leader is here.
    std::vector<Frame> of_b{{"b", {Hello{1, "x", {0, 1}}}}};
    auto older = co_await answer_to(terms, leader_of(a)->address(), of_b);
    REQUIRE(older);
    CHECK(older->reason == "a newer leader of b is here");
    // One that changes its name on the way.
    std::vector<Frame> frames{{"a", {hello}}, {"c", {ad}}};
    auto liar = co_await answer_to(terms, address, frames);
    REQUIRE(!liar);
    CHECK(liar.error().what ==
          "a frame says that it is of cluster c, and this channel is that of a");
    CHECK(rb.cli({"KEYS", "*forged*"}).empty());
    auto bad = ad;
    bad.internal_name = "for*ged";
    hello.address = "no address";
    frames = {{"a", {hello}}, {"a", {bad}}};
    auto hostile = co_await answer_to(terms, address, frames);
    REQUIRE(!hostile);  // it is not heard, and the channel stays
    CHECK(hostile.error().what == "nothing was heard for three heartbeats");
    CHECK(rb.cli({"KEYS", "*ged*"}).empty());
    CHECK(rb.cli({"HGET", "{b}:peer_addresses", "a"}) == a[0]->address());  // and not what it said
    terms.token = "wrong";
    frames = {{"a", {hello}}};
    auto denied = co_await answer_to(terms, address, frames);
    REQUIRE(!denied);
    CHECK(denied.error().what == "a peer shows its token");
    terms.token = "secret";
    auto& follower = leader == b[0].get() ? *b[1] : *b[0];
    auto elsewhere = co_await answer_to(terms, follower.address(), frames);
    REQUIRE(elsewhere);
    CHECK(elsewhere->reason == "not the leader");
    CHECK(elsewhere->leader_address == leader->address());
    co_await eventually(20s, "and the true one is there again", [&] { return is_connected(a); });
  };
  with_federations({}, body);
}

TEST_CASE("questions that cannot be are refused, and a stranger learns nothing") {
  auto body = [](Members&, Members& b, RedisServer&, RedisServer&) -> awaitable<void> {
    report(*b[0], "b-edge", {{"demo", live()}}, true);
    auto terms = federation_terms();
    federation::Caller caller(terms);
    auto by = Clock::now() + 10s;
    federation::StreamQuery query{"demo", "b", "acme"};
    auto own = co_await caller.query("b", b[0]->address(), query, by);
    REQUIRE(!own);
    CHECK(own.error().code == Errc::invalid);
    query.requesting_cluster = "a";
    query.stream = "";
    auto nameless = co_await caller.query("b", b[0]->address(), query, by);
    REQUIRE(!nameless);
    CHECK(nameless.error().code == Errc::invalid);
    query.stream = "demo";
    auto found = co_await caller.query("b", b[0]->address(), query, by);
    REQUIRE(found);
    REQUIRE(found->candidates.size() == 1);
    CHECK(found->candidates[0].is_origin);
    CHECK(found->candidates[0].dtsc_url == "dtsc://b-edge.example:4200/live+demo");
    CHECK(found->origin_cluster == "b");
    query.requesting_cluster = "stranger";
    auto nothing = co_await caller.query("b", b[0]->address(), query, by);
    REQUIRE(nothing);
    CHECK(nothing->candidates.empty());

    federation::PullRequest pull{"demo", "", "a", "a-edge", "zoo"};
    auto other = co_await caller.pull("b", b[0]->address(), pull, by);
    REQUIRE(other);
    CHECK(!other->is_accepted);
    CHECK(other->reason == "stream not found locally");
    pull.tenant = "acme";
    pull.source_node = "no-such-node";
    auto sourceless = co_await caller.pull("b", b[0]->address(), pull, by);
    REQUIRE(sourceless);
    CHECK(sourceless->reason == "could not resolve source node ID");
    pull.source_node.clear();
    REQUIRE(b[0]->cluster->set_mode("b-edge", balance::NodeMode::draining, "ann"));
    auto drained = co_await caller.pull("b", b[0]->address(), pull, by);
    REQUIRE(drained);
    CHECK(!drained->is_accepted);
    CHECK(drained->reason == "no source node available: all suitable nodes are draining");
    REQUIRE(b[0]->cluster->set_mode("b-edge", balance::NodeMode::normal, "ann"));
    auto accepted = co_await caller.pull("b", b[0]->address(), pull, by);
    REQUIRE(accepted);
    CHECK(accepted->is_accepted);
    CHECK(accepted->source_node == "b-edge");

    auto stored = b[0]->cluster->add_artifact("b-edge", {"clip-1", "clip", "/clips/1", 1000});
    REQUIRE(stored);
    auto ready = co_await prepare(b[0]->address(), "clip-1");
    REQUIRE(ready);
    CHECK(ready->ready());
    REQUIRE(ready->copies_size() == 1);
    CHECK(ready->copies(0).path() == "/clips/1");
    auto absent = co_await prepare(b[0]->address(), "clip-2");
    REQUIRE(absent);
    CHECK(!absent->ready());
  };
  with_federations({}, body);
}

TEST_CASE("a peer speaks for itself alone: its token is not that of another") {
  auto body = [](Members&, Members& b, RedisServer&, RedisServer&) -> awaitable<void> {
    report(*b[0], "b-edge", {{"demo", live()}}, true);
    co_await eventually(20s, "b has a leader", [&] { return leader_of(b) != nullptr; });
    FederationTerms as_c = federation_terms();
    as_c.token = "of c";
    std::vector<Frame> frames{{"a", {Hello{1, "x", {1u << 20, 1}}}}};
    auto liar = co_await answer_to(as_c, leader_of(b)->address(), frames);
    REQUIRE(liar);
    CHECK(liar->reason == "this is not the token of a");
    federation::Caller caller(as_c);
    federation::StreamQuery query{"demo", "a", "acme"};
    auto by = Clock::now() + 10s;
    auto denied = co_await caller.query("b", b[0]->address(), query, by);
    REQUIRE(!denied);
    CHECK(denied.error().code == Errc::denied);
    query.requesting_cluster = "c";
    auto allowed = co_await caller.query("b", b[0]->address(), query, by);
    REQUIRE(allowed);
    CHECK(allowed->candidates.size() == 1);
  };
  Neighbours how;
  how.strangers = {PeerTerms{"c", {}, {}, "of c"}};
  with_federations(how, body);
}

namespace {

// Somebody who answers at the address of a peer, and notes what it is shown.
class Impostor final : public foghorn_federation::FoghornFederation::CallbackService {
 public:
  grpc::ServerBidiReactor<foghorn_federation::PeerMessage, foghorn_federation::PeerMessage>*
  PeerChannel(grpc::CallbackServerContext* context) override {
    note(*context);
    struct Ended final : grpc::ServerBidiReactor<foghorn_federation::PeerMessage,
                                                 foghorn_federation::PeerMessage> {
      Ended() { Finish(grpc::Status::OK); }
      void OnDone() override { delete this; }
    };
    return new Ended;
  }
  grpc::ServerUnaryReactor* QueryStream(grpc::CallbackServerContext* context,
                                        const foghorn_federation::QueryStreamRequest*,
                                        foghorn_federation::QueryStreamResponse*) override {
    note(*context);
    auto* reactor = context->DefaultReactor();
    reactor->Finish(grpc::Status::OK);
    return reactor;
  }

  // It knows no token, and says what it likes.
  grpc::ServerUnaryReactor* Prove(grpc::CallbackServerContext* context,
                                  const foghorn_federation::ProveRequest*,
                                  foghorn_federation::ProveResponse* response) override {
    note(*context, is_question);
    response->set_nonce(std::string(80, '0'));
    response->set_proof(std::string(64, '0'));
    auto* reactor = context->DefaultReactor();
    reactor->Finish(grpc::Status::OK);
    return reactor;
  }

  bool has_seen(const std::string& text) {
    std::lock_guard lock(mutex_);
    return seen_.contains(text);
  }
  int calls() {
    std::lock_guard lock(mutex_);
    return calls_;
  }

 private:
  static constexpr bool is_question = true;
  void note(const grpc::CallbackServerContext& context, bool is_asked_to_prove = false) {
    std::lock_guard lock(mutex_);
    if (!is_asked_to_prove) ++calls_;
    for (const auto& [name, value] : context.client_metadata()) {
      seen_.append(name.data(), name.size()).append(": ");
      seen_.append(value.data(), value.size()).append("\n");
    }
  }

  std::mutex mutex_;
  std::string seen_;
  int calls_ = 0;
};

}  // namespace

TEST_CASE("whoever answers in the place of a peer is not believed, and learns no token") {
  Impostor impostor;
  rpc::ServerTerms at{"127.0.0.1:0"};
  auto server = rpc::Server::listen(at, {&impostor});
  REQUIRE(server);
  Neighbours how;
  how.has_peers = false;
  how.terms.peers = {PeerTerms{"z", {fmt::format("127.0.0.1:{}", (*server)->port())}}};
  auto body = [](Members& a, Members&, RedisServer&, RedisServer&, rpc::Server& own,
                 Impostor& other) -> awaitable<void> {
    co_await eventually(20s, "a has a leader", [&] { return leader_of(a) != nullptr; });
    auto& federation = *leader_of(a)->federation;
    co_await eventually(20s, "it was dialled", [&] {
      auto peers = federation.peers();
      return !peers.empty() && peers.front().problem;
    });
    auto placed = co_await federation.place(viewer_of("nowhere"), Clock::now() + 5s);
    REQUIRE(placed);
    CHECK(placed->way == Way::nowhere);
    CHECK(!is_connected(a));
    CHECK(federation.peers().front().problem == "it does not know the token of z");
    CHECK(!other.has_seen("secret"));
    CHECK(other.calls() == 0);  // neither a channel nor a question
    co_await own.close();
  };
  with_federations(how, body, **server, impostor);
}

namespace {

// A smaller id of an earlier version: it dials, and is not dialled.
class Earlier final : public foghorn_federation::FoghornFederation::CallbackService {
 public:
  using Message = foghorn_federation::PeerMessage;

  grpc::ServerBidiReactor<Message, Message>* PeerChannel(grpc::CallbackServerContext*) override {
    struct Refusal final : grpc::ServerBidiReactor<Message, Message> {
      explicit Refusal(Earlier& earlier) : of(earlier) { StartRead(&in); }
      void OnReadDone(bool is_good) override {
        if (is_good) of.note(in.cluster_id());
        out.set_cluster_id("0");
        out.mutable_goodbye()->set_reason("0 dials " + in.cluster_id() + ", not the other way");
        StartWriteAndFinish(&out, {}, grpc::Status::OK);
      }
      void OnDone() override { delete this; }
      Earlier& of;
      Message in, out;
    };
    return new Refusal(*this);
  }

  std::vector<Clock::time_point> dialled_by(const std::string& cluster) {
    std::lock_guard lock(mutex_);
    return dialled_[cluster];
  }

 private:
  void note(const std::string& cluster) {
    std::lock_guard lock(mutex_);
    dialled_[cluster].push_back(Clock::now());
  }

  std::mutex mutex_;
  std::map<std::string, std::vector<Clock::time_point>> dialled_;
};

}  // namespace

TEST_CASE(
    "a peer of an earlier version that refuses to be dialled is dialled less and less often") {
  Earlier earlier;
  rpc::ServerTerms at{"127.0.0.1:0"};
  auto server = rpc::Server::listen(at, {&earlier});
  REQUIRE(server);
  Neighbours how;
  how.has_peers = false;
  how.terms.larger_dials_after = 100ms;
  how.terms.peers = {PeerTerms{"0", {fmt::format("127.0.0.1:{}", (*server)->port())}}};
  how.terms.bearer_peers = {"0"};
  auto body = [](Members& a, Members&, RedisServer&, RedisServer&, rpc::Server& own,
                 Earlier& other) -> awaitable<void> {
    co_await eventually(30s, "it is dialled again and again",
                        [&] { return other.dialled_by("a").size() >= 6; });
    auto dialled = other.dialled_by("a");
    for (std::size_t i = 0; i < 5; ++i) {
      auto pause = std::min<Clock::duration>(100ms * (1 << i), 1s);
      CHECK(dialled[i + 1] - dialled[i] >= pause - 20ms);  // the call takes some time itself
    }
    CHECK(leader_of(a)->federation->peers().front().problem == "0 dials a, not the other way");
    co_await own.close();
  };
  with_federations(how, body, **server, earlier);
}

TEST_CASE("peers are found in peer_addresses, and in a registry") {
  Neighbours how;
  how.has_peers = false;
  SUBCASE("an operator writes them to Redis") {
    how.a_lists = how.b_lists = {};
    how.has_peers = true;
    auto body = [](Members& a, Members& b, RedisServer& ra, RedisServer& rb) -> awaitable<void> {
      ra.cli({"HSET", "{a}:peer_addresses", "b", b[0]->address()});
      rb.cli({"HSET", "{b}:peer_addresses", "a", a[0]->address()});
      // Of whom nothing is known but the address: which tenants it shares is not.
      ra.cli({"HSET", "{a}:peer_addresses", "c", b[1]->address()});
      report(*b[0], "b-edge", {{"demo", live()}});
      co_await eventually(30s, "the channel is open", [&] { return is_connected(a); });
      co_await eventually(10s, "it is known", [&] { return knows(*a[1], "demo"); });
      CHECK(leader_of(a)->federation->peers().size() == 1);
      CHECK(ra.cli({"HGET", "{a}:peer_addresses", "c"}) == b[1]->address());
    };
    with_federations(how, body);
  }
  SUBCASE("a registry lists them") {
    Registry registry;
    rpc::ServerTerms at{"127.0.0.1:0"};
    auto server = rpc::Server::listen(at, {&registry});
    REQUIRE(server);
    how.terms.registry = fmt::format("127.0.0.1:{}", (*server)->port());
    how.terms.registry_interval = 1s;
    auto body = [](Members& a, Members& b, RedisServer& ra, RedisServer&, rpc::Server& own,
                   Registry& list) -> awaitable<void> {
      report(*b[0], "b-edge", {{"demo", live()}, {"secret", live("zoo")}});
      co_await eventually(30s, "the channel is open", [&] { return is_connected(a); });
      co_await eventually(10s, "it is known", [&] { return knows(*a[1], "demo"); });
      CHECK(ra.cli({"KEYS", "*secret*"}).empty());  // not of a tenant that is shared
      // Also who does not lead knows it, and asks.
      for (auto& member : a)
        co_await eventually(10s, "each knows the peer",
                            [&] { return member->federation->peers().size() == 1; });
      // Each instance registers itself, whether it leads or not.
      std::map<std::string, std::string> expected;
      for (auto* of : {&a, &b})
        for (auto& member : *of) expected[member->id] = member->address();
      co_await eventually(20s, "all have registered", [&] { return list.instances() == expected; });
      list.share("zoo");
      co_await eventually(20s, "under the new terms",
                          [&] { return knows(*a[0], "secret") && !knows(*a[0], "demo"); });
      list.forget("b");
      co_await eventually(20s, "the channel is closed", [&] { return !is_connected(a); });
      co_await own.close();
    };
    with_federations(how, body, **server, registry);
  }
}

TEST_CASE(
    "it is the same on Sentinel and on Redis Cluster, and with no more rights than it needs") {
  auto scenario = [](std::vector<redis::Settings>& of_a,
                     std::vector<redis::Settings>& of_b) -> awaitable<void> {
    Members a, b;
    for (std::size_t i = 0; i < 2; ++i) {
      a.push_back(std::make_unique<Member>("a", fmt::format("a{}", i), 1));
      b.push_back(std::make_unique<Member>("b", fmt::format("b{}", i), 1));
      a[i]->settings = of_a[i];
      b[i]->settings = of_b[i];
    }
    auto terms_a = federation_terms(), terms_b = federation_terms();
    terms_a.peers = {PeerTerms{"b", {b[0]->address(), b[1]->address()}}};
    terms_b.peers = {PeerTerms{"a", {a[0]->address(), a[1]->address()}}};
    std::exception_ptr thrown;
    try {
      co_await steps(a, b, terms_a, terms_b);
    } catch (...) {
      thrown = std::current_exception();
    }
    for (auto* all : {&a, &b})
      for (auto& member : *all) co_await stop(*member);
    if (thrown) std::rethrow_exception(thrown);
  };
  SUBCASE("one on Sentinel, one on a cluster") {
    SentinelTrio trio;
    RedisCluster cluster;
    std::vector<redis::Settings> of_a(2, settings_for(trio)), of_b(2, settings_for(cluster));
    run(scenario(of_a, of_b), 90s);
  }
  SUBCASE("both on one server, each with the rights of its own keys and channels") {
    RedisOptions options;
    options.users = {"cluster-a on >secret ~{a}:* &foghorn:{a}:* +@all",
                     "cluster-b on >secret ~{b}:* &foghorn:{b}:* +@all"};
    RedisServer server(options);
    auto as = [&](const std::string& user) {
      auto settings = settings_for(server);
      settings.credentials = {user, "secret"};
      return settings;
    };
    std::vector<redis::Settings> of_a(2, as("cluster-a")), of_b(2, as("cluster-b"));
    run(scenario(of_a, of_b), 90s);
  }
}
