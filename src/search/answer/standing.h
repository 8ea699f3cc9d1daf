#pragma once
// The order of results, in which a place says the same on every machine: no number of a segment or
// of a thread is in it.
#include <string_view>
#include <tuple>

namespace warren::search {

struct Standing {
  double score = 0;
  std::string_view repo = {}, path = {},
                   blob = {};  // the blob as bytes or as digits: the order is the same
};

// By repository and path when they are worth the same; identical ones side by side when these are
// to be collapsed.
inline bool is_before(const Standing& a, const Standing& b, bool collapses) {
  if (a.score != b.score) return a.score > b.score;
  if (collapses && a.blob != b.blob) return a.blob < b.blob;
  return std::tie(a.repo, a.path, a.blob) < std::tie(b.repo, b.path, b.blob);
}
inline bool are_identical(const Standing& a, const Standing& b) {
  return a.score == b.score && !a.blob.empty() && a.blob == b.blob;
}

}  // namespace warren::search
