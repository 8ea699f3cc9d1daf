#pragma once
// Turns hits into the files of an answer, with their lines, within the answer's limit of bytes.
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "search/query/evaluate.h"
#include "search/query/search.h"

namespace warren::search {

// How much of the answer's limit it uses, including the list of identical files.
std::size_t bytes_of(const FileMatch& match);
std::size_t bytes_of(const FilePlace& place);

class Showing {
 public:
  // All arguments must outlive it.
  Showing(const Plan& plan, std::span<const SegmentPlan> fits, const SearchTerms& terms,
          Select select);

  // Cuts the file if its lines do not fit into `bytes`, or if time runs out.
  FileMatch show(const Hit& hit, std::size_t bytes);
  // Without lines, for a file that is identical to another.
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
