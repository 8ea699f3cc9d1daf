#include "base/hmac.h"

#include <fmt/format.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>

#include <array>

#include "base/error.h"

namespace warren {

namespace {

std::string hex_of(const std::array<unsigned char, EVP_MAX_MD_SIZE>& digest, unsigned size) {
  std::string hex;
  for (unsigned i = 0; i < size; ++i) hex += fmt::format("{:02x}", digest[i]);
  return hex;
}

}  // namespace

std::string sha256(std::string_view text) {
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned size = 0;
  int done = EVP_Digest(text.data(), text.size(), digest.data(), &size, EVP_sha256(), nullptr);
  ensure(done == 1 && size == 32, "SHA-256 is available");
  return hex_of(digest, size);
}

std::string hmac_sha256(std::string_view key, std::string_view text) {
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned size = 0;
  const auto* done =
      HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()),
           reinterpret_cast<const unsigned char*>(text.data()), text.size(), digest.data(), &size);
  ensure(done && size == 32, "HMAC-SHA256 is available");
  return hex_of(digest, size);
}

}  // namespace warren
