#pragma once
// Which nodes have the slots of each repository that has several, as the catalog's changes tell: so that
// its replicas are spread over zones, when a slot is claimed and when one is handed over.
#include <map>
#include <set>
#include <string>
#include <vector>

#include "primitives/catalog/catalog.h"

namespace warren::fleet {

class Owners {
 public:
  // Returns the repositories of which another node has a slot now.
  std::set<std::string> on_changes(const Changes& changes);
  // The nodes that have other slots of the repository of this row.
  std::vector<std::string> beside(const std::string& key) const;

 private:
  std::map<std::string, std::string>
      by_key_;  // names of nodes; rows without an owner are not in it
};

}  // namespace warren::fleet
