#include "services/fleet/node/asked.h"

#include <algorithm>

namespace warren::fleet {

Result<AskedRows> AskedLists::read(std::string_view text) {
  auto known = std::ranges::find(lists_, text, &List::text);
  if (known == lists_.end()) {
    auto rows = parse_rows_text(text);
    if (!rows) return std::unexpected(rows.error());
    auto read = std::make_shared<const std::vector<AskedRow>>(*std::move(rows));
    known = lists_.insert(lists_.begin(), {std::string(text), std::move(read)});
    if (lists_.size() > most) lists_.pop_back();
  }
  lists_.splice(lists_.begin(), lists_, known);
  return known->rows;
}

}  // namespace warren::fleet
