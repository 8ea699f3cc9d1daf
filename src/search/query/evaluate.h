#pragma once
// Examines files: whether the query holds there, how many matches they have, and how good they are.
#include <cstdint>
#include <vector>

#include "search/query/plan.h"
#include "search/query/rank.h"
#include "search/query/watch.h"

namespace warren::search {

// A file in which the query holds.
struct Hit {
  std::uint32_t segment = 0, file = 0;
  std::uint64_t matches = 0;
  double score = 0;
  std::uint32_t place = 0;  // among the files of its repository, in search order
  std::uint8_t depth = 0;   // the first depth at which it counts: see depth.h
};

// Searches one segment, for one thread.
class FileSearch {
 public:
  // `counts_only`: no spans are needed, so literals are only counted.
  FileSearch(const Plan& plan, const SegmentPlan& fit, Watch& watch, bool counts_only = false);

  // Returns false if the query does not hold there, or if the watch is over, which leaves it
  // undecided.
  bool look(std::uint32_t file, Hit& hit);

  std::vector<Span> path_spans(std::string_view path);  // sorted; for any path
  // About the file examined last.
  std::vector<Span> content_spans() const;  // sorted; bytes of the file
  void explain(std::uint32_t file, const Hit& hit, std::vector<std::string>& why);

  std::uint64_t checked_bytes() const { return checked_bytes_; }
  std::uint64_t checked_blocks() const { return checked_blocks_; }

 private:
  struct State {
    std::uint32_t file = UINT32_MAX;  // the file that the following is about
    bool holds = false;
    bool is_in_path = false;
    Signal signal;
    std::uint64_t matches = 0;
    std::vector<Span> spans;  // empty if matches were only counted
    std::size_t cursor = 0;   // in AtomPlan::blocks
  };

  bool holds(const PlanNode& node, std::uint32_t file);
  bool atom_holds(std::size_t atom, std::uint32_t file);
  void look_at_blocks(std::size_t atom, std::uint32_t file);
  void look_at_text(std::size_t atom, std::uint32_t file);
  void look_at_definitions(std::size_t atom, std::uint32_t file);
  std::uint32_t run_end(const AtomPlan& fit, State& state, std::uint32_t block, std::uint32_t end);
  std::string_view run_text(std::uint32_t first, std::uint32_t last) const;
  bool look_at_run(std::size_t atom, std::uint32_t first, std::uint32_t last, std::uint64_t base);
  void count(const Literal& literal, std::string_view text, State& state);
  void take_spans(std::size_t atom, std::string_view text, std::size_t from, std::uint64_t base);
  bool tick(std::uint32_t blocks);
  void gather(const PlanNode& node, std::uint32_t file);
  const std::vector<Signal>& signals(std::uint32_t file);

  const Plan& plan_;
  const SegmentPlan& fit_;
  const Segment& segment_;
  Watch& watch_;
  bool counts_only_;
  std::vector<Finder> finders_;
  std::vector<State> states_;
  std::vector<std::size_t> found_;  // atoms to show for the file
  std::vector<Signal> signals_;     // of those atoms, for score_of
  std::size_t asked_ = 0;
  std::uint32_t until_clock_ = 0;
  bool is_over_ = false;
  std::uint64_t checked_bytes_ = 0, checked_blocks_ = 0;
};

}  // namespace warren::search
