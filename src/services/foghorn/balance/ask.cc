#include "services/foghorn/balance/ask.h"

namespace warren::balance {

namespace {

bool has_source(const RoutingTable& table, const StreamEntry& stream) {
  return std::ranges::any_of(stream.holders, [&](const Holder& holder) {
    const auto& block = *table.blocks[holder.place / block_size];
    auto usable = block.active & ~block.maintenance & ~block.draining;
    return holder.holding.inputs > 0 && (usable >> holder.place % block_size & 1) != 0;
  });
}

// Nodes whose tags match an expression.
std::uint64_t matching(const NodeBlock& block, std::string_view expression) {
  expression = trimmed(expression);
  if (expression.empty()) return 0;
  bool is_inverted = expression.starts_with('-');
  if (is_inverted) expression.remove_prefix(1);
  std::uint64_t any = 0;
  // Empty entries count: "-" is the opposite of one empty tag, so it matches every node without that.
  each_entry(expression, [&](std::string_view tag) { any |= block.words->tags.of(tag); });
  return is_inverted ? ~any : any;
}

Rejection judge_stream(const Ask& ask, const Holding* holding) {
  if (!ask.wants_stream || ask.is_open) return Rejection::none;
  if (!holding) return Rejection::stream_missing;
  if (holding->inputs == 0) return Rejection::no_inputs;
  if (ask.query.for_source && holding->is_replicated) return Rejection::replicated;
  return Rejection::none;
}

}  // namespace

Ask::Ask(const RoutingTable& in, const Query& asked)
    : table(in),
      query(asked),
      viewer(Point::of(asked.latitude, asked.longitude)),
      wants_stream(!asked.stream.empty()),
      stream(wants_stream ? in.streams.find(asked.stream) : nullptr),
      knows_client(asked.client != BinaryHost{}),
      is_open(asked.policy == Policy::fair && !asked.for_source && stream &&
              has_source(in, *stream)) {}

bool Ask::is_allowed(const NodeFacts& facts) const {
  if (!wants_stream || facts.config_streams.empty()) return true;
  return std::ranges::any_of(facts.config_streams, [&](std::string_view entry) {
    auto name = query.stream;
    if (!name.starts_with(entry)) return false;
    name.remove_prefix(entry.size());
    return name.empty() || name.front() == '+' || name.front() == ' ';
  });
}

void TagSums::read(const Ask& ask, const NodeBlock& block) {
  if (ask.query.adjustments.empty()) return;
  is_empty_ = false;
  sums_.fill(0);
  for (const auto& [expression, amount] : ask.query.adjustments) {
    auto mask = matching(block, expression);
    for (; mask != 0; mask &= mask - 1) {
      auto& sum = sums_[static_cast<std::size_t>(__builtin_ctzll(mask))];
      sum = saturating_sum(sum, amount);
    }
  }
}

Score score_of(const Ask& ask, const NodeBlock& block, std::uint32_t at, std::uint64_t used,
               bool has_stream, std::int64_t adjustment) {
  const auto& weights = ask.table.weights;
  Score score;
  score.cpu = block.cpu[at];
  score.ram = block.ram[at];
  score.bw = free_part(weights.bw, used, block.bw_limit[at]);
  if (auto point = block.point(at); point.is_known && ask.viewer.is_known)
    score.geo = geo_score(weights.geo, distance(ask.viewer, point));
  else if (ask.query.policy == Policy::fair)
    score.geo = weights.geo / 2;
  score.bonus = has_stream ? weights.bonus : 0;
  score.adjustment = adjustment;
  score.total = adjusted(score.cpu + score.ram + score.bw + score.geo + score.bonus, adjustment);
  return score;
}

Rejection judge(const Ask& ask, const NodeBlock& block, std::uint32_t at, const Holding* holding,
                std::int64_t adjustment, Score& score) {
  auto is_in = [at](std::uint64_t mask) { return (mask >> at & 1) != 0; };
  if (is_in(block.maintenance)) return Rejection::maintenance;
  if (!is_in(block.active)) return Rejection::inactive;
  bool is_capable = true;
  each_word(ask.query.capabilities, [&](std::string_view word) {
    is_capable = is_capable && is_in(block.words->capabilities.of(word));
  });
  if (!is_capable) return Rejection::lacks_capability;
  if (!ask.query.tenant.empty() && is_in(block.owned) &&
      !is_in(block.words->tenants.of(ask.query.tenant)))
    return Rejection::other_tenant;
  if (is_in(block.draining)) return Rejection::draining;
  bool is_the_client = is_in(ask.same_host(block));
  if (ask.wants_stream && is_the_client) return Rejection::is_the_client;
  if (!is_in(block.measured)) return Rejection::no_metrics;
  auto used = block.used(at);
  if (used >= block.bw_limit[at]) return Rejection::out_of_bandwidth;
  if (auto rejection = judge_stream(ask, holding); rejection != Rejection::none) return rejection;
  if (!ask.is_allowed(block.facts(at))) return Rejection::not_allowed;
  score = score_of(ask, block, at, used, holding && holding->inputs > 0, adjustment);
  if (is_the_client) score.total = five_times(score.total);
  return score.total == 0 ? Rejection::score_zero : Rejection::none;
}

}  // namespace warren::balance
