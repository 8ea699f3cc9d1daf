#pragma once
// What a query says of a repository by its name alone, without a look at its files.
//
//   repo:foo bar          no: a repository without foo in its name has no result, whatever is in it
//                         maybe: any other, for its files decide
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

  // Errc::invalid: a pattern that cannot be.
  static Result<RepoFilter> of(const Query& query);
  Verdict says(std::string_view repo) const;

 private:
  Query::Kind kind_ = Query::Kind::all;
  std::shared_ptr<const Matcher> matcher_;
  std::vector<RepoFilter> parts_;
};

}  // namespace warren::search
