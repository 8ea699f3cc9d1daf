#pragma once
// What clients of the remote runtime API send.
#include <string_view>

#include "services/session/drivers/driver.h"

namespace warren::session {

inline constexpr std::size_t most_body = 1u << 20;

// The body of POST /start, as any generation of clients has it. What is of no kind that we know is an
// error that names the member; members that we do not know are left alone. Name and runtime id are
// those of the namespace. Errc::invalid.
Result<SandboxSpec> start_from(std::string_view body, std::string_view name_space);
// {"runtime_id": "…"} of /stop, /pause and /resume.
Result<std::string> runtime_id_from(std::string_view body);
// {"session_id": "…"} of /force-release.
Result<std::string> session_id_from(std::string_view body);
// {"sandboxes": {runtime_id: {"session_id", "conversation_ids": []}}}: the ids asked for, of each.
Result<std::map<std::string, std::vector<std::string>>> conversations_from(std::string_view body);

}  // namespace warren::session
