#pragma once
// Who serves what, as a router knows it: the catalog's rows and nodes, turned into routes.
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "primitives/catalog/catalog.h"
#include "services/fleet/plan/gone.h"
#include "services/fleet/plan/records.h"
#include "services/fleet/wire/wire.h"

namespace warren::fleet {

class Table {
 public:
  struct Slot {
    Row row;
    RepoNote note;
  };
  struct Repo {
    RepoSpec spec;
    std::map<int, Slot> slots;
    bool is_served() const;  // by one of them
  };
  // A repository that its host says is gone: it leaves when the grace is over.
  struct Leaving {
    Gone gone;
    std::chrono::milliseconds left = {};  // of the grace, as it was read
  };
  struct Member {
    Node node;
    NodeInfo info;
  };

  // What cannot be read is left out, and counted: somebody else may write the catalog, too.
  void on_changes(const Changes& changes);
  void on_nodes(const std::vector<Node>& nodes);

  // One request for each node, and what no node can be asked for.
  struct Route {
    NodeSession session;
    std::string endpoint;
    std::vector<AskedRow> rows = {};
    std::vector<std::string> repos = {};  // of these rows
    std::string text = {};                // of the rows, as its node reads them
    bool has_other = true;                // each of them is served elsewhere, too
  };
  struct Plan {
    std::vector<Route> routes;
    std::vector<Missing> missing;
  };
  // The repositories that a request is limited to, by name, number or kind; none: it is not.
  std::optional<std::vector<std::string>> limits_of(const SearchAsk& ask) const;
  // For these repositories, or all. Of several replicas one in our zone, then one on the node with
  // the fewest queries under way; `avoided` sessions only where there is no other.
  Plan plan(const std::optional<std::vector<std::string>>& repos, std::string_view zone,
            const std::vector<NodeSession>& avoided = {}) const;

  const std::map<std::string, Repo, std::less<>>& repos() const { return repos_; }
  const std::map<std::string, Leaving, std::less<>>& leaving() const { return leaving_; }
  const std::map<NodeSession, Member>& nodes() const { return nodes_; }
  std::uint64_t unreadable() const { return unreadable_; }
  std::uint64_t version() const { return version_; }  // another one when anything may have changed

 private:
  void put(const Row& row);
  void remove(std::string_view key);
  const Slot* best_slot(const Repo& repo, std::string_view zone,
                        const std::vector<NodeSession>& avoided, int& choices) const;
  Missing why_missing(const std::string& name, const Repo& repo) const;

  std::map<std::string, Repo, std::less<>> repos_;
  std::map<std::string, Leaving, std::less<>> leaving_;
  std::map<NodeSession, Member> nodes_;
  std::uint64_t unreadable_ = 0, version_ = 0;
};

}  // namespace warren::fleet
