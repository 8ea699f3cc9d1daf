#include "search/store/verify.h"

#include <algorithm>

#include "search/store/format.h"

namespace warren::search {

std::shared_ptr<const Segment> sealed(const std::shared_ptr<const Segment>& segment) {
  bool is_sealed = std::ranges::all_of(segment->parts().sections, [](const Section& section) {
    return section.size == 0 || section.noted;
  });
  if (is_sealed) return segment;
  auto parts = std::make_unique<Segment::Parts>(segment->parts());
  for (auto& section : parts->sections) section = noted(std::move(section));
  return std::make_shared<const Segment>(std::move(parts));
}

Result<> verify(const Segment& segment, SectionKind kind) {
  const auto& section = segment.parts().at(kind);
  if (section.size == 0) return ok;
  if (!section.noted)
    return fail(Errc::not_found, "nobody noted the checksum of the {} of {}", name(kind),
                segment.name());
  if (checksum_of(section) == *section.noted) return ok;
  return fail(Errc::invalid, "the {} of {} changed in memory", name(kind), segment.name());
}

}  // namespace warren::search
