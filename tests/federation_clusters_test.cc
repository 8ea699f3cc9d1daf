// Two clusters on two Redis servers, joined by gRPC on this machine.
#include "services/foghorn/federation/writer.h"
#include "services/foghorn/http/surface.h"
#include "with_federations.h"
#include "with_sessions.h"

using namespace warren;

namespace {

awaitable<Placement> place(Member& member, PlaceQuery query) {
  auto placed = co_await member.federation->place(std::move(query), Clock::now() + 3s);
  REQUIRE(placed);
  co_return std::move(*placed);
}

awaitable<void> until_known(Members& members, std::string stream, bool is_known = true) {
  for (auto& member : members) {
    if (!member->federation) continue;
    auto fact = [](Member& m, std::string& s, bool& wanted) { return knows(m, s) == wanted; };
    co_await eventually(30s, member->id + " knows of " + stream, fact, *member, stream, is_known);
  }
}

long ttl(RedisServer& redis, const std::string& key) { return std::stol(redis.cli({"PTTL", key})); }

}  // namespace

TEST_CASE("a stream that is live only in b is found from a, by each of its instances") {
  with_federations({}, [](Members& a, Members& b, RedisServer&, RedisServer&) -> awaitable<void> {
    report(*b[1], "b-edge", {{"demo", live()}});
    co_await until_known(a, "demo");
    for (auto& member : a) {
      auto placed = co_await place(*member, viewer_of("demo"));
      CHECK(placed.way == Way::redirect);
      CHECK(placed.redirect_url("demo", "a") == "https://play.b.example/play/demo?from=a");
      CHECK(member->federation->ingested_at("demo") == "b");
    }
    // Who was sent here is not sent on.
    auto sent = viewer_of("demo");
    sent.from_cluster = "b";
    auto stays = co_await place(*a[0], sent);
    CHECK(stays.way == Way::nowhere);

    report(*b[1], "b-edge", {});
    co_await until_known(a, "demo", false);
    auto gone = co_await place(*a[0], viewer_of("demo"));
    CHECK(gone.way == Way::nowhere);
  });
}

TEST_CASE(
    "a stream with a DTSC output is pulled through an edge of a, once, and no loop comes of it") {
  with_federations(
      {}, [](Members& a, Members& b, RedisServer& ra, RedisServer& rb) -> awaitable<void> {
        report(*a[0], "a-edge", {});
        report(*b[0], "b-edge", {{"demo", live()}}, true);
        co_await until_known(a, "demo");
        co_await eventually(10s, "both know the edge",
                            [&] { return a[1]->cluster->node("a-edge").has_value(); });
        for (auto& member : a) {
          auto placed = co_await place(*member, viewer_of("demo"));
          CHECK(placed.way == Way::pull);
          CHECK(placed.node_id == "a-edge");
          CHECK(member->federation->source_of("demo") == "dtsc://b-edge.example:4200/live+demo");
        }
        auto in = ra.cli({"GET", "{a}:active_replications:demo"});
        CHECK(in.find(R"("source_cluster":"b")") != std::string::npos);
        CHECK(in.find(R"("dest_node_id":"a-edge")") != std::string::npos);
        CHECK(rb.cli({"EXISTS", "{b}:active_replications:demo:a"}) == "1");

        // The edge has it: the pull is over, and b knows that a has a copy.
        report(*a[0], "a-edge", {{"demo", live("acme", true)}}, true);
        co_await eventually(10s, "the pull is over", [&] {
          return ra.cli({"EXISTS", "{a}:active_replications:demo"}) == "0";
        });
        co_await eventually(10s, "b knows of the copy", [&] {
          return rb.cli({"EXISTS", "{b}:remote_replications:demo:a"}) == "1";
        });
        auto local = co_await place(*a[1], viewer_of("demo"));
        CHECK(local.way == Way::local);
        CHECK(local.node_id == "a-edge");

        // b loses its own: a's copy is not pulled back, and a viewer does not go in circles.
        report(*b[0], "b-edge", {}, true);
        co_await eventually(10s, "b has none", [&] {
          return !balance::choose(*b[0]->cluster->table(), {.stream = "demo"}).count;
        });
        co_await until_known(b, "demo");
        auto back = co_await place(*b[0], viewer_of("demo"));
        CHECK(back.way == Way::redirect);
        CHECK(rb.cli({"EXISTS", "{b}:active_replications:demo"}) == "0");
        auto circled = viewer_of("demo");
        circled.from_cluster = "b";
        auto ends = co_await place(*a[0], circled);
        CHECK(ends.way == Way::local);

        // The copy ends: b is told at once, and does not wait for its key to expire.
        report(*a[0], "a-edge", {}, true);
        co_await eventually(10s, "b knows that it is gone", [&] {
          return rb.cli({"EXISTS", "{b}:remote_replications:demo:a"}) == "0";
        });
      });
}

