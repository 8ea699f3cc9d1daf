#include "services/fleet/plan/drain_request.h"

#include <algorithm>
#include <boost/json.hpp>

namespace warren::fleet {

namespace {

constexpr std::string_view drain_prefix = "drain:";
// Behind every repository on offer, so that it takes the place of none.
constexpr std::int64_t last_rank = -1'000'000'000'000'000;

}  // namespace

std::string drain_key(std::string_view session) {
  return std::string(drain_prefix).append(session);
}

std::optional<std::string_view> session_of_drain(std::string_view key) {
  // A repository may be called so, too, and has a number at its end: "drain:host/a#0".
  auto slash = key.rfind('/');
  if (!key.starts_with(drain_prefix) || slash == key.npos) return std::nullopt;
  if (key.find('#', slash) != key.npos) return std::nullopt;
  return key.substr(drain_prefix.size());
}

Row row_of(std::string_view session, const DrainRequest& request) {
  Row row{.key = drain_key(session), .rank = last_rank};
  boost::json::object spec{{"within_ms", request.within.count()}};
  if (!request.by.empty()) spec["by"] = request.by;
  row.spec = boost::json::serialize(spec);
  return row;
}

DrainRequest parse_drain(std::string_view spec) {
  DrainRequest request;
  boost::system::error_code error;
  auto value = boost::json::parse(spec, error);
  if (error || !value.is_object()) return request;
  if (const auto* by = value.get_object().if_contains("by"); by && by->is_string())
    request.by = by->get_string();
  const auto* within = value.get_object().if_contains("within_ms");
  if (!within) return request;
  auto count = within->to_number<std::int64_t>(error);
  constexpr std::chrono::milliseconds most = 24h;
  if (!error) request.within = std::clamp(std::chrono::milliseconds(count), 0ms, most);
  return request;
}

}  // namespace warren::fleet
