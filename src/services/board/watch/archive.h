#pragma once
// A board as lines of JSON, to keep it elsewhere or to bring it to another Redis.
//
//   {"format":"warren-board","version":1,"instance":"demo"}
//   {"claim":{…},"created_at_ms":…,"current":true,"bids":{"coder":"exclusive"}}
//   {"queued":{"role":"coder","claim_id":…,"paused_at_ms":…}}
//   {"artefact":{…}}
//   {"end":{"artefacts":2,"claims":1}}
//
// Claims come before artefacts, so that whoever finds an artefact while they are read back finds
// its claim as well. Threads are not there: an artefact says which version of what it is. Revisions
// of claims are not either; they matter only to who is about to change one.
#include <string>
#include <unordered_set>
#include <variant>

#include "services/board/store/board.h"

namespace warren::watch {

struct ArchiveHead {
  std::string instance;
};
struct ArchivedClaim {
  board::Claim claim;
  board::UnixTime created_at{};
  bool is_current = false;  // the claim on its artefact: not replaced by a feedback claim
  board::Bids bids = {};
};
struct ArchivedQueueing {
  std::string role;
  std::string claim_id;
  board::UnixTime paused_at{};
};
struct ArchiveEnd {
  std::size_t artefacts = 0, claims = 0;
};
using ArchiveLine =
    std::variant<ArchiveHead, ArchivedClaim, ArchivedQueueing, board::Artefact, ArchiveEnd>;

std::string encode(const ArchiveLine& line);  // without an end of line
// Errc::invalid says what is wrong with it. What it has may be written to a board.
Result<ArchiveLine> decode(std::string_view text);

// Whether lines make an archive: the head first, nothing twice, the end last and right.
class ArchiveCheck {
 public:
  Result<> next(const ArchiveLine& line);
  Result<> ended() const;  // after the last line
  const std::unordered_set<std::string>& artefacts() const { return artefacts_; }
  const std::unordered_set<std::string>& claims() const { return claims_; }

 private:
  bool has_head_ = false, has_end_ = false;
  std::unordered_set<std::string> artefacts_, claims_;
};

}  // namespace warren::watch