TEST_CASE("many viewers of one stream arrange one pull") {
  with_federations({}, [](Members& a, Members& b, RedisServer&, RedisServer&) -> awaitable<void> {
    report(*a[0], "a-edge", {});
    report(*b[0], "b-edge", {{"demo", live()}}, true);
    co_await until_known(a, "demo");
    co_await eventually(10s, "both know the edge",
                        [&] { return a[1]->cluster->node("a-edge").has_value(); });
    auto before = b[0]->link.counters().accepted + b[1]->link.counters().accepted;
    int pulled = 0;
    auto crowd = [](TaskGroup& group, Members& at, int& count) -> awaitable<bool> {
      auto one = [](Member& member, int& number) -> awaitable<void> {
        auto placed = co_await place(member, viewer_of("demo"));
        number += placed.way == Way::pull && placed.node_id == "a-edge";
      };
      for (int i = 0; i < 40; ++i) group.start("viewer", one(*at[std::size_t(i % 2)], count));
      while (group.running() > 0) co_await sleep_for(1ms);
      co_return true;
    };
    bool done = co_await with_group(crowd, a, pulled);
    CHECK(done);
    CHECK(pulled == 40);
    auto after = b[0]->link.counters().accepted + b[1]->link.counters().accepted;
    CHECK(after - before <= 2);  // one connection of each instance, for all
  });
}

TEST_CASE("streams of a tenant that is not shared are neither told nor found by asking") {
  Neighbours how;
  how.tenants_of_a = how.tenants_of_b = {"acme"};
  with_federations(how,
                   [](Members& a, Members& b, RedisServer& ra, RedisServer&) -> awaitable<void> {
                     report(*b[0], "b-edge", {{"demo", live("acme")}, {"secret", live("zoo")}});
                     co_await until_known(a, "demo");
                     CHECK(!knows(*a[0], "secret"));
                     auto keys = ra.cli({"KEYS", "*secret*"});
                     CHECK(keys.empty());
                     auto asked = co_await place(*a[0], viewer_of("secret", "zoo"));
                     CHECK(asked.way == Way::nowhere);
                     auto pretends = co_await place(*a[0], viewer_of("secret", "acme"));
                     CHECK(pretends.way == Way::nowhere);
                     auto other = co_await place(*a[0], viewer_of("demo", "zoo"));
                     CHECK(other.way == Way::nowhere);
                   });
}

TEST_CASE("what no channel told is found by asking, and the answer is remembered, also a no") {
  Neighbours how;
  how.terms.settle = how.terms.telemetry_interval = 1min;  // the channel is slow to tell
  auto body = [](Members& a, Members& b, RedisServer&, RedisServer&) -> awaitable<void> {
    co_await eventually(10s, "the channel is open", [&] { return is_connected(a); });
    report(*b[0], "b-edge", {{"demo", live()}});
    auto both = [&] { return b[1]->cluster->node("b-edge").has_value(); };
    co_await eventually(10s, "all of b know it", both);
    for (auto& member : a) {
      auto placed = co_await place(*member, viewer_of("demo"));
      CHECK(placed.way == Way::redirect);
      CHECK(!knows(*member, "demo"));
    }

    auto began = Clock::now();
    auto none = co_await place(*a[0], viewer_of("nothing"));
    CHECK(none.way == Way::nowhere);
    auto now = a[0]->federation->place_now(viewer_of("nothing"));
    REQUIRE(now);  // from memory
    CHECK(now->way == Way::nowhere);
    CHECK(Clock::now() - began < 20s);  // not the minute after which the channel tells
  };
  with_federations(how, body);
}

