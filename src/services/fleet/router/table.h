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

// What a router knows about nodes apart from the table.
struct NodeLoads {
  // Requests that each node has not answered yet. A node's own count is as old as its heartbeat: if
  // that alone counted, all queries until the next one would go to the same node.
  std::map<NodeSession, std::uint64_t> outstanding = {};
  std::uint64_t seed = 0;  // for the choice between equals
};

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
    bool has_choices = false;  // between replicas: the next plan may differ
  };
  // The repositories that a request is limited to, by name, number or kind; none: it is not.
  std::optional<std::vector<std::string>> limits_of(const SearchAsk& ask) const;
  // For these repositories, or all. Of the replicas in our zone two are picked by chance, and of the
  // two the one whose node has fewer queries under way: if all routers took the least busy of all, it
  // would soon be the busiest. `avoided` sessions are used only where there is no other.
  Plan plan(const std::optional<std::vector<std::string>>& repos, std::string_view zone,
            const std::vector<NodeSession>& avoided = {}, const NodeLoads& loads = {}) const;

  const std::map<std::string, Repo, std::less<>>& repos() const { return repos_; }
  const std::map<std::string, Leaving, std::less<>>& leaving() const { return leaving_; }
  const std::map<NodeSession, Member>& nodes() const { return nodes_; }
  std::uint64_t unreadable() const { return unreadable_; }
  std::uint64_t version() const { return version_; }  // another one when anything may have changed

 private:
  void put(const Row& row);
  void remove(std::string_view key);
  struct Choice {
    const Slot* slot;
    std::uint64_t running;      // queries under way on its node
    std::pair<bool, bool> far;  // avoided, in another zone
  };
  // The replicas that can answer.
  void add_choices(const Repo& repo, std::string_view zone, const std::vector<NodeSession>& avoided,
                   const NodeLoads& loads, std::vector<Choice>& choices) const;
  // Picks one of the nearest, and removes the others from the list.
  static const Slot* best_of(std::vector<Choice>& choices, std::uint64_t chance);
  Missing why_missing(const std::string& name, const Repo& repo) const;

  std::map<std::string, Repo, std::less<>> repos_;
  std::map<std::string, Leaving, std::less<>> leaving_;
  std::map<NodeSession, Member> nodes_;
  std::uint64_t unreadable_ = 0, version_ = 0;
};

}  // namespace warren::fleet
