#include "base/uuid.h"

#include <fmt/format.h>
#include <sys/random.h>

#include <array>
#include <cstdint>
#include <span>

#include "base/error.h"

namespace warren {

std::string uuid4() {
  std::array<std::uint8_t, 16> bytes;
  ensure(getrandom(bytes.data(), bytes.size(), 0) == ssize_t(bytes.size()),
         "the kernel has random bytes");
  bytes[6] = (bytes[6] & 0x0f) | 0x40;
  bytes[8] = (bytes[8] & 0x3f) | 0x80;
  std::string text;
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    text += fmt::format("{:02x}", bytes[i]);
  }
  return text;
}

bool is_uuid(std::string_view text) {
  if (text.size() != 36) return false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    bool dash = i == 8 || i == 13 || i == 18 || i == 23;
    bool hex = (text[i] >= '0' && text[i] <= '9') || (text[i] >= 'a' && text[i] <= 'f') ||
               (text[i] >= 'A' && text[i] <= 'F');
    if (dash ? text[i] != '-' : !hex) return false;
  }
  return true;
}

}  // namespace warren