TEST_CASE("all keys are there as existing deployments know them, and live as long as they should") {
  Neighbours how;
  how.terms.telemetry_interval = 1s;
  with_federations(
      how, [](Members& a, Members& b, RedisServer& ra, RedisServer&) -> awaitable<void> {
        report(*a[0], "a-edge", {});
        auto stream = live();
        stream.playback_id = "pb-1";
        report(*b[0], "b-edge", {{"demo", stream}}, true);
        report(*b[0], "b-edge-2", {{"copy", live("acme", true)}}, true);
        auto stored = b[0]->cluster->add_artifact("b-edge", {"clip-1", "clip", "/clips/1", 1000});
        REQUIRE(stored);
        co_await until_known(a, "demo");
        auto placed = co_await place(*a[0], viewer_of("demo"));
        CHECK(placed.way == Way::pull);
        struct Expected {
          const char* key;
          long ms;
        };
        for (auto [key, ms] :
             std::initializer_list<Expected>{{"{a}:remote_edges:b:b-edge", 30'000},
                                             {"{a}:remote_replications:copy:b", 300'000},
                                             {"{a}:active_replications:demo", 300'000},
                                             {"{a}:edge_summary:b", 60'000},
                                             {"{a}:stream_ad:b:demo", 15'000},
                                             {"{a}:playback_index:pb-1", 30'000},
                                             {"{a}:leader:peer_manager", 15'000},
                                             {"{a}:peer_addresses", 30'000},
                                             {"{a}:remote_live:demo", 30'000},
                                             {"{a}:peer_heartbeat:b", 30'000}}) {
          CAPTURE(key);
          co_await eventually(10s, std::string(key) + " is there",
                              [&] { return ra.cli({"EXISTS", key}) == "1"; });
          auto left = ttl(ra, key);
          CHECK(left > 0);
          CHECK(left <= ms);
          CHECK(left > ms - 12'000);
        }
        auto leader = ra.cli({"GET", "{a}:leader:peer_manager"});
        CHECK((leader == "a1" || leader == "a2"));
        CHECK(ra.cli({"GET", "{a}:playback_index:pb-1"}) == "demo");
        CHECK(ra.cli({"HGET", "{a}:peer_addresses", "b"}) == leader_of(b)->address());
        auto ad = ra.cli({"GET", "{a}:stream_ad:b:demo"});
        for (auto member : {R"("internal_name":"demo")", R"("tenant_id":"acme")",
                            R"("origin_cluster_id":"b")", R"("peer_cluster":"b")", R"("epoch":")",
                            R"("dtsc_url":"dtsc://b-edge.example:4200/live+demo")"})
          CHECK(ad.find(member) != std::string::npos);
        CHECK(a[1]->federation->stream_of_playback("pb-1") == "demo");
        co_await eventually(40s, "the clip is known", [&] {
          return !a[1]->federation->artifact_at("clip-1", 52, 4).empty();
        });
        // Nothing but the leader's beat keeps them: 20 s later the short ones are still there.
        co_await sleep_for(16s);
        CHECK(ra.cli({"EXISTS", "{a}:stream_ad:b:demo"}) == "1");
        CHECK(ra.cli({"EXISTS", "{a}:playback_index:pb-1"}) == "1");
        // And what somebody deleted comes back.
        ra.cli({"DEL", "{a}:stream_ad:b:demo"});
        co_await eventually(10s, "the ad is back",
                            [&] { return ra.cli({"EXISTS", "{a}:stream_ad:b:demo"}) == "1"; });
      });
}

TEST_CASE("a follower knows what the leader knows, and leads at once when that one stops") {
  with_federations(
      {}, [](Members& a, Members& b, RedisServer& ra, RedisServer&) -> awaitable<void> {
        std::map<std::string, foghorn::StreamReport> streams;
        for (int i = 0; i < 1000; ++i) streams[fmt::format("s{}", i)] = live();
        report(*b[0], "b-edge", streams);
        co_await until_known(a, "s999");
        auto same = [&] {
          return a[0]->federation->view().digest() == a[1]->federation->view().digest() &&
                 a[0]->federation->view().size() > 2000;
        };
        co_await eventually(20s, "both views are equal", same);
        auto* leader = leader_of(a);
        REQUIRE(leader);
        auto& next = leader == a[0].get() ? *a[1] : *a[0];
        auto before = next.federation->view().size();
        auto began = Clock::now();
        co_await stop(*leader);
        co_await eventually(20s, "the other leads", [&] { return next.federation->is_leader(); });
        auto took = Clock::now() - began;
        CHECK(took < 5s);  // not the ttl of the role, which is 15 s
        MESSAGE("clean take-over, the closing of the old leader included: " << took / 1ms << " ms");
        CHECK(ra.cli({"GET", "{a}:leader:peer_manager"}) == next.id);
        co_await eventually(20s, "the channel is open again", [&] { return is_connected(a); });
        CHECK(next.federation->view().size() >= before - 10);
        report(*b[0], "b-edge", {{"new", live()}});
        co_await until_known(a, "new");
        co_await until_known(a, "s999", false);
      });
}

namespace {

// Questions to one instance without a pause, and its answers.
struct Asking {
  explicit Asking(Member& of) : surface({{of.cluster.get(), of.federation.get()}}, metrics, {}) {}

  Metrics metrics;
  foghorn::Surface surface;
  std::map<std::string, std::size_t> answers = {};  // by path and status
  std::size_t waited = 0;  // answers for which another cluster was asked about a stream
};

awaitable<void> ask_on(Asking& asking) {
  for (;;) {
    for (std::string path : {"/play/clip-1/hls", "/play/demo/hls", "/demo"}) {
      HttpRequest request{.method = "GET", .path = path, .query = ""};
      request.client = asio::ip::make_address("127.0.0.1");
      HttpAnswer answer;
      auto work = asking.surface.answer(request, answer);
      if (work) {
        asking.waited += !path.contains("clip");  // other clusters are asked whether it is a stream
        co_await *std::move(work);
      }
      auto says = path == "/demo" ? answer.body : std::to_string(answer.status);
      ++asking.answers[path + " " + says];
    }
    co_await sleep_for(2ms);
  }
}

std::string shown(const Asking& asking) {
  std::string all;
  for (const auto& [answer, count] : asking.answers) all += fmt::format("{}: {}\n", answer, count);
  return all;
}

// Redis has all that b told and the leader of a, and both instances of a know the same.
bool is_told_again(Members& a, RedisServer& redis) {
  return redis.cli({"EXISTS", "{a}:stream_ad:b:demo", "{a}:remote_live:demo",
                    "{a}:remote_edges:b:b-edge", "{a}:remote_artifacts:b:clip-1:b-edge",
                    "{a}:leader:peer_manager"}) == "5" &&
         is_connected(a) && a[0]->federation->view().digest() == a[1]->federation->view().digest();
}

awaitable<bool> lose_all(TaskGroup& tasks, std::vector<std::unique_ptr<Asking>>& asking, Members& a,
                         RedisServer& redis, void (*lose)(RedisServer&)) {
  co_await eventually(60s, "all is known", is_told_again, a, redis);
  for (auto& each : asking) tasks.start("test.asking", ask_on(*each));
  auto enough = [](Asking& of, std::size_t& count) {
    return of.answers["/play/clip-1/hls 307"] > count;
  };
  lose(redis);
  co_await eventually(60s, "all is told again", is_told_again, a, redis);
  for (auto& each : asking) {
    auto more = each->answers["/play/clip-1/hls 307"] + 100;
    co_await eventually(30s, "there are more answers", enough, *each, more);
    CHECK_MESSAGE(each->answers.size() == 3, shown(*each));
    CHECK(each->answers["/play/demo/hls 307"] > 100);
    CHECK(each->answers["/demo b-edge.example"] > 100);
    CHECK(each->waited == 0);
  }
  co_return true;
}

}  // namespace

TEST_CASE("a Redis that loses all of its data costs no viewer what other clusters have") {
  static void (*lose)(RedisServer&) = nullptr;
  SUBCASE("FLUSHALL") {
    lose = [](RedisServer& redis) { redis.cli({"FLUSHALL"}); };
  }
  SUBCASE("it is killed, and comes back empty") {
    lose = [](RedisServer& redis) {
      redis.kill();
      redis.restart();
    };
  }
  Neighbours how;
  how.terms.digest_interval = 2s;     // nothing that was lost is written again before a digest
  how.terms.reload_interval = 100ms;  // and until then each follower misses it many times
  auto body = [](Members& a, Members& b, RedisServer& ra, RedisServer&) -> awaitable<void> {
    report(*b[0], "b-edge", {{"demo", live()}});
    REQUIRE(b[0]->cluster->add_artifact("b-edge", {"clip-1", "clip", "/clips/1", 1000}));
    for (auto& member : a)
      co_await eventually(30s, "both know the clip", [&] {
        return knows(*member, "demo") && !member->federation->artifact_at("clip-1", 52, 4).empty();
      });
    std::vector<std::unique_ptr<Asking>> asking;  // the tasks end before it does
    for (auto& member : a) asking.push_back(std::make_unique<Asking>(*member));
    bool done = co_await with_group(lose_all, asking, a, ra, lose);
    CHECK(done);
  };
  with_federations(how, body);
}

TEST_CASE("what a peer withdrew while an instance could not hear it goes there within its ttl") {
  auto body = [](Members& a, Members& b, RedisServer& ra, RedisServer&) -> awaitable<void> {
    report(*b[0], "b-edge", {{"demo", live()}, {"other", live()}});
    co_await until_known(a, "demo");
    co_await until_known(a, "other");
    auto* leader = leader_of(a);
    REQUIRE(leader);
    auto& follower = leader == a[0].get() ? *a[1] : *a[0];
    follower.redis_link.cut();
    report(*b[0], "b-edge", {{"other", live()}});
    co_await eventually(10s, "Redis has it no more",
                        [&] { return ra.cli({"EXISTS", "{a}:stream_ad:b:demo"}) == "0"; });
    follower.redis_link.heal();
    auto began = Clock::now();
    co_await eventually(30s, "it is gone", [&] { return !knows(follower, "demo"); });
    auto took = Clock::now() - began;
    CHECK(took < federation::ttl_of(federation::Kind::stream_ad) + 2s);
    MESSAGE("until it was gone: " << took / 1ms << " ms");
    CHECK(knows(follower, "other"));
    CHECK(!knows(*leader, "demo"));
  };
  with_federations({}, body);
}

TEST_CASE("what a leader writes after the next one wrote is refused, and nothing of it is there") {
  RedisServer server;
  with_sessions(
      {settings_for(server), settings_for(server)}, 15s,
      [](Sessions& holders, RedisServer& redis) -> awaitable<void> {
        LeaseTerms terms{federation::leader_key("a"), "a1"};
        auto leads = co_await holders[0]->try_acquire(terms);
        REQUIRE(leads);
        federation::Writer writer(holders[0]->client(), "a", "a1");
        std::vector<federation::Record> records{
            {federation::Kind::playback_index, "first", "demo"}};
        auto written = co_await writer.write(records, &*leads);
        CHECK(written);
        CHECK(redis.cli({"GET", "{a}:playback_index:first"}) == "demo");

        // A failover lost its grant, and another was made of which it does not know yet.
        auto newer = leads->token();
        ++newer.counter;
        redis::Command shown("SET", "{a}:shown", "x");
        auto accepted = co_await run_guarded(holders[1]->client(), leads->fence(), newer, shown);
        REQUIRE(accepted);
        records = {{federation::Kind::playback_index, "first", ""},
                   {federation::Kind::playback_index, "second", "demo"}};
        auto late = co_await writer.write(records, &*leads);
        REQUIRE(!late);
        CHECK(late.error().code == Errc::lease_lost);
        CHECK(redis.cli({"GET", "{a}:playback_index:first"}) == "demo");
        CHECK(redis.cli({"EXISTS", "{a}:playback_index:second"}) == "0");
      },
      server);
}

TEST_CASE(
    "when a leader is killed the other of its cluster leads, and finds the other cluster again") {
  with_federations({}, [](Members& a, Members& b, RedisServer&, RedisServer&) -> awaitable<void> {
    report(*b[0], "b-edge", {{"demo", live()}});
    report(*b[1], "b-edge-2", {{"demo", live()}});
    co_await until_known(a, "demo");
    for (auto* side : {&b, &a}) {  // who is dialled, and who dials
      auto* old = leader_of(*side);
      REQUIRE(old);
      auto& next = old == (*side)[0].get() ? *(*side)[1] : *(*side)[0];
      auto began = Clock::now();
      old->die();
      co_await eventually(20s, "the other leads", [&] { return next.federation->is_leader(); });
      auto took = Clock::now() - began;
      CHECK(took < 16s);
      MESSAGE("take-over after a kill: " << took / 1ms << " ms");
      co_await eventually(20s, "the channel is open again", [&] {
        auto* left = leader_of(a);
        auto peers = left ? left->federation->peers() : std::vector<federation::PeerView>();
        return left && !peers.empty() && peers.front().is_connected;
      });
      auto& viewer = side == &a ? next : *leader_of(a);
      co_await eventually(20s, "the stream is found", [&] { return knows(viewer, "demo"); });
      auto placed = co_await place(viewer, viewer_of("demo"));
      CHECK(placed.way == Way::redirect);
    }
  });
}

namespace {

// Its only way out is to dial: nobody was told where it is.
awaitable<Member*> add_unlisted(Members& a, Members& b, RedisServer& rb) {
  auto terms = federation_terms();
  terms.peers = {PeerTerms{"a", {a[0]->address(), a[1]->address()}}};
  b.push_back(std::make_unique<Member>("b", "b3", rb.port()));
  co_await start(*b.back(), terms);
  co_return b.back().get();
}

std::uint64_t frames_in(Members& members) {
  auto* leader = leader_of(members);
  auto peers = leader ? leader->federation->peers() : std::vector<federation::PeerView>();
  return peers.empty() ? 0 : peers.front().frames_in;
}

std::uint64_t accepted(Members& members) {
  std::uint64_t count = 0;
  for (auto& member : members) count += member->link.counters().accepted;
  return count;
}

}  // namespace

TEST_CASE("a leader at an address that the other cluster does not list is found all the same") {
  Neighbours how;
  SUBCASE("the addresses that it lists are dead") {}
  SUBCASE("it lists none") { how.a_lists = {}; }
  auto body = [](Members& a, Members& b, RedisServer& ra, RedisServer& rb) -> awaitable<void> {
    co_await eventually(20s, "the channel is open", [&] { return is_connected(a); });
    auto* old = leader_of(b);
    REQUIRE(old);
    co_await stop(old == b[0].get() ? *b[1] : *b[0]);  // nobody is left who could say who leads
    auto* next = co_await add_unlisted(a, b, rb);
    co_await stop(*old);
    co_await eventually(20s, "the new one leads", [&] { return next->federation->is_leader(); });
    auto began = Clock::now();
    co_await eventually(20s, "the channel is open again", [&] { return is_connected(a); });
    auto took = Clock::now() - began;
    CHECK(took < 10s);  // two of them without a channel
    MESSAGE("until the channel was open: " << took / 1ms << " ms");
    report(*next, "b-edge", {{"demo", live()}});
    co_await until_known(a, "demo");
    auto placed = co_await place(*a[0], viewer_of("demo"));
    CHECK(placed.way == Way::redirect);
    co_await eventually(10s, "its address is in Redis", [&] {
      return ra.cli({"HGET", "{a}:peer_addresses", "b"}) == next->address();
    });
  };
  with_federations(how, body);
}

TEST_CASE("where a leader says that it is, the next leader of the other cluster finds it") {
  Neighbours how;
  how.a_lists = {1};  // who does not lead, and says who does
  how.b_lists = {};   // b can dial nobody but the leader that greets it
  auto body = [](Members& a, Members& b, RedisServer& ra, RedisServer&) -> awaitable<void> {
    co_await eventually(20s, "the channel is open", [&] { return is_connected(a); });
    REQUIRE(leader_of(b) == b[0].get());
    co_await eventually(10s, "it is in Redis", [&] {
      return ra.cli({"HGET", "{a}:peer_addresses", "b"}) == b[0]->address();
    });
    co_await stop(*b[1]);
    auto* old = leader_of(a);
    REQUIRE(old);
    co_await stop(*old);
    co_await eventually(20s, "the next leader has a channel", [&] { return is_connected(a); });
    CHECK(ra.cli({"HGET", "{a}:peer_addresses", "b"}) == b[0]->address());
  };
  with_federations(how, body);
}

TEST_CASE("clusters that dial each other at once have one channel, and keep it") {
  Neighbours how;
  how.terms.larger_dials_after = 0ms;
  auto body = [](Members& a, Members& b, RedisServer&, RedisServer&) -> awaitable<void> {
    auto told = [](Members& x, Members& y) -> awaitable<void> {
      auto first_x = frames_in(x), first_y = frames_in(y);
      co_await eventually(30s, "both hear of each other", [&] {
        return frames_in(x) >= first_x + 10 && frames_in(y) >= first_y + 10;
      });
    };
    auto both = [&] { return is_connected(a) && is_connected(b); };
    co_await eventually(20s, "both have a channel", both);
    for (int round = 0; round < 2; ++round) {
      auto to_a = accepted(a), to_b = accepted(b);
      for (auto* side : {&a, &b})
        for (auto& member : *side) {
          member->link.cut();
          member->link.heal();
          // Greetings pass each other on their way.
          for (auto way : {Direction::to_server, Direction::to_client})
            member->link.delay(way, 100ms);
        }
      auto dialled = [&] { return accepted(a) > to_a && accepted(b) > to_b; };
      co_await eventually(20s, "both have dialled", dialled);
      co_await told(a, b);
      auto before = accepted(a) + accepted(b);
      co_await told(a, b);
      CHECK(accepted(a) + accepted(b) == before);
      CHECK(both());
    }
  };
  with_federations(how, body);
}

TEST_CASE("clusters that are far from each other find each other") {
  with_federations({}, [](Members& a, Members& b, RedisServer&, RedisServer&) -> awaitable<void> {
    for (auto& member : b) {
      member->link.cut();
      member->link.heal();
      for (auto way : {Direction::to_server, Direction::to_client}) member->link.delay(way, 150ms);
    }
    report(*b[0], "b-edge", {{"demo", live()}});
    co_await until_known(a, "demo");
  });
}

TEST_CASE("one odd name of one node costs that name, and no channel") {
  with_federations({}, [](Members& a, Members& b, RedisServer&, RedisServer&) -> awaitable<void> {
    auto odd = live();
    odd.playback_id = "with space";
    auto strange = live("a tenant:of*mine");
    report(*b[0], "b-edge", {{"demo", live()}, {"odd", odd}, {"strange", strange}});
    co_await until_known(a, "demo");
    report(*b[0], "b-edge", {{"demo", live()}, {"next", live()}, {"odd", odd}});
    co_await until_known(a, "next");
    CHECK(!knows(*a[0], "odd"));
    CHECK(is_connected(a));
  });
}

TEST_CASE("of a peer any address is asked, also when the first is dead") {
  Neighbours how;
  how.terms.settle = how.terms.telemetry_interval = 1min;  // the channel is slow to tell
  auto body = [](Members& a, Members& b, RedisServer&, RedisServer&) -> awaitable<void> {
    co_await eventually(10s, "the channel is open", [&] { return is_connected(a); });
    report(*b[1], "b-edge", {{"demo", live()}});
    b[0]->link.cut();
    auto placed = co_await place(*a[0], viewer_of("demo"));
    CHECK(placed.way == Way::redirect);
  };
  with_federations(how, body);
}

TEST_CASE("a pull to a node that is gone is arranged anew, to another") {
  with_federations({},
                   [](Members& a, Members& b, RedisServer& ra, RedisServer&) -> awaitable<void> {
                     report(*a[0], "a-edge", {});
                     report(*b[0], "b-edge", {{"demo", live()}}, true);
                     co_await until_known(a, "demo");
                     auto placed = co_await place(*a[0], viewer_of("demo"));
                     CHECK(placed.node_id == "a-edge");
                     auto gone = a[0]->cluster->disconnect("a-edge");
                     REQUIRE(gone);
                     report(*a[0], "a-edge-2", {});
                     co_await eventually(10s, "it is gone", [&] {
                       auto again = a[0]->federation->place_now(viewer_of("demo"));
                       return !again || again->node_id != "a-edge";
                     });
                     placed = co_await place(*a[0], viewer_of("demo"));
                     CHECK(placed.way == Way::pull);
                     CHECK(placed.node_id == "a-edge-2");
                     auto record = ra.cli({"GET", "{a}:active_replications:demo"});
                     CHECK(record.find("a-edge-2") != std::string::npos);
                   });
}

TEST_CASE("a partition between clusters is noticed, and heals by itself") {
  with_federations({}, [](Members& a, Members& b, RedisServer&, RedisServer&) -> awaitable<void> {
    report(*b[0], "b-edge", {{"demo", live()}});
    co_await until_known(a, "demo");
    for (auto* side : {&a, &b})  // either may dial
      for (auto& member : *side) member->link.half_open();
    co_await eventually(20s, "it is noticed", [&] { return !is_connected(a); });
    co_await until_known(a, "demo", false);  // 15 s: nobody says it any more
    report(*b[0], "b-edge", {{"other", live()}});
    for (auto* side : {&a, &b})
      for (auto& member : *side) member->link.heal();
    co_await until_known(a, "other");
    CHECK(!knows(*a[0], "demo"));
  });
}

namespace {

rpc::TlsFiles files_of(const CertificatePair& pair, const Certificates& signed_by) {
  return {pair.certificate, pair.key, signed_by.ca()};
}

awaitable<void> three_clusters(Members& all, Certificates& ours, Certificates& foreign) {
  auto terms_of = [&](const Member& of) {
    auto terms = federation_terms();
    terms.tls = files_of(ours.issue({of.cluster_id + ".example", "IP:127.0.0.1"}), ours);
    for (const auto& other : all)
      if (other->cluster_id != of.cluster_id)
        terms.peers.push_back(PeerTerms{other->cluster_id, {other->address()}});
    return terms;
  };
  for (auto& member : all) co_await start(*member, terms_of(*member));
  for (auto& member : all)
    report(*member, member->cluster_id + "-edge", {{"of-" + member->cluster_id, live()}});
  for (auto& member : all)
    for (const auto& other : all)
      if (other != member)
        co_await eventually(30s, member->cluster_id + " knows of " + other->cluster_id,
                            [&] { return knows(*member, "of-" + other->cluster_id); });
  // The token is not enough, and neither is a certificate that somebody else signed.
  auto stranger = terms_of(*all[0]);
  federation::StreamQuery question{"of-b", "a", "acme"};
  auto asked = [](FederationTerms terms, std::string address,
                  federation::StreamQuery query) -> awaitable<bool> {
    federation::Caller caller(terms);
    auto by = Clock::now() + 3s;
    auto answer = co_await caller.query("b", address, query, by);
    co_return bool(answer);
  };
  auto address = all[1]->address();
  CHECK(co_await asked(stranger, address, question));
  stranger.tls = {};
  CHECK(!co_await asked(stranger, address, question));
  stranger.tls.authority = ours.ca();
  CHECK(!co_await asked(stranger, address, question));
  stranger.tls = files_of(foreign.issue({"a.example", "IP:127.0.0.1"}), ours);
  CHECK(!co_await asked(stranger, address, question));
  // And neither is a certificate without the token.
  stranger = terms_of(*all[0]);
  stranger.token = "wrong";
  CHECK(!co_await asked(stranger, address, question));
}

}  // namespace

TEST_CASE("three clusters with certificates know of each other, and both sides must show theirs") {
  RedisServer server;
  Certificates ours, foreign;
  auto scenario = [](RedisServer& redis, Certificates& good, Certificates& bad) -> awaitable<void> {
    Members all;
    for (std::string id : {"a", "b", "c"})
      all.push_back(std::make_unique<Member>(id, id + "1", redis.port()));
    std::exception_ptr thrown;
    try {
      co_await three_clusters(all, good, bad);
    } catch (...) {
      thrown = std::current_exception();
    }
    for (auto& member : all) co_await stop(*member);
    if (thrown) std::rethrow_exception(thrown);
  };
  run(scenario(server, ours, foreign), 90s);
}
