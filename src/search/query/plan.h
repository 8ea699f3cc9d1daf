#pragma once
// A query prepared for execution: its patterns are compiled, then it is fitted to one segment.
// There, whole parts of it may drop out (another repository, no such branch), and the index says
// where to look.
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "search/index/segment.h"
#include "search/query/candidates.h"
#include "search/query/definitions.h"
#include "search/query/matcher.h"
#include "search/query/query.h"

namespace warren::search {

struct Atom {
  Pattern pattern;
  std::shared_ptr<const Matcher> matcher;
  bool is_shown = true;        // false below a "-"; otherwise its matches are results
  bool is_identifier = false;  // a name that may be defined somewhere

  bool looks_at_content() const {
    return pattern.field == Field::any || pattern.field == Field::content;
  }
  bool looks_at_path() const { return pattern.field == Field::any || pattern.field == Field::path; }
};

struct PlanNode {
  enum class Kind : std::uint8_t { yes, no, atom, repo, language, branch, both, either, neither };
  Kind kind = Kind::yes;
  std::size_t atom = 0;
  std::string word = {};  // for language, branch
  std::shared_ptr<const Matcher> repo = {};
  std::vector<std::uint16_t> branches = {};  // for branch, within a segment
  std::vector<PlanNode> parts = {};
};

struct Plan {
  PlanNode root;
  std::vector<Atom> atoms;
  std::string below = {};  // the prefix of all wanted paths
};
// Errc::invalid: an invalid pattern, or a query that would list everything.
Result<Plan> plan_query(const ParsedQuery& query, MatcherCache& cache);

struct AtomPlan {
  Places blocks;  // whose text may have it; nullopt: search every block of a file
  std::vector<std::uint32_t> paths;     // files whose path has it
  std::vector<Definition> definitions;  // by file
};

struct SegmentPlan {
  std::shared_ptr<const Segment> segment;
  PlanNode root;
  std::vector<AtomPlan> atoms;
  std::vector<std::uint32_t> first;  // files with definitions, to be examined before all others
  Places files;                      // files that may match; nullopt for all
  std::uint64_t candidate_blocks = 0, keys = 0;
  bool lacks_symbols = false;

  std::uint32_t count() const {
    return files ? static_cast<std::uint32_t>(files->size()) : segment->file_count();
  }
  std::uint32_t file_at(std::uint32_t place) const { return files ? (*files)[place] : place; }
};
// If the watch ends it, the plan is meaningless.
SegmentPlan plan_segment(const Plan& plan, std::shared_ptr<const Segment> segment, Watch& watch);

}  // namespace warren::search
