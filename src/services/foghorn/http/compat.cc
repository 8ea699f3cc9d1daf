// The queries that media servers send to their balancer.
#include <boost/json.hpp>
#include <charconv>
#include <limits>

#include "net/http/target.h"
#include "services/foghorn/balance/view.h"
#include "services/foghorn/http/routes.h"

namespace warren::foghorn {

namespace {

namespace json = boost::json;
using balance::NodeFacts;
using balance::RoutingTable;

constexpr int dtsc_port = 4200;

bool is_letter_or_digit(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

// 4 to 128 characters: letters, digits, and after the first also _ + -
bool is_stream_name(std::string_view name) {
  return name.size() >= 4 && name.size() <= 128 && is_letter_or_digit(name.front()) &&
         std::ranges::all_of(name, [](char c) {
           return is_letter_or_digit(c) || c == '_' || c == '+' || c == '-';
         });
}

bool is_scheme(std::string_view text) {
  return !text.empty() && text.size() <= 16 && text.front() >= 'a' && text.front() <= 'z' &&
         std::ranges::all_of(text, [](char c) {
           return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '+' || c == '-' ||
                  c == '.';
         });
}

bool is_active(const NodeFacts& node) { return node.is_healthy && !node.is_stale; }

template <class Visit>
void each_node(const RoutingTable& table, Visit visit) {
  for (std::uint32_t place = 0; place < balance::node_count(table); ++place)
    if (const auto* node = balance::node_at(table, place)) visit(place, *node);
}

// "*" is every stream, "live-*" all that begin so, everything else itself.
template <class Visit>
void each_match(Call& call, std::string_view pattern, Visit visit) {
  if (!pattern.ends_with('*')) return visit(bare_name(pattern));
  call.cost += cost_of_all;
  pattern.remove_suffix(1);
  auto prefix = bare_name(pattern);
  balance::each_stream(call.cluster.table_here(), [&](const balance::StreamFacts& stream) {
    if (stream.name.starts_with(prefix)) visit(std::string_view(stream.name));
  });
}

struct Sums {
  std::int64_t viewers = 0, bytes_up = 0, bytes_down = 0;
  double bandwidth = 0;
  bool is_there = false;
};

// What nodes say may be anything.
void add(std::int64_t& sum, std::int64_t more) {
  if (__builtin_add_overflow(sum, more, &sum)) sum = std::numeric_limits<std::int64_t>::max();
}

std::uint64_t whole(double number) {
  constexpr double most = 9e18;
  return number >= 0 ? static_cast<std::uint64_t>(std::min(number, most)) : 0;
}

// Over the nodes that are active. Of a node's bandwidth a stream has what its viewers make up.
Sums sums_of(const Call& call, std::string_view stream) {
  Sums sums;
  const auto& table = call.cluster.table_here();
  auto view = call.cluster.stream(std::string(stream));
  if (!view) return sums;
  for (const auto& instance : view->instances) {
    auto place = balance::place_of(table, instance.node_id);
    const auto* node = place ? balance::node_at(table, *place) : nullptr;
    if (!node || !is_active(*node)) continue;
    sums.is_there = true;
    // A node counts connections; where it does not, we count who came and went.
    auto viewers = std::max(instance.total_connections, instance.viewers);
    add(sums.viewers, viewers);
    add(sums.bytes_up, instance.bytes_up);
    add(sums.bytes_down, instance.bytes_down);
    if (node->connections > 0)
      sums.bandwidth +=
          node->up_speed * static_cast<double>(viewers) / static_cast<double>(node->connections);
  }
  return sums;
}

void tell_viewers(Call& call, const std::string& pattern) {
  std::int64_t viewers = 0;
  each_match(call, pattern, [&](auto name) { add(viewers, sums_of(call, name).viewers); });
  call.answer.body = std::to_string(viewers);
}

void tell_stream_stats(Call& call, const std::string& pattern) {
  json::object all;
  each_match(call, pattern, [&](std::string_view name) {
    auto sums = sums_of(call, name);
    if (sums.is_there)
      all[name] = json::array{sums.viewers, whole(sums.bandwidth), sums.bytes_up, sums.bytes_down};
  });
  give(call.answer, all);
}

void tell_servers(Call& call) {
  json::object all;
  each_node(call.cluster.table_here(), [&](std::uint32_t, const NodeFacts& node) {
    if (!node.base_url.empty())
      all[public_host(node.base_url).host] = is_active(node) ? "Monitored (online)" : "Offline";
  });
  give(call.answer, all);
}

// What a host says of itself: percent, bytes a second.
json::object host_status(const Call& call, std::uint32_t place, const NodeFacts& node) {
  const auto& penalty = balance::penalty_at(call.cluster.table_here(), place);
  json::object status{{"cpu", node.cpu_percent},
                      {"ram", node.ram_max > 0 ? node.ram_current * 100 / node.ram_max : 0.0},
                      {"up", node.up_speed},
                      {"up_add", penalty.bandwidth.load() + penalty.peer_bandwidth.load()},
                      {"down", node.down_speed},
                      {"bwlimit", node.bw_limit}};
  if (auto view = call.cluster.node(node.id)) {
    status["streams"] = view->streams;
    status["viewers"] = view->viewers;
    if (balance::is_place(node.latitude, node.longitude))
      status["geo"] = json::object{
          {"lat", node.latitude}, {"lon", node.longitude}, {"loc", view->state.location}};
  }
  if (!node.tags.empty()) status["tags"] = json::array(node.tags.begin(), node.tags.end());
  return status;
}

void tell_hosts(Call& call, const std::string& host) {
  const auto& table = call.cluster.table_here();
  json::object all;
  std::map<std::uint32_t, balance::Score> scores;
  for (const auto& each : balance::explain(table, {}))
    if (each.rejection == balance::Rejection::none) scores[each.node] = each.score;
  each_node(table, [&](std::uint32_t place, const NodeFacts& node) {
    auto of_node = public_host(node.base_url).host;
    if (of_node.empty()) return;
    if (!host.empty() && of_node != public_host(host).host && without_port(of_node) != host) return;
    auto status = host_status(call, place, node);
    if (auto score = scores.find(place); score != scores.end())
      status["score"] = json::object{
          {"cpu", score->second.cpu}, {"ram", score->second.ram}, {"bw", score->second.bw}};
    all[of_node] = std::move(status);
  });
  give(call.answer, all);
}

// Told by GET, changed by POST: the URL of a change may stand in any page, and be asked for by whoever
// looks at that.
void weights(Call& call, const std::string& text) {
  auto now = balance::weights_of(call.cluster.table_here());
  bool is_change = call.is_method("POST");
  if (!text.empty() && !is_change) return refuse_method(call.answer, "POST");
  if (is_change) {
    if (!may_change(call)) return;
    boost::system::error_code error;
    auto value = json::parse(text, error);
    if (error || !value.is_object())
      return refuse(call.answer, 400, "INVALID", "weights: an object of whole numbers");
    auto wanted = now;
    for (auto [name, member] : {std::pair{"cpu", &wanted.cpu},
                                {"ram", &wanted.ram},
                                {"bw", &wanted.bw},
                                {"geo", &wanted.geo},
                                {"bonus", &wanted.bonus}})
      if (const auto* given = value.get_object().if_contains(name)) {
        constexpr std::int64_t most = 1'000'000;  // so that no sum of them overflows
        if (!given->is_int64() || given->get_int64() < 0 || given->get_int64() > most)
          return refuse(call.answer, 400, "INVALID",
                        fmt::format("weights: {} is a whole number from 0 to {}", name, most));
        *member = static_cast<std::uint64_t>(given->get_int64());
      }
    call.cluster.set_weights(wanted);
    now = wanted;
  }
  give(call.answer, json::object{{"cpu", now.cpu},
                                 {"ram", now.ram},
                                 {"bw", now.bw},
                                 {"geo", now.geo},
                                 {"bonus", now.bonus}});
}

std::string source_on(const Call& call, const NodeFacts& node) {
  auto view = call.cluster.node(node.id);
  auto port = view && view->state.dtsc_port > 0 ? view->state.dtsc_port : dtsc_port;
  return fmt::format("dtsc://{}:{}", without_port(public_host(node.base_url).host), port);
}

void source(Call& call, const std::string& given) {
  std::string stream(bare_name(given));
  auto adjustments = adjustments_of(call.request);
  auto capabilities = call.query("cap").value_or("");
  auto place = place_of(call.request);
  balance::Query query{.stream = stream,
                       .latitude = place.latitude,
                       .longitude = place.longitude,
                       .adjustments = adjustments,
                       .client = balance::binary_host(call.client.to_string()),
                       .for_source = true,
                       .capabilities = capabilities,
                       .policy = call.terms.policy};
  const auto& table = call.cluster.table_here();
  if (call.query("explain") == "1") return give(call.answer, explanation(table, query));
  auto decision = balance::choose(table, query);
  std::optional<std::string> url;
  if (const auto* node = best_of(table, decision)) url = source_on(call, *node);
  if (!url && call.federation) url = call.federation->source_of(stream);
  if (!url && is_loading(call)) return;
  // Whoever wrote the link chose the fallback: nobody is sent there.
  bool is_found = url.has_value();
  if (!url) url = call.query("fallback").value_or("");
  if (url->empty()) url = fmt::format("dtsc://localhost:{}", dtsc_port);
  call.answer.body = *url;
  if (is_found && call.query("redirect") == "1") send_to(call.answer, 302, *url);
}

void ingest(Call& call, const std::string& cpu) {
  double percent = 0;
  auto read = std::from_chars(cpu.data(), cpu.data() + cpu.size(), percent);
  if (read.ec != std::errc() || read.ptr != cpu.data() + cpu.size() || !(percent >= 0) ||
      percent > 100'000)
    return refuse(call.answer, 400, "INVALID", "ingest: the percentage of a CPU that it will take");
  auto adjustments = adjustments_of(call.request);
  auto capabilities = call.query("cap").value_or("ingest");
  auto place = place_of(call.request);
  balance::Query query{.latitude = place.latitude,
                       .longitude = place.longitude,
                       .adjustments = adjustments,
                       .capabilities = capabilities,
                       .policy = call.terms.policy};
  const auto& table = call.cluster.table_here();
  if (call.query("explain") == "1") return give(call.answer, explanation(table, query));
  const auto* node = best_of(table, balance::choose(table, query));
  bool is_full = !node || node->cpu_percent * 10 + percent * 10 >= 1000;
  if (is_full && is_loading(call)) return;
  call.answer.body = is_full ? "FULL" : std::string(public_host(node->base_url).host);
}

// What the best node is called, or, with a scheme, the way to it.
void tell_host(Call& call, const std::string& stream, std::string_view host,
               const NodeFacts* node) {
  auto scheme = call.query("proto").value_or("");
  if (scheme.empty()) {
    call.answer.body = host;
    return;
  }
  auto url = fmt::format("{}://{}/{}", scheme, host, stream);
  url = with_query(std::move(url), query_without(call.request.query, "fwcid"));
  if (node) {
    url = with_query(std::move(url), expect_viewer(call, node->id, bare_name(stream)));
  }
  call.answer.body = url;
  send_to(call.answer, 307, url);
}

void tell_placed(Call& call, const std::string& stream, const federation::Placement& placed) {
  using federation::Way;
  const auto& table = placed.table ? *placed.table : call.cluster.table_here();
  const NodeFacts* node = nullptr;
  if (placed.way == Way::local) node = best_of(table, placed.local);
  if (placed.way == Way::pull)
    if (auto place = balance::place_of(table, placed.node_id))
      node = balance::node_at(table, *place);
  if (node && !node->base_url.empty())
    return tell_host(call, stream, public_host(node->base_url).host, node);
  if (placed.way == Way::redirect && !placed.remote.empty())
    return tell_host(call, stream, public_host(placed.remote.front().base_url).host, nullptr);
  call.answer.body = "localhost";
}

awaitable<void> ask_others(Call call, std::string stream, federation::PlaceQuery query) {
  auto placed =
      co_await call.federation->place(std::move(query), Clock::now() + call.terms.remote_time);
  if (placed)
    tell_placed(call, stream, *placed);
  else
    call.answer.body = "localhost";
}

Work federated_host(Call& call, const std::string& stream, const balance::Query& query) {
  federation::PlaceQuery asked;
  asked.stream = query.stream;
  asked.latitude = query.latitude;
  asked.longitude = query.longitude;
  asked.adjustments.assign(query.adjustments.begin(), query.adjustments.end());
  asked.capabilities = query.capabilities;
  asked.policy = query.policy;
  asked.from_cluster = call.query("from").value_or("");
  auto placed = call.federation->place_now(asked);
  if (!placed) return ask_others(call, stream, std::move(asked));
  tell_placed(call, stream, *placed);
  return std::nullopt;
}

}  // namespace

Work stream_host(Call& call, std::string stream) {
  auto scheme = call.query("proto").value_or("");
  if (!call.is_method("GET")) {
    refuse_method(call.answer, "GET, HEAD");
    return std::nullopt;
  }
  if (!is_stream_name(stream) || (!scheme.empty() && !is_scheme(scheme))) {
    refuse(call.answer, 400, "INVALID", "this is neither a route nor the name of a stream");
    return std::nullopt;
  }
  auto adjustments = adjustments_of(call.request);
  auto capabilities = call.query("cap").value_or("");
  auto place = place_of(call.request);
  balance::Query query{.stream = bare_name(stream),
                       .latitude = place.latitude,
                       .longitude = place.longitude,
                       .adjustments = adjustments,
                       .capabilities = capabilities,
                       .policy = call.terms.policy};
  const auto& table = call.cluster.table_here();
  if (call.query("explain") == "1") {
    give(call.answer, explanation(table, query));
    return std::nullopt;
  }
  bool is_loaded = call.cluster.health() != MirrorHealth::loading;
  if (call.federation && is_loaded) return federated_host(call, stream, query);
  const auto* node = best_of(table, balance::choose(table, query));
  if (node)
    tell_host(call, stream, public_host(node->base_url).host, node);
  else if (!is_loading(call))
    call.answer.body = "localhost";
  return std::nullopt;
}

void ask_balancer(Call& call) {
  auto asked_weights = call.query("weights");
  if (asked_weights && call.is_method("POST")) return weights(call, *asked_weights);
  if (!call.is_method("GET")) return refuse_method(call.answer, "GET, HEAD");
  if (auto asked = call.query("source"); asked && !asked->empty()) return source(call, *asked);
  if (auto asked = call.query("ingest"); asked) return ingest(call, *asked);
  if (asked_weights) return weights(call, *asked_weights);
  if (auto asked = call.query("viewers"); asked) return tell_viewers(call, *asked);
  if (auto asked = call.query("streamstats"); asked) return tell_stream_stats(call, *asked);
  if (call.query("lstserver")) return tell_servers(call);
  tell_hosts(call, call.query("host").value_or(""));
}

}  // namespace warren::foghorn
