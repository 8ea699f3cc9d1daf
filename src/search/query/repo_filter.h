#pragma once
// What a query says about a repository by its name alone, without examining its files.
//
//   repo:foo bar          no: a repository without foo in its name has no result
//                         maybe: for any other, its files decide
//   repo:foo or repo:baz  yes or no, never maybe
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "search/query/matcher.h"

namespace warren::search {

class RepoFilter {
 public:
  enum class Verdict : std::uint8_t { no, maybe, yes };

  // Errc::invalid: an invalid pattern.
  static Result<RepoFilter> of(const Query& query);
  Verdict says(std::string_view repo) const;

 private:
  Query::Kind kind_ = Query::Kind::all;
  std::shared_ptr<const Matcher> matcher_;
  std::vector<RepoFilter> parts_;
};

}  // namespace warren::search
