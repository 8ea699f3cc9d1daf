#include "services/foghorn/federation/proof.h"

#include <fmt/format.h>
#include <openssl/crypto.h>
#include <openssl/rand.h>

#include <array>
#include <charconv>
#include <vector>

#include "base/error.h"
#include "base/hmac.h"

namespace warren::federation {

namespace {

constexpr std::string_view scheme = "warren-proof";
constexpr std::size_t nonce_size = 32, time_size = 16, proof_size = 64;  // in hex
constexpr auto lifetime = 30s;  // of a nonce: the call follows at once

std::string hex(const unsigned char* bytes, std::size_t size) {
  std::string text;
  for (std::size_t i = 0; i < size; ++i) text += fmt::format("{:02x}", bytes[i]);
  return text;
}

bool is_same(std::string_view a, std::string_view b) {
  return a.size() == b.size() && CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

bool is_hex(std::string_view text) {
  return text.find_first_not_of("0123456789abcdef") == text.npos;
}

std::vector<std::string_view> parts_of(std::string_view text, char at) {
  std::vector<std::string_view> parts;
  for (;;) {
    auto end = text.find(at);
    parts.push_back(text.substr(0, end));
    if (end == text.npos) return parts;
    text.remove_prefix(end + 1);
  }
}

}  // namespace

std::string make_nonce() {
  std::array<unsigned char, nonce_size / 2> bytes{};
  ensure(RAND_bytes(bytes.data(), int(bytes.size())) == 1, "the system has random numbers");
  return hex(bytes.data(), bytes.size());
}

// The parts have no line ends: ids and hex.
std::string proof_of(const std::string& token, Role role, const Dialogue& of) {
  return hmac_sha256(token, fmt::format("warren federation 1\n{}\n{}\n{}\n{}\n{}",
                                        role == Role::caller ? "caller" : "callee", of.caller,
                                        of.callee, of.caller_nonce, of.callee_nonce));
}

bool is_proof(const std::string& shown, const std::string& token, Role role,
              const Dialogue& dialogue) {
  return is_same(shown, proof_of(token, role, dialogue));
}

// An id has no colon.
std::string credential_of(const std::string& token, const Dialogue& of) {
  return fmt::format("{}:{}:{}:{}:{}", scheme, of.caller, of.caller_nonce, of.callee_nonce,
                     proof_of(token, Role::caller, of));
}

std::optional<Credential> parse_credential(std::string_view shown) {
  if (shown.size() > 1024) return {};
  auto parts = parts_of(shown, ':');
  if (parts.size() != 5 || parts[0] != scheme) return {};
  Credential found;
  found.dialogue.caller = parts[1];
  found.dialogue.caller_nonce = parts[2];
  found.dialogue.callee_nonce = parts[3];
  found.proof = parts[4];
  return found;
}

Nonces::Nonces() : secret_(make_nonce() + make_nonce()) {}

std::string Nonces::seal(std::string_view text) const {
  return hmac_sha256(secret_, text).substr(0, nonce_size);
}

std::string Nonces::next(Clock::time_point now) const {
  auto text = fmt::format("{:016x}{}", static_cast<std::uint64_t>(now.time_since_epoch().count()),
                          make_nonce());
  return text + seal(text);
}

bool Nonces::use(const std::string& nonce, Clock::time_point now) {
  constexpr auto text_size = time_size + nonce_size;
  if (nonce.size() != text_size + nonce_size || !is_hex(nonce)) return false;
  auto text = std::string_view(nonce).substr(0, text_size);
  if (!is_same(std::string_view(nonce).substr(text_size), seal(text))) return false;
  std::uint64_t ticks = 0;
  std::from_chars(nonce.data(), nonce.data() + time_size, ticks, 16);
  Clock::time_point made{Clock::duration(static_cast<std::int64_t>(ticks))};
  if (now - made > lifetime) return false;
  std::erase_if(used_, [&](const auto& each) { return now - each.second > lifetime; });
  return used_.try_emplace(nonce, made).second;
}

}  // namespace warren::federation
