#pragma once
// Checks that a segment in memory is unchanged: a flipped bit would be a wrong answer.
//
//   auto segment = sealed(built);                      once, when it is built or changed
//   verify(*segment, SectionKind::text)                now and then, for one section at random
//
// A segment that was loaded or received is already sealed. Verifying takes about a tenth of a
// second per GB.
#include <memory>

#include "search/index/parts.h"

namespace warren::search {

// The same segment, with the checksum of every section noted. Both share everything.
std::shared_ptr<const Segment> sealed(const std::shared_ptr<const Segment>& segment);

// Errors: invalid if the section differs from its noted checksum, not_found if none was noted. Any
// thread may call it.
Result<> verify(const Segment& segment, SectionKind kind);

}  // namespace warren::search
