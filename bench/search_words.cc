#include "search_words.h"

#include <algorithm>

namespace warren::bench {

namespace {

// A name as Debian allows it. Any other is neither requested from the archive nor used as a folder.
bool is_package(std::string_view word) {
  auto is_small = [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9'); };
  return word.size() > 1 && is_small(word[0]) && std::ranges::all_of(word, [&](char c) {
           return is_small(c) || c == '-' || c == '+' || c == '.';
         });
}

}  // namespace

Result<SearchWords> read_search_words(const std::vector<std::string>& words,
                                      const std::string& usual) {
  SearchWords read;
  for (std::size_t i = 0; i < words.size(); ++i) {
    const auto& word = words[i];
    if (word == "--help" || word == "-h") {
      read.wants_help = true;
    } else if (word == "--peer-url") {
      if (++i == words.size()) return fail(Errc::invalid, "--peer-url needs a URL");
      read.peer_url = words[i];
    } else if (word.starts_with('-')) {
      return fail(Errc::invalid, "unknown flag {}: see --help", word);
    } else {
      read.corpora.push_back(word);
    }
  }
  if (read.corpora.empty() && !usual.empty()) read.corpora.push_back(usual);
  for (const auto& name : read.corpora)
    if (!is_package(name))
      return fail(Errc::invalid, "\"{}\" is no name of a Debian package: see --help", name);
  if (read.corpora.empty() && read.peer_url.empty()) read.corpora = {"postgresql-15", "linux"};
  if (read.corpora.empty()) read.corpora = {"linux"};
  return read;
}

}  // namespace warren::bench
