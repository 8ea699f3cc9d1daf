#pragma once
// What two nodes say to each other when a repository changes hands.
//
//   old owner, which answers all the while                       next owner
//      ── POST /v1/take {key, epoch, commits, sizes, …} ──────────>  is there room? reserves it
//      <── GET /v1/segments?key=…&epoch=…&part=0, 1, … ────────────  checks every section; what it
//      ── 200: it could answer now ───────────────────────────────   cannot use it fetches from git
//   hand_over in the catalog: a new epoch, from here on the next one's
//      ── POST /v1/own {key, epoch} ──────────────────────────────>  answers
//
// A message that is lost costs time only: the next owner also hears of its epoch from the catalog.
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "primitives/lease/token.h"

namespace warren::fleet {

// A repository in memory, all but its segments.
struct HandOver {
  std::string key;
  FencingToken epoch;   // of the old owner
  std::string session;  // its own
  std::string spec;     // of the row, as it is there
  std::map<std::string, std::string> commits = {};
  std::uint64_t reindex = 0, text_bytes = 0, fetch_ms = 0, index_ms = 0;
  bool has_index = false, has_symbols = false, is_warm = false;
  std::string indexed_at = {};
  std::vector<std::uint64_t> sizes = {};  // bytes of each segment as it is sent

  std::uint64_t bytes() const;  // of all segments
};
std::string to_json(const HandOver& offer);
// Errc::invalid: not such an object.
Result<HandOver> parse_hand_over(std::string_view json);

// What the old owner says last. Epoch {0, 0}: it keeps the row after all.
struct HandedOver {
  std::string key;
  FencingToken epoch;
};
std::string to_json(const HandedOver& row);
Result<HandedOver> parse_handed_over(std::string_view json);

}  // namespace warren::fleet
