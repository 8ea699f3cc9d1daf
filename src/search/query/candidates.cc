#include "search/query/candidates.h"

#include <algorithm>

#include "search/index/keys.h"
#include "search/index/parts.h"

namespace warren::search {
namespace {

using Kind = Formula::Kind;
using List = std::vector<std::uint32_t>;

// With so few candidates, checking them costs less than reading another list.
constexpr std::size_t few_candidates = 16;
// A list with more than this share of all blocks is not selective enough.
bool is_dense(const Segment& segment, std::uint64_t count) {
  return count * 10 > std::uint64_t{segment.block_count()} * 6;
}

struct Costed {
  std::uint64_t cost;
  const Formula* part;
};
std::vector<Costed> cheapest_first(const Segment& segment, const Formula& formula) {
  std::vector<Costed> parts;
  for (const auto& part : formula.parts) parts.push_back({cost_of(segment, part), &part});
  std::ranges::sort(parts, [](const Costed& a, const Costed& b) {
    return a.cost != b.cost ? a.cost < b.cost : a.part < b.part;
  });
  return parts;
}

List blocks_of(const Segment& segment, const Formula& formula, std::uint64_t& keys, Watch& watch);

List blocks_of_both(const Segment& segment, const Formula& formula, std::uint64_t& keys,
                    Watch& watch) {
  auto parts = cheapest_first(segment, formula);
  List list = blocks_of(segment, *parts[0].part, keys, watch);
  int without_effect = 0;
  for (std::size_t i = 1; i < parts.size() && list.size() >= few_candidates; ++i) {
    if (is_dense(segment, parts[i].cost) || without_effect == 3) break;
    std::size_t before = list.size();
    if (parts[i].part->kind == Kind::key) {
      segment.intersect(parts[i].part->key, list);
      ++keys;
    } else {
      list = intersected(list, blocks_of(segment, *parts[i].part, keys, watch));
    }
    without_effect = list.size() * 50 > before * 49 ? without_effect + 1 : 0;
  }
  return list;
}

List blocks_of_either(const Segment& segment, const Formula& formula, std::uint64_t& keys,
                      Watch& watch) {
  std::vector<std::uint64_t> bits((segment.block_count() + 63) / 64);
  for (const auto& part : formula.parts) {
    if (watch.is_over()) return {};
    for (auto block : blocks_of(segment, part, keys, watch))
      bits[block / 64] |= std::uint64_t{1} << (block % 64);
  }
  List list;
  for (std::size_t i = 0; i < bits.size(); ++i)
    for (auto word = bits[i]; word != 0; word &= word - 1)
      list.push_back(static_cast<std::uint32_t>(i * 64 + __builtin_ctzll(word)));
  return list;
}

// For a formula that is not dense.
List blocks_of(const Segment& segment, const Formula& formula, std::uint64_t& keys, Watch& watch) {
  switch (formula.kind) {
    case Kind::key: {
      List list;
      segment.decode_postings(formula.key, list);
      ++keys;
      return list;
    }
    case Kind::both:
      return blocks_of_both(segment, formula, keys, watch);
    case Kind::either:
      if (formula.parts.size() == 2)
        return united(blocks_of(segment, formula.parts[0], keys, watch),
                      blocks_of(segment, formula.parts[1], keys, watch));
      return blocks_of_either(segment, formula, keys, watch);
    case Kind::everything:
      break;
  }
  ensure(false, "everything is dense");
  return {};
}

}  // namespace

std::vector<std::uint32_t> intersected(const List& a, const List& b) {
  List both;
  if (a.size() > b.size()) return intersected(b, a);
  auto from = b.begin();
  for (auto place : a) {
    // Steps double, so that the cost depends on the shorter list.
    std::ptrdiff_t step = 1;
    while (step < b.end() - from && from[step] < place) step *= 2;
    from = std::lower_bound(from, from + std::min(step + 1, b.end() - from), place);
    if (from == b.end()) break;
    if (*from == place) both.push_back(place);
  }
  return both;
}

std::vector<std::uint32_t> united(const List& a, const List& b) {
  if (a.empty()) return b;
  if (b.empty()) return a;
  List all;
  all.reserve(a.size() + b.size());
  std::ranges::set_union(a, b, std::back_inserter(all));
  return all;
}

std::uint64_t cost_of(const Segment& segment, const Formula& formula) {
  if (!segment.has_index()) return segment.block_count();
  std::uint64_t cost = segment.block_count();
  switch (formula.kind) {
    case Kind::everything:
      return cost;
    case Kind::key:
      return segment.posting_count(formula.key);
    case Kind::both:
      for (const auto& part : formula.parts) {
        cost = std::min(cost, cost_of(segment, part));
        if (cost == 0) break;
      }
      return cost;
    case Kind::either: {
      std::uint64_t sum = 0;
      for (const auto& part : formula.parts) sum += cost_of(segment, part);
      return std::min(sum, cost);
    }
  }
  return cost;
}

Places candidate_blocks(const Segment& segment, const Formula& formula, std::uint64_t& keys,
                        Watch& watch) {
  if (!segment.has_index() || formula.kind == Kind::everything) return std::nullopt;
  auto cost = cost_of(segment, formula);
  if (is_dense(segment, cost)) return std::nullopt;
  if (cost == 0) return List();  // the usual case when there are many repositories
  return blocks_of(segment, formula, keys, watch);
}

Places candidate_files(const Segment& segment, const Formula& formula, std::uint64_t& keys,
                       Watch& watch) {
  if (!segment.has_index() || is_dense(segment, cost_of(segment, formula))) return std::nullopt;
  if (formula.kind == Kind::key) return files_of(segment, blocks_of(segment, formula, keys, watch));
  Places files;
  if (formula.kind == Kind::both) {
    for (const auto& [cost, part] : cheapest_first(segment, formula)) {
      if ((files && files->size() < few_candidates) || watch.is_over()) break;
      auto more = candidate_files(segment, *part, keys, watch);
      if (!more) break;
      files = files ? intersected(*files, *more) : std::move(*more);
    }
    return files;
  }
  for (const auto& part : formula.parts) {
    auto more = candidate_files(segment, part, keys, watch);
    if (!more || watch.is_over()) return std::nullopt;
    files = files ? united(*files, *more) : std::move(*more);
  }
  return files;
}

std::vector<std::uint32_t> files_of(const Segment& segment, const List& blocks) {
  List files;
  auto entries = segment.parts().blocks();
  for (auto block : blocks)
    if (files.empty() || files.back() != entries[block].file) files.push_back(entries[block].file);
  return files;
}

namespace {
constexpr std::uint32_t group_files = 128;
constexpr std::uint32_t least_for_index = 1024;
}  // namespace

PathIndex::PathIndex(const Segment& segment) {
  std::uint32_t files = segment.file_count();
  if (files < least_for_index || files / group_files >= UINT16_MAX) return;
  struct Pair {
    std::uint32_t key;
    std::uint16_t group;
  };
  std::vector<Pair> pairs;
  KeyCollector collector;
  for (std::uint32_t first = 0; first < files; first += group_files) {
    std::string text;
    for (std::uint32_t i = first; i < std::min(first + group_files, files); ++i)
      text.append(segment.file(i).path).append("\n");
    for (auto key : collector.collect(text))
      pairs.push_back({key, static_cast<std::uint16_t>(first / group_files)});
  }
  starts_.resize(key_count + 1);
  for (const auto& pair : pairs) ++starts_[pair.key + 1];
  for (std::size_t i = 1; i < starts_.size(); ++i) starts_[i] += starts_[i - 1];
  auto next = starts_;
  groups_.resize(pairs.size());
  for (const auto& pair : pairs) groups_[next[pair.key]++] = pair.group;
}

Places PathIndex::groups_of(const Formula& formula) const {
  Places groups;
  switch (formula.kind) {
    case Kind::everything:
      return std::nullopt;
    case Kind::key:
      return List(groups_.begin() + starts_[formula.key],
                  groups_.begin() + starts_[formula.key + 1]);
    case Kind::both:
      for (const auto& part : formula.parts) {
        auto more = groups_of(part);
        if (!more) continue;
        groups = groups ? intersected(*groups, *more) : std::move(*more);
        if (groups->empty()) break;
      }
      return groups;
    case Kind::either:
      for (const auto& part : formula.parts) {
        auto more = groups_of(part);
        if (!more) return std::nullopt;
        groups = groups ? united(*groups, *more) : std::move(*more);
      }
      return groups;
  }
  return groups;
}

namespace {
// Paths are stored contiguously, so a literal can be searched for in all of them at once.
List paths_with(const Segment& segment, const Literal& literal) {
  List found;
  auto files = segment.parts().files();
  std::string_view all(segment.parts().at(SectionKind::paths).chars(), files.back().path);
  std::uint32_t file = 0;
  for (std::size_t at = 0; at < all.size();) {
    std::size_t place = literal.find(all.substr(at));
    if (place == std::string_view::npos) break;
    at += place;
    while (files[file + 1].path <= at) ++file;
    if (at + literal.needle().size() > files[file + 1].path) {
      ++at;  // half of it belongs to the next path
      continue;
    }
    found.push_back(file);
    at = files[file + 1].path;
  }
  return found;
}
}  // namespace

std::vector<std::uint32_t> PathIndex::find(const Segment& segment, Finder& finder,
                                           Watch& watch) const {
  List found;
  auto look = [&](std::uint32_t first, std::uint32_t last) {
    for (std::uint32_t i = first; i < last; ++i) {
      if (i % group_files == 0 && watch.is_over()) return;
      if (finder.finds(segment.file(i).path, false)) found.push_back(i);
    }
  };
  std::uint32_t files = segment.file_count();
  auto groups = starts_.empty() ? Places() : groups_of(finder.matcher().formula());
  if (!groups && finder.matcher().literal() != nullptr)
    return paths_with(segment, *finder.matcher().literal());
  if (!groups)
    look(0, files);
  else
    for (auto group : *groups)
      look(group * group_files, std::min((group + 1) * group_files, files));
  return found;
}

std::shared_ptr<const PathIndex> path_index_of(const std::shared_ptr<const Segment>& segment) {
  static const auto none = std::make_shared<const PathIndex>();
  auto index = segment->parts().path_index.get_or(
      [&] { return std::make_shared<const PathIndex>(*segment); });
  return index ? index : none;
}

}  // namespace warren::search
