#pragma once
// Who should have a repository: the same answer on every node, without asking anybody.
//
// Rendezvous hashing, weighted with the memory that each node has free. Placement is sticky (a node
// that comes or goes moves only its own share), so mirrors stay warm; and the second in the order is
// the one who takes over.
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace warren::fleet {

struct Candidate {
  std::string name;
  std::uint64_t budget_bytes = 0;  // what it could hold: the weight
  std::uint64_t free_bytes = 0;
  std::string zone = {};
  std::uint64_t hot_bytes = 0;  // that could be compressed

  std::uint64_t could_free() const { return free_bytes + hot_bytes / 2; }
};

// The order of all candidates, for any number of repositories.
class Placement {
 public:
  Placement() = default;
  explicit Placement(std::vector<Candidate> candidates);

  // The candidates that have room for it, the best first; those in `taken` zones behind the others.
  std::vector<std::string> order(std::string_view repo, std::uint64_t bytes,
                                 const std::vector<std::string>& taken_zones = {}) const;
  // How many are before this one in that order, which is not made for it. None: it has no room, or
  // is no candidate.
  std::optional<std::size_t> place(std::string_view node, std::string_view repo,
                                   std::uint64_t bytes,
                                   const std::vector<std::string>& taken_zones = {}) const;

  std::size_t size() const { return candidates_.size(); }
  bool has_room(std::uint64_t bytes) const;  // one of them
  // Whether a node other than this one would claim a repository of this size that nobody asks for.
  bool others_admit(std::string_view node, std::uint64_t bytes) const;
  // The first of those that could have most free, by demoting all they have; null: there is none.
  const Candidate* roomiest() const;
  const Candidate* find(std::string_view node) const;
  // Of those of these nodes that are candidates.
  std::vector<std::string> zones_of(const std::vector<std::string>& nodes) const;

 private:
  std::vector<Candidate> candidates_;
  std::vector<std::uint64_t> hashes_;  // of their names
};

std::vector<std::string> order_for(std::string_view repo, const std::vector<Candidate>& candidates,
                                   std::uint64_t bytes,
                                   const std::vector<std::string>& taken_zones = {});

}  // namespace warren::fleet
