#pragma once
// What clients, routers and nodes say to each other about single files: their text, and those that are
// not searched.
//
//   client ── GET /v1/file?repo=…&path=… ──> router ── …&key=…&epoch=… ──> node
//   client <────────────────────── {"path", "text", …} ─────────────────── node
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "search/source/document.h"
#include "services/fleet/wire/wire.h"

namespace warren::fleet {

struct FileAsk {
  std::string repo, path;
  std::string commit = {};  // or what it begins with; empty: whichever is in memory
  std::string branch = {};  // empty: the first that has the file
  std::uint64_t first_line = 1, last_line = UINT64_MAX;
  std::uint64_t most_bytes = 1u << 20;
};
inline constexpr std::uint64_t most_file_bytes = 4u << 20;

// ?repo=…&path=…[&lines=10-20][&commit=…][&branch=…][&bytes=…]. Errc::invalid: says what is wrong.
Result<FileAsk> parse_file_ask(std::string_view query);
// As it stands behind the question mark, without the repository.
std::string to_query(const FileAsk& ask);

struct FileText {
  std::string repo, path, language = {}, blob = {}, commit = {}, branch = {};
  std::uint64_t size = 0, lines = 0;  // of the whole file
  std::uint64_t first_line = 1,
                last_line = 0;  // of what is here; none: the last is before the first
  bool is_cut = false;          // there is more of what was asked for
  std::string text = {};
};
std::string to_json(const FileText& file);
Result<FileText> parse_file_text(std::string_view json);

struct SkippedAsk {
  std::string repo;
  std::string after = {};  // a path: those behind it
  std::uint64_t limit = 1'000;
};
Result<SkippedAsk> parse_skipped_ask(std::string_view query);
std::string to_query(const SkippedAsk& ask);

struct SkippedPage {
  std::string repo, commit = {};
  std::uint64_t total = 0;
  std::vector<search::Skipped> files = {};  // by path
  std::string next = {};                    // empty: these were the last
};
std::string to_json(const SkippedPage& page);

// The row that a router takes for a node's: key=…&epoch=…
std::string to_query(const AskedRow& row);
Result<AskedRow> parse_row(std::string_view query);

}  // namespace warren::fleet
