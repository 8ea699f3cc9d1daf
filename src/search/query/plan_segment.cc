#include <algorithm>

#include "search/index/parts.h"
#include "search/query/plan.h"

namespace warren::search {
namespace {

using Kind = PlanNode::Kind;

PlanNode constant(bool value) {
  PlanNode node;
  node.kind = value ? Kind::yes : Kind::no;
  return node;
}

// The branch of exactly this name. If there is none, all branches whose names contain it.
std::vector<std::uint16_t> branches_named(const Segment& segment, std::string_view word) {
  std::vector<std::uint16_t> exact, partial;
  const auto& branches = segment.branches();
  for (std::size_t i = 0; i < branches.size(); ++i) {
    if (branches[i] == word) exact.push_back(static_cast<std::uint16_t>(i));
    if (branches[i].find(word) != std::string::npos)
      partial.push_back(static_cast<std::uint16_t>(i));
  }
  return exact.empty() ? partial : exact;
}

PlanNode fitted(const PlanNode& node, const Segment& segment);

PlanNode fitted_list(const PlanNode& node, const Segment& segment) {
  const bool is_both = node.kind == Kind::both;
  PlanNode list;
  list.kind = node.kind;
  for (const auto& part : node.parts) {
    PlanNode one = fitted(part, segment);
    if (one.kind == (is_both ? Kind::no : Kind::yes)) return one;
    if (one.kind == Kind::yes || one.kind == Kind::no) continue;
    list.parts.push_back(std::move(one));
  }
  if (list.parts.empty()) return constant(is_both);
  if (list.parts.size() > 1) return list;
  PlanNode only = std::move(list.parts[0]);
  return only;
}

// Decides everything that holds for the segment as a whole.
PlanNode fitted(const PlanNode& node, const Segment& segment) {
  switch (node.kind) {
    case Kind::repo:
      return constant(Finder(node.repo).finds(segment.name(), false));
    case Kind::branch: {
      PlanNode branch = node;
      branch.branches = branches_named(segment, node.word);
      return branch.branches.empty() ? constant(false) : branch;
    }
    case Kind::both:
    case Kind::either:
      return fitted_list(node, segment);
    case Kind::neither: {
      PlanNode inner = fitted(node.parts[0], segment);
      if (inner.kind == Kind::yes || inner.kind == Kind::no)
        return constant(inner.kind == Kind::no);
      PlanNode neither;
      neither.kind = Kind::neither;
      neither.parts.push_back(std::move(inner));
      return neither;
    }
    default:
      return node;
  }
}

class Fitting {
 public:
  Fitting(const Plan& plan, SegmentPlan& fit, Watch& watch)
      : plan_(plan), fit_(fit), segment_(*fit.segment), watch_(watch) {}

  // Files that may satisfy this part of the query. Files outside of `within` do not matter.
  Places files_of(PlanNode& node, const Places& within) {
    switch (node.kind) {
      case Kind::no:
        return std::vector<std::uint32_t>();
      case Kind::atom:
        return files_of_atom(node.atom, within);
      case Kind::both:
        return files_of_both(node, within);
      case Kind::either: {
        Places all = std::vector<std::uint32_t>();
        for (auto& part : node.parts) {
          auto some = files_of(part, within);
          if (!some)
            all.reset();
          else if (all)
            all = united(*all, *some);
        }
        return all;
      }
      case Kind::neither:
        files_of(node.parts[0], within);
        return std::nullopt;
      default:
        return std::nullopt;
    }
  }

 private:
  // The cost, in blocks, of examining all files that may satisfy it.
  std::uint64_t cost(const PlanNode& node) const {
    switch (node.kind) {
      case Kind::language:
      case Kind::branch:
        return 0;
      case Kind::atom: {
        const auto& atom = plan_.atoms[node.atom];
        // Checking a path costs about half as much as scanning a block.
        return atom.looks_at_content() ? 1 + cost_of(segment_, atom.matcher->formula())
                                       : 1 + segment_.file_count() / 2;
      }
      case Kind::both: {
        std::uint64_t least = UINT64_MAX / 2;
        for (const auto& part : node.parts) least = std::min(least, cost(part));
        return least;
      }
      case Kind::either: {
        std::uint64_t sum = 0;
        for (const auto& part : node.parts) sum += cost(part);
        return sum;
      }
      default:
        return UINT64_MAX / 2;
    }
  }

  Places files_of_both(PlanNode& node, const Places& within) {
    std::vector<std::pair<std::uint64_t, std::size_t>> order;
    for (std::size_t i = 0; i < node.parts.size(); ++i) order.emplace_back(cost(node.parts[i]), i);
    std::ranges::sort(order);
    std::vector<PlanNode> cheapest_first;
    for (const auto& [cost, place] : order) cheapest_first.push_back(std::move(node.parts[place]));
    node.parts = std::move(cheapest_first);
    Places files = within;
    bool is_narrowed = false;
    for (auto& part : node.parts) {
      auto some = files_of(part, files);
      if (!some) continue;
      files = files ? intersected(*files, *some) : std::move(*some);
      is_narrowed = true;
    }
    return is_narrowed ? files : std::nullopt;
  }

