#pragma once
// Answers: which lines of which files match, the best first, within bounds that hold.
//
//   auto query = parse_query("mutex_lock file:drivers/.*\\.c$ -file:test");
//   auto answer = search(segments, *query, {.deadline = Clock::now() + 500ms});
//
// Every answer says whether it is complete and, if not, why, and how much there may be in all.
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

namespace warren::search {

struct SearchTerms {
  Clock::time_point deadline = Clock::time_point::max();
  std::uint64_t most_matches = 10'000;  // examined; 0: all are counted
  std::size_t most_files = 1'000;       // shown
  std::size_t lines_per_file = 1'000;   // shown
  std::size_t answer_bytes = 2u << 20;
  std::size_t line_bytes = 512;  // of a long line, around the match
  int context_lines = 0;
  int threads = 1;
  bool explains = false;
  bool counts_lines = false;  // FileMatch::line_count instead of its lines
  std::string after = {};     // the cursor of the page before
  const std::atomic<bool>* cancelled = nullptr;
};

struct Range {
  std::uint32_t begin = 0, end = 0;  // bytes of the line as shown
};
struct LineMatch {
  std::uint32_t line = 0;  // from 1
  std::string text = {};   // without its line end
  bool is_cut = false;     // the line is longer than this
  std::vector<Range> ranges = {};
  std::vector<std::string> before = {}, after = {};
};
struct FileMatch {
  std::string repo = {}, path = {}, language = {};
  std::vector<std::string> branches = {};
  std::vector<Range> path_ranges = {};
  std::vector<LineMatch> lines = {};
  std::uint64_t line_count = 0;  // when that was asked for
  bool is_cut = false;           // more lines than an answer may have
  std::uint64_t match_count = 0;
  double score = 0;
  std::vector<std::string> explanation = {};  // "5500 the definition of it (function)"
};

struct SearchStats {
  std::uint64_t blocks = 0, candidate_blocks = 0, checked_bytes = 0, keys = 0;
  std::chrono::nanoseconds plan{}, find{}, rank{};
};

struct Answer {
  std::vector<FileMatch> files;  // the best first; equal ones by repository, path
  std::uint64_t match_count = 0, file_count = 0;
  bool is_complete = true;
  // "time", "matches", "cancelled", "bytes" (the next page has the rest), "symbols" (there are none
  // yet)
  std::string why_incomplete;
  std::uint64_t estimated_matches = 0;
  std::string next;  // the cursor of the next page; empty: this is the last
  SearchStats stats;
};

// Any thread. Errc::invalid: a regular expression that cannot be, or a query that would list
// everything.
Result<Answer> search(std::span<const std::shared_ptr<const Segment>> segments,
                      const ParsedQuery& query, const SearchTerms& terms);

// The same in slices, so that others may come in between (see lanes.h).
class Search {
 public:
  // The query stays alive meanwhile.
  Search(std::vector<std::shared_ptr<const Segment>> segments, const ParsedQuery& query,
         SearchTerms terms);
  ~Search();
  Search(const Search&) = delete;
  Search& operator=(const Search&) = delete;

  // True: done. False: the slice is over, and some files are still to be looked at: call it again,
  // in whatever thread. A deadline counts the time between two calls as well.
  bool run(Clock::time_point until);
  // Once, when it is done.
  Result<Answer> answer();

 private:
  class Run;
  std::unique_ptr<Run> run_;
};

}  // namespace warren::search
