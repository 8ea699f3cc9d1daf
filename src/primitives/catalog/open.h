#pragma once
// Opens the catalog that a URL names, whichever engine keeps it.
#include <memory>
#include <string>

#include "primitives/catalog/catalog.h"
#include "redis/settings.h"

namespace warren {

struct CatalogPlace {
  // redis://…, rediss://… or unix://…, postgres://… or postgresql://…, etcd://… or etcds://…. If
  // empty: the Redis of `redis`.
  std::string url = {};
  redis::Settings redis = {};
  std::string prefix = "warren:fleet";  // of all its keys; in table names other characters become _
};

// Errc::invalid: the URL. Errc::unavailable, Errc::denied: from PostgreSQL or etcd. Redis is
// contacted only later.
Async<std::unique_ptr<Catalog>> open_catalog(CatalogPlace place, Clock::time_point deadline);

}  // namespace warren
