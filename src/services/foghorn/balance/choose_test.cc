#include "services/foghorn/balance/choose.h"

#include <doctest/doctest.h>

#include "services/foghorn/balance/test_tables.h"

using namespace warren::balance;

namespace {

NodeFacts at(NodeFacts facts, double latitude, double longitude) {
  facts.latitude = latitude;
  facts.longitude = longitude;
  return facts;
}

NodeFacts loaded(NodeFacts facts, double cpu, double ram, double up) {
  facts.cpu_percent = cpu;
  facts.ram_current = ram;
  facts.up_speed = up;
  return facts;
}

// The three nodes of docs/protocols/balancer.md, all with the stream `demo`.
struct World {
  TableBuilder builder;
  std::shared_ptr<const RoutingTable> table;

  World() {
    builder.put_node(at(loaded(an_edge("ams"), 37.5, 12 * gib, 41'943'040), 52.3676, 4.9041));
    builder.put_node(at(loaded(an_edge("nyc"), 12.0, 4 * gib, 10'485'760), 40.7128, -74.0060));
    builder.put_node(at(loaded(an_edge("sin"), 5.5, 2 * gib, 1'048'576), 1.3521, 103.8198));
    for (auto node : {"ams", "nyc", "sin"}) builder.put_holding("demo", node, serving());
    builder.penalty("ams")->bandwidth = 262'144;
    table = builder.publish();
  }
};

}  // namespace

TEST_CASE("the worked example: idle edges far away win over a loaded one nearby") {
  World world;
  auto decision = choose(*world.table, from_london());
  CHECK(ids(*world.table, decision) == "nyc sin ams");
  CHECK(decision.best[0].total == 2570);
  CHECK(decision.best[1].total == 2443);
  CHECK(decision.best[2].total == 2337);
}

TEST_CASE("an explanation has every component of the score") {
  World world;
  auto score = explained(*world.table, from_london(), "ams").score;
  CHECK(score.cpu == 313);
  CHECK(score.ram == 313);
  CHECK(score.bw == 678);
  CHECK(score.geo == 983);
  CHECK(score.bonus == 50);
  CHECK(score.total == 2337);
  score = explained(*world.table, from_london(), "nyc").score;
  CHECK(score.bw == 920);
  CHECK(score.geo == 722);
  score = explained(*world.table, from_london(), "sin").score;
  CHECK(score.bw == 992);
  CHECK(score.geo == 459);
}

TEST_CASE("components add up to 2750 with the stream and to 2700 without one") {
  TableBuilder builder;
  auto node = at(loaded(an_edge("a"), 40, 200, 0), london_lat, london_lon);
  node.ram_max = 1000;
  builder.put_node(node);
  builder.put_holding("demo", "a", serving());
  auto table = builder.publish();
  CHECK(explained(*table, from_london(), "a").score.total == 300 + 400 + 1000 + 1000 + 50);
  CHECK(explained(*table, from_london(""), "a").score.total == 2700);
}

TEST_CASE("penalties count from the moment they are set, of this instance and of others") {
  World world;
  auto nyc = world.builder.penalty("nyc");
  nyc->bandwidth = 13'107'200;
  CHECK(explained(*world.table, from_london(), "nyc").score.bw == 820);
  nyc->peer_bandwidth = 13'107'200;
  CHECK(explained(*world.table, from_london(), "nyc").score.bw == 720);
  CHECK(ids(*world.table, choose(*world.table, from_london())) == "sin nyc ams");
  nyc->peer_bandwidth = ~0ull;  // added up without going round
  CHECK(why(*world.table, from_london(), "nyc") == Rejection::out_of_bandwidth);
}

TEST_CASE("equal scores come in the order of node ids, and no more than asked for") {
  TableBuilder builder;
  for (auto id : {"d", "b", "e", "a", "c"}) builder.put_node(an_edge(id));
  auto table = builder.publish();
  Query query;
  CHECK(ids(*table, choose(*table, query)) == "a b c d e");
  query.most = 2;
  CHECK(ids(*table, choose(*table, query)) == "a b");
  query.most = 1000;
  CHECK(choose(*table, query).count == 5);
}

