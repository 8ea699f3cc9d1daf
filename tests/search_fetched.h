#pragma once
// The source of a Debian package, for tests of the search engine: git's, or that which
// WARREN_CORPUS names (postgresql-15, …). Where it cannot be had, our own source.
#include <doctest/doctest.h>

#include <cstdlib>
#include <filesystem>
#include <string>

#include "proof/testkit/process.h"

namespace warren::search {

struct FetchedCorpus {
  std::filesystem::path folder;
  bool is_fetched = true;
};

// `log` is written to.
inline FetchedCorpus fetched_corpus(const std::filesystem::path& log) {
  const char* chosen = std::getenv("WARREN_CORPUS");
  std::string package = chosen == nullptr ? "git" : chosen;
  Process fetch({.argv = {WARREN_SOURCE "/scripts/corpus", package}, .log = log});
  int code = fetch.wait(10min);
  std::string said = fetch.log_text();
  if (code != 0) {
    MESSAGE("scripts/corpus cannot fetch ", package, ", so it is our own source: ", said);
    return {WARREN_SOURCE "/src", false};
  }
  if (said.ends_with('\n')) said.pop_back();
  return {said.substr(said.rfind('\n') + 1), true};  // the last line is the folder
}

}  // namespace warren::search
