#pragma once
// The arguments of bench_search.
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace warren::bench {

struct SearchWords {
  bool wants_help = false;
  std::string peer_url;
  std::vector<std::string> corpora;  // names of Debian source packages
};
inline constexpr std::string_view search_usage =
    R"(Searching, measured on sources of Debian packages beside ripgrep and git (`make bench PART=search`).

Usage: bench_search [CORPUS…]                   postgresql-15 and linux, if not said
       bench_search --peer-url URL [CORPUS…]    beside a server that speaks zoekt's JSON API and has
                                                indexed these files, linux if not said, and no others

A CORPUS is the name of a source package, which is fetched when it is not there (scripts/corpus);
$WARREN_BENCH_CORPUS is one where none is named.
)";

// `usual` comes from the environment, and may be empty. Errc::invalid: an unknown flag, or a word
// that is not a valid package name.
Result<SearchWords> read_search_words(const std::vector<std::string>& words,
                                      const std::string& usual);

}  // namespace warren::bench
