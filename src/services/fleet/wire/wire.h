#pragma once
// What clients, routers and nodes say to each other about a search, as JSON.
//
//   client ── POST /v1/search {q, repos?, limit, …} ──> router ── one for each node, with `rows` ──> node
//   client <── {files, complete, incomplete, …} ─────── router <── a part, for merge_answers ─────── node
//
// What is no UTF-8 is there twice: to be read, and as base64, which is what counts. Scores of a part
// are told by their bits, so that the order does not depend on how a number is written.
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "primitives/lease/token.h"
#include "search/query/search.h"

namespace warren::fleet {

// A row that a router takes for a node's, and under which epoch.
struct AskedRow {
  std::string key;
  FencingToken epoch;
};
// "h/a#0@3-17 h/b#0@3-18": one text, since a router names the same rows in one query after the other.
std::string rows_text(const std::vector<AskedRow>& rows);
Result<std::vector<AskedRow>> parse_rows_text(std::string_view text);

struct SearchAsk {
  std::string query;
  // No others are looked into: an empty list is none. Absent: all.
  std::optional<std::vector<std::string>> repos = {};
  // The same by number (see repo_id_of): those of either list.
  std::optional<std::vector<std::uint32_t>> repo_ids = {};
  std::optional<bool> is_archived = {}, is_fork = {}, is_private = {};  // and no others
  std::string rows = {};                                                // of a router to a node
  std::string client = {};  // for whom a router asks: nodes are fair between them
  std::uint64_t files = 50, lines_per_file = 100, files_per_repo = 0;  // 0: no bound of its own
  std::uint64_t matches = 10'000;                                      // examined; 0: all
  int context = 0;
  std::uint64_t line_bytes = 512;  // of a long line, around the match
  std::uint64_t answer_bytes = 2u << 20;
  bool explains = false, collapses = false;
  bool keeps_line_ends = false;
  std::string cursor = {};
  std::chrono::milliseconds timeout = 5s;
  std::chrono::milliseconds wait = 0ms;  // for repositories that are not ready yet
};
inline constexpr std::size_t most_ask_bytes = 1u << 20;
inline constexpr std::size_t most_node_ask_bytes = 16u << 20;  // with a row for each repository

// Errc::invalid: not such a request; says which member is wrong.
Result<SearchAsk> parse_ask(std::string_view json, std::size_t most = most_ask_bytes);
std::string to_json(const SearchAsk& ask);
// "3-17": the epoch and the counter of a token.
std::optional<FencingToken> parse_epoch(std::string_view text);
// A number for programs that want one: a hash of the name, never 0. Two names may share one.
std::uint32_t repo_id_of(std::string_view repo);
// What it means to the engine.
search::SearchTerms terms_of(const SearchAsk& ask, Clock::time_point now);

// A repository of which the answer says nothing, and why.
struct Missing {
  std::string repo;
  // unclaimed, warming, moved, unreachable, timeout, overloaded, unknown
  std::string reason = {};
  std::string phase = {};  // of one that warms up: fetching, reading, …
  std::string detail = {};
  // Of what warms up, as far as its node knows: the part of this phase that is done, 0 to 1, and how
  // long until it answers.
  std::optional<double> progress = {};
  std::optional<std::chrono::milliseconds> eta = {};
  bool operator==(const Missing&) const = default;
};

std::string missing_json(const std::vector<Missing>& missing);
Result<std::vector<Missing>> parse_missing(std::string_view json);

// From a node to a router.
struct Part {
  search::Answer answer;
  std::vector<Missing> missing;
};
std::string to_json(const Part& part);
Result<Part> parse_part(std::string_view json);

// The same as it is found, a line each: files, and last the part, which decides.
std::string found_line(const search::FileMatch& file);
std::string part_line(const Part& part);
struct NodeLine {
  std::optional<search::FileMatch> file = {};
  std::optional<Part> part = {};
};
Result<NodeLine> parse_node_line(std::string_view json);

// For people and their programs.
std::string answer_json(const search::Answer& answer, const std::vector<Missing>& missing,
                        std::chrono::nanoseconds took);
// The same as lines: files as they are found, and last what sums up, with the numbers of those lines
// that are the page, the best first; or an error.
std::string file_line(const search::FileMatch& file);
std::string summary_line(const search::Answer& answer, const std::vector<Missing>& missing,
                         std::chrono::nanoseconds took, const std::vector<std::size_t>& page);
std::string error_line(const Error& error);
// {"error": …, "code": …}, and what is missing, if that is why.
std::string error_json(const Error& error, const std::vector<Missing>& missing = {});
// What such an error says; if it is none, that.
std::string parse_error(std::string_view json);
Result<search::Answer> parse_answer(std::string_view json, std::vector<Missing>& missing);

// From a router that heard of a push: {"rows": [keys]} that may have new commits.
std::string rows_json(const std::vector<std::string>& keys);
Result<std::vector<std::string>> parse_rows(std::string_view json);

}  // namespace warren::fleet
