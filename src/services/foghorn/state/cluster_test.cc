// One instance without Redis: what counts at once.
#include "services/foghorn/state/cluster.h"

#include <doctest/doctest.h>

#include <atomic>
#include <boost/asio/post.hpp>
#include <boost/json/object.hpp>
#include <thread>

#include "proof/testkit/run.h"
#include "services/foghorn/balance/choose.h"
#include "services/foghorn/balance/view.h"

using namespace warren;
using namespace warren::foghorn;
using balance::NodeMode;

namespace {

std::unique_ptr<Cluster> alone(asio::any_io_executor executor, ClusterTerms terms = {}) {
  auto cluster = Cluster::create(std::move(executor), nullptr, std::move(terms));
  REQUIRE(cluster);
  return *std::move(cluster);
}

NodeReport capable() {
  NodeReport report;
  report.cpu_tenths = 100, report.ram_max = 100, report.ram_current = 10;
  report.up_speed = 1, report.bw_limit = 1e9;
  report.base_url = "https://n", report.cap_edge = true;
  return report;
}

StreamReport stats(std::int64_t total, std::int64_t inputs, std::int64_t up, std::int64_t down) {
  StreamReport report;
  report.total = total, report.inputs = inputs, report.bytes_up = up, report.bytes_down = down;
  return report;
}

struct Fixture {
  asio::io_context context;
  std::unique_ptr<Cluster> cluster = alone(context.get_executor());

  bool is_chosen(const std::string& node, const std::string& stream = "") {
    balance::Query query;
    query.stream = stream;
    auto decision = balance::choose(cluster->table_here(), query);
    for (std::size_t i = 0; i < decision.count; ++i)
      if (balance::node_at(cluster->table_here(), decision.best[i].node)->id == node) return true;
    return false;
  }
};

}  // namespace

TEST_CASE_FIXTURE(Fixture, "a node is routable from its first report on") {
  CHECK(!cluster->heartbeat("n"));
  CHECK(!is_chosen("n"));
  REQUIRE(cluster->report("n", capable()));
  CHECK(is_chosen("n"));
  auto node = cluster->node("n");
  CHECK(node->is_active);
  CHECK(node->state.cluster_id == "default");
  CHECK(node->state.cpu == 10);
}

TEST_CASE_FIXTURE(Fixture,
                  "a node that only registered is alive, and has no metrics to be chosen by") {
  Registration registration;
  registration.node_id = "n", registration.host = "10.0.0.1";
  registration.tenant_id = "t", registration.roles = {"edge"};
  REQUIRE(cluster->register_node(registration));
  CHECK(cluster->node("n")->is_active);
  CHECK(!is_chosen("n"));
  // It does not erase what was reported before.
  REQUIRE(cluster->report("n", capable()));
  Registration again;
  again.node_id = "n";
  REQUIRE(cluster->register_node(again));
  auto node = cluster->node("n")->state;
  CHECK(node.base_url == "https://n");
  CHECK(node.tenant_id == "t");
  CHECK(node.host == "10.0.0.1");
  CHECK(node.cap_edge);
  CHECK(is_chosen("n"));
}

TEST_CASE_FIXTURE(Fixture, "what a report does not say is not changed") {
  auto report = capable();
  report.latitude = 52, report.longitude = 4, report.location = "here", report.tags = {{"a"}};
  report.is_healthy = false;
  report.streams.emplace()["s"] = stats(1, 1, 0, 0);
  REQUIRE(cluster->report("n", report));
  NodeReport little;
  little.cpu_tenths = 500;
  little.latitude = 0, little.longitude = 0;  // it does not know
  REQUIRE(cluster->report("n", little));
  auto node = cluster->node("n");
  CHECK(node->state.cpu == 50);
  CHECK(node->state.ram_max == 100);
  CHECK(node->state.latitude == 52);
  CHECK(node->state.location == "here");
  CHECK(node->state.tags == std::vector<std::string>{"a"});
  CHECK(!node->state.is_healthy);
  CHECK(node->streams == 1);
  little.streams.emplace();
  REQUIRE(cluster->report("n", little));
  CHECK(cluster->node("n")->streams == 0);
}

