#pragma once
// What a session is called, by whom, and what may be made of that.
//
//   session id   whatever a client calls it: capitals, unicode, "../", up to 256 bytes
//   name         what a driver calls its sandbox: legal for a pod, its services and a folder
//   runtime id   what clients call the sandbox, and the first part of its path behind the proxy
//
// Both are functions of the session id alone, so every replica gives the same, and a request that is
// repeated after its answer was lost means the same sandbox.
#include <string>
#include <string_view>

#include "base/error.h"

namespace warren::session {

// 1 to 256 bytes of UTF-8 without control characters.
Result<> check_session_id(std::string_view id);

// openhands-runtime-<id> where that is legal for a pod and for the longest name that is derived from
// it. Otherwise what is legal of it and 16 digits of its hash: two ids that differ only in what is
// illegal, such as case, stay two. No id passes for the shortened form of another.
std::string name_of(std::string_view session_id);

// 32 hex digits. Sessions of two namespaces have nothing in common.
std::string runtime_id_of(std::string_view name_space, std::string_view session_id);
bool is_runtime_id(std::string_view text);

// 64 hex digits from the kernel's generator.
std::string new_session_key();

// All keys of sessions in Redis begin so.
inline constexpr std::string_view key_prefix = "openhands:";
// <key> of openhands:lock:<key> and openhands:resource:<key>.
std::string resource_of(std::string_view name_space, std::string_view name);

}  // namespace warren::session
