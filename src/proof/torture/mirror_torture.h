#pragma once
// Mirrors under real faults.
#include "proof/torture/round.h"

namespace warren::torture {

RoundReport torture_mirror(const RoundOptions& options);

}  // namespace warren::torture