TEST_CASE_FIXTURE(Fixture,
                  "a node that uses more memory than it has is heard, and scores less for that") {
  auto report = capable();
  report.ram_current = 150;
  report.disk_total_bytes = 1, report.disk_used_bytes = 2;
  report.storage_capacity_bytes = 3, report.storage_used_bytes = 4;
  report.streams.emplace()["s"] = stats(1, 1, 0, 0);
  REQUIRE(cluster->report("n", report));
  CHECK(cluster->node("n")->state.ram_current == 150);
  CHECK(is_chosen("n", "s"));
  auto explained = balance::explain(cluster->table_here(), {});
  REQUIRE(explained.size() == 1);
  CHECK(explained[0].rejection == balance::Rejection::none);
  CHECK(explained[0].score.ram == 0);
  CHECK(explained[0].score.cpu > 0);
  // Each report may have one half of it.
  NodeReport half;
  half.ram_max = 20;
  REQUIRE(cluster->report("n", half));
  half = {};
  half.ram_current = 10;
  REQUIRE(cluster->report("n", half));
  CHECK(balance::explain(cluster->table_here(), {})[0].score.ram == 250);
}

TEST_CASE_FIXTURE(Fixture, "a report that is wrong changes nothing") {
  auto report = capable();
  report.streams.emplace()["s"] = stats(1, 1, 0, 0);
  REQUIRE(cluster->report("n", report));
  auto before = cluster->digest();
  auto revision = cluster->revision();
  auto refuse = [&](const NodeReport& wrong, const std::string& node = "n") {
    auto taken = cluster->report(node, wrong);
    REQUIRE(!taken);
    CHECK(taken.error().code == Errc::invalid);
    CHECK(cluster->digest() == before);
    CHECK(cluster->revision() == revision);
  };
  NodeReport wrong;
  wrong.bw_limit = -1;
  refuse(wrong);
  wrong = {};
  wrong.latitude = balance::unknown_place;
  refuse(wrong);
  wrong = {};
  wrong.streams.emplace()["a:b"] = {};
  refuse(wrong);
  for (auto id : {"", "a:b", "*", "a b", "{x}"}) refuse(capable(), id);
  refuse(capable(), std::string(10'000, 'n'));
  CHECK(!cluster->stream_buffer("n", "s", "FULL", "", "", "{"));
  CHECK(!cluster->stream_stats("n", "s", stats(-1, 0, 0, 0)));
  CHECK(!cluster->stream_stats("n", "a*", stats(1, 0, 0, 0)));
  CHECK(!cluster->add_artifact("n", {"a b", "clip", "", 1}));
  CHECK(cluster->digest() == before);
}

TEST_CASE_FIXTURE(Fixture,
                  "a node that disconnects is out at once, until it says something again") {
  REQUIRE(cluster->report("n", capable()));
  REQUIRE(cluster->disconnect("n"));
  auto node = cluster->node("n");
  CHECK(!node->is_active);
  CHECK(node->state.is_stale);
  CHECK(!node->state.is_healthy);
  CHECK(node->state.last_heartbeat == WallTime{});
  CHECK(!is_chosen("n"));
  REQUIRE(cluster->heartbeat("n"));
  CHECK(is_chosen("n"));
  REQUIRE(cluster->heartbeat("n", false));
  CHECK(!is_chosen("n"));
  NodeReport little;
  little.cpu_tenths = 1;
  REQUIRE(cluster->report("n", little));
  CHECK(!is_chosen("n"));  // it said that it is not well, and has not said otherwise
  CHECK(!cluster->disconnect("other"));
}

TEST_CASE_FIXTURE(Fixture,
                  "an operator's mode stands, whatever the node says; else the node's does") {
  auto report = capable();
  report.operational_mode = "draining";
  REQUIRE(cluster->report("n", report));
  CHECK(cluster->node("n")->mode == NodeMode::draining);
  REQUIRE(cluster->set_mode("n", NodeMode::maintenance, "ann"));
  CHECK(cluster->node("n")->mode == NodeMode::maintenance);
  report.operational_mode = "normal";
  REQUIRE(cluster->report("n", report));
  CHECK(cluster->node("n")->mode == NodeMode::maintenance);
  CHECK(!is_chosen("n"));
  REQUIRE(cluster->set_mode("n", NodeMode::normal, "ann"));
  CHECK(is_chosen("n"));
  CHECK(!cluster->set_mode("unknown", NodeMode::normal, "ann"));
}

TEST_CASE_FIXTURE(Fixture, "sums over a stream are those of its instances") {
  for (auto node : {"n", "m"}) REQUIRE(cluster->report(node, capable()));
  auto first = stats(4, 1, 1000, 100), second = stats(2, 1, 500, 50);
  first.viewers = 2, second.viewers = 1, second.replicated = true;
  REQUIRE(cluster->stream_stats("n", "live+s", first));
  REQUIRE(cluster->stream_stats("m", "s", second));
  auto stream = cluster->stream("s")->state;
  CHECK(stream.viewers == 3);
  CHECK(stream.total_connections == 6);
  CHECK(stream.inputs == 2);
  CHECK(stream.bytes_up == 1500);
  CHECK(stream.bytes_down == 150);
  CHECK(stream.node_id == "n");
  for (int i = 0; i < 5; ++i) REQUIRE(cluster->viewer_disconnected("n", "s", {}));
  CHECK(cluster->stream("s")->state.viewers == 1);  // not below what the other has
  REQUIRE(cluster->viewer_connected("m", "s", {}));
  CHECK(cluster->stream("s")->state.viewers == 2);
  CHECK(balance::holders(cluster->table_here(), "s").size() == 2);
}

TEST_CASE_FIXTURE(Fixture, "a stream is offline when the last node that carries it is done") {
  for (auto node : {"n", "m"}) {
    REQUIRE(cluster->report(node, capable()));
    REQUIRE(cluster->stream_stats(node, "s", stats(5, 1, 0, 0)));
  }
  auto started = cluster->stream("s")->state.started_at;
  CHECK(started != WallTime{});
  REQUIRE(cluster->stream_offline("n", "s"));
  auto view = *cluster->stream("s");
  CHECK(view.state.status == "live");
  CHECK(view.instances[1].node_id == "n");
  CHECK(view.instances[1].inputs == 0);
  CHECK(view.instances[1].total_connections == 0);
  CHECK(!is_chosen("n", "s"));
  CHECK(is_chosen("m", "s"));
  REQUIRE(cluster->stream_offline("m", "s"));
  CHECK(cluster->stream("s")->state.status == "offline");
  CHECK(cluster->stream("s")->state.buffer_state == "EMPTY");
  REQUIRE(cluster->stream_stats("m", "s", stats(5, 1, 0, 0)));
  CHECK(cluster->stream("s")->state.status == "live");
  CHECK(cluster->stream("s")->state.started_at > started);
  CHECK(!cluster->stream_offline("m", "never"));
}

TEST_CASE_FIXTURE(Fixture, "a stream that nobody who is alive carries is offline") {
  for (auto node : {"n", "m"}) {
    REQUIRE(cluster->report(node, capable()));
    REQUIRE(cluster->stream_stats(node, "s", stats(5, 1, 0, 0)));
  }
  REQUIRE(cluster->disconnect("m"));
  REQUIRE(cluster->stream_offline("n", "s"));
  CHECK(cluster->stream("s")->state.status == "offline");
}

TEST_CASE_FIXTURE(Fixture, "the details of a buffer are tracks and issues") {
  REQUIRE(cluster->report("n", capable()));
  REQUIRE(cluster->stream_buffer(
      "n", "live+s", "FULL", "t1", "p1",
      R"({"video_1":{"codec":"H264","kbits":2500,"fpks":25000,"width":1280,"height":720},
          "audio_1":{"codec":"AAC","kbits":128,"channels":2,"rate":48000},
          "other":{"codec":"X","channels":1},"issues":"unstable"})"));
  auto stream = cluster->stream("s")->state;
  CHECK(stream.stream_name == "live+s");
  CHECK(stream.status == "live");
  CHECK(stream.tenant_id == "t1");
  CHECK(stream.playback_id == "p1");
  CHECK(stream.node_id == "n");
  CHECK(stream.issues == "unstable");
  CHECK(stream.has_issues);
  REQUIRE(stream.tracks.size() == 3);
  CHECK(stream.tracks[0].type == "video");
  CHECK(stream.tracks[0].fps == 25);
  CHECK(stream.tracks[1].type == "audio");
  CHECK(stream.tracks[1].sample_rate == 48000);
  CHECK(stream.tracks[2].type == "audio");
  CHECK(balance::find_playback(cluster->table_here(), "p1"));
  REQUIRE(cluster->stream_buffer("n", "s", "DRY", "", "", R"({"issues":{"not":"text"}})"));
  stream = cluster->stream("s")->state;
  CHECK(!stream.has_issues);
  CHECK(stream.buffer_state == "DRY");
  CHECK(stream.tenant_id == "t1");
  CHECK(stream.playback_id == "p1");
}

TEST_CASE_FIXTURE(Fixture,
                  "track lists and the progress of recordings are kept beside the stream") {
  REQUIRE(cluster->report("n", capable()));
  REQUIRE(cluster->stream_tracks("n", "s", "v1,a1"));
  REQUIRE(cluster->stream_progress("n", "s", {{"dvr_status", "recording"}, {"dvr_size", 1}}));
  REQUIRE(cluster->stream_progress("n", "s", {{"dvr_size", 2}}));
  auto view = *cluster->stream("s");
  CHECK(view.state.last_track_list == "v1,a1");
  REQUIRE(view.instances.size() == 1);
  CHECK(view.instances[0].raw_details.at("dvr_status") == "recording");
  CHECK(view.instances[0].raw_details.at("dvr_size") == 2);
}

TEST_CASE_FIXTURE(Fixture,
                  "an origin stays while it is one, and a stream may move when it is not") {
  for (auto node : {"n", "m"}) REQUIRE(cluster->report(node, capable()));
  REQUIRE(cluster->stream_stats("n", "s", stats(1, 1, 0, 0)));
  REQUIRE(cluster->stream_stats("m", "s", stats(1, 1, 0, 0)));
  CHECK(cluster->stream("s")->state.node_id == "n");
  REQUIRE(cluster->stream_offline("n", "s"));
  REQUIRE(cluster->stream_stats("m", "s", stats(2, 1, 0, 0)));
  CHECK(cluster->stream("s")->state.node_id == "m");
}

TEST_CASE_FIXTURE(Fixture,
                  "stored content is known by node, and a full list replaces the last one") {
  for (auto node : {"n", "m"}) REQUIRE(cluster->report(node, capable()));
  auto report = capable();
  report.artifacts.emplace() = {{"c1", "clip", "/c1", 5}, {"c2", "dvr", "/c2", 6}};
  REQUIRE(cluster->report("n", report));
  REQUIRE(cluster->add_artifact("m", {"c1", "clip", "/m/c1", 5}));
  CHECK(cluster->artifact("c1")->copies.size() == 2);
  CHECK(balance::artifact_nodes(cluster->table_here(), "c1", 0, 0).size() == 2);
  report.artifacts->pop_back();
  REQUIRE(cluster->report("n", report));
  CHECK(!cluster->artifact("c2"));
  REQUIRE(cluster->remove_artifact("n", "c1"));
  CHECK(cluster->artifact("c1")->copies.size() == 1);
  CHECK(!cluster->remove_artifact("n", "c1"));
  CHECK(!cluster->add_artifact("unknown", {"c1", "", "", 1}));
  CHECK(cluster->artifacts().size() == 1);
}

TEST_CASE_FIXTURE(Fixture, "a node that is forgotten takes what it carried with it") {
  auto report = capable();
  report.streams.emplace()["s"] = stats(1, 1, 0, 0);
  report.artifacts.emplace() = {{"c", "clip", "/c", 5}};
  REQUIRE(cluster->report("n", report));
  REQUIRE(cluster->set_mode("n", NodeMode::draining, "ann"));
  cluster->redirect("n", "s", "1.1.1.1");
  REQUIRE(cluster->forget_node("n"));
  CHECK(!cluster->node("n"));
  CHECK(!cluster->artifact("c"));
  CHECK(cluster->stream("s")->instances.empty());
  CHECK(cluster->stream("s")->state.status == "offline");
  CHECK(cluster->viewers().size() == 0);
  CHECK(!cluster->forget_node("n"));
  // It comes back as a new one.
  REQUIRE(cluster->report("n", report));
  CHECK(cluster->node("n")->mode == NodeMode::normal);
  CHECK(is_chosen("n", "s"));
  REQUIRE(cluster->forget_stream("live+s"));
  CHECK(!cluster->stream("s"));
  CHECK(cluster->node("n")->streams == 0);
  CHECK(!is_chosen("n", "s"));
  CHECK(!cluster->forget_stream("s"));
}

namespace {

constexpr int many = 100'000;

std::string name_of(int number) { return "s" + std::to_string(number); }

// What the other node has, whatever the first one says.
void check_other(Cluster& cluster, std::int64_t streams = 1) {
  CHECK(cluster.node("m")->is_active);
  CHECK(cluster.node("m")->streams == streams);
  CHECK(cluster.stream("theirs")->state.status == "live");
  REQUIRE(cluster.stream("theirs-before"));
  CHECK(cluster.stream("theirs-before")->state.tenant_id == "acme");
  CHECK(cluster.artifact("their-clip"));
}

void furnish_other(Cluster& cluster) {
  auto report = capable();
  report.streams.emplace()["theirs"] = stats(1, 1, 0, 0);
  (*report.streams)["theirs-before"] = stats(1, 1, 0, 0);
  (*report.streams)["theirs-before"].tenant_id = "acme";
  report.artifacts.emplace() = {{"their-clip", "clip", "/c", 5}};
  REQUIRE(cluster.report("m", report));
  report.streams->erase("theirs-before");
  REQUIRE(cluster.report("m", report));
}

}  // namespace

TEST_CASE_FIXTURE(Fixture, "a node has room for so many streams, and a new one beyond is refused") {
  REQUIRE(cluster->report("n", capable()));
  furnish_other(*cluster);
  std::size_t refused = 0;
  for (int i = 0; i < many; ++i) {
    auto taken = cluster->stream_buffer("n", name_of(i), "FULL", "t", "p" + name_of(i), "");
    if (taken) continue;
    ++refused;
    REQUIRE(taken.error().code == Errc::overloaded);
  }
  CHECK(refused == many - most_streams);
  CHECK(cluster->node("n")->streams == most_streams);
  CHECK(cluster->stream_count() == most_streams + 2);
  CHECK(balance::stream_count(cluster->table_here()) == most_streams + 2);
  auto revision = cluster->revision();
  auto refusal = cluster->stream_stats("n", "one-more", stats(1, 1, 0, 0));
  REQUIRE(!refusal);
  CHECK(
      refusal.error().what ==
      "stream one-more of node n is not taken: the node has 10000 streams already, and that is the "
      "most");
  CHECK(!cluster->stream_tracks("n", "one-more", "v1"));
  CHECK(!cluster->stream_progress("n", "one-more", {{"a", 1}}));
  CHECK(cluster->revision() == revision);  // nothing of it was taken
  // What is known goes on, and so does everybody else.
  REQUIRE(cluster->stream_stats("n", name_of(7), stats(5, 1, 0, 0)));
  CHECK(cluster->stream(name_of(7))->state.total_connections == 5);
  REQUIRE(cluster->stream_buffer("m", "one-more", "FULL", "", "", ""));
  REQUIRE(cluster->report("n", capable()));
  check_other(*cluster, 2);
  // One that ended makes room.
  REQUIRE(cluster->stream_offline("n", name_of(7)));
  REQUIRE(cluster->stream_stats("n", "another", stats(1, 1, 0, 0)));
  CHECK(!cluster->stream_stats("n", "and-another", stats(1, 1, 0, 0)));
  CHECK(cluster->node("n")->streams == most_streams);
}

TEST_CASE_FIXTURE(Fixture,
                  "a node that gives its streams new names leaves so many of the old ones") {
  furnish_other(*cluster);
  constexpr int at_once = 5'000;
  for (int first = 0; first < many; first += at_once) {
    auto report = capable();
    auto& streams = report.streams.emplace();
    for (int i = first; i < first + at_once; ++i) {
      streams[name_of(i)] = stats(1, 1, 0, 0);
      streams[name_of(i)].tenant_id = "t";
    }
    REQUIRE(cluster->report("n", report));
    CHECK(cluster->stream_count() <= at_once + most_left + 2);
  }
  CHECK(cluster->stream_count() == at_once + most_left + 2);
  CHECK(balance::stream_count(cluster->table_here()) == at_once + most_left + 2);
  // The oldest went first.
  CHECK(!cluster->stream(name_of(many - 3 * at_once - 1)));
  auto left = cluster->stream(name_of(many - at_once - 1));
  REQUIRE(left);
  CHECK(left->state.status == "offline");
  CHECK(left->state.tenant_id == "t");
  CHECK(is_chosen("n", name_of(many - 1)));
  check_other(*cluster);
}

TEST_CASE_FIXTURE(Fixture, "streams that begin and end without any list are bounded, too") {
  REQUIRE(cluster->report("n", capable()));
  furnish_other(*cluster);
  for (int i = 0; i < many; ++i) {
    REQUIRE(cluster->stream_buffer("n", name_of(i), "FULL", "t", "p" + name_of(i), ""));
    REQUIRE(cluster->stream_offline("n", name_of(i)));
  }
  CHECK(cluster->node("n")->streams <= most_streams);
  CHECK(cluster->stream_count() <= most_streams + most_left + 2);
  REQUIRE(cluster->stream(name_of(many - 1)));
  check_other(*cluster);
}

TEST_CASE_FIXTURE(Fixture,
                  "a node has room for so many artifacts, and says again what it has of them") {
  furnish_other(*cluster);
  auto report = capable();
  auto& listed = report.artifacts.emplace();
  for (int i = 0; i < many; ++i) listed.push_back({name_of(i), "clip", "/c", 5});
  report.streams.emplace()["s"] = stats(1, 1, 0, 0);
  for (int times = 0; times < 2; ++times) {
    auto taken = cluster->report("n", report);
    REQUIRE(!taken);
    CHECK(taken.error().code == Errc::overloaded);
    CHECK(taken.error().what ==
          "artifacts: 80000 of the 100000 that node n lists are not taken, because a node may have "
          "20000 at most; the rest of the report counts");
    CHECK(cluster->artifact_count() == most_copies + 1);
    CHECK(is_chosen("n", "s"));
  }
  auto taken = cluster->add_artifact("n", {"one-more", "clip", "/c", 5});
  REQUIRE(!taken);
  CHECK(taken.error().code == Errc::overloaded);
  CHECK(
      taken.error().what ==
      "artifact one-more of node n is not taken: the node has 20000 artifacts already, and that is "
      "the most");
  REQUIRE(cluster->add_artifact("n", {name_of(7), "clip", "/c", 6}));
  CHECK(cluster->artifact(name_of(7))->copies[0].size == 6);
  REQUIRE(cluster->add_artifact("m", {"one-more", "clip", "/c", 5}));
  check_other(*cluster);
  // A list of others takes their place.
  for (int i = 0; i < many; ++i) listed[static_cast<std::size_t>(i)].content_id = "t" + name_of(i);
  CHECK(!cluster->report("n", report));
  CHECK(!cluster->artifact(name_of(0)));
  CHECK(cluster->artifact("t" + name_of(0)));
  CHECK(cluster->artifact_count() == most_copies + 2);
  listed.resize(10);
  REQUIRE(cluster->report("n", report));
  CHECK(cluster->artifact_count() == 12);
  REQUIRE(cluster->add_artifact("n", {"one-more", "clip", "/c", 5}));
}

TEST_CASE_FIXTURE(Fixture,
                  "artifacts that are told one by one are bounded as those of a list are") {
  REQUIRE(cluster->report("n", capable()));
  furnish_other(*cluster);
  std::size_t refused = 0;
  for (int i = 0; i < many; ++i)
    if (!cluster->add_artifact("n", {name_of(i), "clip", "/c", 5})) ++refused;
  CHECK(refused == many - most_copies);
  CHECK(cluster->artifact_count() == most_copies + 1);
  check_other(*cluster);
  REQUIRE(cluster->remove_artifact("n", name_of(0)));
  REQUIRE(cluster->add_artifact("n", {"one-more", "clip", "/c", 5}));
}

TEST_CASE("all nodes of a cluster together have room for so many nodes, streams and artifacts") {
  asio::io_context context;
  ClusterTerms terms;
  terms.limits = {.nodes = 2, .streams = 3, .artifacts = 3};
  auto cluster = alone(context.get_executor(), terms);
  auto report = capable();
  report.streams.emplace();
  (*report.streams)["a"] = (*report.streams)["b"] = stats(1, 1, 0, 0);
  report.artifacts.emplace() = {{"x", "clip", "/x", 5}, {"y", "clip", "/y", 5}};
  REQUIRE(cluster->report("n", report));
  (*report.streams)["c"] = (*report.streams)["d"] = stats(1, 1, 0, 0);
  report.artifacts->push_back({"z", "clip", "/z", 5});
  report.artifacts->push_back({"zz", "clip", "/z", 5});
  auto full = cluster->report("m", report);  // it has room for one of the two new ones of each
  REQUIRE(!full);
  CHECK(full.error().code == Errc::overloaded);
  CHECK(cluster->stream_count() == 3);
  CHECK(cluster->artifact_count() == 3);
  CHECK(cluster->node("m")->streams == 3);
  for (auto refused : {cluster->stream_buffer("m", "e", "FULL", "", "", ""),
                       cluster->add_artifact("n", {"new", "clip", "/n", 5})}) {
    REQUIRE(!refused);
    CHECK(refused.error().code == Errc::overloaded);
  }
  // A third node, in whichever way it comes; those that are known go on.
  Registration third;
  third.node_id = "o";
  for (auto refused : {cluster->register_node(third), cluster->report("o", capable()),
                       cluster->stream_buffer("o", "a", "FULL", "", "", ""),
                       cluster->stream_stats("o", "a", stats(1, 1, 0, 0)),
                       cluster->viewer_connected("o", "a", {})}) {
    REQUIRE(!refused);
    CHECK(refused.error().code == Errc::overloaded);
  }
  CHECK(cluster->node_count() == 2);
  REQUIRE(cluster->heartbeat("n"));
  REQUIRE(cluster->forget_node("n"));
  CHECK(cluster->register_node(third));
}

TEST_CASE_FIXTURE(Fixture,
                  "redirects burden the node in every table, and its report takes that back") {
  REQUIRE(cluster->report("n", capable()));
  auto place = *balance::place_of(cluster->table_here(), "n");
  auto id = cluster->redirect("n", "s", "1.1.1.1");
  CHECK(balance::penalty_at(cluster->table_here(), place).bandwidth == 131072);
  auto kept = cluster->table();
  REQUIRE(cluster->report("n", capable()));
  CHECK(balance::penalty_at(*kept, place).pending == 1);
  REQUIRE(cluster->viewer_connected("n", "s", {id, "", "1.1.1.1"}));
  CHECK(balance::penalty_at(*kept, place).pending == 0);
  CHECK(balance::penalty_at(*kept, place).bandwidth == 131072);  // it came, and is not reported yet
  CHECK(cluster->viewers().active("n") == 1);
  REQUIRE(cluster->report("n", capable()));
  CHECK(balance::penalty_at(*kept, place).bandwidth == 0);
}

TEST_CASE_FIXTURE(Fixture, "a viewer costs what those of its node cost") {
  auto report = capable();
  report.up_speed = 4 * 200'000;
  report.streams.emplace()["s"] = stats(4, 1, 0, 0);
  REQUIRE(cluster->report("n", report));
  CHECK(cluster->viewer_cost("n") == 200'000);
  CHECK(cluster->viewer_cost("unknown") == 131072);
}

TEST_CASE("a node that is silent for too long is stale, and goes with all it had when swept") {
  auto body = []() -> awaitable<void> {
    ClusterTerms terms;
    terms.stale_after = 100ms, terms.evict_after = 200ms;
    auto cluster = alone(co_await asio::this_coro::executor, terms);
    auto started = co_await cluster->start(Clock::now() + 1s);
    REQUIRE(started);
    auto report = capable();
    report.streams.emplace()["s"] = stats(1, 1, 0, 0);
    report.artifacts.emplace() = {{"c", "clip", "/c", 5}};
    REQUIRE(cluster->report("n", report));
    REQUIRE(cluster->report("alive", capable()));
    auto is_stale = [](Cluster& c) {
      REQUIRE(c.heartbeat("alive"));
      return !c.node("n")->is_active;
    };
    co_await eventually(10s, "it is stale", is_stale, *cluster);
    auto place = *balance::place_of(cluster->table_here(), "n");
    CHECK(balance::node_at(cluster->table_here(), place)->is_stale);
    CHECK(cluster->node("n")->state.is_stale);
    cluster->sweep();
    CHECK(cluster->node("n"));  // stale, but not for long
    auto is_gone = [](Cluster& c) {
      REQUIRE(c.heartbeat("alive"));
      c.sweep();
      return !c.node("n") && !c.stream("s");
    };
    co_await eventually(10s, "it is gone", is_gone, *cluster);
    CHECK(!cluster->artifact("c"));
    CHECK(cluster->node("alive")->is_active);
    co_await cluster->close();
  };
  run(body());
}

TEST_CASE("whoever waits for a change is woken by it, and any thread has it a turn later") {
  auto body = []() -> awaitable<void> {
    auto executor = co_await asio::this_coro::executor;
    auto cluster = alone(executor);
    auto started = co_await cluster->start(Clock::now() + 1s);
    REQUIRE(started);
    co_await asio::post(executor, asio::use_awaitable);
    auto before = cluster->table();
    auto seen = cluster->revision();
    for (int i = 0; i < 500; ++i)
      REQUIRE(cluster->stream_stats("n", "s" + std::to_string(i), stats(1, 1, 0, 0)));
    CHECK(cluster->table() == before);  // 500 changes are one table
    co_await cluster->changed(seen);
    CHECK(balance::stream_count(*cluster->table()) == 500);
    co_await cluster->close();
  };
  run(body());
}

TEST_CASE_FIXTURE(Fixture, "any thread may decide by the table while it changes") {
  REQUIRE(cluster->report("n", capable()));
  cluster->table_here();
  std::atomic<bool> is_over = false;
  std::atomic<int> decided = 0, wrong = 0;
  auto decide = [&] {
    while (!is_over) {
      auto table = cluster->table();
      if (balance::choose(*table, {}).empty()) ++wrong;
      ++decided;
    }
  };
  std::thread first(decide), second(decide);
  for (int i = 0; i < 500 || decided < 1000; ++i) {
    auto report = capable();
    report.streams.emplace()["s" + std::to_string(i % 50)] = stats(i % 7, 1, 0, 0);
    REQUIRE(cluster->report("n", report));
    cluster->redirect("n", "s", "1.1.1.1");
    cluster->table_here();
  }
  is_over = true;
  first.join();
  second.join();
  CHECK(wrong == 0);
}

TEST_CASE("ids of clusters and instances are checked") {
  asio::io_context context;
  ClusterTerms terms;
  terms.cluster_id = "a}b";
  CHECK(!Cluster::create(context.get_executor(), nullptr, terms));
  terms.cluster_id = "ab", terms.instance_id = "x y";
  CHECK(!Cluster::create(context.get_executor(), nullptr, terms));
}
