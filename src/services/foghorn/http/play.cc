// /play and /resolve. The local way reads memory only: one decision, one redirect.
#include <boost/json.hpp>
#include <numbers>

#include "base/log.h"
#include "net/http/target.h"
#include "services/foghorn/balance/view.h"
#include "services/foghorn/http/routes.h"

namespace warren::foghorn {

namespace {

namespace json = boost::json;
using balance::RoutingTable;
using federation::Placement;
using federation::Way;

constexpr double earth_radius_km = 6371;

// What was found for a viewer: nodes of this cluster, the best first, and those of others.
struct Found {
  std::string_view content;  // the bare name of a stream, or the id of what is stored
  bool is_live = true;
  balance::Decision local = {};
  Way way = Way::local;
  const Placement* placement = nullptr;  // of a federation
};

ViewerPlace place_for(const Call& call) { return place_of(call.request); }

// Sends him to this node, and has it counted there.
void redirect_to(Call& call, const PlaybackPath& asked, const Found& found,
                 const balance::NodeFacts& node, const Output& output) {
  auto url = with_manifest(output_url(output.url, node.base_url, asked.key), asked.manifest);
  if (!call.request.query.empty())
    url = with_query(std::move(url), query_without(call.request.query, "fwcid"));
  send_to(call.answer, 307,
          with_query(std::move(url), expect_viewer(call, node.id, found.content)));
}

std::string remote_url(const Call& call, const PlaybackPath& asked, const Placement& placement) {
  auto url = placement.redirect_url(asked.key, call.cluster.terms().cluster_id);
  auto protocol = percent_encoded(asked.protocol);
  if (!protocol.empty())
    url = with_manifest(std::move(url), asked.manifest.empty()
                                            ? protocol
                                            : fmt::format("{}/{}", protocol, asked.manifest));
  return with_query(std::move(url),
                    query_without(query_without(call.request.query, "fwcid"), "from"));
}

void redirect(Call& call, const PlaybackPath& asked, const Found& found,
              const RoutingTable& table) {
  if (found.way == Way::redirect)
    return send_to(call.answer, 307, remote_url(call, asked, *found.placement));
  for (std::size_t i = 0; i < found.local.count; ++i) {
    auto place = found.local.best[i].node;
    const auto* node = balance::node_at(table, place);
    if (!node || node->base_url.empty()) continue;
    if (const auto* output = find_output(call.outputs.of(place, *node), asked.protocol))
      return redirect_to(call, asked, found, *node, *output);
  }
  if (is_loading(call)) return;
  refuse(call.answer, 404, "PROTOCOL_NOT_AVAILABLE",
         fmt::format("no node that has it offers {}", asked.protocol));
}

json::object endpoint(Call& call, const PlaybackPath& asked, const RoutingTable& table,
                      const balance::Choice& choice) {
  const auto& node = *balance::node_at(table, choice.node);
  const auto& outputs = call.outputs.of(choice.node, node);
  json::object each;
  for (const auto& output : outputs)
    each[output.name] = json::object{{"protocol", output.name},
                                     {"url", output_url(output.url, node.base_url, asked.key)},
                                     {"capabilities", json::object{}}};
  const auto* best = preferred_output(outputs);
  json::object object{{"nodeId", node.id},
                      {"baseUrl", node.base_url},
                      {"protocol", best ? best->name : ""},
                      {"url", best ? output_url(best->url, node.base_url, asked.key) : ""},
                      {"loadScore", choice.total},
                      {"outputs", std::move(each)}};
  auto viewer = place_for(call);
  if (balance::is_place(viewer.latitude, viewer.longitude) &&
      balance::is_place(node.latitude, node.longitude))
    object["geoDistance"] =
        std::numbers::pi * earth_radius_km *
        balance::distance(viewer.latitude, viewer.longitude, node.latitude, node.longitude);
  return object;
}

// With where he comes from: who is sent on is not sent on again.
json::object remote_endpoint(const Call& call, const PlaybackPath& asked,
                             const federation::RemoteChoice& choice) {
  return {{"nodeId", choice.node_id},
          {"baseUrl", choice.base_url},
          {"protocol", "redirect"},
          {"url", fmt::format("{}/play/{}?from={}", choice.play_url, percent_encoded(asked.key),
                              percent_encoded(call.cluster.terms().cluster_id))},
          {"loadScore", choice.score},
          {"clusterId", choice.cluster}};
}

json::array hints(const json::value& primary) {
  json::array names;
  if (const auto* outputs = primary.as_object().if_contains("outputs"))
    for (const auto& output : outputs->as_object()) names.emplace_back(output.key());
  return names;
}

json::object metadata(const Call& call, const Found& found, const json::value& primary) {
  json::object about{{"contentId", found.content},
                     {"contentType", found.is_live ? "live" : "vod"},
                     {"isLive", found.is_live},
                     {"protocolHints", hints(primary)}};
  if (auto stream = call.cluster.stream(std::string(found.content))) {
    auto all = shown(*stream, true);
    about["status"] = stream->state.status;
    about["viewers"] = stream->state.viewers;
    about["bufferState"] = stream->state.buffer_state;
    about["tenantId"] = stream->state.tenant_id;
    about["streamId"] = stream->state.internal_name;
    about["playbackId"] = stream->state.playback_id;
    about["tracks"] = all.contains("tracks") ? all["tracks"] : json::array{};
    about["instances"] = stream->instances.size();
  } else if (auto stored = call.cluster.artifact(std::string(found.content))) {
    about["contentType"] = stored->type;
    about["status"] = "ready";
    about["instances"] = stored->copies.size();
  }
  return about;
}

// Existing deployments tell viewers nothing of their nodes: why stands in the log.
void no_node(Call& call, std::string_view why) {
  if (is_loading(call)) return;
  bool is_compat = call.terms.policy == balance::Policy::compat;
  if (is_compat) log::debug("foghorn.playback_unresolved", "path", call.rest, "why", why);
  refuse(call.answer, 500, "PLAYBACK_RESOLUTION_FAILED",
         is_compat ? "Failed to resolve playback endpoint" : why);
  call.answer.add("Retry-After", "2");
}

void describe(Call& call, const PlaybackPath& asked, const Found& found,
              const RoutingTable& table) {
  json::array all;
  for (std::size_t i = 0; i < found.local.count && all.size() < 5; ++i)
    if (const auto* node = balance::node_at(table, found.local.best[i].node);
        node && !node->base_url.empty())
      all.push_back(endpoint(call, asked, table, found.local.best[i]));
  if (found.placement) {
    json::array remote;
    for (const auto& choice : found.placement->remote)
      remote.push_back(remote_endpoint(call, asked, choice));
    auto at = found.way == Way::redirect ? all.begin() : all.end();
    all.insert(at, remote.begin(), remote.end());
  }
  if (all.empty()) return no_node(call, "no node that has it says where it can be reached");
  if (all.size() > 5) all.resize(5);
  if (const auto* node = best_of(table, found.local); node && found.way != Way::redirect) {
    auto& first = all.front().as_object();
    std::string url(first["url"].as_string());
    auto carries = expect_viewer(call, node->id, found.content);
    if (!url.empty()) first["url"] = with_query(std::move(url), carries);
  }
  json::value primary = all.front();
  all.erase(all.begin());
  auto about = metadata(call, found, primary);
  give(call.answer, json::object{{"primary", std::move(primary)},
                                 {"fallbacks", std::move(all)},
                                 {"metadata", std::move(about)}});
}

void hand_out(Call& call, const PlaybackPath& asked, const Found& found,
              const RoutingTable& table) {
  if (asked.protocol.empty())
    describe(call, asked, found, table);
  else
    redirect(call, asked, found, table);
}

void not_known(Call& call, const PlaybackPath& asked) {
  if (is_loading(call)) return;
  refuse(call.answer, 404, "VIEW_KEY_NOT_FOUND",
         fmt::format("there is no stream and nothing stored under {}", asked.key));
}

// What is stored, here or elsewhere.
void play_stored(Call& call, const PlaybackPath& asked, const RoutingTable& table) {
  auto viewer = place_for(call);
  auto places = balance::artifact_nodes(table, asked.key, viewer.latitude, viewer.longitude);
  Found found{.content = asked.key, .is_live = false};
  for (auto place : places)
    if (found.local.count < 5) found.local.best[found.local.count++] = {place, 0};
  if (found.local.count > 0) return hand_out(call, asked, found, table);
  // Who was sent here is not sent on: the other may believe that it is here.
  bool was_sent = !call.request.query.empty() && !call.query("from").value_or("").empty();
  bool is_loading_yet = call.cluster.health() == MirrorHealth::loading;
  if (!call.federation || was_sent || is_loading_yet) return not_known(call, asked);
  Placement elsewhere;
  elsewhere.way = Way::redirect;
  elsewhere.remote = call.federation->artifact_at(asked.key, viewer.latitude, viewer.longitude);
  if (elsewhere.remote.empty()) return not_known(call, asked);
  found.way = Way::redirect;
  found.placement = &elsewhere;
  hand_out(call, asked, found, table);
}

void play_placed(Call& call, const PlaybackPath& asked, const std::string& stream,
                 const Placement& placed) {
  const auto& table = placed.table ? *placed.table : call.cluster.table_here();
  Found found{.content = stream, .local = placed.local, .way = placed.way, .placement = &placed};
  if (placed.way == Way::nowhere) {
    if (!balance::find_stream(table, stream)) return play_stored(call, asked, table);
    balance::Query query{.stream = stream, .capabilities = "edge", .policy = call.terms.policy};
    return no_node(call, balance::why_none(table, query, placed.local));
  }
  if (placed.way == Way::pull) {
    auto place = balance::place_of(table, placed.node_id);
    if (!place) return no_node(call, "the node that was to pull it is gone");
    found.local = {};
    found.local.best[0] = {*place, 0};
    found.local.count = 1;
  }
  hand_out(call, asked, found, table);
}

// Takes all by value: what it was called with is gone when others have answered.
awaitable<void> ask_others(Call call, PlaybackPath asked, federation::PlaceQuery query) {
  auto stream = query.stream;
  auto placed =
      co_await call.federation->place(std::move(query), Clock::now() + call.terms.remote_time);
  if (placed)
    play_placed(call, asked, stream, *placed);
  else
    no_node(call, placed.error().what);
}

Work play_federated(Call& call, PlaybackPath asked, const balance::StreamFacts* stream) {
  auto elsewhere = stream ? std::nullopt : call.federation->stream_of_playback(asked.key);
  federation::PlaceQuery query;
  query.stream = stream ? stream->name : elsewhere ? *elsewhere : std::string(bare_name(asked.key));
  query.tenant = stream ? stream->tenant : "";
  auto viewer = place_for(call);
  query.latitude = viewer.latitude;
  query.longitude = viewer.longitude;
  query.adjustments = adjustments_of(call.request);
  query.policy = call.terms.policy;
  if (!call.request.query.empty()) query.from_cluster = call.query("from").value_or("");
  auto placed = call.federation->place_now(query);
  if (!placed) return ask_others(call, std::move(asked), std::move(query));
  play_placed(call, asked, query.stream, *placed);
  return std::nullopt;
}

}  // namespace

Work play(Call& call) {
  if (!call.is_method("GET")) {
    refuse_method(call.answer, "GET, HEAD");
    return std::nullopt;
  }
  auto asked = parse_playback(call.rest);
  if (!asked) {
    bool is_missing = asked.error().code == Errc::not_found;
    refuse(call.answer, 400, is_missing ? "MISSING_VIEW_KEY" : "INVALID_PATH", asked.error().what);
    return std::nullopt;
  }
  if (auto checked = check_id("view key", asked->key); !checked) {
    refuse(call.answer, 400, "INVALID_VIEW_KEY", checked.error().what);
    return std::nullopt;
  }
  const auto& table = call.cluster.table_here();
  const auto* stream = balance::find_playback(table, asked->key);
  if (!stream) stream = balance::find_stream(table, bare_name(asked->key));
  auto viewer = place_for(call);
  auto adjustments = adjustments_of(call.request);
  balance::Query query{.latitude = viewer.latitude,
                       .longitude = viewer.longitude,
                       .adjustments = adjustments,
                       .capabilities = "edge",
                       .policy = call.terms.policy};
  if (stream) {
    query.stream = stream->name;
    query.tenant = stream->tenant;
  }
  if (stream && !call.request.query.empty() && call.query("explain") == "1") {
    give(call.answer, explanation(table, query));
    return std::nullopt;
  }
  // What other clusters have is asked once it is known what this one has.
  bool is_loaded = call.cluster.health() != MirrorHealth::loading;
  if (call.federation && is_loaded) return play_federated(call, *std::move(asked), stream);
  if (!stream) {
    play_stored(call, *asked, table);
    return std::nullopt;
  }
  Found found{.content = stream->name, .local = balance::choose(table, query)};
  if (found.local.empty())
    no_node(call, balance::why_none(table, query, found.local));
  else
    hand_out(call, *asked, found, table);
  return std::nullopt;
}

}  // namespace warren::foghorn
