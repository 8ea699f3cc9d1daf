#pragma once
// What of a board is wanted: all conditions that are given must hold.
//
// Claims and workflow events have a type and an agent as far as they say so: the type is that of
// their artefact. What says nothing of an agent, such as a claim that nobody was granted yet, is
// not what somebody means who asks for one.
#include <optional>

#include "services/board/watch/happening.h"

namespace warren::watch {

struct Filter {
  std::optional<board::UnixTime> since = {}, until = {};  // both included
  std::string type = {};                                  // a glob
  std::string agent = {};

  bool is_empty() const { return !since && !until && type.empty() && agent.empty(); }
  // A time that nobody knows fits.
  bool fits_time(board::UnixTime at) const;
  // `type`: that of its artefact, if it does not say so itself.
  bool fits(const Happening& happening, std::string_view type_of_artefact) const;
  bool fits(const board::Artefact& artefact) const;
};

// From what a person gave. Errc::invalid: a time that is none, or `since` that is not before
// `until`.
Result<Filter> parse_filter(std::string_view since, std::string_view until, std::string type,
                            std::string agent, board::UnixTime now);

}  // namespace warren::watch