  Places files_of_atom(std::size_t place, const Places& within) {
    const auto& atom = plan_.atoms[place];
    auto& fit = fit_.atoms[place];
    if (atom.pattern.field == Field::symbol) {
      if (!segment_.has_symbols()) fit_.lacks_symbols = true;
      fit.definitions = definitions_matching(segment_, atom.matcher, watch_);
      return files_with(fit.definitions);
    }
    if (atom.looks_at_path()) {
      find_paths(atom, fit, within);
      if (!atom.looks_at_content()) return fit.paths;
    }
    auto files = files_with_text(atom, fit, within);
    // A text that is in no block is not defined here either.
    bool may_be_there = !fit.blocks || !fit.blocks->empty();
    if (atom.is_identifier && segment_.has_symbols() && may_be_there) {
      fit.definitions = definitions_named(segment_, atom.pattern);
      for (const auto& definition : fit.definitions) fit_.first.push_back(definition.file);
    }
    return files;
  }

  // Files that may contain the text, and those whose path matches.
  Places files_with_text(const Atom& atom, AtomPlan& fit, const Places& within) {
    // Examining a few files is faster than reading a very long list.
    if (within && within->size() * 256 < cost_of(segment_, atom.matcher->formula()))
      return std::nullopt;
    if (atom.matcher->is_multi_line()) {
      auto files = candidate_files(segment_, atom.matcher->formula(), fit_.keys, watch_);
      return files ? united(*files, fit.paths) : files;
    }
    fit.blocks = candidate_blocks(segment_, atom.matcher->formula(), fit_.keys, watch_);
    if (!fit.blocks) return std::nullopt;
    return united(search::files_of(segment_, *fit.blocks), fit.paths);
  }

  void find_paths(const Atom& atom, AtomPlan& fit, const Places& within) const {
    Finder finder(atom.matcher);
    if (!within || within->size() > segment_.file_count() / 4) {
      fit.paths = path_index_of(fit_.segment)->find(segment_, finder, watch_);
      return;
    }
    for (auto file : *within)
      if (finder.finds(segment_.file(file).path, false)) fit.paths.push_back(file);
  }

  static std::vector<std::uint32_t> files_with(const std::vector<Definition>& definitions) {
    std::vector<std::uint32_t> files;
    for (const auto& definition : definitions)
      if (files.empty() || files.back() != definition.file) files.push_back(definition.file);
    return files;
  }

  const Plan& plan_;
  SegmentPlan& fit_;
  const Segment& segment_;
  Watch& watch_;
};

std::uint64_t blocks_of(const Segment& segment, const std::vector<std::uint32_t>& files) {
  auto all = segment.parts().files();
  std::uint64_t blocks = 0;
  for (auto file : files) blocks += all[file + 1].first_block - all[file].first_block;
  return blocks;
}

Places files_below(const Segment& segment, const std::string& below) {
  if (below.empty()) return std::nullopt;
  std::vector<std::uint32_t> files;
  for (std::uint32_t file = 0; file < segment.file_count(); ++file)
    if (segment.file(file).path.starts_with(below)) files.push_back(file);
  return files;
}

}  // namespace

SegmentPlan plan_segment(const Plan& plan, std::shared_ptr<const Segment> segment, Watch& watch) {
  SegmentPlan fit;
  fit.segment = std::move(segment);
  fit.atoms.resize(plan.atoms.size());
  fit.root = fitted(plan.root, *fit.segment);
  auto within = files_below(*fit.segment, plan.below);
  fit.files = Fitting(plan, fit, watch).files_of(fit.root, within);
  if (within) fit.files = fit.files ? intersected(*fit.files, *within) : std::move(within);
  for (std::size_t i = 0; i < plan.atoms.size(); ++i) {
    if (!plan.atoms[i].looks_at_content() || fit.root.kind == Kind::no) continue;
    const bool is_multi_line = plan.atoms[i].matcher->is_multi_line();  // and examines whole files
    std::uint64_t blocks = fit.segment->block_count();
    if (fit.atoms[i].blocks)
      blocks = fit.atoms[i].blocks->size();
    else if (fit.files && !is_multi_line)
      blocks = std::min<std::uint64_t>(fit.files->size() * 4, blocks);
    else if (fit.files)
      blocks = blocks_of(*fit.segment, *fit.files);
    fit.candidate_blocks += blocks;
  }
  std::ranges::sort(fit.first);
  auto repeated = std::ranges::unique(fit.first);
  fit.first.erase(repeated.begin(), repeated.end());
  if (fit.files) fit.first = intersected(fit.first, *fit.files);
  return fit;
}

}  // namespace warren::search
