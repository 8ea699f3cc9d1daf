#pragma once
// The wish that a node give its repositories away, kept in the catalog so that it can be made from
// anywhere: a row that is no repository's, which nobody claims.
//
//   drain:n1/8f3a…   {"within_ms":60000,"by":"autoscale"}      removed again: the node claims as before
//
// It names one life of the node. The next one begins without it.
#include <chrono>
#include <optional>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "primitives/catalog/catalog.h"

namespace warren::fleet {

struct DrainRequest {
  std::chrono::milliseconds within = 60s;  // then what is left is released as it is
  std::string by = {};                     // whose wish it is; empty: a person's
};

std::string drain_key(std::string_view session);
// The session of such a key; none: it is the key of something else.
std::optional<std::string_view> session_of_drain(std::string_view key);
Row row_of(std::string_view session, const DrainRequest& request);
// What cannot be read has its default: the wish counts.
DrainRequest parse_drain(std::string_view spec);

}  // namespace warren::fleet
