#pragma once
// Where a tortured catalog is stored: on Redis servers (arena.h), in PostgreSQL or in etcd.
#include <memory>
#include <optional>
#include <string>

#include "proof/torture/arena.h"

namespace warren::torture {

enum class CatalogEngine { redis, postgres, etcd };
std::optional<CatalogEngine> parse_engine(std::string_view name);

// One server, and a link to it for each worker.
class LinkedPlace : public Place {
 public:
  virtual std::string url(std::size_t worker) const = 0;
};

struct LinkedPlaceOptions {
  std::size_t workers = 4;
  std::chrono::milliseconds ttl = 1s;
};
std::unique_ptr<LinkedPlace> make_postgres_place(const LinkedPlaceOptions& options);
std::unique_ptr<LinkedPlace> make_etcd_place(const LinkedPlaceOptions& options);

}  // namespace warren::torture
