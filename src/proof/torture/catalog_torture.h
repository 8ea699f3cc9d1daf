#pragma once
// Tortures a catalog on any of its engines with real faults.
#include "proof/torture/catalog_arena.h"
#include "proof/torture/round.h"

namespace warren::torture {

RoundReport torture_catalog(const RoundOptions& options,
                            CatalogEngine engine = CatalogEngine::redis);

}  // namespace warren::torture
