#pragma once
// The classes of queries that searching is measured with, and how ripgrep and git are asked the
// same.
#include <optional>
#include <string>
#include <vector>

#include "search_command.h"
#include "search_corpus.h"

namespace warren::bench {

enum class Over : std::uint8_t { one, repos, symbols };  // which segments a class is asked

struct QueryClass {
  std::string name;                          // "03_rare_identifier"
  std::string query;                         // case:yes or case:no is always said
  std::string peer_query = {};               // the same in zoekt's language; empty: it is the same
  std::optional<Command> rg = {}, git = {};  // none: it cannot be asked that
  std::optional<Command> ours = {};          // `warren search`, whose index is there already
  std::optional<double> target_ms = {};      // on linux, in two threads
  Over over = Over::one;
  bool counts_matches = false;  // rg counts matches, not lines: the pattern spans lines
  bool is_refused = false;

  const std::string& for_peer() const { return peer_query.empty() ? query : peer_query; }
};

// `larger`: files beyond the limit, which git has to be told of.
std::vector<QueryClass> query_classes(const Corpus& corpus, const std::vector<std::string>& larger);

}  // namespace warren::bench
