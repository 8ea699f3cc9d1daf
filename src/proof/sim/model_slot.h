#pragma once
// What a server of a cluster may run while its slots move to another one.
//
//   leaving (MIGRATING)     all keys are here: runs it; none: ASK; some: TRYAGAIN
//   arriving (IMPORTING)    not announced with ASKING: MOVED to the other one
//                           announced: runs it, unless it names several keys and lacks one: TRYAGAIN
//
// Commands without keys are run by both. A script that is run is judged again at each command: one
// that deletes a key and then asks for it fails in the middle.
#include <boost/container/small_vector.hpp>
#include <cstdint>
#include <string_view>

#include "proof/sim/model_command.h"

namespace warren::sim {

using Keys = boost::container::small_vector<std::string_view, 8>;
// That a command names; of SPUBLISH its channel, which is in a slot as a key is.
Keys keys_of(Args args);

// Where a command belongs.
enum class Place : std::uint8_t { here, other_by_ask, other, both };
Place place_of(Execution& x, Args args, SlotState slots, bool is_asking);

}  // namespace warren::sim
