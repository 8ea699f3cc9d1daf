#pragma once
// A query made ready: patterns compiled, then fitted to one segment, where whole parts of it fall
// away (another repository, no such branch) and the index says where to look.
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
  bool is_shown = true;        // not below a "-": its matches are results
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
  std::string word = {};  // of language, branch
  std::shared_ptr<const Matcher> repo = {};
  std::vector<std::uint16_t> branches = {};  // of branch, in a segment
  std::vector<PlanNode> parts = {};
};

struct Plan {
  PlanNode root;
  std::vector<Atom> atoms;
  std::string below = {};  // the begin of all paths that are asked for
};
// Errc::invalid: a pattern that cannot be, or a query that would list everything.
Result<Plan> plan_query(const ParsedQuery& query, MatcherCache& cache);

struct AtomPlan {
  Places blocks;  // that may have it in their text; nothing: look at every block of a file
  std::vector<std::uint32_t> paths;     // files whose path has it
  std::vector<Definition> definitions;  // by file
};

struct SegmentPlan {
  std::shared_ptr<const Segment> segment;
  PlanNode root;
  std::vector<AtomPlan> atoms;
  std::vector<std::uint32_t> first;  // files to look at before all others: definitions
  Places files;                      // that may match; nothing: all
  std::uint64_t candidate_blocks = 0, keys = 0;
  bool lacks_symbols = false;

  std::uint32_t count() const {
    return files ? static_cast<std::uint32_t>(files->size()) : segment->file_count();
  }
  std::uint32_t file_at(std::uint32_t place) const { return files ? (*files)[place] : place; }
};
// When the watch is over meanwhile, the plan says nothing.
SegmentPlan plan_segment(const Plan& plan, std::shared_ptr<const Segment> segment, Watch& watch);

}  // namespace warren::search
