#pragma once
// What people ask for and nobody has: counted by each router, and told to the catalog in small doses.
//
// A row's rank carries it (rank_of): rows that are asked for are offered first, and a node may make room
// for them. A queries' weight halves every ten minutes, as on a Shelf, so that what is wanted and what is
// held can be compared.
#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "base/clock.h"

namespace warren::fleet {

class Demand {
 public:
  static constexpr auto pause =
      std::chrono::seconds(30);                // between two that tell of one repository
  static constexpr std::size_t most = 10'000;  // repositories; who comes later is not counted

  void on_asked(Clock::time_point now, const std::string& repo);
  // It is served: nobody waits for it any more.
  void on_served(const std::string& repo) { asked_.erase(repo); }

  struct Asked {
    std::string repo;
    std::uint64_t queries = 0;
  };
  // The next to be told of, if any.
  std::optional<Asked> next(Clock::time_point now);

 private:
  struct Count {
    double queries = 0;
    Clock::time_point asked{};
    Clock::time_point told = Clock::time_point::min();
    bool is_new = true;  // since it was told
  };
  std::map<std::string, Count> asked_;
};

}  // namespace warren::fleet
