#pragma once
// Which hits are on a page, and in which order.
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "search/answer/cursor.h"
#include "search/query/evaluate.h"
#include "search/query/search.h"

namespace warren::search {

class Paging {
 public:
  // All arguments must outlive it.
  Paging(std::span<const SegmentPlan> fits, const SearchTerms& terms, Select select,
         std::optional<Cursor> after);

  // The page of each depth: hits of this depth and of those before. In `hits`, a repository's hits
  // must be adjacent. Sets has_more in `depths`.
  std::vector<std::vector<Hit>> pages(std::vector<Hit> hits, std::span<DepthTotals> depths) const;
  // Removes the hits of earlier pages and sorts the rest, the best first.
  void rank(std::vector<Hit>& hits) const;
  // Where the run of identical files ends that begins at this place of a page. If identical files
  // are not collapsed, it is the next place.
  std::size_t end_of_identical(std::span<const Hit> page, std::size_t begin) const;
  Standing standing(const Hit& hit) const;

 private:
  bool is_before(const Hit& a, const Hit& b) const;
  void drop_pages_before(std::vector<Hit>& hits) const;
  std::vector<Hit> one_for_each_repository(std::span<const Hit> hits, int depth) const;
  void keep_best_of_each_repository(std::vector<Hit>& hits) const;
  // The best hits, as many as fit on a page.
  std::vector<Hit> first_of(std::vector<Hit> hits) const;

  std::span<const SegmentPlan> fits_;
  const SearchTerms& terms_;
  Select select_;
  std::optional<Cursor> after_;
  std::string after_blob_;  // in binary form
};

}  // namespace warren::search
