// Whether what is in memory is still what was built: a bit that flips there is a wrong answer, and no
// disk would tell. Every section is looked at once in settings_.verify; what changed is built anew.
#include "base/log.h"
#include "search/store/verify.h"
#include "services/fleet/node/node.h"

namespace warren::fleet {

namespace {

using search::SectionKind;
using search::Segment;
using SegmentPtr = std::shared_ptr<const Segment>;

constexpr Clock::duration shortest_pause = 10ms;  // small sections are looked at together

struct Target {
  std::string repo;
  std::weak_ptr<const Segment> segment;  // what is evicted meanwhile leaves at once
  SectionKind kind;
  std::uint64_t bytes;
};

std::vector<Target> targets_of(const std::map<std::string, Held>& all) {
  std::vector<Target> targets;
  for (const auto& [repo, held] : all) {
    if (!held.segments) continue;
    for (const auto& segment : *held.segments)
      for (std::size_t i = 0; i < search::section_count; ++i) {
        const auto& section = segment->parts().sections[i];
        if (section.noted)
          targets.push_back({repo, segment, static_cast<SectionKind>(i), section.size});
      }
  }
  return targets;
}

Result<> verify_section(SegmentPtr segment, SectionKind kind) {
  return search::verify(*segment, kind);
}

}  // namespace

awaitable<void> FleetNode::verify_memory() {
  for (;;) {
    auto targets = targets_of(held_);
    std::uint64_t total = 1;
    for (const auto& target : targets) total += target.bytes;
    if (targets.empty()) co_await sleep_for(1s);
    Clock::duration owed{};
    for (const auto& target : targets) {
      auto share = static_cast<double>(target.bytes) / static_cast<double>(total);
      owed += std::chrono::duration_cast<Clock::duration>(settings_.verify * share);
      if (auto segment = target.segment.lock()) {
        auto verified = co_await on_pool(checkers_, verify_section, segment, target.kind);
        if (!verified) drop_damaged(target.repo, segment, verified.error());
      }
      if (owed >= shortest_pause) co_await sleep_for(std::exchange(owed, {}));
    }
    co_await sleep_for(owed + shortest_pause);
  }
}

// It answers no more from now on; its tasks build it anew from the commit that they want.
void FleetNode::drop_damaged(const std::string& repo, const SegmentPtr& segment,
                             const Error& error) {
  auto held = held_.find(repo);
  if (held == held_.end() || !held->second.segments) return;
  if (std::ranges::find(*held->second.segments, segment) == held->second.segments->end()) return;
  log::error("fleet.memory_damaged", "repo", repo, "what", error.what);
  damaged_.add();
  shelf_.remove(repo);
  held_.erase(held);
  for (auto& [key, owned] : owned_) {
    if (owned->repo != repo) continue;
    owned->is_ready = false;
    wake(*owned);
  }
}

}  // namespace warren::fleet
