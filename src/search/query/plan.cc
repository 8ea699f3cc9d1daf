#include "search/query/plan.h"

#include <algorithm>

namespace warren::search {
namespace {

using Kind = PlanNode::Kind;

bool is_identifier(const Pattern& pattern) {
  return !pattern.is_regex && pattern.text.size() >= 2 &&
         std::ranges::all_of(pattern.text, [](unsigned char c) {
           return c < 0x80 && (std::isalnum(c) != 0 || c == '_');
         });
}

class Planner {
 public:
  Planner(Plan& plan, Select select, MatcherCache& cache)
      : plan_(plan), select_(select), cache_(cache) {}

  Result<PlanNode> node(const Query& query, bool is_shown) {
    PlanNode node;
    switch (query.kind) {
      case Query::Kind::all:
        return node;
      case Query::Kind::pattern:
        return atom(query.pattern, is_shown);
      case Query::Kind::repo: {
        auto matcher = cache_.get(query.pattern);
        if (!matcher) return std::unexpected(matcher.error());
        node.kind = Kind::repo;
        node.repo = std::move(*matcher);
        return node;
      }
      case Query::Kind::language:
        node.kind = Kind::language;
        break;
      case Query::Kind::branch:
        node.kind = Kind::branch;
        break;
      case Query::Kind::both:
        node.kind = Kind::both;
        break;
      case Query::Kind::either:
        node.kind = Kind::either;
        break;
      case Query::Kind::neither:
        node.kind = Kind::neither;
        is_shown = false;
        break;
    }
    node.word = query.pattern.text;
    for (const auto& part : query.parts) {
      auto planned = this->node(*part, is_shown);
      if (!planned) return planned;
      node.parts.push_back(std::move(*planned));
    }
    return node;
  }

 private:
  Result<PlanNode> atom(const Pattern& pattern, bool is_shown) {
    auto matcher = cache_.get(pattern);
    if (!matcher) return std::unexpected(matcher.error());
    Atom atom{.pattern = pattern, .matcher = std::move(*matcher), .is_shown = is_shown};
    if (pattern.field == Field::any && select_ == Select::paths) atom.pattern.field = Field::path;
    if (pattern.field == Field::any && select_ == Select::symbols)
      atom.pattern.field = Field::symbol;
    atom.is_identifier = is_shown && atom.pattern.field != Field::path && is_identifier(pattern);
    PlanNode node;
    node.kind = Kind::atom;
    node.atom = plan_.atoms.size();
    plan_.atoms.push_back(std::move(atom));
    return node;
  }

  Plan& plan_;
  Select select_;
  MatcherCache& cache_;
};

// Whether it excludes enough files that building a list for the rest pays.
bool narrows(const Plan& plan, const PlanNode& node) {
  auto part_narrows = [&](const PlanNode& part) { return narrows(plan, part); };
  switch (node.kind) {
    case Kind::atom:
      return !plan.atoms[node.atom].matcher->matches_everything();
    case Kind::repo:
    case Kind::language:
    case Kind::branch:
      return true;
    case Kind::both:
      return std::ranges::any_of(node.parts, part_narrows);
    case Kind::either:
      return std::ranges::all_of(node.parts, part_narrows);
    default:
      return false;
  }
}

}  // namespace

Result<Plan> plan_query(const ParsedQuery& query, MatcherCache& cache) {
  Plan plan;
  auto root = Planner(plan, query.select, cache).node(*query.root, true);
  if (!root) return std::unexpected(root.error());
  plan.root = std::move(*root);
  plan.below = query.below;
  if (plan.below.empty() && !narrows(plan, plan.root))
    return fail(Errc::invalid,
                "the query would list everything: name a word of three letters or more, or a "
                "filter such as file: or repo:");
  return plan;
}

}  // namespace warren::search
