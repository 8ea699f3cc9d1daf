#pragma once
// Base64 (RFC 4648, with padding): bytes in texts that are no bytes.
#include <optional>
#include <string>
#include <string_view>

namespace warren {

std::string to_base64(std::string_view bytes);
// None: a character that is no digit. The padding may be missing.
std::optional<std::string> from_base64(std::string_view text);

}  // namespace warren
