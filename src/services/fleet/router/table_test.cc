#include "services/fleet/router/table.h"

#include <doctest/doctest.h>

#include "services/fleet/router/repo_metrics.h"
#include "services/fleet/router/router.h"

namespace warren::fleet {
namespace {

Row row(const std::string& key, RowState state, const std::string& owner,
        Phase phase = Phase::serving) {
  Row one{.key = key, .spec = to_json(RepoSpec{.url = "u"})};
  one.state = state;
  one.owner = owner;
  one.note = owner.empty() ? "" : to_json(RepoNote{.phase = phase});
  one.epoch = {1, 7};
  return one;
}

Node node(const std::string& session, const std::string& zone = "", std::uint64_t running = 0) {
  NodeInfo info{.endpoint = "http://" + std::string(node_name(session)), .zone = zone};
  info.running = running;
  return {session, to_json(info), 30s, 20s};
}

Changes all(std::vector<Row> rows) { return {std::move(rows), {}, "p", true}; }

}  // namespace

TEST_CASE("each node is asked once, for the rows that it serves, under their epochs") {
  Table table;
  table.on_changes(all({row("a#0", RowState::ready, "n1/1"), row("b#0", RowState::ready, "n2/1"),
                        row("c#0", RowState::draining, "n1/1")}));
  table.on_nodes({node("n1/1"), node("n2/1")});
  auto plan = table.plan({}, "");
  REQUIRE(plan.routes.size() == 2);
  CHECK(plan.missing.empty());
  CHECK(plan.routes[0].endpoint == "http://n1");
  CHECK(plan.routes[0].repos == std::vector<std::string>{"a", "c"});
  CHECK(plan.routes[0].rows.at(1).key == "c#0");
  CHECK(plan.routes[0].rows[1].epoch == FencingToken{1, 7});
  auto some = table.plan(std::vector<std::string>{"b"}, "");
  REQUIRE(some.routes.size() == 1);
  CHECK(some.routes[0].session == "n2/1");
  CHECK(table.plan(std::vector<std::string>{}, "").routes.empty());
}

TEST_CASE("what builds hold for their own time is room for rows that wait, what is there is not") {
  Table table;
  table.on_changes(all({row("u#0", RowState::free, "")}));
  auto look = [&table](std::uint64_t used, std::uint64_t reserved) {
    auto holder = node("n1/1");
    holder.info = to_json(NodeInfo{.endpoint = "http://n1",
                                   .budget_bytes = 64u << 20,
                                   .used_bytes = used,
                                   .reserved_bytes = reserved});
    table.on_nodes({holder});
    return load_of(table);
  };
  CHECK(look(0, 60u << 20).unclaimed == 1);
  CHECK(look(0, 60u << 20).roomless == 0);
  CHECK(look(40u << 20, 0).roomless == 1);
  table.on_nodes({});
  CHECK(load_of(table).roomless == 1);  // there is nobody
}

TEST_CASE("what nobody can be asked for is named, with the reason") {
  Table table;
  auto failed = row("f#0", RowState::failed, "");
  failed.error = "no such ref";
  table.on_changes(all({row("u#0", RowState::free, ""), failed,
                        row("w#0", RowState::claimed, "n1/1", Phase::reading),
                        row("s#0", RowState::ready, "n9/1")}));
  table.on_nodes({node("n1/1")});
  auto plan = table.plan({}, "");
  CHECK(plan.routes.empty());
  REQUIRE(plan.missing.size() == 4);
  CHECK(plan.missing[0] == Missing{"f", "unclaimed", "", "no such ref"});
  CHECK(plan.missing[1] == Missing{"s", "unreachable", "", "node n9 is silent"});
  CHECK(plan.missing[2] == Missing{"u", "unclaimed", "", ""});
  CHECK(plan.missing[3] == Missing{"w", "warming", "reading", ""});
  table.on_changes({{row("w#0", RowState::claimed, "n1/1", Phase::serving)}, {}, "q", false});
  CHECK(table.plan({}, "").missing.at(3) == Missing{"w", "warming", "waiting", ""});
  auto unknown = table.plan(std::vector<std::string>{"x"}, "");
  CHECK(unknown.missing.at(0) == Missing{"x", "unknown", "", ""});
}

TEST_CASE("of several replicas the nearest is asked, then the one with the least to do") {
  Table table;
  table.on_changes(all({row("a#0", RowState::ready, "n1/1"), row("a#1", RowState::ready, "n2/1"),
                        row("a#2", RowState::claimed, "n3/1")}));
  table.on_nodes({node("n1/1", "east", 5), node("n2/1", "west", 9), node("n3/1", "west", 0)});
  CHECK(table.plan({}, "west").routes.at(0).session == "n2/1");
  CHECK(table.plan({}, "").routes.at(0).session == "n1/1");
  CHECK(table.plan({}, "", {"n1/1"}).routes.at(0).session == "n2/1");
  CHECK(table.plan({}, "", {"n1/1", "n2/1"}).routes.size() == 1);
  CHECK(table.plan({}, "").routes.at(0).has_other);
  table.on_nodes({node("n1/1")});
  CHECK_FALSE(table.plan({}, "").routes.at(0).has_other);
}

TEST_CASE(
    "of replicas that are equally near two are compared, by what their nodes have to do now") {
  Table table;
  table.on_changes(all({row("a#0", RowState::ready, "n1/1"), row("a#1", RowState::ready, "n2/1"),
                        row("b#0", RowState::ready, "n1/1"), row("b#1", RowState::ready, "n2/1"),
                        row("b#2", RowState::ready, "n3/1")}));
  table.on_nodes({node("n1/1"), node("n2/1"), node("n3/1")});
  NodeLoads loads;
  auto asked = [&](const char* repo) {
    ++loads.seed;
    return table.plan(std::vector<std::string>{repo}, "", {}, loads).routes.at(0).session;
  };
  // No node answers, and no heartbeat tells what they have to do.
  for (int i = 0; i < 100; ++i) ++loads.outstanding[asked("a")];
  CHECK(loads.outstanding["n1/1"] == 50);
  CHECK(loads.outstanding["n2/1"] == 50);
  // Equal nodes share the queries.
  loads.outstanding.clear();
  std::map<NodeSession, int> times;
  for (int i = 0; i < 300; ++i) ++times[asked("a")];
  CHECK(times["n1/1"] > 90);
  CHECK(times["n2/1"] > 90);
  // Of three, the least busy gets most of the queries but not all, and the busiest none.
  loads.outstanding = {{"n1/1", 1}, {"n2/1", 5}, {"n3/1", 9}};
  times.clear();
  for (int i = 0; i < 300; ++i) ++times[asked("b")];
  CHECK(times["n1/1"] > 150);
  CHECK(times["n2/1"] > 50);
  CHECK(times["n3/1"] == 0);
  // A node's own count matters too: other routers ask it as well.
  loads.outstanding.clear();
  table.on_nodes({node("n1/1", "", 4), node("n2/1")});
  CHECK(asked("a") == "n2/1");
  loads.outstanding["n2/1"] = 7;
  CHECK(asked("a") == "n1/1");
  CHECK(table.plan({}, "", {}, loads).has_choices);
}

TEST_CASE("changes are followed, and what cannot be read is counted, not believed") {
  Table table;
  table.on_changes(all({row("a#0", RowState::ready, "n1/1"), row("a#1", RowState::ready, "n1/1")}));
  table.on_changes({{row("b#0", RowState::ready, "n1/1")}, {"a#0"}, "q", false});
  CHECK(table.repos().size() == 2);
  CHECK(table.repos().at("a").slots.size() == 1);
  table.on_changes({{}, {"a#1", "absent#0", "nonsense"}, "r", false});
  CHECK(table.repos().size() == 1);
  Row bad{.key = "bad#0", .spec = "no json"};
  table.on_changes({{bad, {.key = "nonsense"}}, {}, "s", false});
  table.on_nodes({{"n1/1", "no json", 30s, 20s}});
  CHECK(table.unreadable() == 3);
  CHECK(table.nodes().empty());
  table.on_changes(all({}));
  CHECK(table.repos().empty());
}

TEST_CASE(
    "a request is limited by names, numbers and kinds, and a number that two share is nobody's") {
  Table table;
  auto archived = row("old#0", RowState::ready, "n1/1");
  archived.spec = to_json(RepoSpec{.url = "u", .is_archived = true});
  table.on_changes(
      all({row("a#0", RowState::ready, "n1/1"), row("b#0", RowState::ready, "n1/1"), archived}));
  using Names = std::vector<std::string>;
  SearchAsk ask;
  CHECK_FALSE(table.limits_of(ask));
  ask.is_archived = false;
  CHECK(table.limits_of(ask) == Names{"a", "b"});
  ask.repos = {"b", "old", "b", "nobody"};
  CHECK(table.limits_of(ask) == Names{"b", "nobody"});
  ask = {};
  ask.repo_ids = {repo_id_of("a"), repo_id_of("old"), 12345};
  CHECK(table.limits_of(ask) == Names{"a", "old"});
  ask.repo_ids.emplace();
  CHECK(table.limits_of(ask) == Names{});
  ask.repos = {"b"};
  CHECK(table.limits_of(ask) == Names{"b"});

  std::map<std::uint32_t, std::string> seen;
  std::string one, other;
  for (int i = 0; other.empty(); ++i) {
    auto name = fmt::format("r{}", i);
    auto [place, is_new] = seen.emplace(repo_id_of(name), name);
    if (!is_new) one = place->second, other = name;
  }
  table.on_changes(
      all({row(one + "#0", RowState::ready, "n1/1"), row(other + "#0", RowState::ready, "n1/1")}));
  ask = {};
  ask.repo_ids = {repo_id_of(one)};
  CHECK(table.limits_of(ask) == Names{});
}

TEST_CASE("the largest repositories have metrics of their own, and no more than were asked for") {
  Table table;
  auto sized = [](const char* key, std::uint64_t bytes) {
    auto one = row(key, RowState::ready, "n1/1");
    RepoNote note{.phase = Phase::serving};
    note.memory_bytes = bytes;
    note.index_ms = 7;
    one.note = to_json(note);
    return one;
  };
  table.on_changes(all({sized("small#0", 10), sized("od\"d\\#0", 30), sized("big#0", 40),
                        row("free#0", RowState::free, "")}));
  auto text = repo_metrics(table, 2);
  CHECK(text.contains(
      "# TYPE warren_fleet_repo_memory_bytes gauge\n"
      "warren_fleet_repo_memory_bytes{repo=\"big\",slot=\"0\",node=\"n1\"} 40\n"
      "warren_fleet_repo_memory_bytes{repo=\"od\\\"d\\\\\",slot=\"0\",node=\"n1\"} 30\n"
      "# HELP"));
  CHECK(text.contains("warren_fleet_repo_index_time_ms{repo=\"big\",slot=\"0\",node=\"n1\"} 7\n"));
  CHECK_FALSE(text.contains("small"));
  CHECK(repo_metrics(table, 9).contains(
      "warren_fleet_repo_ready{repo=\"free\",slot=\"0\",node=\"\"} 0\n"));
  CHECK(repo_metrics(table, 0).empty());
  CHECK(repo_metrics({}, 9).empty());
}

TEST_CASE("a repository that is gone at its origin is known to leave, and is served until then") {
  Table table;
  auto counts = gone_row("a");
  counts.note = to_json(Gone{.url = "u", .why = "404", .left = 1h});
  counts.wait = 23h;
  table.on_changes(all({row("a#0", RowState::ready, "n1/1"), std::move(counts), gone_row("b")}));
  table.on_nodes({node("n1/1")});
  CHECK(table.repos().size() == 1);
  CHECK(table.unreadable() == 0);
  REQUIRE(table.leaving().size() == 1);
  CHECK(table.leaving().at("a").left == 24h);
  CHECK(table.leaving().at("a").gone.why == "404");
  CHECK(table.plan({}, "").routes.size() == 1);
  table.on_changes({{}, {gone_key("a")}, "q", false});
  CHECK(table.leaving().empty());
  CHECK(table.repos().size() == 1);
}

}  // namespace warren::fleet
