#include "search/query/repo_filter.h"

#include <algorithm>

namespace warren::search {

Result<RepoFilter> RepoFilter::of(const Query& query) {
  RepoFilter filter;
  filter.kind_ = query.kind;
  if (query.kind == Query::Kind::repo) {
    auto matcher = Matcher::compile(query.pattern);
    if (!matcher) return std::unexpected(matcher.error());
    filter.matcher_ = *std::move(matcher);
  }
  for (const auto& part : query.parts) {
    auto inner = of(*part);
    if (!inner) return inner;
    filter.parts_.push_back(*std::move(inner));
  }
  return filter;
}

RepoFilter::Verdict RepoFilter::says(std::string_view repo) const {
  auto verdict = Verdict::yes;
  switch (kind_) {
    case Query::Kind::all:
      return Verdict::yes;
    case Query::Kind::pattern:
    case Query::Kind::language:
    case Query::Kind::branch:
      return Verdict::maybe;
    case Query::Kind::repo:
      return Finder(matcher_).finds(repo, false) ? Verdict::yes : Verdict::no;
    case Query::Kind::both:
      for (const auto& part : parts_) verdict = std::min(verdict, part.says(repo));
      return verdict;
    case Query::Kind::either:
      verdict = Verdict::no;
      for (const auto& part : parts_) verdict = std::max(verdict, part.says(repo));
      return verdict;
    case Query::Kind::neither:
      verdict = parts_.at(0).says(repo);
      if (verdict == Verdict::maybe) return verdict;
      return verdict == Verdict::yes ? Verdict::no : Verdict::yes;
  }
  return Verdict::maybe;
}

}  // namespace warren::search
