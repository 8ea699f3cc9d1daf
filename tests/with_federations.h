#pragma once
// Clusters that know of each other, with two instances each, for the length of one test.
//
//   a1, a2 on one Redis                b1, b2 on another
//        └── leader ══ link_to_b[i] ═══> leader ──┘
//
// Every instance reaches its Redis, and is reached by others, through a link that can be cut: an
// instance whose links are cut is dead to all others.
#include "net/rpc/server.h"
#include "proof/testkit/faulty_link.h"
#include "services/foghorn/balance/view.h"
#include "services/foghorn/federation/federation.h"
#include "services/foghorn/federation/wire.h"
#include "with_client.h"

namespace warren {

using federation::Federation;
using federation::FederationTerms;
using federation::PeerTerms;
using federation::Placement;
using federation::PlaceQuery;
using federation::Way;

struct Member {
  Member(std::string of, std::string name, unsigned short redis_port)
      : cluster_id(std::move(of)),
        id(std::move(name)),
        redis_link(redis_port),
        link(port.number()) {}

  std::string cluster_id, id;
  Port port;
  FaultyLink redis_link, link;
  std::optional<redis::Settings> settings;  // instead of the link
  std::unique_ptr<redis::Client> client;
  std::unique_ptr<LeaseSession> session;
  std::unique_ptr<foghorn::Cluster> cluster;
  std::unique_ptr<Federation> federation;
  std::unique_ptr<rpc::Server> server;

