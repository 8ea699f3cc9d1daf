#include "search/text/core.h"

#include <algorithm>
#include <utility>

namespace warren::search {
namespace {

using Kind = RegexNode::Kind;

constexpr std::uint32_t most_core_bytes = 1000, most_step_bytes = 10'000;
constexpr std::uint32_t least_weight = 12;  // three letters

// What a part of a pattern may match.
struct Extent {
  bool is_known = true;
  std::optional<std::uint32_t> most = 0;  // in bytes; nullopt for any number
  std::uint32_t weight = 0;               // how rare it is
  bool has_others = false;                // non-ASCII characters that are not spelled out
  std::bitset<256> bytes = {};
};

std::optional<std::uint32_t> times(std::optional<std::uint32_t> bytes, int count) {
  if (count < 0 && bytes != 0u) return std::nullopt;
  if (!bytes || *bytes == 0) return bytes;
  auto all = std::uint64_t{*bytes} * static_cast<std::uint64_t>(count);
  if (all > most_step_bytes) return std::nullopt;
  return static_cast<std::uint32_t>(all);
}

Extent extent_of(const RegexNode& node);

Extent extent_of_chars(const RegexNode& node) {
  Extent extent{.most = node.has_others ? 4 : 1, .has_others = node.has_others};
  auto count = node.ascii.count();
  extent.weight = node.has_others || count > 12 ? 1 : count > 2 ? 2 : 4;
  for (std::size_t i = 0; i < 256; ++i) extent.bytes[i] = i < 128 ? node.ascii[i] : node.has_others;
  return extent;
}

Extent joined(const RegexNode& node) {
  Extent all;
  bool is_choice = node.kind == Kind::choice;
  if (is_choice) all.weight = UINT32_MAX;
  for (const auto& part : node.parts) {
    auto one = extent_of(part);
    all.is_known &= one.is_known;
    all.has_others |= one.has_others;
    all.bytes |= one.bytes;
    all.weight = is_choice ? std::min(all.weight, one.weight) : all.weight + one.weight;
    if (!all.most || !one.most)
      all.most.reset();
    else
      all.most = is_choice ? std::max(*all.most, *one.most) : *all.most + *one.most;
    if (all.most > most_step_bytes) all.most.reset();
  }
  return all;
}

Extent extent_of(const RegexNode& node) {
  switch (node.kind) {
    case Kind::chars:
      return extent_of_chars(node);
    case Kind::bytes: {
      auto size = static_cast<std::uint32_t>(node.text.size());
      Extent extent{.most = size, .weight = 4 * size};
      for (unsigned char c : node.text) extent.bytes.set(c);
      return extent;
    }
    case Kind::opaque:
      return {.is_known = false};
    case Kind::sequence:
    case Kind::choice:
      return joined(node);
    case Kind::repeat: {
      auto extent = extent_of(node.parts[0]);
      extent.most = times(extent.most, node.most);
      extent.weight = node.least == 0 ? 0 : extent.weight;
      return extent;
    }
    default:
      return {};
  }
}

void flatten(const RegexNode& node, std::vector<const RegexNode*>& into) {
  if (node.kind != Kind::sequence) return into.push_back(&node);
  for (const auto& part : node.parts) flatten(part, into);
}

// Hyperscan can evaluate an assertion like $ only after the next byte, and reports other matches
// meanwhile. Without assertions there are a few more cores, and they come in order.
RegexNode without_assertions(const RegexNode& node) {
  RegexNode copy = node;
  if (node.kind >= Kind::begin_line && node.kind <= Kind::not_boundary) copy.kind = Kind::empty;
  for (auto& part : copy.parts) part = without_assertions(part);
  return copy;
}

struct Candidate {
  std::size_t begin = 0, end = 0;
  std::uint32_t weight = 0, bytes = 0;
};

// The rarest sequence of adjacent parts with a known size.
Candidate rarest(const std::vector<Extent>& extents) {
  Candidate best, now;
  for (std::size_t i = 0; i < extents.size(); ++i) {
    const auto& extent = extents[i];
    bool fits = extent.most && !extent.has_others && now.bytes + *extent.most <= most_core_bytes;
    if (!fits) {
      now = {.begin = i + 1, .end = i + 1};
      continue;
    }
    now.end = i + 1;
    now.weight += extent.weight;
    now.bytes += *extent.most;
    if (now.weight > best.weight) best = now;
  }
  return best;
}

}  // namespace

std::optional<Core> core_of(const Regex& regex) {
  std::vector<const RegexNode*> parts;
  flatten(regex.root, parts);
  std::vector<Extent> extents;
  for (const auto* part : parts) {
    extents.push_back(extent_of(*part));
    const auto& extent = extents.back();
    if (!extent.is_known || (!extent.most && extent.bytes.all())) return std::nullopt;
  }
  auto best = rarest(extents);
  if (best.weight < least_weight) return std::nullopt;
  Core core;
  core.regex.is_multi_line = true;
  core.regex.root.kind = Kind::sequence;
  core.most_bytes = best.bytes;
  for (std::size_t i = best.begin; i < best.end; ++i)
    core.regex.root.parts.push_back(without_assertions(*parts[i]));
  auto add = [](std::vector<Core::Step>& steps, const Extent& extent) {
    if (!extent.most)
      steps.push_back({.run = extent.bytes});
    else if (*extent.most == 0)
      return;
    else if (!steps.empty() && steps.back().run.none())
      steps.back().most += *extent.most;
    else
      steps.push_back({.most = *extent.most});
  };
  for (std::size_t i = best.begin; i > 0; --i) add(core.before, extents[i - 1]);
  for (std::size_t i = best.end; i < extents.size(); ++i) add(core.after, extents[i]);
  return core;
}

Stretches::Stretches(const Core& core, std::string_view text)
    : core_(core), text_(text), before_(core.before.size()), after_(core.after.size()) {}

// Both examine each byte once: places ascend, so the extent of a run can be remembered.
std::size_t Stretches::back(const Core::Step& step, Run& run, std::size_t from) const {
  if (step.run.none()) return from > step.most ? from - step.most : 0;
  std::size_t begin = from;
  while (begin > run.end && step.run[static_cast<unsigned char>(text_[begin - 1])]) --begin;
  if (begin == run.end) begin = run.begin;
  run = {begin, from};
  return begin;
}

std::size_t Stretches::forth(const Core::Step& step, Run& run, std::size_t from) const {
  if (step.run.none()) return std::min(from + step.most, text_.size());
  if (from >= run.end) {
    run = {from, from};
    while (run.end < text_.size() && step.run[static_cast<unsigned char>(text_[run.end])])
      ++run.end;
  }
  return run.end;
}

std::optional<Span> Stretches::add(std::size_t end) {
  std::size_t from = end > core_.most_bytes ? end - core_.most_bytes : 0, to = end;
  for (std::size_t i = 0; i < before_.size(); ++i) from = back(core_.before[i], before_[i], from);
  for (std::size_t i = 0; i < after_.size(); ++i) to = forth(core_.after[i], after_[i], to);
  Span span{static_cast<std::uint32_t>(from), static_cast<std::uint32_t>(to)};
  if (stretch_ && span.begin <= stretch_->end) {
    stretch_->end = std::max(stretch_->end, span.end);
    return std::nullopt;
  }
  return std::exchange(stretch_, span);
}

}  // namespace warren::search
