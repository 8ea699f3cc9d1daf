#pragma once
// Answers: which lines of which files match, the best first, within bounds that hold.
//
//   auto query = parse_query("mutex_lock file:drivers/.*\\.c$ -file:test");
//   auto answer = search(segments, *query, {.deadline = Clock::now() + 500ms});
//
// Every answer says whether it is complete and, if not, why, and how much there may be in all.
//
// It is a function of the query and of each repository alone: which other repositories are searched
// with it, in how many threads or on how many machines, changes nothing in its files, lines, scores
// and order. So a search can be split, and its parts put together again:
//
//   terms.is_part = true;                       each machine: search(its segments, query, terms)
//   merge_answers(parts, query, terms)          what one machine with all segments would say
//
// Only time is not part of that: what a deadline leaves out differs from one run to the next.
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
  RepoSet repos = {};                   // no others are looked into
  std::uint64_t most_matches = 10'000;  // examined, about: see depth.h; 0: all are counted
  std::size_t most_files = 1'000;       // shown
  // Of the files of one repository the best so many are results, on any page. The others are
  // counted all the same.
  std::size_t most_files_per_repo = SIZE_MAX;
  std::size_t lines_per_file = 1'000;  // shown
  std::size_t answer_bytes = 2u << 20;
  std::size_t line_bytes = 512;  // of a long line, around the match
  int context_lines = 0;
  bool keeps_line_ends = false;  // lines, and those around them, as they stand in the file
  int threads = 1;
  bool explains = false;
  bool counts_lines = false;  // FileMatch::line_count instead of its lines
  // Files of the same bytes and the same score are shown once, with the list of the others. (Where
  // one is, say, vendored, it is worth less, and stays where that puts it.)
  bool collapses = false;
  std::string after = {};  // the cursor of the page before
  // Goes on at the same place when texts have changed since that page; otherwise that is refused.
  bool allows_changes = false;
  bool is_part = false;  // the answer is for merge_answers(), and for nobody else
  const std::atomic<bool>* cancelled = nullptr;
};

struct Range {
  std::uint32_t begin = 0, end = 0;  // bytes of the line as shown
};
struct LineMatch {
  std::uint32_t line = 0;    // from 1
  std::uint64_t offset = 0;  // of the text, in the file
  std::string text = {};     // without its line end, unless that was asked for
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
  std::string blob = {};  // the id of its text as the source has it, git's as a rule; may be empty
  std::vector<std::string> branches = {};
  std::vector<Range> path_ranges = {};
  std::vector<LineMatch> lines = {};
  std::uint64_t line_count = 0;  // when that was asked for
  bool is_cut = false;           // more lines than an answer may have
  std::uint64_t match_count = 0;
  double score = 0;
  std::vector<std::string> explanation = {};  // "5500 the definition of it (function)"
  std::vector<FilePlace> same = {};           // others of the same bytes, when they are collapsed
  std::uint64_t depths = 0;                   // of a part: a bit for each depth that shows it
};

struct SearchStats {
  std::uint64_t blocks = 0, candidate_blocks = 0, checked_bytes = 0, keys = 0;
  std::chrono::nanoseconds plan{}, find{}, rank{};
};

// What there is down to one depth.
struct DepthTotals {
  std::uint64_t matches = 0, files = 0, estimated = 0;
  bool is_cut = false;    // some repository may have more
  bool has_more = false;  // files that are not on this page
};

struct Answer {
  // The best first; equal ones by repository and path, by their bytes first when identical ones are
  // collapsed.
  std::vector<FileMatch> files;
  std::uint64_t match_count = 0, file_count = 0;
  bool is_complete = true;
  // "time", "matches", "cancelled", "bytes" (the next page has the rest), "symbols" (there are none
  // yet)
  std::string why_incomplete;
  std::uint64_t estimated_matches = 0;
  std::string next;  // the cursor of the next page; empty: this is the last
  SearchStats stats;
  // Of a part, for merge_answers():
  std::vector<DepthTotals> depths = {};
  std::uint64_t versions = 0;  // of all repositories, as a sum
  // For the person who wrote the query (see ParsedQuery); filled by a router of the fleet.
  std::vector<std::string> notes = {};
};

// Any thread; the segments of a repository stand side by side. Errc::invalid: a regular expression
// that cannot be, or a query that would list everything.
Result<Answer> search(std::span<const std::shared_ptr<const Segment>> segments,
                      const ParsedQuery& query, const SearchTerms& terms);

// Puts the answers to one query together whose terms differ in is_part alone; every repository is in
// one of them. Errc::invalid: the cursor does not fit, as in search().
Result<Answer> merge_answers(std::vector<Answer> parts, const ParsedQuery& query,
                             const SearchTerms& terms);

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
  // Between two calls of run(): files that were found since the last call, the best first, with all
  // that the answer will say of them. For whoever streams results while a long search goes on:
  //
  //   run() -> false     take_found() -> files, each of them once and true
  //   run() -> false     take_found() -> more files, which may be better ones
  //   run() -> true      answer()     -> the page, in order, with totals: it decides
  //
  // A file that was given early is not on the page when better ones fill it, or when it was found
  // beyond the limit of matches. In all they are at most most_files, and about answer_bytes.
  // Identical ones are not collapsed yet, and cursors are heeded.
  std::vector<FileMatch> take_found();
  // Once, when it is done.
  Result<Answer> answer();

 private:
  class Run;
  std::unique_ptr<Run> run_;
};

}  // namespace warren::search
