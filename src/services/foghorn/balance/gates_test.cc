// Who is left out, why, and what is said when nobody is left.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>

#include "services/foghorn/balance/test_tables.h"

using namespace warren::balance;

namespace {

// One node of these facts; what its rejection is, and what is said when nothing else is there.
struct Refused {
  Rejection rejection;
  std::string text;
};
Refused refused(NodeFacts facts, const Query& query, const Holding* holding = nullptr) {
  TableBuilder builder;
  auto id = facts.id;
  builder.put_node(std::move(facts));
  if (holding) builder.put_holding("demo", id, *holding);
  auto table = builder.publish();
  return {why(*table, query, id), why_none(builder, query)};
}

}  // namespace

TEST_CASE("without nodes, or without active ones, there is nothing to choose from") {
  TableBuilder builder;
  CHECK(why_none(builder, {}) == "no nodes available in unified state");
  auto stale = an_edge("stale");
  stale.is_stale = true;
  builder.put_node(stale);
  auto sick = an_edge("sick");
  sick.is_healthy = false;
  builder.put_node(sick);
  CHECK(why_none(builder, {}) == "no nodes available in unified state");
  builder.put_node(an_edge("well"));
  auto table = builder.publish();
  CHECK(ids(*table, choose(*table, {})) == "well");
  CHECK(why(*table, {}, "stale") == Rejection::inactive);
}

TEST_CASE("each gate refuses, says its reason, and has its text when it is the only one") {
  auto facts = an_edge("a");
  auto query = from_london();
  auto check = [&](const NodeFacts& node, const Holding* holding, Rejection rejection,
                   std::string_view reason_text, std::string_view text) {
    auto found = refused(node, query, holding);
    CHECK(found.rejection == rejection);
    CHECK(reason(found.rejection) == reason_text);
    CHECK(found.text == text);
  };
  auto holding = serving();

  auto node = facts;
  node.mode = NodeMode::maintenance;
  check(node, &holding, Rejection::maintenance, "node in maintenance",
        "all suitable nodes are in maintenance");
  node.mode = NodeMode::draining;
  check(node, &holding, Rejection::draining, "node is draining", "all suitable nodes are draining");
  node = facts;
  node.ram_max = 0;
  check(node, &holding, Rejection::no_metrics, "node metrics not ready",
        "node metrics not ready (missing ram_max/bw_limit)");
  node = facts;
  node.bw_limit = 0;
  check(node, &holding, Rejection::no_metrics, "node metrics not ready",
        "node metrics not ready (missing ram_max/bw_limit)");
  node = facts;
  node.up_speed = node.bw_limit;
  check(node, &holding, Rejection::out_of_bandwidth, "node out of bandwidth",
        "all suitable nodes are out of bandwidth");
  node = facts;
  check(node, nullptr, Rejection::stream_missing, "stream missing on node",
        "can't find origin for stream \"demo\" (not present on any active node)");
  holding.inputs = 0;
  check(node, &holding, Rejection::no_inputs, "stream has no inputs on node",
        "can't find origin for stream \"demo\" (no active inputs on any node)");
  holding = {.inputs = 1, .is_replicated = true};
  query.for_source = true;
  check(node, &holding, Rejection::replicated,
        "stream is replicated on node (excluded for source selection)",
        "no suitable nodes available");
  query.for_source = false;
  node.config_streams = {"other", "de"};
  check(node, &holding, Rejection::not_allowed, "stream not allowed by node config",
        "stream \"demo\" not allowed by node configuration");
}