TEST_CASE("fair admits nodes without the stream, without the bonus, while one has inputs") {
  TableBuilder builder;
  builder.put_node(loaded(an_edge("origin"), 0, 0, 100'000'000));
  builder.put_node(an_edge("idle"));
  builder.put_holding("demo", "origin", serving());
  auto table = builder.publish();
  Query query;
  query.stream = "demo";
  CHECK(ids(*table, choose(*table, query)) == "origin");
  query.policy = Policy::fair;
  CHECK(ids(*table, choose(*table, query)) == "idle origin");
  CHECK(explained(*table, query, "idle").score.bonus == 0);
  CHECK(explained(*table, query, "origin").score.bonus == 50);
  query.for_source = true;
  CHECK(ids(*table, choose(*table, query)) == "origin");
  query.for_source = false;
  builder.put_holding("demo", "origin", {.inputs = 0});
  CHECK(why_none(builder, query) == "can't find origin for stream \"demo\" (missing or no inputs)");
}

TEST_CASE("fair pulls only from a node that is there and in normal mode") {
  for (bool is_draining : {false, true}) {
    TableBuilder builder;
    auto origin = an_edge("origin");
    if (is_draining)
      origin.mode = NodeMode::draining;
    else
      origin.is_stale = true;
    builder.put_node(origin);
    builder.put_node(an_edge("idle"));
    builder.put_holding("demo", "origin", serving());
    auto query = from_london();
    query.policy = Policy::fair;
    auto table = builder.publish();
    CHECK(why(*table, query, "idle") == Rejection::stream_missing);
  }
}

TEST_CASE("fair takes an unknown place as half way, of the viewer or of the node") {
  TableBuilder builder;
  builder.put_node(an_edge("somewhere"));
  builder.put_node(at(an_edge("london"), london_lat, london_lon));
  auto table = builder.publish();
  auto query = from_london("");
  CHECK(explained(*table, query, "somewhere").score.geo == 0);
  query.policy = Policy::fair;
  CHECK(explained(*table, query, "somewhere").score.geo == 500);
  CHECK(explained(*table, query, "london").score.geo == 1000);
  query.latitude = 91;
  CHECK(explained(*table, query, "london").score.geo == 500);
}

TEST_CASE("stored content comes from the nearest node, then the least loaded, then by id") {
  TableBuilder builder;
  builder.put_node(at(an_edge("far"), 40.7128, -74.0060));
  builder.put_node(at(loaded(an_edge("near"), 80, 0, 0), 52.3676, 4.9041));
  builder.put_node(loaded(an_edge("nowhere-busy"), 50, 0, 0));
  builder.put_node(an_edge("nowhere-idle"));
  auto draining = at(an_edge("draining"), london_lat, london_lon);
  draining.mode = NodeMode::draining;
  builder.put_node(draining);
  auto stale = an_edge("stale");
  stale.is_stale = true;
  builder.put_node(stale);
  builder.put_artifact("clip", {"far", "near", "nowhere-busy", "nowhere-idle", "draining", "stale",
                                "unknown", "near"});
  auto table = builder.publish();
  auto names = [&](double latitude, double longitude, std::size_t most) {
    std::string all;
    for (auto place : artifact_nodes(*table, "clip", latitude, longitude, most))
      all += (all.empty() ? "" : " ") + node_at(*table, place)->id;
    return all;
  };
  CHECK(names(london_lat, london_lon, 5) == "near far nowhere-idle nowhere-busy draining");
  CHECK(names(london_lat, london_lon, 2) == "near far");
  CHECK(names(unknown_place, 0, 3) == "far nowhere-idle nowhere-busy");
  CHECK(artifact_nodes(*table, "other", 1, 1).empty());
}
