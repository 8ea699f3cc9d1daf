#pragma once
// Tortures leases with real faults.
#include "proof/torture/round.h"

namespace warren::torture {

RoundReport torture_lease(const RoundOptions& options);

}  // namespace warren::torture