  std::string address() const { return fmt::format("127.0.0.1:{}", link.port()); }
  void die() {
    redis_link.half_open();
    link.cut();
  }
};
using Members = std::vector<std::unique_ptr<Member>>;

inline FederationTerms federation_terms() {
  FederationTerms terms;
  terms.settle = 20ms;
  terms.telemetry_interval = 500ms;
  terms.digest_interval = 500ms;
  terms.heartbeat_interval = 1s;
  terms.summary_interval = 1s;
  terms.artifact_interval = 500ms;
  terms.longest_backoff = 1s;
  terms.address_interval = 1s;
  terms.token = "secret";
  return terms;
}

inline awaitable<void> start(Member& member, FederationTerms terms) {
  auto executor = co_await asio::this_coro::executor;
  auto settings = member.settings.value_or(settings_for(member.redis_link.port()));
  auto client = redis::Client::create(executor, std::move(settings));
  REQUIRE(client);
  member.client = std::move(*client);
  member.session =
      std::make_unique<LeaseSession>(*member.client, 15s, foghorn::lease_room(member.cluster_id));
  foghorn::ClusterTerms cluster_terms;
  cluster_terms.cluster_id = member.cluster_id;
  cluster_terms.instance_id = member.id;
  cluster_terms.sweep_interval = 500ms;
  auto cluster = foghorn::Cluster::create(executor, member.client.get(), cluster_terms);
  REQUIRE(cluster);
  member.cluster = std::move(*cluster);
  auto started = co_await member.cluster->start(Clock::now() + 20s);
  REQUIRE(started);
  terms.address = member.address();
  terms.public_url = fmt::format("https://play.{}.example", member.cluster_id);
  rpc::ServerTerms at{fmt::format("127.0.0.1:{}", member.port.number())};
  at.tls = terms.tls;
  auto federation = Federation::create(executor, *member.client, *member.session, *member.cluster,
                                       std::move(terms));
  REQUIRE(federation);
  member.federation = std::move(*federation);
  auto server = rpc::Server::listen(at, {&member.federation->service()});
  REQUIRE(server);
  member.server = std::move(*server);
  member.federation->start();
}

inline awaitable<void> stop(Member& member) {
  if (!member.federation) co_return;
  co_await member.federation->close();
  co_await member.server->close();
  co_await member.session->close();
  co_await member.cluster->close();
  co_await member.client->close();
  member.server.reset();
  member.federation.reset();
  member.cluster.reset();
  member.session.reset();
  member.client.reset();
}

// Two clusters a and b, and what each is told of the other: with_federations(tenants, body, …) runs
// body(Members& a, Members& b, RedisServer& redis_a, RedisServer& redis_b, …).
struct Neighbours {
  std::set<std::string> tenants_of_a = {}, tenants_of_b = {};
  FederationTerms terms = federation_terms();
  bool has_peers = true;  // by configuration
  // Of whom they have the addresses.
  std::vector<std::size_t> a_lists = {0, 1}, b_lists = {0, 1};
  std::vector<PeerTerms> strangers = {};  // further peers of b
};

template <class Body, class... Args>
void with_federations(Neighbours how, Body body, Args&... args) {
  RedisServer redis_a, redis_b;
  auto session = [](Neighbours& h, RedisServer& ra, RedisServer& rb, Body& test,
                    Args&... rest) -> awaitable<void> {
    Members a, b;
    for (auto name : {"1", "2"}) {
      a.push_back(std::make_unique<Member>("a", fmt::format("a{}", name), ra.port()));
      b.push_back(std::make_unique<Member>("b", fmt::format("b{}", name), rb.port()));
    }
    std::exception_ptr thrown;
    try {
      auto of_a = h.terms, of_b = h.terms;
      if (h.has_peers) {
        of_a.peers = {PeerTerms{"b", {}, h.tenants_of_a}};
        of_b.peers = {PeerTerms{"a", {}, h.tenants_of_b}};
        for (auto i : h.a_lists) of_a.peers.front().addresses.push_back(b[i]->address());
        for (auto i : h.b_lists) of_b.peers.front().addresses.push_back(a[i]->address());
        of_b.peers.insert(of_b.peers.end(), h.strangers.begin(), h.strangers.end());
      }
      for (auto& member : a) co_await start(*member, of_a);
      for (auto& member : b) co_await start(*member, of_b);
      co_await test(a, b, ra, rb, rest...);
    } catch (...) {
      thrown = std::current_exception();
    }
    for (auto* all : {&a, &b})
      for (auto& member : *all) {
        member->redis_link.heal();
        co_await stop(*member);
      }
    if (thrown) std::rethrow_exception(thrown);
  };
  run(session(how, redis_a, redis_b, body, args...), 120s);
}

// --- facts ---------------------------------------------------------------------------------------

inline void report(Member& member, const std::string& node,
                   std::map<std::string, foghorn::StreamReport> streams, bool has_dtsc = false) {
  foghorn::Registration registration;
  registration.node_id = node;
  registration.base_url = "https://" + node + ".example";
  registration.cap_edge = true;
  auto registered = member.cluster->register_node(registration);
  REQUIRE(registered);
  foghorn::NodeReport said;
  said.cpu_tenths = 100;
  said.ram_max = 32e9;
  said.ram_current = 8e9;
  said.up_speed = 1e6;
  said.bw_limit = 1.25e9;
  said.latitude = 52.1;
  said.longitude = 4.3;
  said.is_healthy = true;
  said.cap_edge = true;
  if (has_dtsc) said.outputs = boost::json::object{{"DTSC", "dtsc://HOST:4200/$"}};
  said.streams = std::move(streams);
  auto reported = member.cluster->report(node, said);
  REQUIRE(reported);
  auto alive = member.cluster->heartbeat(node);
  REQUIRE(alive);
}

inline foghorn::StreamReport live(std::string tenant = "acme", bool replicated = false) {
  foghorn::StreamReport stream;
  stream.total = 3;
  stream.inputs = 1;
  stream.viewers = 3;
  stream.replicated = replicated;
  stream.tenant_id = std::move(tenant);
  stream.status = "live";
  stream.buffer_state = "FULL";
  return stream;
}

inline PlaceQuery viewer_of(std::string stream, std::string tenant = "acme") {
  PlaceQuery query;
  query.stream = std::move(stream);
  query.tenant = std::move(tenant);
  query.latitude = 51.5;
  query.longitude = -0.1;
  return query;
}

inline Member* leader_of(Members& members) {
  for (auto& member : members)
    if (member->federation && member->federation->is_leader()) return member.get();
  return nullptr;
}

inline bool is_connected(Members& members) {
  auto* leader = leader_of(members);
  if (!leader) return false;
  auto peers = leader->federation->peers();
  return !peers.empty() && peers.front().is_connected;
}

inline bool knows(Member& member, const std::string& stream) {
  return !member.federation->view().ads(Clock::now(), stream).empty();
}

}  // namespace warren
