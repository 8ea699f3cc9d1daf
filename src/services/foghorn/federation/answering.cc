// What other clusters ask. Any instance answers, from memory.
#include "base/log.h"
#include "services/foghorn/balance/view.h"
#include "services/foghorn/federation/core.h"

namespace warren::federation {

namespace {

constexpr std::size_t most_candidates = 10;

bool is_shared(const std::string& a, const std::string& b) {
  return a.empty() || b.empty() || a == b;
}

}  // namespace

Result<StreamAnswer> Federation::Core::query(const StreamQuery& query) {
  auto named = foghorn::check_id("stream_name", query.stream);
  if (!named) return std::unexpected(named.error());
  if (query.requesting_cluster == self())
    return fail(Errc::invalid, "requesting_cluster: {} is this cluster", self());
  StreamAnswer answer;
  answer.public_url = terms.public_url;
  auto table = cluster.table();
  auto name = std::string(foghorn::bare_name(query.stream));
  const auto* stream = balance::find_stream(*table, name);
  // Who may not know it learns nothing, not even that it may not.
  if (!stream || !stream->is_live || !is_shared(query.tenant, stream->tenant) ||
      !shares(query.requesting_cluster, stream->tenant))
    return answer;
  balance::Query local;
  local.stream = name;
  local.latitude = query.latitude;
  local.longitude = query.longitude;
  local.most = most_candidates;
  local.for_source = query.for_source;
  local.tenant = stream->tenant;
  auto decision = balance::choose(*table, local);
  auto holders = balance::holders(*table, name);
  for (std::size_t i = 0; i < decision.count; ++i) {
    auto choice = decision.best[i];
    const auto& node = *balance::node_at(*table, choice.node);
    auto holder = std::find_if(holders.begin(), holders.end(),
                               [&](const auto& each) { return each.node == choice.node; });
    bool has_it = holder != holders.end() && holder->holding.inputs > 0;
    if (!has_it) continue;
    bool is_origin = !holder->holding.is_replicated;
    if (is_origin) answer.origin_cluster = self();
    answer.candidates.push_back({telemetry_of(*table, choice.node),
                                 dtsc_url(node.outputs_json, node.base_url, name),
                                 stream->buffer_state, is_origin, choice.total});
  }
  if (answer.origin_cluster.empty())
    if (const auto* live = view.live_at(Clock::now(), name)) answer.origin_cluster = *live;
  return answer;
}

void Federation::Core::pull(PullRequest request, std::function<void(Result<PullAnswer>)> answer) {
  if (is_closing_) return answer(fail(Errc::unavailable, "this instance is closing"));
  if (calls_.running() >= 1000) return answer(fail(Errc::overloaded, "too many calls"));
  auto work = [](Core& core, PullRequest asked,
                 std::function<void(Result<PullAnswer>)> tell) -> awaitable<void> {
    // Whoever asked is told, also when this is cancelled.
    struct Telling {
      std::function<void(Result<PullAnswer>)> tell;
      Result<PullAnswer> result = fail(Errc::cancelled, "this instance is closing");
      ~Telling() { tell(std::move(result)); }
    } telling{std::move(tell)};
    auto answered = co_await core.answer_pull(std::move(asked));
    telling.result = std::move(answered);
  };
  calls_.start("federation.pull", work(*this, std::move(request), std::move(answer)));
}

Async<PullAnswer> Federation::Core::answer_pull(PullRequest request) {
  auto refuse = [](std::string why) {
    PullAnswer refused;
    refused.reason = std::move(why);
    return refused;
  };
  for (auto [what, id] : {std::pair("stream_name", &request.stream),
                          std::pair("dest_cluster_id", &request.dest_cluster),
                          std::pair("dest_node_id", &request.dest_node)}) {
    auto checked = foghorn::check_id(what, *id);
    if (!checked) co_return std::unexpected(checked.error());
  }
  auto name = std::string(foghorn::bare_name(request.stream));
  if (request.dest_cluster == self())
    co_return fail(Errc::invalid, "dest_cluster_id: {} is this cluster", self());
  auto table = cluster.table();
  const auto* stream = balance::find_stream(*table, name);
  if (!stream || !stream->is_live || !is_shared(request.tenant, stream->tenant) ||
      !shares(request.dest_cluster, stream->tenant))
    co_return refuse("stream not found locally");
  const auto* ours = view.pulled(Clock::now(), name);
  if (ours && ours->source_cluster == request.dest_cluster)
    co_return refuse("this cluster pulls it from there");
  balance::Query origin;
  origin.stream = name;
  origin.for_source = true;
  origin.most = balance::most_choices;
  origin.tenant = stream->tenant;
  auto decision = balance::choose(*table, origin);
  if (decision.empty())
    co_return refuse("no source node available: " + balance::why_none(*table, origin, decision));
  const balance::NodeFacts* source = nullptr;
  for (std::size_t i = 0; i < decision.count && !source; ++i) {
    const auto* node = balance::node_at(*table, decision.best[i].node);
    if (request.source_node.empty() || node->id == request.source_node) source = node;
  }
  if (!source) co_return refuse("could not resolve source node ID");
  auto url = dtsc_url(source->outputs_json, source->base_url, name);
  if (url.empty()) co_return refuse("could not build DTSC URI for source node");
  ActiveReplication record{name,
                           source->id,
                           self(),
                           request.dest_cluster,
                           request.dest_node,
                           url,
                           source->base_url,
                           iso8601(WallClock::now())};
  PullAnswer answer{true, {}, url, source->id, source->base_url};
  std::vector<Record> records;
  records.push_back(record_of({"", WallClock::now()}, self(), record));
  auto now = Clock::now();
  auto known = view.put(now, records.front(), now + ttl_of(Kind::active_replications));
  if (!known) co_return std::unexpected(known.error());
  auto written = co_await writer_.write(std::move(records), nullptr);
  // Who pulls is worth knowing, and no reason not to let him.
  if (!written) log::warn("federation.pull_unrecorded", "why", written.error().what);
  co_return answer;
}

Result<ArtifactAnswer> Federation::Core::prepare(const ArtifactRequest& request) {
  auto named = foghorn::check_id("artifact_hash", request.hash);
  if (!named) return std::unexpected(named.error());
  if (request.requesting_cluster == self())
    return fail(Errc::invalid, "requesting_cluster: {} is this cluster", self());
  ArtifactAnswer answer;
  answer.reason = "not found locally";
  auto artifact = cluster.artifact(request.hash);
  if (!artifact) return answer;
  auto tenant = tenant_of(*artifact);
  if (!is_shared(request.tenant, tenant) || !shares(request.requesting_cluster, tenant))
    return answer;
  for (const auto& copy : artifact->copies) {
    auto node = cluster.node(copy.node_id);
    if (!node || !node->is_active) continue;
    answer.copies.push_back({copy.node_id, node->state.base_url, copy.path, copy.size});
  }
  if (answer.copies.empty()) {
    answer.reason = "no active node has it";
    return answer;
  }
  answer.is_ready = true;
  answer.reason.clear();
  answer.type = artifact->type;
  return answer;
}

}  // namespace warren::federation
