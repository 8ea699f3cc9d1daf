#pragma once
// What the fleet keeps in the catalog: what is wanted of a repository, what its owner says of it, and
// what a node says of itself. JSON with the names that people see.
//
//   row key        github.com/owner/name#0          the repository and one of its slots
//   spec           {"url":…,"refs":[…],"pinned":…}  by whoever added it
//   note           {"commit_hash":…,"ready":…,…}    by its last owner
//   node's info    {"endpoint":…,"budget_bytes":…}  with every heartbeat
//
// What a newer version says and this one does not know is kept as it is.
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "primitives/catalog/catalog.h"

namespace warren::fleet {

struct RepoSpec {
  std::string url;                     // without a password
  std::string moved_from = {};         // where it was before its host said that it moved
  std::vector<std::string> refs = {};  // empty: what HEAD names at the origin
  bool is_pinned = false;              // never evicted
  std::int64_t priority = 0;           // -1000 to 1000
  int replicas = 1;                    // slots there are to be
  bool is_archived = false, is_fork = false, is_private = false;
  std::uint64_t reindex = 0;  // grows when somebody wants it built anew
};

// Where its owner is with it.
enum class Phase : std::uint8_t {
  waiting,  // to be fetched
  fetching,
  fetched,  // waiting to be read
  reading,
  indexing,
  serving
};
std::string_view name(Phase phase);

struct RepoNote {
  std::string commit_hash = {};  // one, or several by ref: as Source::version has them
  bool is_ready = false;         // it answers, by scanning at least
  bool has_index = false;
  Phase phase = Phase::waiting;
  std::string last_indexed_at = {};  // ISO 8601, by the node's clock: for people
  std::uint64_t size_bytes = 0;      // of text
  std::uint64_t memory_bytes = 0;
  std::uint64_t files = 0, skipped = 0;
  std::uint64_t fetch_ms = 0, index_ms = 0;
  std::uint64_t claim_ms = 0;  // from when its owner saw it on offer to the claim
  std::uint64_t reindex = 0;   // of the spec that it was built for
  // The memory that a newer commit needs and this node does not have; 0 if it lacks none.
  std::uint64_t lacks_bytes = 0;
};

struct NodeInfo {
  std::string endpoint;  // http://10.0.0.7:7300
  std::string zone = {};
  std::string version = {};
  std::uint64_t budget_bytes = 0, used_bytes = 0, reserved_bytes = 0;
  std::uint64_t hot_bytes = 0;  // of the used
  std::uint64_t repos = 0;
  std::uint64_t running = 0;       // queries under way
  std::uint64_t busy_percent = 0;  // of its processors
  bool is_draining = false;

  std::uint64_t free_bytes() const {
    auto taken = used_bytes + reserved_bytes;
    return budget_bytes > taken ? budget_bytes - taken : 0;
  }
};

std::string to_json(const RepoSpec& spec);
std::string to_json(const RepoNote& note);
std::string to_json(const NodeInfo& info);
// Errc::invalid: not such an object. What is missing has its default.
Result<RepoSpec> parse_spec(std::string_view json);
Result<RepoNote> parse_note(std::string_view json);  // an empty text: no owner has said anything
Result<NodeInfo> parse_info(std::string_view json);

// "github.com/a/b#1" <-> "github.com/a/b", 1. A key without a number is no key of ours.
std::string row_key(std::string_view repo, int slot);
struct RowName {
  std::string_view repo;
  int slot = 0;
};
std::optional<RowName> parse_row_key(std::string_view key);

// The order in which rows are offered: what is pinned first, then by priority, then what people asked
// for in vain, then what is small.
std::int64_t rank_of(const RepoSpec& spec, std::uint64_t demand, std::uint64_t size_bytes);
std::uint64_t demand_of(std::int64_t rank);  // up to 999

}  // namespace warren::fleet