TEST_CASE("the first gate that stops a node is the one that is told") {
  auto node = an_edge("a");
  node.mode = NodeMode::maintenance;
  node.tenant = "other";
  node.ram_max = 0;
  node.config_streams = {"other"};
  auto query = from_london();
  query.capabilities = "storage";
  query.tenant = "me";
  query.client = node.host = binary_host("10.0.0.1");
  Holding none = {};
  CHECK(refused(node, query, &none).rejection == Rejection::maintenance);
  node.mode = NodeMode::draining;
  CHECK(refused(node, query, &none).rejection == Rejection::lacks_capability);
  node.roles = {"storage"};
  CHECK(refused(node, query, &none).rejection == Rejection::other_tenant);
  node.tenant = "me";
  CHECK(refused(node, query, &none).rejection == Rejection::draining);
  node.mode = NodeMode::normal;
  CHECK(refused(node, query, &none).rejection == Rejection::is_the_client);
  query.client = {};
  CHECK(refused(node, query, &none).rejection == Rejection::no_metrics);
  node.ram_max = 1;
  node.up_speed = node.bw_limit;
  CHECK(refused(node, query, &none).rejection == Rejection::out_of_bandwidth);
  node.up_speed = 0;
  CHECK(refused(node, query, &none).rejection == Rejection::no_inputs);
  none.inputs = 1;
  CHECK(refused(node, query, &none).rejection == Rejection::not_allowed);
}

TEST_CASE("a replica serves viewers, and is left out only as a source") {
  TableBuilder builder;
  builder.put_node(an_edge("origin"));
  builder.put_node(an_edge("copy"));
  builder.put_holding("demo", "origin", {.inputs = 1});
  builder.put_holding("demo", "copy", {.inputs = 1, .is_replicated = true});
  auto table = builder.publish();
  auto query = from_london();
  CHECK(ids(*table, choose(*table, query)) == "copy origin");
  query.for_source = true;
  CHECK(ids(*table, choose(*table, query)) == "origin");
}

namespace {

// Nodes of which nobody can be chosen for the stream "demo", for storage and the tenant "me".
NodeFacts without(Rejection why, int number) {
  auto node = an_edge(std::to_string(number));
  node.cap_storage = true;
  using enum Rejection;
  if (why == inactive) node.is_stale = true;
  if (why == maintenance) node.mode = NodeMode::maintenance;
  if (why == lacks_capability) node.cap_storage = false;
  if (why == other_tenant) node.tenant = "you";
  if (why == draining) node.mode = NodeMode::draining;
  if (why == is_the_client) node.host = binary_host("10.0.0.7");
  if (why == no_metrics) node.ram_max = 0;
  if (why == out_of_bandwidth) node.up_speed = node.bw_limit;
  if (why == not_allowed) node.config_streams = {"other"};
  if (why == score_zero) node.tags = {"never"};
  return node;
}

// What is said of a fleet of one node for each of these, in any order.
std::string said_of(std::vector<Rejection> fleet, std::string_view capabilities = "storage",
                    std::string_view stream = "demo") {
  TableBuilder builder;
  std::vector<TagAdjustment> adjustments{{"never", -1'000'000}};
  auto query = from_london(stream);
  query.capabilities = capabilities;
  query.tenant = "me";
  query.adjustments = adjustments;
  query.client = binary_host("10.0.0.7");
  query.for_source = true;
  for (int number = 0; auto why_not : fleet) {
    auto node = without(why_not, number++);
    auto id = node.id;
    builder.put_node(std::move(node));
    if (why_not == Rejection::stream_missing) continue;
    builder.put_holding(stream, id,
                        {.inputs = why_not == Rejection::no_inputs ? 0u : 1u,
                         .is_replicated = why_not == Rejection::replicated});
  }
  auto table = builder.publish();
  for (int number = 0; auto why_not : fleet)
    CHECK(why(*table, query, std::to_string(number++)) == why_not);
  return why_none(builder, query);
}

}  // namespace

