#pragma once
// Examines the files of all repositories, as deep as necessary (see depth.h).
//
//   repository   its files in one order: where the name is defined, then as its segments have them
//   chunk        some adjacent files; one thread works on a chunk at a time
//   round        every repository down to one depth; then there is enough, or the next is deeper
//
// Threads work on different repositories first, and share one when no other is left. They may find
// more than counts. harvest() leaves that out, so the result does not depend on the number of
// threads.
#include <atomic>
#include <cstdint>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "search/query/depth.h"
#include "search/query/evaluate.h"
#include "search/query/search.h"

namespace warren::search {

class Finding {
 public:
  // One plan per segment. Those of a repository are adjacent. All arguments must outlive it.
  Finding(const Plan& plan, std::span<const SegmentPlan> fits, std::uint64_t most_matches,
          int threads, Watch& watch);

  // Returns true when done, false when the slice is over. Examines at least one file.
  bool run(Clock::time_point until);

  struct Harvest {
    std::vector<Hit> hits;            // with their depths; those of a repository are adjacent
    std::vector<DepthTotals> depths;  // all that are known
    int last = 0;                     // the depth that had enough matches
  };
  // Call once, when done.
  Harvest harvest();
  // The hits found since the last call. Call it between two slices.
  std::vector<Hit> take_new();
  std::uint64_t checked_bytes() const { return checked_bytes_; }

 private:
  struct Chunk {
    std::uint32_t segment = 0;
    bool is_first = false;  // its files come from SegmentPlan::first
    std::uint32_t begin = 0, end = 0, next = 0;
    std::uint32_t place = 0;    // of its next file, within its repository
    bool is_done = false;       // under the mutex, as are its matches
    std::uint64_t matches = 0;  // when a thread last left it
    std::vector<Hit> hits = {};
    std::size_t told = 0;  // number of hits that take_new() has returned
  };
  struct Repo {
    std::size_t first = 0, end = 0;      // its chunks
    std::size_t next = 0;                // the first that no thread has started
    std::size_t settled = 0;             // the first that is not done
    std::uint64_t matches = 0;           // in the chunks before `settled`
    std::vector<std::size_t> open = {};  // chunks that a thread left unfinished
    std::uint32_t files = 0;
  };
  struct Claim {
    std::size_t repo = 0, chunk = 0;
    std::uint64_t enough = 0;  // matches in this chunk after which no more are needed
  };

  void add_repo(std::uint32_t first_segment, std::uint32_t end_segment);
  void add_chunks(std::uint32_t segment, bool is_first, std::uint32_t count, std::uint32_t& place);
  bool begin_round();
  std::uint64_t possible_at(int depth) const;
  void work(Clock::time_point until);
  std::optional<Claim> claim(std::size_t last_repo);
  bool try_claim(std::size_t repo, Claim& claim);
  void look(FileSearch& search, const Claim& claim, Clock::time_point until);
  void give_back(const Claim& claim);
  bool is_exhausted(const Repo& repo) const { return repo.settled == repo.end; }
  std::uint64_t matches_of(const Repo& repo) const {
    return repo.matches + (is_exhausted(repo) ? 0 : chunks_[repo.settled].matches);
  }
  bool is_wanted(const Repo& repo) const {
    return !is_exhausted(repo) && matches_of(repo) < depths_.wanted(depth_);
  }
  void count(const Repo& repo, Harvest& harvest);

  const Plan& plan_;
  std::span<const SegmentPlan> fits_;
  Depths depths_;
  int threads_;
  Watch& watch_;
  std::vector<Chunk> chunks_;
  std::vector<Repo> repos_;  // like all that follows, under the mutex while threads work
  std::mutex mutex_;
  int depth_ = -1;  // of this round
  std::vector<std::size_t> todo_;
  std::size_t at_ = 0, join_ = 0;  // in todo_: the next unclaimed one, the next to help with
  std::atomic<std::uint64_t> checked_bytes_ = 0;
};

}  // namespace warren::search
