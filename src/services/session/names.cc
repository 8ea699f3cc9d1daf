#include "services/session/names.h"

#include <algorithm>

#include "base/hmac.h"
#include "base/utf8.h"
#include "base/uuid.h"

namespace warren::session {

namespace {

constexpr std::string_view prefix = "openhands-runtime-";
constexpr std::size_t most_id_bytes = 256;
// A label of DNS has 63 characters, and the longest name derived from a pod's is its "-svc-code".
constexpr std::size_t most_plain = 63 - 9 - prefix.size();
constexpr std::size_t hash_digits = 16;
constexpr std::string_view separator = "---";

bool is_plain(char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9'); }

bool is_legal(std::string_view id) {
  if (id.empty() || id.size() > most_plain || id.contains("--")) return false;
  if (!is_plain(id.front()) || !is_plain(id.back())) return false;
  return std::ranges::all_of(id, [](char c) { return is_plain(c) || c == '-'; });
}

// What is legal of it, with one dash for each run of what is not.
std::string slug_of(std::string_view id) {
  std::string slug;
  for (char c : id) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
    if (is_plain(c))
      slug += c;
    else if (!slug.empty() && slug.back() != '-')
      slug += '-';
    if (slug.size() == most_plain - separator.size() - hash_digits) break;
  }
  while (slug.ends_with('-')) slug.pop_back();
  return slug.empty() ? "x" : slug;
}

}  // namespace

Result<> check_session_id(std::string_view id) {
  if (id.empty()) return fail(Errc::invalid, "session_id is empty: use 1 to 256 bytes of text");
  if (id.size() > most_id_bytes)
    return fail(Errc::invalid, "session_id is {} bytes long: use at most {}", id.size(),
                most_id_bytes);
  bool has_control = std::ranges::any_of(
      id, [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; });
  if (has_control || valid_utf8(id) != id)
    return fail(Errc::invalid, "session_id is not text: use UTF-8 without control characters");
  return ok;
}

std::string name_of(std::string_view session_id) {
  if (is_legal(session_id)) return std::string(prefix).append(session_id);
  auto hash = hmac_sha256("warren session name", session_id).substr(0, hash_digits);
  return std::string(prefix) + slug_of(session_id) + std::string(separator) + hash;
}

std::string runtime_id_of(std::string_view name_space, std::string_view session_id) {
  auto key = "warren runtime " + std::string(name_space);
  return hmac_sha256(key, session_id).substr(0, 32);
}

bool is_runtime_id(std::string_view text) {
  return text.size() == 32 && std::ranges::all_of(text, [](char c) {
           return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
         });
}

std::string new_session_key() { return hmac_sha256(uuid4() + uuid4(), uuid4() + uuid4()); }

std::string resource_of(std::string_view name_space, std::string_view name) {
  return "k8s-pod:" + std::string(name_space) + ":" + std::string(name);
}

}  // namespace warren::session
