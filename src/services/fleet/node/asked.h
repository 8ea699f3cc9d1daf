#pragma once
// The rows that routers name, read. A router names the same ones in one query after the other, and so
// many that reading them anew would take longer than the search.
#include <list>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "services/fleet/wire/wire.h"

namespace warren::fleet {

using AskedRows = std::shared_ptr<const std::vector<AskedRow>>;  // owners: this, and the searches

class AskedLists {
 public:
  // Errc::invalid: it is no list of rows.
  Result<AskedRows> read(std::string_view text);

 private:
  static constexpr std::size_t most = 16;  // routers, and what they knew a moment ago
  struct List {
    std::string text;
    AskedRows rows;
  };
  std::list<List> lists_;  // the one that was read last first
};

}  // namespace warren::fleet
