#pragma once
// A repository whose host says that it does not exist leaves the fleet, after a grace in which every look
// said the same. Until then it is served from memory.
//
//   NAME#gone    a row of the catalog that is no repository's: free, and waiting for the grace
//
//   a look says         what the owner does
//   there is none       adds that row, if it is not there, and claims it:
//                         refused                          the grace is not over
//                         claimed, and nothing counts      it begins: released, to wait for the grace
//                         claimed, and the grace is over   all rows of the repository are removed
//   anything else       removes that row
//
// So the grace is measured by the catalog's clock, which no restart and no change of owner begins anew,
// and the end of it is seen by one owner alone. Rejected: a time in the note of the repository's own row.
// It would be that of a node's clock, and each owner writes its own note.
#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "primitives/catalog/catalog.h"

namespace warren::fleet {

inline constexpr std::chrono::milliseconds usual_grace = 24h;
inline constexpr std::chrono::milliseconds most_grace = 24h * 365;
inline constexpr int most_slots = 16;  // of one repository

std::string gone_key(std::string_view repo);
// The repository of such a key; none: it is the key of something else.
std::optional<std::string_view> repo_of_gone(std::string_view key);
Row gone_row(std::string_view repo);

// What counts, kept in the note of that row.
struct Gone {
  std::string url;  // that was looked at
  std::string why;  // what its host said
  // Of the grace, behind the wait of the row: what is longer than a catalog waits is several waits.
  std::chrono::milliseconds left = {};
};
std::string to_json(const Gone& gone);
std::optional<Gone> parse_gone(std::string_view note);  // none: nothing counts yet

// Who has claimed the row does this: what it is released with; none: the grace is over.
std::optional<Release> next_wait(std::string_view note, Gone seen, std::chrono::milliseconds grace);
// The keys of all rows that there may be of a repository, that one included.
std::vector<std::string> keys_of(std::string_view repo);

}  // namespace warren::fleet
