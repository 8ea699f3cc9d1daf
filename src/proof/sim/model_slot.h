#pragma once
// What a server of a cluster may run while its slots move to another one.
//
//   leaving (MIGRATING)     all keys are here: runs it; none: ASK; some: TRYAGAIN
//   arriving (IMPORTING)    not announced with ASKING: MOVED to the other one
//                           announced: runs it; if one of several keys is missing: TRYAGAIN
//
// Both servers run commands without keys. A running script is judged again at each command: one
// that deletes a key and then asks for it fails in the middle.
#include <boost/container/small_vector.hpp>
#include <cstdint>
#include <string_view>

#include "proof/sim/model_command.h"

namespace warren::sim {

using Keys = boost::container::small_vector<std::string_view, 8>;
// The keys that a command names; for SPUBLISH its channel, which is in a slot like a key.
Keys keys_of(Args args);

// Which server a command belongs to.
enum class Place : std::uint8_t { here, other_by_ask, other, both };
Place place_of(Execution& x, Args args, SlotState slots, bool is_asking);

}  // namespace warren::sim
