#pragma once
// Runs `warren search` with its parsed flags: finds the place, opens its index, searches, prints.
#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "cli/cli.h"
#include "cli/search/index.h"
#include "cli/search/output.h"
#include "net/http/tls.h"
#include "search/query/search.h"

namespace warren::cli {

struct SearchOptions {
  std::optional<std::string> where;
  std::string query;
  SearchShow show;
  search::SearchTerms terms;
  std::optional<std::chrono::milliseconds> timeout;
  SearchIndexTerms index;
  std::vector<std::string> refs;
  bool has_stats = false, lists_skipped = false;
  std::string fleet = {}, fleet_token = {};  // from --fleet; empty searches locally
  std::optional<TlsContext> fleet_tls = {};
};

// Exit codes as for grep: 0 found, 1 nothing found, 2 an error.
Exit run_search(SearchOptions options, const Context& context);
// Prints what is wrong, and returns the exit code for it.
Exit complain(const Paint& paint, const std::string& what, const std::string& hint = "");

}  // namespace warren::cli
