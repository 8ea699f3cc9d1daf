#pragma once
// What really happened, by those who were there: the catalog's changes, as somebody reads them who has
// no part in the fleet, and the logs of the nodes. Nothing here asks a node or a router how it is.
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/task.h"
#include "primitives/catalog/catalog.h"

namespace warren::fleet {

// Microseconds since 1970, by the clock of this machine.
using Stamp = std::int64_t;

// A new owner of a row, and the latest moment at which the catalog may have made it.
struct Change {
  FencingToken epoch;
  Stamp at = 0;
};

// Follows a catalog through everything that becomes of it.
class Follower {
 public:
  explicit Follower(std::string url) : url_(std::move(url)) {}

  // Until it is cancelled.
  awaitable<void> run();

  const std::map<std::string, Row>& rows() const { return rows_; }
  // By key, each in the order of epochs.
  const std::map<std::string, std::vector<Change>>& owners() const { return owners_; }
  // Of the node that has this name; ready ones alone, or all.
  std::set<std::string> keys_of(std::string_view node, bool only_ready = true) const;
  std::size_t ready() const;
  // How often the feed broke off.
  int gaps() const { return gaps_; }

 private:
  awaitable<void> follow(Catalog& catalog);
  void on_row(Row row, Stamp now);

  std::string url_;
  std::map<std::string, Row> rows_;
  std::map<std::string, std::vector<Change>> owners_;
  int gaps_ = 0;
};

// What the logs of nodes say.
struct Answered {
  std::string node, key;
  FencingToken epoch;
  Stamp looked = 0, ended = 0;  // when it looked whose the row is; and whether its lease lasts
};
struct Told {
  std::string node;
  std::string key_or_repo;
  FencingToken epoch;
  Stamp at = 0;
};
struct NodeLogs {
  std::vector<Answered> answers;
  std::vector<Told> claims, taken_over, evictions;
  std::map<std::string, std::uint64_t> memory;  // of each repository that was indexed, hot
  std::uint64_t demoted = 0;

  void read(const std::string& node, const std::filesystem::path& log);
};

// One that was given under an epoch when the row had a newer one already; where the row was handed over,
// one that began then.
std::vector<std::string> stale_answers(const NodeLogs& logs,
                                       const std::map<std::string, std::vector<Change>>& owners,
                                       bool epochs_are_times);
// Two nodes that were told the same epoch of a row.
std::vector<std::string> double_owners(const NodeLogs& logs);

Stamp stamp_now();

}  // namespace warren::fleet
