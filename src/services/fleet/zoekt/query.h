#pragma once
// zoekt's query language, put into ours.
//
//   "a b" file:x\.go -r:old      ->   (?:a\ b) …: what zoekt quotes is still a regular expression
//   archived:no fork:no          ->   not words of ours: they limit the repositories
//
// What we cannot say is refused rather than answered with something else: meta., case: and type:
// inside of parentheses, and kinds of repositories beside an "or".
#include <optional>
#include <string>
#include <string_view>

#include "base/error.h"

namespace warren::fleet {

struct ZoektQuery {
  std::string text;  // in our language; empty: everything
  std::optional<bool> is_archived = {}, is_fork = {}, is_private = {};
  bool is_of_head = false;  // branch:HEAD: of the default branch alone
};

// Errc::invalid: says what, in zoekt's terms. What is wrong with a pattern parse_query() will tell.
Result<ZoektQuery> parse_zoekt_query(std::string_view text);

}  // namespace warren::fleet
