#pragma once
// A crew: the roles of an instance, what they bid and what they run, as holt.yml says it.
//
//   auto reading = parse_crew(text, "holt.yml", process_environment());
//   for (auto& warning : reading.warnings) …
//       // holt.yml:7: agents.Coder.replicas: has no effect
//   if (!reading.crew) for (auto& error : reading.errors) …
//       // holt.yml:12: agents.Coder.comand: unknown key, did you mean command?
//
// Strict: what is misspelled is not a wish that is silently not granted. All mistakes are told at
// once. docs/crew.md has the keys.
#include <chrono>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "services/board/store/types.h"

namespace warren {

namespace crew {

using board::Words;
using std::chrono::milliseconds;
using Environment = std::map<std::string, std::string>;

// On which artefacts a role bids at all; on others it bids `ignore`.
struct BidFilter {
  Words types = {};  // globs; none: every type
  Words roles = {};  // of who made it; none: everybody but the role itself
  std::vector<board::StructuralType> structural_types = {};  // none: every one
};

enum class WorkspaceMode { read_only, read_write, worktree };

struct HealthCheck {
  Words command = {};
  milliseconds interval{30'000}, timeout{5'000};
};

struct Role {
  std::string name;
  Words command = {};
  std::string image = {};  // empty: the command runs as a process
  std::string build_context = {};
  std::optional<board::BidType> bidding_strategy = {};  // this or a bid script, or both
  Words bid_script = {};
  BidFilter bids_on = {};
  WorkspaceMode workspace = WorkspaceMode::read_only;
  Environment environment = {};  // may hold secrets: not for logs
  // Then command, image, workspace and max_concurrent are those of its workers.
  bool is_controller = false;
  int max_concurrent = 1;
  milliseconds timeout{300'000};     // of the command
  milliseconds bid_timeout{10'000};  // of the bid script
  int retries = 0;                   // of a command that failed
  std::optional<HealthCheck> health_check = {};
};

// Whether the role bids on it.
bool admits(const Role& role, const board::Artefact& artefact);

// 0: no limit.
struct WorkflowLimits {
  int depth = 0, artefacts = 0;
  milliseconds time{0};
};

enum class MissingBids { ignore, wait };  // when the bid timeout has passed

struct OrchestratorTerms {
  int max_review_iterations = 3;  // 0: no limit
  milliseconds bid_timeout{30'000};
  MissingBids missing_bids = MissingBids::ignore;
  WorkflowLimits limits = {};
};

}  // namespace crew

struct Crew {
  std::vector<crew::Role> roles;  // by name
  crew::OrchestratorTerms orchestrator;

  const crew::Role* find(std::string_view role) const;
};

struct CrewReading {
  std::optional<Crew> crew;  // if there is no error
  std::vector<std::string> errors, warnings;
};

// `host` is where $NAME in an environment comes from. No value of an environment is in a message.
CrewReading parse_crew(std::string_view text, const std::string& file_name,
                       const crew::Environment& host);
// The same from a file. Errc::not_found, Errc::invalid: it cannot be read at all.
Result<CrewReading> read_crew(const std::filesystem::path& file, const crew::Environment& host);

}  // namespace warren
