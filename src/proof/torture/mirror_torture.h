#pragma once
// Tortures mirrors with real faults.
#include "proof/torture/round.h"

namespace warren::torture {

RoundReport torture_mirror(const RoundOptions& options);

}  // namespace warren::torture
