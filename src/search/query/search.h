#pragma once
// Answers a query: which lines of which files match, the best first, within guaranteed limits.
//
//   auto query = parse_query("mutex_lock file:drivers/.*\\.c$ -file:test");
//   auto answer = search(segments, *query, {.deadline = Clock::now() + 500ms});
//
// Every answer says whether it is complete. If it is not, it says why, and estimates the total.
//
// The answer depends only on the query and on each repository itself. Which other repositories are
// searched with it, in how many threads or on how many machines, does not change its files, lines,
// scores or order. So a search can be split, and its parts can be merged again:
//
//   terms.is_part = true;                       each machine: search(its segments, query, terms)
//   merge_answers(parts, query, terms)          what one machine with all segments would say
//
// Time is the only exception: what a deadline cuts off differs from one run to the next.
#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/error.h"
#include "search/index/segment.h"
#include "search/query/query.h"
#include "search/query/repo_set.h"

namespace warren::search {

struct SearchTerms {
  Clock::time_point deadline = Clock::time_point::max();
  RepoSet repos = {};                   // only these are searched
  std::uint64_t most_matches = 10'000;  // examined, approximately: see depth.h; 0 counts all
  std::size_t most_files = 1'000;       // shown
  // Only this many files of one repository, the best ones, are results, on any page. The others are
  // still counted.
  std::size_t most_files_per_repo = SIZE_MAX;
  std::size_t lines_per_file = 1'000;  // shown
  std::size_t answer_bytes = 2u << 20;
  std::size_t line_bytes = 512;  // of a long line, around the match
  int context_lines = 0;
  bool keeps_line_ends = false;  // returns lines and context exactly as in the file
  int threads = 1;
  bool explains = false;
  bool counts_lines = false;  // FileMatch::line_count instead of its lines
  // Files with the same contents and the same score are shown once, with a list of the others. (A
  // vendored copy, say, has a lower score, and keeps its own place.)
  bool collapses = false;
  std::string after = {};  // the cursor of the previous page
  // If texts have changed since the previous page, continues at the same place instead of failing.
  bool allows_changes = false;
  bool is_part = false;  // the answer is only for merge_answers()
  const std::atomic<bool>* cancelled = nullptr;
};

struct Range {
  std::uint32_t begin = 0, end = 0;  // bytes of the line as shown
};
struct LineMatch {
  std::uint32_t line = 0;    // counted from 1
  std::uint64_t offset = 0;  // of the text, in the file
  std::string text = {};     // without its line end, unless that was requested
  bool is_cut = false;       // the line is longer than this
  std::vector<Range> ranges = {};
  std::vector<std::string> before = {}, after = {};
};
struct FilePlace {
  std::string repo = {}, path = {};
  auto operator<=>(const FilePlace&) const = default;
};
struct FileMatch {
  std::string repo = {}, path = {}, language = {};
  std::string blob = {};  // id of its text in its source, usually git's; may be empty
  std::vector<std::string> branches = {};
  std::vector<Range> path_ranges = {};
  std::vector<LineMatch> lines = {};
  std::uint64_t line_count = 0;  // only if requested
  bool is_cut = false;           // it has more lines than an answer may have
  std::uint64_t match_count = 0;
  double score = 0;
  std::vector<std::string> explanation = {};  // "5500 the definition of it (function)"
  std::vector<FilePlace> same = {};           // identical files, if they are collapsed
  std::uint64_t depths = 0;                   // in a part: one bit for each depth that shows it
};

struct SearchStats {
  std::uint64_t blocks = 0, candidate_blocks = 0, checked_bytes = 0, keys = 0;
  std::chrono::nanoseconds plan{}, find{}, rank{};
};

// Totals down to one depth.
struct DepthTotals {
  std::uint64_t matches = 0, files = 0, estimated = 0;
  bool is_cut = false;    // some repository may have more
  bool has_more = false;  // there are files after this page
};

struct Answer {
  // The best first. Equal scores are ordered by repository and path, or first by contents if
  // identical files are collapsed.
  std::vector<FileMatch> files;
  std::uint64_t match_count = 0, file_count = 0;
  bool is_complete = true;
  // "time", "matches", "cancelled", "bytes" (the next page has the rest), "symbols" (not available
  // yet)
  std::string why_incomplete;
  std::uint64_t estimated_matches = 0;
  std::string next;  // the cursor of the next page; empty on the last one
  SearchStats stats;
  // In a part, for merge_answers():
  std::vector<DepthTotals> depths = {};
  std::uint64_t versions = 0;  // the sum over all repositories
  // For the person who wrote the query (see ParsedQuery); filled by a router of the fleet.
  std::vector<std::string> notes = {};
};

// Any thread may call it. The segments of a repository must be adjacent. Errc::invalid: an invalid
// regular expression, or a query that would list everything.
Result<Answer> search(std::span<const std::shared_ptr<const Segment>> segments,
                      const ParsedQuery& query, const SearchTerms& terms);

// Merges answers to one query whose terms differed only in is_part. Every repository must be in one
// of them. Errc::invalid: the cursor does not fit, as in search().
Result<Answer> merge_answers(std::vector<Answer> parts, const ParsedQuery& query,
                             const SearchTerms& terms);

// Runs a search in slices, so that others can run in between (see lanes.h).
class Search {
 public:
  // The query must outlive it.
  Search(std::vector<std::shared_ptr<const Segment>> segments, const ParsedQuery& query,
         SearchTerms terms);
  ~Search();
  Search(const Search&) = delete;
  Search& operator=(const Search&) = delete;

  // Returns true when done. If it returns false, the slice is over, and some files are left: call
  // it again, in any thread. The time between two calls counts towards a deadline.
  bool run(Clock::time_point until);
  // Call it between two calls of run(): returns the files found since the last call, the best
  // first, with everything that the answer will say about them. For streaming results during a long
  // search:
  //
  //   run() -> false     take_found() -> files, each of them once and correct
  //   run() -> false     take_found() -> more files, which may be better ones
  //   run() -> true      answer()     -> the page, in order, with totals: it decides
  //
  // A file that was returned early is missing from the page if better ones fill it, or if it was
  // found beyond the limit of matches. In total there are at most most_files, and about
  // answer_bytes. Identical files are not collapsed yet. Cursors are applied.
  std::vector<FileMatch> take_found();
  // Call once, when done.
  Result<Answer> answer();

 private:
  class Run;
  std::unique_ptr<Run> run_;
};

}  // namespace warren::search
