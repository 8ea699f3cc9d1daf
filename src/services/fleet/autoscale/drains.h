#pragma once
// Asks nodes to drain, and sees when they have: through the catalog, as `warren fleet drain` does.
#include <map>
#include <string>

#include "primitives/catalog/catalog.h"
#include "services/fleet/plan/pods.h"

namespace warren::fleet {

class Drains {
 public:
  explicit Drains(Catalog& catalog) : catalog_(catalog) {}

  // Reads what has changed. The rest goes by that.
  Async<> look();
  PodNode state_of(const std::string& node) const;
  Async<> ask(const std::string& node, std::chrono::milliseconds within);
  Async<> cancel(const std::string& node);

 private:
  struct Wish {
    std::string session;
    bool is_ours;
  };
  std::vector<NodeSession> sessions_of(const std::string& node) const;

  Catalog& catalog_;
  std::vector<Node> nodes_;
  std::string position_;
  std::map<std::string, NodeSession> owners_;  // of repositories, by key
  std::map<std::string, Wish> wishes_;         // by key
};

}  // namespace warren::fleet
