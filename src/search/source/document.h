#pragma once
// What is searched: files with their text, and the files that were left out, each with its reason.
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace warren::search {

struct Document {
  std::string path;                     // relative, with '/'
  std::string text;                     // unchanged, in any encoding
  std::string blob;                     // git's id of the text; empty outside git
  std::vector<std::uint16_t> branches;  // indexes into Source::branches
};

struct Skipped {
  std::string path;
  std::string reason;     // "binary", "3.2 MB, more than 2 MB", "a symbolic link", …
  std::string blob = {};  // git's id, if the text had to be read to decide
};

struct SourceLimits {
  std::size_t file_bytes = 4u << 20;
  std::size_t files = 5'000'000;                    // those that are left out count too
  std::size_t memory_bytes = std::size_t{8} << 30;  // of the listing, before any text is read
};

// Where documents come from. Both functions call `take` for each document, in any order, one at a
// time, possibly on another thread. If it returns an error, reading ends with that error.
struct Source {
  std::string name;                   // as results show it
  std::string version;                // commits, or a fingerprint of a directory
  std::vector<std::string> branches;  // as they were requested
  std::vector<Skipped> skipped;
};
using Take = std::function<Result<>(Document&&)>;

// All files below a directory, without .git. Does not follow links.
Result<Source> read_directory(const std::string& path, const SourceLimits& limits,
                              const Take& take);
// The files of one or more refs of a repository (bare or not, shallow or not), read from its packs
// without a checkout. A blob that several branches share is taken once. Errors: not_found for a
// missing ref; refused with git's own message. The repository is hostile: no hook, filter, textconv
// or configured program runs.
Result<Source> read_repository(const std::string& path, std::vector<std::string> refs,
                               const SourceLimits& limits, const Take& take);
// The commits that the refs point to, in the format of Source::version, without reading anything
// else.
Result<std::string> repository_version(const std::string& path,
                                       const std::vector<std::string>& refs);

}  // namespace warren::search
