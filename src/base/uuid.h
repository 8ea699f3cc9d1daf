#pragma once
#include <string>
#include <string_view>

namespace warren {

// A random (version 4) UUID from the kernel's generator: 8-4-4-4-12 lowercase hex digits.
std::string uuid4();
bool is_uuid(std::string_view text);

}  // namespace warren
