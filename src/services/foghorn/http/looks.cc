// What operators look at: /nodes/overview and its siblings, /v1/balance, /v1/digest, …
#include <boost/json.hpp>

#include "net/http/target.h"
#include "services/foghorn/balance/view.h"
#include "services/foghorn/http/routes.h"
#include "services/foghorn/state/json_fields.h"

namespace warren::foghorn {

namespace {

constexpr std::size_t page_size = 100, most_page = 1000;

bool can(const NodeView& node, std::string_view capability) {
  const auto& state = node.state;
  if (capability == "ingest" && state.cap_ingest) return true;
  if (capability == "edge" && state.cap_edge) return true;
  if (capability == "storage" && state.cap_storage) return true;
  if (capability == "processing" && state.cap_processing) return true;
  return std::ranges::count(state.roles, capability) > 0;
}

bool can_all(const NodeView& node, std::string_view list) {
  while (!list.empty()) {
    auto word = list.substr(0, list.find(','));
    list.remove_prefix(std::min(list.size(), word.size() + 1));
    if (!word.empty() && !can(node, word)) return false;
  }
  return true;
}

// What a node carries; with `full` as much of each as is known.
json::array streams_of(const Call& call, const std::string& node, bool full) {
  json::array list;
  if (full)
    for (const auto& instance : call.cluster.instances_on(node))
      list.push_back(value_in(to_json(instance)));
  else
    for (const auto& stream : call.cluster.streams_on(node)) list.emplace_back(stream);
  return list;
}

void overview(Call& call) {
  bool full = call.query("full") == "true";
  bool with_stale = call.query("include_stale") == "true";
  auto capabilities = call.query("cap").value_or("");
  auto offset = number_of(call, "offset", 0, std::size_t(-1));
  auto limit = number_of(call, "limit", page_size, most_page);
  call.cost += cost_of_all;
  json::array page;
  std::size_t count = 0;
  for (const auto& node : call.cluster.nodes()) {
    if ((!with_stale && node.state.is_stale) || !can_all(node, capabilities)) continue;
    if (count++ < offset || page.size() >= limit) continue;
    auto each = shown(node);
    each["streams"] = streams_of(call, node.state.node_id, full);
    page.push_back(std::move(each));
  }
  call.answer.add("X-Total-Count", std::to_string(count));
  give(call.answer, page);
}

void drain_status(Call& call, const std::string& id) {
  auto node = call.cluster.node(id);
  if (!node) return refuse(call.answer, 404, "NOT_FOUND", fmt::format("there is no node {}", id));
  auto pending = call.cluster.viewers().pending(id);
  const auto& table = call.cluster.table_here();
  auto place = balance::place_of(table, id);
  auto connections = place ? balance::node_at(table, *place)->connections : 0;
  bool is_empty = node->viewers == 0 && pending == 0 && connections == 0;
  give(call.answer,
       json::object{{"node_id", id},
                    {"operational_mode", name(node->mode)},
                    {"active_viewers", node->viewers},
                    {"connections", connections},
                    {"pending_redirects", pending},
                    {"is_drained", node->mode != balance::NodeMode::normal && is_empty}});
}

void balance_for(Call& call) {
  auto given = call.query("stream").value_or("");
  if (!given.empty())
    if (auto checked = check_id("stream", given); !checked)
      return refuse(call.answer, checked.error());
  std::string stream(bare_name(given));
  auto capabilities = call.query("cap").value_or(stream.empty() ? "" : "edge");
  auto adjustments = adjustments_of(call.request);
  auto tenant = call.query("tenant").value_or("");
  auto place = place_of(call.request);
  balance::Query query{
      .stream = stream,
      .latitude = place.latitude,
      .longitude = place.longitude,
      .adjustments = adjustments,
      .most = std::max<std::size_t>(1, number_of(call, "most", 5, balance::most_choices)),
      .for_source = call.query("source") == "1",
      .capabilities = capabilities,
      .tenant = tenant,
      .policy = call.terms.policy};
  const auto& table = call.cluster.table_here();
  if (call.query("explain") == "1") return give(call.answer, explanation(table, query));
  auto decision = balance::choose(table, query);
  json::array best;
  for (std::size_t i = 0; i < decision.count; ++i) {
    const auto& node = *balance::node_at(table, decision.best[i].node);
    best.push_back(json::object{
        {"node_id", node.id}, {"base_url", node.base_url}, {"score", decision.best[i].total}});
  }
  json::object says{{"stream", stream}, {"nodes", std::move(best)}};
  if (decision.empty()) says["why_none"] = balance::why_none(table, query, decision);
  give(call.answer, says);
}

awaitable<void> tell_leader(Call call) {
  json::object says{{"cluster_id", call.cluster.terms().cluster_id},
                    {"instance_id", call.cluster.terms().instance_id},
                    {"is_leader", call.federation->is_leader()},
                    {"leader", nullptr}};
  auto leader = co_await call.federation->leader();
  if (!leader) {
    refuse(call.answer, leader.error());
    co_return;
  }
  if (*leader) {
    says["leader"] = (*leader)->candidate;
    says["since"] = iso8601((*leader)->since);
  }
  give(call.answer, says);
}

void tell_peers(Call& call) {
  json::array all;
  for (const auto& peer :
       call.federation ? call.federation->peers() : std::vector<federation::PeerView>{}) {
    json::array addresses;
    for (const auto& address : peer.addresses) addresses.emplace_back(address);
    json::object each{{"cluster_id", peer.cluster},
                      {"addresses", std::move(addresses)},
                      {"is_connected", peer.is_connected},
                      {"streams", peer.streams},
                      {"edges", peer.edges},
                      {"artifacts", peer.artifacts},
                      {"frames_in", peer.frames_in},
                      {"frames_out", peer.frames_out},
                      {"frames_dropped", peer.frames_dropped}};
    if (peer.problem) each["problem"] = *peer.problem;
    all.push_back(std::move(each));
  }
  give(call.answer, all);
}

}  // namespace

void operations(Call& call) {
  auto whole = call.rest;
  auto id = percent_decoded(next_part(call.rest)).value_or("");
  auto action = next_part(call.rest);
  if (action == "mode") {
    call.rest = whole;  // the same as below /v1
    return nodes(call);
  }
  if (!call.is_method("GET")) return refuse_method(call.answer, "GET, HEAD");
  if (id == "overview" && action.empty()) return overview(call);
  if (action == "drain-status") return drain_status(call, id);
  refuse(call.answer, 404, "NOT_FOUND",
         "there is /nodes/overview, /nodes/ID/mode and /nodes/ID/drain-status");
}

Work look(Call& call, std::string_view what) {
  if (!call.is_method("GET")) {
    refuse_method(call.answer, "GET, HEAD");
  } else if (what == "balance") {
    balance_for(call);
  } else if (what == "digest") {
    call.cost += cost_of_all;
    give(call.answer, json::object{{"cluster_id", call.cluster.terms().cluster_id},
                                   {"digest", call.cluster.digest()},
                                   {"waiting_changes", call.cluster.waiting_changes()}});
  } else if (what == "leader") {
    if (call.federation) return tell_leader(call);
    refuse(call.answer, 404, "NOT_FOUND", "without Redis nobody leads");
  } else if (what == "peers") {
    tell_peers(call);
  } else {
    refuse(call.answer, 404, "NOT_FOUND",
           "below /v1 there are nodes, streams, artifacts, balance, digest, leader and peers");
  }
  return std::nullopt;
}

json::object explanation(const balance::RoutingTable& table, const balance::Query& query) {
  json::array nodes;
  for (const auto& each : balance::explain(table, query)) {
    const auto* node = balance::node_at(table, each.node);
    if (!node) continue;
    const auto& score = each.score;
    json::object says{{"node_id", node->id}, {"base_url", node->base_url}};
    if (each.rejection != balance::Rejection::none) says["rejected"] = reason(each.rejection);
    says["score"] = score.total;
    says["cpu"] = score.cpu;
    says["ram"] = score.ram;
    says["bw"] = score.bw;
    says["geo"] = score.geo;
    says["bonus"] = score.bonus;
    says["adjustment"] = score.adjustment;
    nodes.push_back(std::move(says));
  }
  json::object says{{"stream", query.stream},
                    {"policy", query.policy == balance::Policy::fair ? "fair" : "compat"},
                    {"nodes", std::move(nodes)}};
  auto decision = balance::choose(table, query);
  if (decision.empty())
    says["why_none"] = balance::why_none(table, query, decision);
  else
    says["best"] = balance::node_at(table, decision.best[0].node)->id;
  return says;
}

json::object shown(const NodeView& node) {
  auto object = value_in(to_json(node.state)).as_object();
  object["operational_mode"] = name(node.mode);
  object["is_active"] = node.is_active;
  object["stream_count"] = node.streams;
  object["active_viewers"] = node.viewers;
  return object;
}

json::object shown(const StreamView& stream, bool with_instances) {
  auto object = value_in(to_json(stream.state)).as_object();
  json::array instances;
  for (const auto& instance : stream.instances) {
    if (with_instances)
      instances.push_back(value_in(to_json(instance)));
    else
      instances.emplace_back(instance.node_id);
  }
  object["instances"] = std::move(instances);
  return object;
}

}  // namespace warren::foghorn
