#pragma once
#include <string>
#include <string_view>

namespace warren {

// SHA-256, as 64 lower-case hex digits.
std::string sha256(std::string_view text);
// HMAC-SHA256, as 64 lower-case hex digits.
std::string hmac_sha256(std::string_view key, std::string_view text);

}  // namespace warren
