#include <fmt/format.h>

#include <cmath>
#include <optional>
#include <span>
#include <tuple>

#include "base/printable.h"
#include "services/foghorn/balance/ask.h"

namespace warren::balance {

std::string_view reason(Rejection rejection) {
  switch (rejection) {
    case Rejection::none:
      return "";
    case Rejection::inactive:
      return "node is unhealthy or stale";
    case Rejection::maintenance:
      return "node in maintenance";
    case Rejection::lacks_capability:
      return "node lacks a required capability";
    case Rejection::other_tenant:
      return "node belongs to another tenant";
    case Rejection::draining:
      return "node is draining";
    case Rejection::is_the_client:
      return "node is the client itself";
    case Rejection::no_metrics:
      return "node metrics not ready";
    case Rejection::out_of_bandwidth:
      return "node out of bandwidth";
    case Rejection::stream_missing:
      return "stream missing on node";
    case Rejection::no_inputs:
      return "stream has no inputs on node";
    case Rejection::replicated:
      return "stream is replicated on node (excluded for source selection)";
    case Rejection::not_allowed:
      return "stream not allowed by node config";
    case Rejection::score_zero:
      return "score adjusted to zero";
    case Rejection::count_:
      break;
  }
  return "";
}

namespace {

bool has_active_node(const RoutingTable& table) {
  return std::ranges::any_of(table.blocks,
                             [](const auto& block) { return (block->known & block->active) != 0; });
}

// Of what is_unprintable() passes: spaces other than the one of ASCII, and marks without a glyph.
bool is_blank_or_mark(char32_t c) {
  return c == 0xa0 || c == 0xad || c == 0x1680 || (c >= 0x2000 && c <= 0x200f) || c == 0x202f ||
         c == 0x205f || c == 0x3000;
}

// As Go's %q writes it, in which existing deployments quote names.
std::string go_quoted(std::string_view text) {
  constexpr std::string_view named = "\"\\\a\b\f\n\r\t\v", names = "\"\\abfnrtv";
  std::string out = "\"";
  while (!text.empty()) {
    auto [value, length] = first_code_point(text);
    auto name = named.find(text[0]);
    bool is_shown = !is_unprintable(value) && !is_blank_or_mark(value);
    bool is_utf8 = value < 0x80 || length > 1;
    if (name != named.npos)
      out += {'\\', names[name]};
    else if (is_shown && is_utf8)
      out += text.substr(0, length);
    else if (length == 1)
      out += fmt::format("\\x{:02x}", static_cast<std::uint8_t>(text[0]));
    else if (value <= 0xffff)
      out += fmt::format("\\u{:04x}", static_cast<std::uint32_t>(value));
    else
      out += fmt::format("\\U{:08x}", static_cast<std::uint32_t>(value));
    text.remove_prefix(length);
  }
  return out + '"';
}

std::string no_capable_node(std::string_view capabilities) {
  auto list = trimmed(capabilities);
  constexpr std::string_view text = "no nodes match required capabilities";
  return list.empty() ? std::string(text) : fmt::format("{} ({})", text, list);
}

std::string no_origin(std::string_view stream, bool is_missing, bool is_idle) {
  return fmt::format("can't find origin for stream {} ({})", go_quoted(stream),
                     is_missing && is_idle ? "missing or no inputs"
                     : is_missing          ? "not present on any active node"
                                           : "no active inputs on any node");
}

// Why all were left out, if there is one reason only. Nodes without a capability, of another tenant, and of
// the client itself are passed over in silence.
std::optional<Rejection> only_reason(const Decision& decision) {
  using enum Rejection;
  std::optional<Rejection> only;
  for (auto kind :
       {maintenance, draining, no_metrics, out_of_bandwidth, replicated, not_allowed, score_zero}) {
    if (decision.rejected[static_cast<std::size_t>(kind)] == 0) continue;
    if (only) return {};
    only = kind;
  }
  return only;
}

}  // namespace

std::string why_none(const RoutingTable& table, const Query& query, const Decision& decision) {
  using enum Rejection;
  auto count = [&](Rejection kind) { return decision.rejected[static_cast<std::size_t>(kind)]; };
  if (!has_active_node(table)) return "no nodes available in unified state";
  // Whoever got past the gates before it is a candidate.
  auto candidates = std::span(decision.rejected).subspan(static_cast<std::size_t>(is_the_client));
  bool has_candidate = std::ranges::any_of(candidates, [](auto number) { return number > 0; });
  if (!has_candidate && count(inactive) + count(lacks_capability) > 0)
    return no_capable_node(query.capabilities);
  bool is_missing = count(stream_missing) > 0, is_idle = count(no_inputs) > 0;
  if (is_missing || is_idle) return no_origin(query.stream, is_missing, is_idle);
  auto only = only_reason(decision);
  if (only == out_of_bandwidth) return "all suitable nodes are out of bandwidth";
  if (only == no_metrics) return "node metrics not ready (missing ram_max/bw_limit)";
  if (only == not_allowed)
    return fmt::format("stream {} not allowed by node configuration", go_quoted(query.stream));
  if (only == maintenance) return "all suitable nodes are in maintenance";
  if (only == draining) return "all suitable nodes are draining";
  return "no suitable nodes available";
}

std::vector<Explanation> explain(const RoutingTable& table, const Query& query) {
  std::vector<Explanation> all;
  each_judged(Ask(table, query), [&](std::uint32_t place, Rejection rejection, const Score& score) {
    all.push_back({place, rejection, score});
  });
  return all;
}

std::vector<std::uint32_t> artifact_nodes(const RoutingTable& table, std::string_view content_id,
                                          double latitude, double longitude, std::size_t most) {
  struct Copy {
    bool is_draining;
    double far;  // infinite: unknown
    std::uint64_t load;
    std::string_view id;
    std::uint32_t place;
  };
  std::vector<Copy> copies;
  auto viewer = Point::of(latitude, longitude);
  const auto* entry = table.artifacts.find(content_id);
  for (auto place : entry ? entry->places : std::vector<std::uint32_t>()) {
    const auto& block = *table.blocks[place / block_size];
    auto at = place % block_size;
    if (((block.active & ~block.maintenance) >> at & 1) == 0) continue;
    auto point = block.point(at);
    bool is_known = viewer.is_known && point.is_known;
    copies.push_back({(block.draining >> at & 1) != 0,
                      is_known ? distance(viewer, point) : HUGE_VAL,
                      ~(block.cpu[at] + block.ram[at]), block.facts(at).id, place});
  }
  std::ranges::sort(copies, {}, [](const Copy& copy) {
    return std::tie(copy.is_draining, copy.far, copy.load, copy.id);
  });
  if (copies.size() > most) copies.resize(most);
  std::vector<std::uint32_t> places;
  for (const auto& copy : copies) places.push_back(copy.place);
  return places;
}

}  // namespace warren::balance
