#pragma once
// Things that are created once in a simulated world: the real script and the machine that Once
// drives, virtual time, and faults from a seed. The same seed gives the same schedule, to the last
// step.
#include <vector>

#include "proof/history/once_checkers.h"
#include "proof/torture/torture.h"

namespace warren::torture {

// Mistakes that tests plant to check that they would be found.
enum class OnceMistake {
  none,
  // In the script.
  takes_from_the_living,
  token_not_raised,  // with a new claim
  unchecked_result,  // of a step that is over
  unchecked_renewal,
  refresh_brings_back,  // what was removed
  keeps_removed_record,
  result_not_recorded,  // says that it is
  // In the machine.
  deadline_from_reply,
  works_past_deadline,
  ignores_refusal,
  never_looks_again,
  // In its user.
  as_if_granted,  // works when Redis does not answer, although it should fail then
};

struct OnceSchedule : Schedule {
  history::OnceJudge::WorkTime work_time;
};
// May be called from any thread.
OnceSchedule simulate_once(std::uint64_t seed, OnceMistake mistake = OnceMistake::none);
// All kinds that Schedule::faults may name.
std::vector<const char*> once_faults();

}  // namespace warren::torture
