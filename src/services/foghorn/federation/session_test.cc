// The protocol of a channel as a list of facts.
#include "services/foghorn/federation/session.h"

#include <doctest/doctest.h>

#include "federation.pb.h"
#include "services/foghorn/federation/codec.h"
#include "services/foghorn/federation/view.h"

using namespace warren;
using namespace warren::federation;

namespace {

StreamAd ad(std::string name, std::string tenant = "acme") {
  StreamAd made;
  made.internal_name = std::move(name);
  made.tenant_id = std::move(tenant);
  made.playback_id = "play-" + made.internal_name;
  made.is_live = true;
  made.edges.push_back({"edge-1", "https://edge-1.b.example", "dtsc://edge-1.b.example:4200", true,
                        "FULL", 1e6, 10, 3, 52.1, 4.3});
  return made;
}

std::shared_ptr<Offer> offer_of(const std::vector<StreamAd>& ads) {
  auto offer = std::make_shared<Offer>();
  for (const auto& each : ads) offer->add(each);
  offer->edges.push_back({"edge-1", "https://edge-1.b.example", "", 1e6, 2e6, 10, 1, 2, 3});
  return offer;
}

// Two clusters that are joined by nothing but this.
struct Pair {
  FederationTerms terms;
  Clock::time_point now = Clock::time_point(1h);
  PeerSession a, b;
  std::vector<News> at_a, at_b;

  explicit Pair(FederationTerms with = {}, std::set<std::string> of_a = {},
                std::set<std::string> of_b = {})
      : terms(std::move(with)),
        a(terms, "a", PeerTerms{"b", {}, std::move(of_a)}, Hello{1, "a1", {1, 1}}, now),
        b(terms, "b", PeerTerms{"a", {}, std::move(of_b)}, Hello{1, "b1", {1, 1}}, now) {}

  static void move(Clock::time_point at, PeerSession& from, PeerSession& to,
                   std::vector<News>& news) {
    while (auto frame = from.next_frame()) {
      auto read = from_wire(to_wire(*frame));  // also over the wire it is the same
      REQUIRE(read);
      to.on_frame(at, std::move(*read));
    }
    for (auto& each : to.take_news()) news.push_back(std::move(each));
  }
  void settle() {
    for (int i = 0; i < 3; ++i) {
      move(now, a, b, at_b);
      move(now, b, a, at_a);
    }
  }
  void pass(Clock::duration time) {
    for (auto end = now + time; now < end;) {
      now += 1s;
      a.on_time(now);
      b.on_time(now);
      settle();
    }
  }
};

template <class T>
std::vector<T> all(const std::vector<News>& news) {
  std::vector<T> found;
  for (const auto& each : news)
    if (const auto* one = std::get_if<T>(&each)) found.push_back(*one);
  return found;
}

}  // namespace

TEST_CASE("each side is told everything at first, and then only what changes") {
  Pair pair;
  pair.a.offer(pair.now, offer_of({}));
  pair.b.offer(pair.now, offer_of({ad("one"), ad("two")}));
  pair.settle();
  CHECK(all<StreamAd>(pair.at_a).size() == 2);
  CHECK(all<StreamAd>(pair.at_b).empty());
  CHECK(all<EdgeTelemetry>(pair.at_a).size() == 1);
  CHECK(all<PeerHeartbeat>(pair.at_a).size() == 1);

  pair.at_a.clear();
  pair.b.offer(pair.now, offer_of({ad("two"), ad("three")}));
  pair.settle();
  auto changes = all<StreamAd>(pair.at_a);
  REQUIRE(changes.size() == 2);
  CHECK(changes[0].internal_name == "one");
  CHECK(!changes[0].is_live);
  CHECK(changes[1].internal_name == "three");
  CHECK(changes[1].is_live);
}

TEST_CASE("what changes with every report is not told for every stream") {
  Pair pair;
  pair.b.offer(pair.now, offer_of({ad("one")}));
  pair.settle();
  pair.at_a.clear();
  auto busier = ad("one");
  busier.edges[0].bw_available = 5;
  busier.edges[0].viewer_count = 99;
  pair.b.offer(pair.now, offer_of({busier}));
  pair.settle();
  CHECK(all<StreamAd>(pair.at_a).empty());
  auto emptier = ad("one");
  emptier.edges[0].buffer_state = "DRY";
  pair.b.offer(pair.now, offer_of({emptier}));
  pair.settle();
  CHECK(all<StreamAd>(pair.at_a).size() == 1);
}

