#pragma once
#include <string>
#include <string_view>

namespace warren {

// HMAC-SHA256, as 64 lowercase hex digits.
std::string hmac_sha256(std::string_view key, std::string_view text);

}  // namespace warren
