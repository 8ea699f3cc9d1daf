#pragma once
// The JSON of zoekt-webserver's POST /api/search and /api/list, so that its clients run on a fleet.
//
// Names and types are those of zoekt's public Go types, as Go writes them: names of fields as they are,
// []byte as base64, durations in nanoseconds, null for what is empty; and as Go reads them: names in
// any case, unknown ones ignored. Where we have nothing to tell (symbols of a match, numbers of an
// index that is not ours), the value is the one that says so.
#include <chrono>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "services/fleet/wire/wire.h"

namespace warren::fleet {

// What of zoekt.SearchOptions means something here.
struct ZoektOptions {
  bool estimates = false;  // EstimateDocCount: how many files there are, and nothing else
  bool is_whole = false;   // Whole: with the text of each file
  bool wants_chunks = false, explains = false;
  std::uint64_t matches = 0;           // TotalMaxMatchCount, or ShardMaxMatchCount; 0: not said
  std::uint64_t matches_per_repo = 0;  // ShardRepoMaxMatchCount
  std::uint64_t files = 0, shown_matches = 0;  // MaxDocDisplayCount, MaxMatchDisplayCount; 0: all
  int context = 0;
  std::chrono::nanoseconds wall_time = {};  // 0: not said
};

struct ZoektSearch {
  std::string query;
  std::optional<std::vector<std::uint32_t>> repo_ids = {};
  ZoektOptions options = {};
};
// Errc::invalid: says which field is wrong.
Result<ZoektSearch> parse_zoekt_search(std::string_view json);
// The same for a router, without the query.
SearchAsk to_ask(const ZoektSearch& search);

struct ZoektList {
  std::string query;
  bool wants_map = false;  // Opts.Field 2: ReposMap instead of Repos
};
Result<ZoektList> parse_zoekt_list(std::string_view json);

// What the catalog knows of a repository.
struct ZoektRepo {
  struct Branch {
    std::string name, version;
  };
  std::string name, url = {};
  std::uint32_t id = 0;
  std::int64_t priority = 0;
  std::vector<Branch> branches = {};
  bool is_archived = false, is_fork = false, is_private = false;
  std::uint64_t files = 0, text_bytes = 0, memory_bytes = 0;
  std::string indexed_at = {};  // ISO 8601; empty: never
};

struct ZoektAnswer {
  search::Answer answer = {};
  std::map<std::string, ZoektRepo> repos = {};    // of its files at least
  std::map<std::size_t, std::string> texts = {};  // of its files, by place, if they were asked for
  std::size_t missing = 0, searched = 0;          // repositories
  std::uint64_t files_considered = 0;             // of all repositories
  std::chrono::nanoseconds took = {};
};
// {"Result": …}
std::string zoekt_result(const ZoektAnswer& answer, const ZoektOptions& options);
// {"List": …}
std::string zoekt_list(const std::vector<ZoektRepo>& repos, bool wants_map);
// {"Error": …}
std::string zoekt_error(std::string_view what);

}  // namespace warren::fleet
