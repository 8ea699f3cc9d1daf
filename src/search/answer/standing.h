#pragma once
// The order of results. It uses no segment or thread numbers, so it is the same on every machine.
#include <string_view>
#include <tuple>

namespace warren::search {

struct Standing {
  double score = 0;
  std::string_view repo = {}, path = {},
                   blob = {};  // the id in binary or in hex: the order is the same
};

// Equal scores are ordered by repository and path. If identical files are collapsed, they are
// placed side by side.
inline bool is_before(const Standing& a, const Standing& b, bool collapses) {
  if (a.score != b.score) return a.score > b.score;
  if (collapses && a.blob != b.blob) return a.blob < b.blob;
  return std::tie(a.repo, a.path, a.blob) < std::tie(b.repo, b.path, b.blob);
}
inline bool are_identical(const Standing& a, const Standing& b) {
  return a.score == b.score && !a.blob.empty() && a.blob == b.blob;
}

}  // namespace warren::search