TEST_CASE(
    "what is said when nobody is left is the first row that applies, whoever else was left out") {
  using enum Rejection;
  struct Row {
    std::vector<Rejection> fleet;
    std::string text;
  };
  const std::string empty = "no nodes available in unified state";
  const std::string incapable = "no nodes match required capabilities (storage)";
  const std::string missing =
      "can't find origin for stream \"demo\" (not present on any active node)";
  const std::string idle = "can't find origin for stream \"demo\" (no active inputs on any node)";
  const std::string both = "can't find origin for stream \"demo\" (missing or no inputs)";
  const std::string full = "all suitable nodes are out of bandwidth";
  const std::string unmeasured = "node metrics not ready (missing ram_max/bw_limit)";
  const std::string refused_there = "stream \"demo\" not allowed by node configuration";
  const std::string in_maintenance = "all suitable nodes are in maintenance";
  const std::string all_draining = "all suitable nodes are draining";
  const std::string none_suitable = "no suitable nodes available";
  const std::vector<Row> rows = {
      // 1: nobody is healthy and heard of.
      {{}, empty},
      {{inactive}, empty},
      {{inactive, inactive}, empty},
      // 2: nobody is a candidate, and one lacks a capability or is not active.
      {{lacks_capability}, incapable},
      {{lacks_capability, inactive}, incapable},
      {{lacks_capability, maintenance}, incapable},
      {{lacks_capability, draining}, incapable},
      {{lacks_capability, other_tenant}, incapable},
      {{inactive, maintenance}, incapable},
      {{inactive, draining}, incapable},
      {{inactive, other_tenant}, incapable},
      {{lacks_capability, inactive, maintenance, draining, other_tenant}, incapable},
      // 3 to 5: candidates without the stream, or without inputs, whoever else was left out.
      {{stream_missing}, missing},
      {{stream_missing, lacks_capability, inactive}, missing},
      {{stream_missing, maintenance, draining, other_tenant, is_the_client}, missing},
      {{stream_missing, no_metrics}, missing},
      {{stream_missing, out_of_bandwidth, replicated, not_allowed, score_zero}, missing},
      {{no_inputs}, idle},
      {{no_inputs, lacks_capability, inactive}, idle},
      {{no_inputs, maintenance, draining, other_tenant, is_the_client}, idle},
      {{no_inputs, no_metrics, out_of_bandwidth, replicated, not_allowed, score_zero}, idle},
      {{stream_missing, no_inputs}, both},
      {{no_inputs, stream_missing, draining, out_of_bandwidth, lacks_capability}, both},
      // 6 to 10: one kind of rejection only; what is passed over in silence does not count.
      {{out_of_bandwidth}, full},
      {{out_of_bandwidth, lacks_capability, inactive, other_tenant, is_the_client}, full},
      {{no_metrics}, unmeasured},
      {{no_metrics, lacks_capability, other_tenant, is_the_client}, unmeasured},
      {{not_allowed}, refused_there},
      {{not_allowed, lacks_capability, other_tenant, is_the_client}, refused_there},
      {{maintenance}, in_maintenance},
      {{maintenance, maintenance, other_tenant}, in_maintenance},
      {{maintenance, is_the_client, lacks_capability}, in_maintenance},
      {{draining}, all_draining},
      {{draining, draining, other_tenant}, all_draining},
      {{draining, is_the_client, inactive}, all_draining},
      // 11: everything else.
      {{is_the_client}, none_suitable},
      {{is_the_client, lacks_capability}, none_suitable},
      {{other_tenant}, none_suitable},
      {{replicated}, none_suitable},
      {{score_zero}, none_suitable},
      {{out_of_bandwidth, no_metrics}, none_suitable},
      {{out_of_bandwidth, draining}, none_suitable},
      {{out_of_bandwidth, replicated}, none_suitable},
      {{not_allowed, score_zero}, none_suitable},
      {{maintenance, draining}, none_suitable},
  };
  for (auto [fleet, text] : rows) {
    std::string kinds;
    for (auto kind : fleet) kinds += fmt::format("{}; ", reason(kind));
    CAPTURE(kinds);
    CHECK(said_of(fleet) == text);
    std::ranges::reverse(fleet);
    CHECK(said_of(fleet) == text);
  }
}

TEST_CASE("a node that is in maintenance and silent is one in maintenance") {
  TableBuilder builder;
  auto silent = an_edge("silent");
  silent.is_stale = true;
  silent.mode = NodeMode::maintenance;
  builder.put_node(silent);
  CHECK(why_none(builder, from_london()) == "no nodes available in unified state");
  auto other = an_edge("other");
  other.mode = NodeMode::maintenance;
  builder.put_node(other);
  CHECK(why(*builder.publish(), from_london(), "silent") == Rejection::maintenance);
  CHECK(why_none(builder, from_london()) == "all suitable nodes are in maintenance");
  builder.erase_node("other");
  CHECK(why_none(builder, from_london()) == "no nodes available in unified state");
}