TEST_CASE("a digest confirms what is known") {
  Pair pair;
  pair.a.offer(pair.now, offer_of({}));
  pair.b.offer(pair.now, offer_of({ad("one")}));
  pair.settle();
  pair.at_a.clear();
  pair.pass(21s);
  CHECK(all<Confirmed>(pair.at_a).size() == 4);
  CHECK(all<PeerHeartbeat>(pair.at_a).size() == 2);
  CHECK(all<EdgeSummary>(pair.at_a).size() == 1);
  CHECK(all<StreamAd>(pair.at_a).empty());
  CHECK(pair.a.in_sync());
}

TEST_CASE("what was lost is found by the digest and told anew") {
  Pair pair;
  pair.a.offer(pair.now, offer_of({}));
  pair.b.offer(pair.now, offer_of({ad("one"), ad("two")}));
  pair.settle();
  pair.b.offer(pair.now, offer_of({ad("two"), ad("three")}));
  REQUIRE(pair.b.next_frame());  // and nobody gets it
  pair.at_a.clear();
  pair.pass(6s);
  auto told = all<StreamAd>(pair.at_a);
  REQUIRE(told.size() == 3);  // all there is, and one that is there no more
  CHECK(!told.back().is_live);
  CHECK(told.back().internal_name == "one");
  CHECK(pair.b.counters().resyncs == 1);
  pair.pass(6s);
  CHECK(pair.a.in_sync());
}

TEST_CASE("a slow peer costs no more than its mailbox, and has the truth in the end") {
  FederationTerms terms;
  terms.mailbox_frames = 4;
  Pair pair(terms);
  pair.a.offer(pair.now, offer_of({}));
  pair.b.offer(pair.now, offer_of({}));
  pair.settle();
  std::vector<StreamAd> ads;
  for (int i = 0; i < 100; ++i) {  // and a takes nothing
    ads.push_back(ad(fmt::format("s{}", i)));
    pair.b.offer(pair.now, offer_of(ads));
  }
  CHECK(pair.b.counters().dropped > 0);
  std::size_t frames = 0;
  while (auto frame = pair.b.next_frame()) {
    ++frames;
    pair.a.on_frame(pair.now, std::move(*frame));
  }
  CHECK(frames <= 4 + 2);
  pair.settle();
  pair.pass(6s);
  CHECK(pair.a.in_sync());
  std::set<std::string> known;
  pair.at_a.clear();
  for (const auto& each : ads) CHECK(pair.a.knows(each));
}

