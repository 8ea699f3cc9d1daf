#pragma once
// The parts of a board's JSON: written as Go's encoder does, read as its decoder does. That is,
// null or nothing in the place of a list or an object is an empty one, and a wrong type is an
// error.
#include <boost/json/value.hpp>
#include <optional>
#include <string_view>

#include "services/board/store/types.h"

namespace warren::board::parts {

namespace json = boost::json;

// A value, or that it has the wrong type.
template <class T>
using Read = std::optional<T>;

std::optional<json::value> parse(std::string_view text);
std::string serialize(const json::value& value);

inline bool is_nothing(const json::value* value) { return !value || value->is_null(); }
Read<std::string> text(const json::value* value);
Read<std::int64_t> integer(const json::value* value);
Read<bool> boolean(const json::value* value);
Read<Words> words(const json::value* value);
Read<std::optional<PhaseState>> phase_state(const json::value* value);
Read<std::optional<GrantQueueEntry>> grant_queue(const json::value* value);

json::value text_value(std::string_view text);
json::array to_value(const Words& words);
json::object to_value(const PhaseState& state);
json::object to_value(const GrantQueueEntry& entry);

inline std::int64_t milliseconds(UnixTime time) { return time.time_since_epoch().count(); }
inline UnixTime unix_time(std::int64_t ms) { return UnixTime(std::chrono::milliseconds(ms)); }

}  // namespace warren::board::parts
