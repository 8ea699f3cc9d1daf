#pragma once
// A catalog under real faults, on any of its engines.
#include "proof/torture/catalog_arena.h"
#include "proof/torture/round.h"

namespace warren::torture {

RoundReport torture_catalog(const RoundOptions& options,
                            CatalogEngine engine = CatalogEngine::redis);

}  // namespace warren::torture
