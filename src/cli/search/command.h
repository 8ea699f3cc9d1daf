#pragma once
// `warren search` once its flags are read: finds the place, opens its index, asks, shows.
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
  std::string fleet = {}, fleet_token = {};  // of --fleet; empty: what is here is searched
  std::optional<TlsContext> fleet_tls = {};
};

// As grep: 0 found, 1 nothing, 2 an error.
Exit run_search(SearchOptions options, const Context& context);
// Says what is wrong; the exit code for it.
Exit complain(const Paint& paint, const std::string& what, const std::string& hint = "");

}  // namespace warren::cli
