#pragma once
// Which of the hits are on a page, in which order.
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
  // All of it stays alive.
  Paging(std::span<const SegmentPlan> fits, const SearchTerms& terms, Select select,
         std::optional<Cursor> after);

  // The page of each depth: hits of this depth and those before. `hits` are side by side by
  // repository. Says in `depths` where there is more than the page.
  std::vector<std::vector<Hit>> pages(std::vector<Hit> hits, std::span<DepthTotals> depths) const;
  // Without those of pages before, the best first.
  void rank(std::vector<Hit>& hits) const;
  // Where the identical ones end that begin at this place of a page; the next one if they are not
  // to be collapsed.
  std::size_t end_of_identical(std::span<const Hit> page, std::size_t begin) const;
  Standing standing(const Hit& hit) const;

 private:
  bool is_before(const Hit& a, const Hit& b) const;
  void drop_pages_before(std::vector<Hit>& hits) const;
  std::vector<Hit> one_for_each_repository(std::span<const Hit> hits, int depth) const;
  void keep_best_of_each_repository(std::vector<Hit>& hits) const;
  // The best ones that a page takes.
  std::vector<Hit> first_of(std::vector<Hit> hits) const;

  std::span<const SegmentPlan> fits_;
  const SearchTerms& terms_;
  Select select_;
  std::optional<Cursor> after_;
  std::string after_blob_;  // as bytes
};

}  // namespace warren::search
