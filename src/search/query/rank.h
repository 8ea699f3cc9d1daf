#pragma once
// How relevant a file is to the query, and why.
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "search/index/segment.h"

namespace warren::search {

// What is known of one pattern in one file.
struct Signal {
  enum class Content : std::uint8_t { none, partial, word };
  enum class Path : std::uint8_t { none, partial, base_word, base };
  enum class Definition : std::uint8_t { none, partial, exact };
  Content content = Content::none;
  Path path = Path::none;
  Definition definition = Definition::none;
  std::string_view kind = {};     // of the definition
  std::string_view pattern = {};  // as the query has it
};

// Which part of a path a match is: "lock" is in the base name of a/lock.c, and is all of it.
Signal::Path path_signal(std::string_view path, std::size_t begin, std::size_t end);
// Neither end of the match is inside a word.
bool is_whole_word(std::string_view text, std::size_t begin, std::size_t end);

// `signals` are of the patterns that were found, out of `asked`. If `why` is given, the reasons are
// added to it.
double score_of(std::span<const Signal> signals, std::size_t asked, FileClass file_class,
                std::uint64_t matches, std::vector<std::string>* why = nullptr);

}  // namespace warren::search
