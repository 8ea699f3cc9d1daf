#pragma once
// A SandboxSpec as it is written down beside its sandbox. It holds a key: for its owner alone.
#include <boost/json.hpp>

#include "services/session/drivers/driver.h"

namespace warren::session {

namespace json = boost::json;

json::object to_json(const SandboxSpec& spec);
// Errc::protocol: what is wrong with it.
Result<SandboxSpec> spec_from(const json::value& value);

// Errc::protocol: this is no JSON, or nested too deep for anything that is said here.
Result<json::value> parse_json(std::string_view text);
// Empty or absent where there is none of that kind.
std::string text_in(const json::object& object, std::string_view name);
std::optional<std::int64_t> number_in(const json::object& object, std::string_view name);

}  // namespace warren::session
