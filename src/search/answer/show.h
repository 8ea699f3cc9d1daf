#pragma once
// Files as answers have them: with their lines, and their share of the answer's bytes.
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "search/query/evaluate.h"
#include "search/query/search.h"

namespace warren::search {

// What it takes of an answer's bytes, with the list of identical ones.
std::size_t bytes_of(const FileMatch& match);
std::size_t bytes_of(const FilePlace& place);

class Showing {
 public:
  // All of it stays alive.
  Showing(const Plan& plan, std::span<const SegmentPlan> fits, const SearchTerms& terms,
          Select select);

  // Cut when its lines do not fit into so many bytes, or when the time is over.
  FileMatch show(const Hit& hit, std::size_t bytes);
  // Without lines: of one that is the same as another.
  FileMatch name(const Hit& hit) const;
  bool is_over() { return watch_.is_over(); }
  Stop why() const { return watch_.why(); }

 private:
  bool look_again(const Hit& hit, FileMatch& match, std::size_t bytes);

  const Plan& plan_;
  std::span<const SegmentPlan> fits_;
  const SearchTerms& terms_;
  Select select_;
  Watch watch_;
  std::vector<std::optional<FileSearch>> searches_;
};

}  // namespace warren::search
