#pragma once
// warren.toml of the current folder, which neither a flag nor the environment names. The author of the
// folder wrote it, and it can say where the password goes. So its content counts only after the user has
// allowed it.
//
//   warren config allow      stores the SHA-256 of path and content in the user's state folder
//   an edit                  changes the content, which is then not allowed
//
// Content that is not allowed may set log.level and log.format, and nothing else.
#include "cli/cli.h"

namespace warren::cli {

struct FoundFile {
  std::string path;  // absolute
  std::string text;  // read once: the bytes that were checked are those that are parsed
  bool is_allowed = false;
};

// Errc::denied: it is not a regular file, or belongs to another user.
Result<FoundFile> read_found_file(const Context& context);
Result<> allow(const Context& context, const FoundFile& file);
Result<> deny(const Context& context, const FoundFile& file);
// Errc::invalid: its content is not allowed and sets more than the log.
Result<> check_found_file(const FoundFile& file);

}  // namespace warren::cli
