#include "services/board/store/json_parts.h"

#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>

#include "base/utf8.h"

namespace warren::board::parts {
namespace {

Read<std::map<std::string, std::string>> text_by_name(const json::value* value) {
  std::map<std::string, std::string> map;
  if (is_nothing(value)) return map;
  if (!value->is_object()) return {};
  for (const auto& [name, each] : value->get_object()) {
    auto read = text(&each);
    if (!read) return {};
    map[std::string(name)] = *std::move(read);
  }
  return map;
}

template <class Map>
json::object to_object(const Map& map, auto spelled) {
  json::object object;
  for (const auto& [name, value] : map) object[valid_utf8(name)] = text_value(spelled(value));
  return object;
}

}  // namespace

std::optional<json::value> parse(std::string_view text) {
  json::parse_options options;
  options.allow_invalid_utf8 = true;
  boost::system::error_code error;
  auto value = json::parse(text, error, {}, options);
  if (error) return {};
  return value;
}

std::string serialize(const json::value& value) { return json::serialize(value); }

Read<std::string> text(const json::value* value) {
  if (is_nothing(value)) return "";
  if (!value->is_string()) return {};
  return std::string(value->get_string());
}

Read<std::int64_t> integer(const json::value* value) {
  if (is_nothing(value)) return 0;
  if (!value->is_int64()) return {};
  return value->get_int64();
}

Read<bool> boolean(const json::value* value) {
  if (is_nothing(value)) return false;
  if (!value->is_bool()) return {};
  return value->get_bool();
}

Read<Words> words(const json::value* value) {
  Words list;
  if (is_nothing(value)) return list;
  if (!value->is_array()) return {};
  for (const auto& each : value->get_array()) {
    auto read = text(&each);
    if (!read) return {};
    list.push_back(*std::move(read));
  }
  return list;
}

Read<std::optional<PhaseState>> phase_state(const json::value* value) {
  if (is_nothing(value)) return std::optional<PhaseState>();
  if (!value->is_object()) return {};
  const auto& object = value->get_object();
  auto current = text(object.if_contains("current"));
  auto phase = current ? parse_phase(*current) : std::nullopt;
  auto granted = words(object.if_contains("granted_agents"));
  auto received = text_by_name(object.if_contains("received"));
  auto bids = text_by_name(object.if_contains("all_bids"));
  auto start = integer(object.if_contains("start_time_ms"));
  if (!phase || !granted || !received || !bids || !start) return {};
  PhaseState state{*phase, *std::move(granted), *std::move(received), {}, unix_time(*start)};
  for (const auto& [role, bid] : *bids)
    state.all_bids[role] = parse_bid_type(bid).value_or(BidType::ignore);
  return std::optional(std::move(state));
}

Read<std::optional<GrantQueueEntry>> grant_queue(const json::value* value) {
  if (is_nothing(value)) return std::optional<GrantQueueEntry>();
  if (!value->is_object()) return {};
  const auto& object = value->get_object();
  auto paused = integer(object.if_contains("paused_at_ms"));
  auto agent = text(object.if_contains("agent_name"));
  auto position = integer(object.if_contains("position"));
  if (!paused || !agent || !position) return {};
  return std::optional(GrantQueueEntry{unix_time(*paused), *std::move(agent), *position});
}

json::value text_value(std::string_view text) { return json::string(valid_utf8(text)); }

json::array to_value(const Words& words) {
  json::array array;
  for (const auto& word : words) array.push_back(text_value(word));
  return array;
}

json::object to_value(const PhaseState& state) {
  json::object object;
  object["current"] = name(state.current);
  object["granted_agents"] = to_value(state.granted_agents);
  object["received"] = to_object(state.received, [](const std::string& id) { return id; });
  object["all_bids"] = to_object(state.all_bids, [](BidType bid) { return name(bid); });
  object["start_time_ms"] = milliseconds(state.start_time);
  return object;
}

json::object to_value(const GrantQueueEntry& entry) {
  json::object object;
  object["paused_at_ms"] = milliseconds(entry.paused_at);
  object["agent_name"] = text_value(entry.agent_name);
  object["position"] = entry.position;
  return object;
}

}  // namespace warren::board::parts
