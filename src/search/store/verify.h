#pragma once
// Whether a segment in memory is still what it was: a bit that flips there would be a wrong answer.
//
//   auto segment = sealed(built);                      once, when it is built or changed
//   verify(*segment, SectionKind::text)                now and then, for one section at random
//
// What is loaded from a file or received is sealed already. A GB takes about a tenth of a second.
#include <memory>

#include "search/index/parts.h"

namespace warren::search {

// The same segment, with the checksum of every section noted. All is shared.
std::shared_ptr<const Segment> sealed(const std::shared_ptr<const Segment>& segment);

// Errc::invalid: the section is not what was noted. Errc::not_found: nothing was noted of it. Any
// thread.
Result<> verify(const Segment& segment, SectionKind kind);

}  // namespace warren::search