TEST_CASE(
    "the capabilities that nobody has are told as they were asked for, without the blanks around") {
  using enum Rejection;
  auto told = [](std::string_view list) { return said_of({lacks_capability}, list); };
  CHECK(told("storage") == "no nodes match required capabilities (storage)");
  CHECK(told(" edge , storage\t") == "no nodes match required capabilities (edge , storage)");
  CHECK(told(",storage,,") == "no nodes match required capabilities (,storage,,)");
  // Nothing is demanded, and one of two is not active.
  for (auto blank : {"", " ", " \t\n"})
    CHECK(said_of({inactive, draining}, blank) == "no nodes match required capabilities");
  CHECK(said_of({inactive, draining}, " , ") == "no nodes match required capabilities (,)");
}

TEST_CASE("a list of commas and blanks demands no capability, and names are case-sensitive") {
  TableBuilder builder;
  builder.put_node(an_edge("a"));
  auto table = builder.publish();
  auto chosen = [&](std::string_view capabilities) {
    Query query;
    query.capabilities = capabilities;
    return ids(*table, choose(*table, query));
  };
  for (auto nothing : {"", ",", " , ,\t", " \r\n"}) CHECK(chosen(nothing) == "a");
  for (auto edge : {"edge", " edge ", ",edge,", "\nedge\r", "edge,edge"})
    CHECK(chosen(edge) == "a");
  for (auto other : {"Edge", "EDGE", "edge,Edge", "ed ge"}) CHECK(chosen(other).empty());
}

