#include "search/parts.h"

namespace warren::search {

bool Segment::has_symbols() const { return parts_->at(SectionKind::symbols).size > 0; }

void Segment::find_symbols(std::string_view, const std::function<bool(const Symbol&)>&) const {}

void Segment::each_symbol(const std::function<bool(const Symbol&)>&) const {}

}  // namespace warren::search