TEST_CASE("ten thousand streams are told in parts, with changes between them") {
  Pair pair;
  std::vector<StreamAd> ads;
  for (int i = 0; i < 10'000; ++i) ads.push_back(ad(fmt::format("s{:05}", i)));
  pair.a.offer(pair.now, offer_of({}));
  pair.b.offer(pair.now, offer_of(ads));
  for (int i = 0; i < 10; ++i) {
    auto frame = pair.b.next_frame();
    REQUIRE(frame);
    pair.a.on_frame(pair.now, std::move(*frame));
  }
  ads.erase(ads.begin());        // told already
  ads.pop_back();                // not yet
  ads.push_back(ad("a-first"));  // would have been
  pair.b.offer(pair.now, offer_of(ads));
  pair.settle();
  pair.pass(6s);
  CHECK(pair.a.in_sync());
  CHECK(pair.b.counters().resyncs == 0);
  CHECK(pair.a.knows(ad("a-first")));
  CHECK(!pair.a.knows(ad("s00000")));
  CHECK(!pair.a.knows(ad("s09999")));
}

TEST_CASE("only what belongs to a tenant of both is told, and only that is heard") {
  SUBCASE("the teller keeps it to himself") {
    Pair pair({}, {"acme"}, {"acme"});
    pair.b.offer(pair.now, offer_of({ad("one"), ad("secret", "zoo"), ad("nobodys", "")}));
    pair.settle();
    auto heard = all<StreamAd>(pair.at_a);
    REQUIRE(heard.size() == 1);
    CHECK(heard[0].internal_name == "one");
  }
  SUBCASE("the hearer does not listen, and asks for nothing again") {
    Pair pair({}, {"acme"}, {});
    pair.a.offer(pair.now, offer_of({}));
    pair.b.offer(pair.now, offer_of({ad("one"), ad("secret", "zoo")}));
    pair.settle();
    pair.pass(11s);
    CHECK(all<StreamAd>(pair.at_a).size() == 1);
    CHECK(pair.a.counters().ignored == 1);
    CHECK(pair.b.counters().resyncs == 0);
    CHECK(pair.a.in_sync());
  }
}

TEST_CASE("a peer that is not who it says is sent away") {
  Pair pair;
  SUBCASE("from the first frame on") {
    pair.a.on_frame(pair.now, Frame{"c", {Hello{}}});
    REQUIRE(pair.a.over());
    CHECK(pair.a.over()->code == Errc::denied);
    CHECK(pair.a.over()->what ==
          "a frame says that it is of cluster c, and this channel is that of b");
  }
  SUBCASE("or later") {
    pair.a.on_frame(pair.now, Frame{"b", {Hello{}}});
    CHECK(!pair.a.over());
    pair.a.on_frame(pair.now, Frame{"c", {ad("one")}});
    REQUIRE(pair.a.over());
    CHECK(pair.a.take_news().empty());
  }
  SUBCASE("or in what it says") {
    pair.a.on_frame(pair.now, Frame{"b", {Hello{}}});
    pair.a.on_frame(pair.now, Frame{"b", {StreamLive{"one", "acme", "c", true}}});
    REQUIRE(pair.a.over());
    CHECK(pair.a.over()->code == Errc::denied);
  }
  SUBCASE("or without a greeting") {
    pair.a.on_frame(pair.now, Frame{"b", {ad("one")}});
    REQUIRE(pair.a.over());
    CHECK(pair.a.over()->code == Errc::protocol);
    CHECK(pair.a.take_news().empty());
  }
}

TEST_CASE("three heartbeats missed, and a peer is dead") {
  Pair pair;
  pair.a.offer(pair.now, offer_of({}));
  pair.a.on_time(pair.now + 29s);
  CHECK(!pair.a.over());
  pair.a.on_time(pair.now + 30s);
  REQUIRE(pair.a.over());
  CHECK(pair.a.over()->code == Errc::timeout);
}

TEST_CASE("who leaves says why, and who leads instead") {
  Pair pair;
  pair.b.offer(pair.now, offer_of({ad("one")}));
  pair.settle();
  pair.b.leave("not the leader", "10.0.0.2:18019");
  pair.settle();
  REQUIRE(pair.a.over());
  CHECK(pair.a.over()->what == "not the leader");
  CHECK(pair.a.leader_hint() == "10.0.0.2:18019");
  CHECK(pair.b.over());
}

TEST_CASE("frames that cannot be are refused, with the reason") {
  auto refused = [](const Frame& frame) {
    auto read = from_wire(to_wire(frame));
    if (!read) return read.error().what;
    CHECK(read->flaw.empty() == !std::holds_alternative<Flawed>(read->payloads.front()));
    return read->flaw;
  };
  auto bad = ad("one");
  bad.edges[0].bw_available = -1;
  CHECK(refused({"b", {bad}}).starts_with("bw_available"));
  bad = ad("one");
  bad.edges[0].cpu_percent = std::numeric_limits<double>::infinity();
  CHECK(refused({"b", {bad}}).starts_with("cpu_percent"));
  CHECK(!refused({"b", {ad("a:b")}}).empty());
  CHECK(!refused({"b", {ad("a*")}}).empty());
  CHECK(!refused({"b", {ad("with space")}}).empty());
  CHECK(!refused({"b", {ad(std::string(10'000, 'x'))}}).empty());
  CHECK(!refused({"", {ad("one")}}).empty());
  CHECK(!refused({"b:c", {ad("one")}}).empty());
  CHECK(refused({"b", {ad("one"), ad("two")}}).empty());
  foghorn_federation::PeerMessage place = to_wire({"b", {ad("one")}});
  place.mutable_stream_advertisement()->mutable_edges(0)->set_geo_lat(
      std::numeric_limits<double>::quiet_NaN());
  auto read = from_wire(place);
  REQUIRE(read);
  CHECK(read->flaw.starts_with("geo"));
}

TEST_CASE("a greeting says where the leader is, and one of an earlier version says nothing of it") {
  auto heard = [](const foghorn_federation::PeerMessage& message) {
    auto read = from_wire(message);
    return read ? std::get<Hello>(read->payloads.front()).address : read.error().what;
  };
  auto message = to_wire({"b", {Hello{1, "b1", {1, 1}, "10.0.0.2:18019"}}});
  CHECK(heard(message) == "10.0.0.2:18019");
  message.mutable_hello()->clear_address();
  CHECK(heard(message).empty());
  message.mutable_hello()->set_address(std::string(10'000, 'x'));
  CHECK(heard(message).starts_with("address"));
}

TEST_CASE("one thing that cannot be costs itself, and nothing else of its frame or its channel") {
  Pair pair;
  pair.a.offer(pair.now, offer_of({}));
  pair.b.offer(pair.now, offer_of({ad("good"), ad("bad"), ad("b*d")}));
  pair.settle();
  auto odd = ad("bad");
  odd.edges[0].buffer_state = "FU\nLL";
  pair.b.offer(pair.now, offer_of({ad("good"), odd, ad("b*d")}));
  pair.settle();
  pair.pass(11s);
  CHECK(!pair.a.over());
  CHECK(pair.a.knows(ad("good")));
  CHECK(!pair.a.knows(ad("b*d")));
  CHECK(!pair.a.knows(odd));
  CHECK(pair.a.in_sync());
  CHECK(pair.b.counters().resyncs == 0);
  auto told = all<StreamAd>(pair.at_a);
  REQUIRE(told.size() == 3);
  CHECK(told[2].internal_name == "bad");
  CHECK(!told[2].is_live);  // what it said before is not so any more
  pair.b.offer(pair.now, offer_of({ad("good"), ad("bad")}));
  pair.settle();
  pair.pass(6s);
  CHECK(pair.a.knows(ad("bad")));
  CHECK(pair.a.in_sync());
}

TEST_CASE("frames are no larger than a peer takes, whatever is in them") {
  Pair pair;
  auto offer = std::make_shared<Offer>();
  for (int i = 0; i < 300; ++i) {
    auto large = ad(fmt::format("s{}", i));
    large.edges.resize(most_holders_told, large.edges[0]);
    for (auto& edge : large.edges) edge.base_url = edge.dtsc_url = std::string(2000, 'x');
    offer->add(large);
  }
  EdgeSummary::Edge edge;
  edge.now.node_id = "edge";
  edge.now.base_url = std::string(2000, 'x');
  edge.roles.assign(64, std::string(2000, 'r'));
  offer->summary.edges.assign(100, edge);
  pair.b.offer(pair.now, offer);
  std::size_t frames = 0;
  while (auto frame = pair.b.next_frame()) {
    CHECK(to_wire(*frame).ByteSizeLong() < rpc::most_message_bytes);
    ++frames;
    pair.a.on_frame(pair.now, std::move(*frame));
  }
  CHECK(frames > 50);
  CHECK(!pair.a.over());
  CHECK(pair.a.knows(ad("s299")));
}

TEST_CASE("a request for everything that is lost is made again") {
  Pair pair;
  pair.a.offer(pair.now, offer_of({}));
  pair.b.offer(pair.now, offer_of({ad("one")}));
  pair.settle();
  pair.b.offer(pair.now, offer_of({ad("one"), ad("two")}));
  REQUIRE(pair.b.next_frame());  // and nobody gets it
  pair.now += 5s;
  pair.b.on_time(pair.now);
  while (auto frame = pair.b.next_frame()) pair.a.on_frame(pair.now, std::move(*frame));
  REQUIRE(pair.a.next_frame());  // the request: nobody gets it either
  pair.pass(6s);
  CHECK(pair.a.knows(ad("two")));
}

TEST_CASE("two clusters may have a stream under one public id, and one of them may end it") {
  View view;
  auto now = Clock::time_point(1h);
  Writing by{"1-2", WallClock::time_point(1000s)};
  for (auto peer : {"b", "c"}) {
    auto put = view.put(now, record_of(by, peer, ad("one")), now + 15s);
    REQUIRE(put);
  }
  view.erase(Kind::stream_ad, "c:one");
  REQUIRE(view.stream_of_playback(now, "play-one"));
  CHECK(*view.stream_of_playback(now, "play-one") == "one");
  view.erase(Kind::stream_ad, "b:one");
  CHECK(!view.stream_of_playback(now, "play-one"));
}

TEST_CASE("peers have tokens of their own, and where one has, nobody comes without") {
  auto peers = parse_peers("b=x:1,c=y:2|z:3,d=", "c=acme", "b=secret");
  REQUIRE(peers);
  FederationTerms terms;
  terms.peers = *peers;
  CHECK(terms.token_of("b") == "secret");
  CHECK(!terms.token_of("c"));
  terms.token = "all";
  CHECK(terms.token_of("c") == "all");
  CHECK(terms.token_of("b") == "secret");
  CHECK(!parse_peers("b=x:1", "", "c=secret"));
  CHECK(!parse_peers("b=x:1", "", "b"));
}

TEST_CASE("a view has what records say, until they expire") {
  View view;
  auto now = Clock::time_point(1h);
  Writing by{"1-2", WallClock::time_point(1000s)};
  auto put = [&](const Record& record) {
    auto done = view.put(now, record, now + ttl_of(record.kind));
    REQUIRE(done);
  };
  put(record_of(by, "b", ad("one")));
  put(record_of(by, "c", ad("one")));
  put(record_of(by, "b", EdgeTelemetry{"edge-1", "https://x", "", 1, 2, 3, 4, 5, 6}));
  put(record_of(by, "b", Replication{"two", "acme", "edge-1", "b", "", "", true}));
  put(record_of(by, "b", StreamLive{"one", "acme", "b", true}));
  ActiveReplication pull{"one", "edge-1", "b", "a", "edge-9", "dtsc://x", "", ""};
  put(record_of(by, "a", pull));
  CHECK(view.ads(now, "one").size() == 2);
  CHECK(view.ads(now, "one")[0].ad->edges[0].geo_lat == 52.1);
  CHECK(*view.stream_of_playback(now, "play-one") == "one");
  CHECK(view.telemetry(now, "b", "edge-1")->bw_limit == 2);
  CHECK(view.is_replicated_at(now, "two", "b"));
  CHECK(!view.is_replicated_at(now, "two", "c"));
  CHECK(*view.live_at(now, "one") == "b");
  CHECK(view.pulled(now, "one")->dest_node_id == "edge-9");
  CHECK(view.size() == 6);
  CHECK(view.ads(now + 15s, "one").empty());
  view.refresh(now + 10s, "b");
  CHECK(view.ads(now + 15s, "one").size() == 1);
  view.expire(now + 30s);
  CHECK(view.size() == 3);  // replications live five minutes, and who is live was refreshed
  view.erase(Kind::active_replications, "one");
  CHECK(!view.pulled(now, "one"));
}

namespace {

RemoteArtifact clip() {
  RemoteArtifact artifact;
  artifact.artifact_hash = "clip-1";
  artifact.tenant_id = "acme";
  artifact.node_id = "edge-1";
  return artifact;
}

// A view of what b told: a stream, a clip, a node and a copy. Besides, a pull of this cluster.
struct Told {
  View view;
  Clock::time_point began = Clock::time_point(1h), now = began;
  Writing by{"1-2", WallClock::time_point(1000s)};

  Told() {
    put(record_of(by, "b", ad("one")));
    put(record_of(by, "b", clip()));
    put(record_of(by, "b", EdgeTelemetry{"edge-1", "https://x", "", 1, 2, 3, 4, 5, 6}));
    put(record_of(by, "b", Replication{"two", "acme", "edge-1", "b", "", "", true}));
    put(record_of(by, "a", ActiveReplication{"one", "edge-1", "b", "a", "edge-9", "", "", ""}));
  }
  void put(const Record& record) {
    auto done = view.put(now, record, now + ttl_of(record.kind));
    REQUIRE(done);
  }
  bool has_stream() const { return !view.ads(now, "one").empty(); }
  bool has_clip() const { return !view.artifacts(now, "clip-1").empty(); }
};

}  // namespace

TEST_CASE("what Redis lost is believed until it would have expired, or is told again") {
  Told known;
  known.now += 1s;
  CHECK(known.view.doubt_unheard(known.now, known.now) == 5);
  CHECK(known.view.size() == 5);
  CHECK(known.has_stream());
  CHECK(known.has_clip());
  CHECK(known.view.telemetry(known.now, "b", "edge-1"));
  CHECK(known.view.doubt_unheard(known.now, known.now) == 0);  // that is known already

  SUBCASE("nobody says it again") {
    known.now = known.began + 15s;
    CHECK(!known.has_stream());
    CHECK(known.has_clip());
    known.now = known.began + 31s;
    CHECK(!known.view.telemetry(known.now, "b", "edge-1"));
    CHECK(!known.view.is_replicated_at(known.now, "two", "b"));  // not for five minutes
    CHECK(!known.view.pulled(known.now, "one"));
    CHECK(known.has_clip());
    known.now = known.began + 90s;
    CHECK(!known.has_clip());
  }
  SUBCASE(
      "its peer's digest confirmed it to another instance, which may have heard that it is gone") {
    for (; known.now < known.began + 14s; known.now += 1s) known.view.refresh(known.now, "b");
    CHECK(known.has_stream());
    known.now = known.began + 15s;
    CHECK(!known.has_stream());
  }
  SUBCASE("it is written again, and from then on is as it was") {
    known.now = known.began + 10s;
    known.put(record_of(known.by, "b", ad("one")));
    known.now = known.began + 20s;
    known.view.refresh(known.now, "b");
    CHECK(known.has_stream());
    known.now = known.began + 34s;
    CHECK(known.has_stream());
  }
  SUBCASE("its peer's digest confirmed it here") {
    known.now = known.began + 10s;
    known.view.confirm(known.now, "b");
    known.now = known.began + 20s;
    known.view.refresh(known.now, "b");
    CHECK(known.has_stream());
    CHECK(known.view.is_replicated_at(known.began + 4min, "two", "b"));
  }
  SUBCASE("it is withdrawn") {
    known.view.erase(Kind::stream_ad, "b:one");
    CHECK(!known.has_stream());
  }
}

TEST_CASE("a peer that tells too much is not heard beyond its bound") {
  View view({.records_per_peer = 2, .own_records = 1});
  Writing by{"", {}};
  auto now = Clock::now();
  for (auto name : {"one", "two"}) {
    auto put = view.put(now, record_of(by, "b", ad(name)), now + 15s);
    CHECK(put);
  }
  auto refused = view.put(now, record_of(by, "b", ad("three")), now + 15s);
  REQUIRE(!refused);
  CHECK(refused.error().code == Errc::overloaded);
  auto again = view.put(now, record_of(by, "b", ad("one")), now + 15s);
  CHECK(again);
  auto other = view.put(now, record_of(by, "c", ad("three")), now + 15s);
  CHECK(other);
  View small({.bytes_per_peer = 1000});
  auto first = small.put(now, record_of(by, "b", ad("one")), now + 15s);
  CHECK(first);
  auto second = small.put(now, record_of(by, "b", ad("two")), now + 15s);
  auto third = small.put(now, record_of(by, "b", ad("three")), now + 15s);
  CHECK(!third);
  small.erase(Kind::stream_ad, "b:one");
  third = small.put(now, record_of(by, "b", ad("three")), now + 15s);
  CHECK(third);
}

TEST_CASE("keys are those of existing deployments, braces and all") {
  Writing by{"1-2", WallClock::time_point(1000s)};
  auto record = record_of(by, "b", ad("one"));
  CHECK(key_of("a", record) == "{a}:stream_ad:b:one");
  CHECK(record.value.find(R"("peer_cluster":"b")") != std::string::npos);
  CHECK(record.value.find(R"("epoch":"1-2")") != std::string::npos);
  CHECK(key_of("a", playback_record(ad("one"))) == "{a}:playback_index:play-one");
  CHECK(playback_record(ad("one")).value == "one");
  auto gone = ad("one");
  gone.is_live = false;
  CHECK(record_of(by, "b", gone).value.empty());
  CHECK(leader_key("a") == "{a}:leader:peer_manager");
  CHECK(federation_channel("a") == "foghorn:{a}:federation");
}
