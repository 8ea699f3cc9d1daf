#include "services/foghorn/balance/nodes.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "services/foghorn/balance/bounds.h"

namespace warren::balance {

namespace {

bool have_same_words(const NodeFacts& a, const NodeFacts& b) {
  auto words = [](const NodeFacts& facts) {
    return std::tie(facts.cap_ingest, facts.cap_edge, facts.cap_storage, facts.cap_processing,
                    facts.roles, facts.tags, facts.tenant, facts.host);
  };
  return words(a) == words(b);
}

}  // namespace

std::uint64_t WordMasks::of(std::string_view word) const {
  auto at = std::ranges::lower_bound(entries_, word, {}, &Entry::word);
  return at != entries_.end() && at->word == word ? at->mask : 0;
}

void WordMasks::add(std::string_view word, std::uint64_t mask) {
  auto at = std::ranges::lower_bound(entries_, word, {}, &Entry::word);
  if (at == entries_.end() || at->word != word) at = entries_.insert(at, {std::string(word), 0});
  at->mask |= mask;
}

void NodeBlock::set(std::uint32_t at, std::shared_ptr<const Node> node, const Weights& weights) {
  auto before = std::exchange(nodes[at], std::move(node));
  const auto& facts = nodes[at]->facts;
  auto bit = std::uint64_t{1} << at;
  auto put = [bit](std::uint64_t& mask, bool is_set) { mask = is_set ? mask | bit : mask & ~bit; };
  put(known, true);
  put(active, facts.is_healthy && !facts.is_stale);
  put(maintenance, facts.mode == NodeMode::maintenance);
  put(draining, facts.mode == NodeMode::draining);
  put(measured, whole(facts.ram_max) > 0 && whole(facts.bw_limit) > 0);
  put(owned, !facts.tenant.empty());
  put(restricted, !facts.config_streams.empty());
  auto point = Point::of(facts.latitude, facts.longitude);
  put(placed, point.is_known);
  sin_latitude[at] = point.sin_latitude;
  cos_latitude[at] = point.cos_latitude;
  longitude[at] = point.longitude;
  cpu[at] = cpu_score(weights.cpu, facts.cpu_percent);
  ram[at] = ram_score(weights.ram, facts.ram_current, facts.ram_max);
  up_speed[at] = whole(facts.up_speed);
  bw_limit[at] = whole(facts.bw_limit);
  penalties[at] = nodes[at]->penalty.get();
  auto sum = cpu[at] + ram[at];
  if (bw_limit[at] > 0) sum += free_part(weights.bw, up_speed[at], bw_limit[at]);
  ceiling[at] = static_cast<float>(sum);
  auto [px, py, pz] = on_sphere(point);
  x[at] = px;
  y[at] = py;
  z[at] = pz;
  if (!before || !have_same_words(before->facts, facts)) rebuild_words();
}

void NodeBlock::clear(std::uint32_t at) {
  auto bit = std::uint64_t{1} << at;
  for (auto* mask :
       {&known, &active, &maintenance, &draining, &measured, &owned, &restricted, &placed})
    *mask &= ~bit;
  nodes[at] = nullptr;
  penalties[at] = nullptr;
  rebuild_words();
}

void NodeBlock::weigh(const Weights& weights) {
  for (std::uint32_t at = 0; at < block_size; ++at)
    if (auto node = nodes[at]) set(at, std::move(node), weights);
}

void NodeBlock::rebuild_words() {
  auto fresh = std::make_shared<BlockWords>();
  for (std::uint32_t at = 0; at < block_size; ++at) {
    if (!nodes[at]) continue;
    auto bit = std::uint64_t{1} << at;
    const auto& facts = nodes[at]->facts;
    if (facts.cap_ingest) fresh->capabilities.add("ingest", bit);
    if (facts.cap_edge) fresh->capabilities.add("edge", bit);
    if (facts.cap_storage) fresh->capabilities.add("storage", bit);
    if (facts.cap_processing) fresh->capabilities.add("processing", bit);
    for (const auto& role : facts.roles) fresh->capabilities.add(role, bit);
    for (const auto& tag : facts.tags) fresh->tags.add(tag, bit);
    if (!facts.tenant.empty()) fresh->tenants.add(facts.tenant, bit);
    if (facts.host != BinaryHost{}) fresh->hosts.add(as_word(facts.host), bit);
  }
  words = std::move(fresh);
}

}  // namespace warren::balance
