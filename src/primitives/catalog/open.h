#pragma once
// The catalog that a URL names, whichever engine keeps it.
#include <memory>
#include <string>

#include "primitives/catalog/catalog.h"
#include "redis/settings.h"

namespace warren {

struct CatalogPlace {
  // redis://…, rediss://… or unix://…, postgres://… or postgresql://…, etcd://… or etcds://…; empty:
  // the Redis of `redis`.
  std::string url = {};
  redis::Settings redis = {};
  std::string prefix = "warren:fleet";  // of all that it keeps; of tables with _ for other signs
};

// Errc::invalid: the URL. Errc::unavailable, denied: PostgreSQL or etcd; Redis is asked later.
Async<std::unique_ptr<Catalog>> open_catalog(CatalogPlace place, Clock::time_point deadline);

}  // namespace warren
