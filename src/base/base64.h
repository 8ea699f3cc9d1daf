#pragma once
// Base64 (RFC 4648, with padding): encodes arbitrary bytes as text.
#include <optional>
#include <string>
#include <string_view>

namespace warren {

std::string to_base64(std::string_view bytes);
// Returns nullopt if a character is not a base64 digit. The padding may be missing.
std::optional<std::string> from_base64(std::string_view text);

}  // namespace warren