TEST_CASE("the name of a stream is quoted as Go quotes it") {
  using enum Rejection;
  auto quoted = [](std::string_view stream) {
    auto text = said_of({stream_missing}, "", stream);
    constexpr std::string_view before = "can't find origin for stream ";
    constexpr std::string_view after = " (not present on any active node)";
    REQUIRE(text.starts_with(before));
    REQUIRE(text.ends_with(after));
    text.resize(text.size() - after.size());
    return text.substr(before.size());
  };
  CHECK(quoted("live+demo") == R"("live+demo")");
  CHECK(quoted(R"(a"b\c)") == R"("a\"b\\c")");
  CHECK(quoted("a\tb\nc\rd") == R"("a\tb\nc\rd")");
  CHECK(quoted("\a\b\f\v") == R"("\a\b\f\v")");
  CHECK(quoted("\x01\x1f\x7f") == R"("\x01\x1f\x7f")");
  CHECK(quoted("caf\xc3\xa9 \xe2\x82\xac") == "\"caf\xc3\xa9 \xe2\x82\xac\"");  // é, €
  CHECK(quoted("\xc2\x9b\xc2\xa0\xe2\x80\x8b") == R"("\u009b\u00a0\u200b")");
  CHECK(quoted("\xf3\xa0\x81\x81") == R"("\U000e0041")");
  CHECK(quoted("a\xff\xc3") == R"("a\xff\xc3")");
  CHECK(said_of({not_allowed}, "", "a\"b") == R"(stream "a\"b" not allowed by node configuration)");
}

TEST_CASE("a node's list of streams allows a name, and what follows it after + or a space") {
  TableBuilder builder;
  auto node = an_edge("a");
  node.config_streams = {"live", "vod"};
  builder.put_node(node);
  for (auto stream : {"live", "live+demo", "live demo", "vod", "lively", "liv"})
    builder.put_holding(stream, "a", serving());
  auto table = builder.publish();
  auto rejection = [&](std::string_view stream) { return why(*table, from_london(stream), "a"); };
  CHECK(rejection("live") == Rejection::none);
  CHECK(rejection("live+demo") == Rejection::none);
  CHECK(rejection("live demo") == Rejection::none);
  CHECK(rejection("vod") == Rejection::none);
  CHECK(rejection("lively") == Rejection::not_allowed);
  CHECK(rejection("liv") == Rejection::not_allowed);
  CHECK(rejection("") == Rejection::none);
}

TEST_CASE(
    "a tag expression is any of its tags, none of them after a minus, and nothing when empty") {
  TableBuilder builder;
  auto node = an_edge("a");
  node.tags = {"edge", "premium"};
  builder.put_node(node);
  auto table = builder.publish();
  auto adjustment = [&](const char* expression) {
    std::vector<TagAdjustment> adjustments{{expression, 7}};
    Query query;
    query.adjustments = adjustments;
    return explained(*table, query, "a").score.adjustment;
  };
  CHECK(adjustment("") == 0);
  CHECK(adjustment("edge") == 7);
  CHECK(adjustment("storage,premium") == 7);
  CHECK(adjustment(" storage , premium ") == 7);
  CHECK(adjustment("storage") == 0);
  CHECK(adjustment("-edge") == 0);
  CHECK(adjustment("-storage") == 7);
  CHECK(adjustment("-storage,edge") == 0);
  CHECK(adjustment("-storage,other") == 7);
  CHECK(adjustment(" - edge ") == 0);
  CHECK(adjustment("- storage") == 7);
  // A list of one empty tag, which this node does not have.
  CHECK(adjustment("-") == 7);
  CHECK(adjustment(" - ") == 7);
  CHECK(adjustment("-,") == 7);
  CHECK(adjustment("-,edge") == 0);
  for (auto blank : {" ", ",", " , "}) CHECK(adjustment(blank) == 0);
}

TEST_CASE("a node with an empty tag is one that a minus alone leaves out") {
  TableBuilder builder;
  auto node = an_edge("a");
  node.tags = {"", "edge"};
  builder.put_node(node);
  builder.put_node(an_edge("b"));
  auto table = builder.publish();
  auto adjustment = [&](std::string_view id, const char* expression) {
    std::vector<TagAdjustment> adjustments{{expression, 7}};
    Query query;
    query.adjustments = adjustments;
    return explained(*table, query, id).score.adjustment;
  };
  CHECK(adjustment("a", "-") == 0);
  CHECK(adjustment("b", "-") == 7);
  CHECK(adjustment("a", ",") == 7);
  CHECK(adjustment("b", ",") == 0);
  CHECK(adjustment("a", "") == 0);
}

TEST_CASE("above 100 % the processors add nothing to the score, and the node stays") {
  TableBuilder builder;
  for (auto [id, percent] :
       {std::pair("a", 100.0), {"b", 100.1}, {"c", 250.0}, {"d", 429496729.5}}) {
    auto node = an_edge(id);
    node.cpu_percent = percent;
    builder.put_node(node);
  }
  auto table = builder.publish();
  CHECK(ids(*table, choose(*table, {})) == "a b c d");
  for (auto id : {"a", "b", "c", "d"}) {
    auto score = explained(*table, {}, id).score;
    CHECK(score.cpu == 0);
    CHECK(score.total == 1500);
  }
}

TEST_CASE("tags lift a score of 10 to 15, and take it away whole") {
  TableBuilder builder;
  builder.set_weights({0, 0, 0, 0, 10});
  auto node = an_edge("a");
  node.tags = {"edge"};
  builder.put_node(node);
  builder.put_holding("demo", "a", serving());
  auto table = builder.publish();
  std::vector<TagAdjustment> adjustments{{"edge", 5}};
  auto query = from_london();
  query.adjustments = adjustments;
  CHECK(choose(*table, query).best[0].total == 15);
  adjustments[0].amount = -100;
  CHECK(choose(*table, query).empty());
  CHECK(why(*table, query, "a") == Rejection::score_zero);
  CHECK(why_none(builder, query) == "no suitable nodes available");
}

TEST_CASE("capabilities are flags or roles, all of those that are asked for") {
  TableBuilder builder;
  auto both = an_edge("both");
  both.roles = {"storage", "gpu"};
  builder.put_node(both);
  builder.put_node(an_edge("edge"));
  auto ingest = an_edge("ingest");
  ingest.cap_edge = false;
  ingest.cap_ingest = true;
  builder.put_node(ingest);
  auto processing = an_edge("processing");
  processing.cap_edge = false;
  processing.cap_processing = processing.cap_storage = true;
  builder.put_node(processing);
  auto with = [&](std::string_view capabilities) {
    Query query;
    query.capabilities = capabilities;
    auto table = builder.publish();
    return ids(*table, choose(*table, query));
  };
  CHECK(with("") == "both edge ingest processing");
  CHECK(with("edge") == "both edge");
  CHECK(with("storage") == "both processing");
  CHECK(with("edge, storage") == "both");
  CHECK(with("gpu") == "both");
  CHECK(with("ingest") == "ingest");
  CHECK(with("processing") == "processing");
  Query query;
  query.capabilities = "edge,ingest";
  CHECK(why_none(builder, query) == "no nodes match required capabilities (edge,ingest)");
}

TEST_CASE("hundreds of roles and tags are told apart") {
  TableBuilder builder;
  for (int i = 0; i < 300; ++i) {
    auto node = an_edge(std::to_string(i));
    node.roles = {"role" + std::to_string(i)};
    node.tags = {"tag" + std::to_string(i)};
    builder.put_node(node);
  }
  auto table = builder.publish();
  std::vector<TagAdjustment> adjustments{{"tag299", 1000}, {"-tag7", 10}};
  Query query;
  query.adjustments = adjustments;
  query.most = 1;
  CHECK(ids(*table, choose(*table, query)) == "299");
  query.capabilities = "role277";
  CHECK(ids(*table, choose(*table, query)) == "277");
}

TEST_CASE("a tenant gets its own nodes and those of nobody") {
  TableBuilder builder;
  auto put = [&](const char* id, const char* tenant) {
    auto node = an_edge(id);
    node.tenant = tenant;
    builder.put_node(node);
  };
  put("a1", "a");
  put("a2", "a");
  put("b", "b");
  put("shared", "");
  auto table = builder.publish();
  auto for_tenant = [&](std::string_view tenant) {
    Query query;
    query.tenant = tenant;
    return ids(*table, choose(*table, query));
  };
  CHECK(for_tenant("") == "a1 a2 b shared");
  CHECK(for_tenant("a") == "a1 a2 shared");
  CHECK(for_tenant("b") == "b shared");
  CHECK(for_tenant("c") == "shared");
}

TEST_CASE("a node on the client's own host counts five times, and is no source for itself") {
  TableBuilder builder;
  auto here = an_edge("here");
  here.host = binary_host("10.0.0.7");
  here.cpu_percent = 90;
  builder.put_node(here);
  builder.put_node(an_edge("there"));
  for (auto node : {"here", "there"}) builder.put_holding("demo", node, serving());
  auto table = builder.publish();
  Query query;
  query.client = binary_host("10.0.0.7");
  auto decision = choose(*table, query);
  CHECK(ids(*table, decision) == "here there");
  CHECK(decision.best[0].total == 5 * (50 + 500 + 1000));
  CHECK(explained(*table, query, "here").score.total == decision.best[0].total);
  query.stream = "demo";
  CHECK(ids(*table, choose(*table, query)) == "there");
  CHECK(why(*table, query, "here") == Rejection::is_the_client);
}

TEST_CASE("an unknown address equals nothing, not even another unknown one") {
  TableBuilder builder;
  builder.put_node(an_edge("a"));  // host unknown
  builder.put_holding("demo", "a", serving());
  auto table = builder.publish();
  auto query = from_london();
  CHECK(ids(*table, choose(*table, query)) == "a");
  query.stream = "";
  CHECK(choose(*table, query).best[0].total == 2000);
}

TEST_CASE("an IPv4 address is mapped into IPv6, and a name is unknown") {
  BinaryHost mapped = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 1, 2, 3};
  CHECK(binary_host("10.1.2.3") == mapped);
  CHECK(binary_host("::ffff:10.1.2.3") == mapped);
  CHECK(binary_host("2001:db8::1")[15] == 1);
  for (auto unknown : {"", "::", "edge.example", "10.1.2.3:80", "10.1.2", "1:2:3:4:5:6:7:8:9",
                       "a name that is longer than any address can be, by far"})
    CHECK(binary_host(unknown) == BinaryHost{});
}
