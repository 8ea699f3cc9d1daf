#pragma once
// Happenings and artefacts as a person or a program reads them.
#include <string>
#include <vector>

#include "services/board/watch/happening.h"

namespace warren::watch {

// "✨ Artefact created: by=…", without the time. Empty: not for people, since another event tells
// the same (reviews, later versions).
std::string line_of(const Happening& happening);
// {"data":…,"event":…,"timestamp":…}; that a workflow has ended is a second one.
std::vector<std::string> json_lines(const Happening& happening);

// "ID  VER  TYPE  BY  AGE  PAYLOAD", and a row of dashes.
std::string table_head();
std::string table_row(const board::Artefact& artefact, board::UnixTime now);
// The type that a row shows in short as this ("Goal": "GoalDefined"); empty when there is none.
std::string_view long_type(std::string_view shown_type);
// "5s ago", "3m ago", "2h ago", "4d ago", "-" when nobody knows.
std::string age_of(board::UnixTime created_at, board::UnixTime now);
// Indented by two spaces, the members in their order.
std::string pretty(const board::Artefact& artefact);

}  // namespace warren::watch
