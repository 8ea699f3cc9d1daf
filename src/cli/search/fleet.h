#pragma once
// `warren search --fleet`: sends the query to a router.
#include "cli/search/command.h"
#include "net/http/tls.h"
#include "services/fleet/wire/wire.h"

namespace warren::cli {

struct FleetPlace {
  std::string url;                // http://127.0.0.1:7200, https://code.example.org
  std::string token;              // empty for none
  std::optional<TlsContext> tls;  // for https://
};

// One page. Errors: invalid for a bad query or URL, unavailable if nothing answers there.
Result<search::Answer> ask_fleet(const Context& context, const FleetPlace& fleet,
                                 const std::string& query, const search::SearchTerms& terms,
                                 std::optional<std::chrono::milliseconds> timeout,
                                 std::vector<fleet::Missing>& missing);

}  // namespace warren::cli
