#include "services/foghorn/balance/choose.h"

#include <bit>

#include "services/foghorn/balance/ask.h"
#include "services/foghorn/balance/bounds.h"

namespace warren::balance {

namespace {

// The best so far, in order.
class Best {
 public:
  Best(const RoutingTable& table, std::size_t most)
      : table_(table), most_(std::clamp<std::size_t>(most, 1, most_choices)) {}

  // Whether a score up to this bound could be among them.
  bool may_enter(float bound, const Decision& decision) const {
    return decision.count < most_ || bound >= static_cast<float>(decision.best[most_ - 1].total);
  }

  void offer(std::uint32_t place, std::uint64_t total, Decision& into) const {
    if (into.count == most_ && !is_before(place, total, into.best[most_ - 1])) return;
    auto at = into.count < most_ ? into.count++ : most_ - 1;
    for (; at > 0 && is_before(place, total, into.best[at - 1]); --at)
      into.best[at] = into.best[at - 1];
    into.best[at] = {place, total};
  }

 private:
  bool is_before(std::uint32_t place, std::uint64_t total, const Choice& other) const {
    if (total != other.total) return total > other.total;
    return table_.node(place)->facts.id < table_.node(other.node)->facts.id;
  }

  const RoutingTable& table_;
  std::size_t most_;
};

// No node is lifted higher by its tags.
double most_adjustment(const Query& query) {
  double sum = 0;
  for (const auto& adjustment : query.adjustments)
    sum += static_cast<double>(std::max<std::int64_t>(adjustment.amount, 0));
  return sum;
}

class Search {
 public:
  explicit Search(const Ask& ask)
      : ask_(ask),
        best_(ask.table, ask.query.most),
        bounds_(ask.table.weights, most_adjustment(ask.query)) {}

  Decision run() {
    if (!ask_.wants_stream)
      everywhere();
    else if (ask_.is_open)
      everywhere_with_stream();
    else if (ask_.stream)
      at_holders();
    return decision_;
  }

 private:
  void everywhere() {
    for (std::uint32_t i = 0; i < ask_.table.blocks.size(); ++i) look_at(i, ~std::uint64_t{0}, 0);
  }

  void everywhere_with_stream() {
    auto holder = ask_.stream->holders.begin();
    for (std::uint32_t i = 0; i < ask_.table.blocks.size(); ++i)
      look_at(i, ~std::uint64_t{0}, holders_in(i, holder));
  }

  void at_holders() {
    auto holder = ask_.stream->holders.begin();
    while (holder != ask_.stream->holders.end()) {
      auto block = holder->place / block_size;
      auto mask = holders_in(block, holder);
      look_at(block, mask, mask);
    }
  }

  // Which nodes of this block can serve the stream; moves on to the next block.
  std::uint64_t holders_in(std::uint32_t block, std::vector<Holder>::const_iterator& holder) const {
    std::uint64_t mask = 0;
    for (; holder != ask_.stream->holders.end() && holder->place / block_size == block; ++holder) {
      const auto& holding = holder->holding;
      bool can_serve = holding.inputs > 0 && !(ask_.query.for_source && holding.is_replicated);
      mask |= std::uint64_t{can_serve} << holder->place % block_size;
    }
    return mask;
  }

  // Those of `mask` that pass the gates which are the same for whole blocks.
  std::uint64_t admitted(const NodeBlock& block, std::uint64_t mask) const {
    mask &= block.active & ~block.maintenance & ~block.draining & block.measured;
    if (mask == 0) return 0;
    each_word(ask_.query.capabilities,
              [&](std::string_view word) { mask &= block.words->capabilities.of(word); });
    if (!ask_.query.tenant.empty())
      mask &= ~block.owned | block.words->tenants.of(ask_.query.tenant);
    return mask;
  }

  void look_at(std::uint32_t block_index, std::uint64_t mask, std::uint64_t has_stream) {
    const auto& block = *ask_.table.blocks[block_index];
    mask = admitted(block, mask);
    if (mask == 0) return;
    auto same_host = ask_.same_host(block);
    if (ask_.wants_stream) mask &= ~same_host;
    tags_.read(ask_, block);
    // A bound costs a tenth of a score, but those of a block come together.
    bool is_bounded = std::popcount(mask) >= 8;
    if (is_bounded) bounds_.read(block, ask_.viewer);
    auto boundless = ask_.wants_stream ? 0 : same_host;  // they count five times
    for (; mask != 0; mask &= mask - 1) {
      auto at = static_cast<std::uint32_t>(std::countr_zero(mask));
      if (is_bounded && !best_.may_enter(bounds_[at], decision_) && (boundless >> at & 1) == 0)
        continue;
      auto used = block.used(at);
      if (used >= block.bw_limit[at]) continue;
      if ((block.restricted >> at & 1) != 0 && !ask_.is_allowed(block.facts(at))) continue;
      auto total = score_of(ask_, block, at, used, (has_stream >> at & 1) != 0, tags_[at]).total;
      if ((same_host >> at & 1) != 0) total = five_times(total);
      if (total > 0) best_.offer(block_index * block_size + at, total, decision_);
    }
  }

  const Ask& ask_;
  Best best_;
  TagSums tags_;
  Bounds bounds_;
  Decision decision_;
};

}  // namespace

Decision choose(const RoutingTable& table, const Query& query) {
  Ask ask(table, query);
  auto decision = Search(ask).run();
  if (decision.empty())
    each_judged(ask, [&](std::uint32_t, Rejection rejection, const Score&) {
      ++decision.rejected[static_cast<std::size_t>(rejection)];
    });
  return decision;
}

}  // namespace warren::balance
