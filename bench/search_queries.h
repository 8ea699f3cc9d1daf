#pragma once
// The classes of queries that search is measured with, and the equivalent commands for ripgrep and
// git.
#include <optional>
#include <string>
#include <vector>

#include "search_command.h"
#include "search_corpus.h"

namespace warren::bench {

enum class Over : std::uint8_t { one, repos, symbols };  // which segments a class searches

struct QueryClass {
  std::string name;                          // "03_rare_identifier"
  std::string query;                         // always contains case:yes or case:no
  std::string peer_query = {};               // in zoekt's language; empty if it is the same
  std::optional<Command> rg = {}, git = {};  // nullopt if the program cannot do it
  std::optional<Command> ours = {};          // `warren search` with an existing index
  std::optional<double> target_ms = {};      // on linux, in two threads
  Over over = Over::one;
  bool counts_matches = false;  // rg counts matches, not lines: the pattern spans lines
  bool is_refused = false;

  const std::string& for_peer() const { return peer_query.empty() ? query : peer_query; }
};

// `larger`: files beyond the limit, which must be excluded for git.
std::vector<QueryClass> query_classes(const Corpus& corpus, const std::vector<std::string>& larger);

}  // namespace warren::bench
