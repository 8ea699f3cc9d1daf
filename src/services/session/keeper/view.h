#pragma once
// A session as clients are to see it: what its driver knows, and whether it can be reached.
#include "services/session/drivers/driver.h"

namespace warren::session {

enum class Standing { starting, running, paused, stopped, failed, crash_looping };

struct View {
  std::string session_id = {}, runtime_id = {}, name = {}, image = {}, key = {}, incarnation = {};
  Standing standing = Standing::stopped;
  std::string reason = {};
  std::optional<int> exit_code = {};
  int restarts = 0;
  std::string log = {};  // its end, of a session that starts or failed
  std::vector<ContainerState> containers = {};
  std::vector<SandboxEvent> events = {};
  WallClock::time_point created_at = {}, started_at = {}, active_at = {};
};

// Running is said only of what can be reached.
View view_of(const Sandbox& sandbox, bool is_reachable);
// Of one that is being made, or could not be.
View view_of(const SandboxSpec& spec, const std::optional<Error>& failure);

}  // namespace warren::session
