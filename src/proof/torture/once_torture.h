#pragma once
// One round of torture for things that are created once.
#include "proof/torture/round.h"

namespace warren::torture {

RoundReport torture_once(const RoundOptions& options);

}  // namespace warren::torture
