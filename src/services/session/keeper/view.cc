#include "services/session/keeper/view.h"

namespace warren::session {

namespace {

constexpr int many_restarts = 3;

Standing standing_of(const Sandbox& sandbox, bool is_reachable) {
  switch (sandbox.phase) {
    case Phase::starting:
      return Standing::starting;
    case Phase::running:
      return is_reachable ? Standing::running : Standing::starting;
    case Phase::ending:
      return Standing::stopped;
    case Phase::paused:
      return Standing::paused;
    case Phase::ended:
      return sandbox.restarts >= many_restarts ? Standing::crash_looping : Standing::failed;
  }
  std::abort();
}

}  // namespace

View view_of(const Sandbox& sandbox, bool is_reachable) {
  const auto& spec = sandbox.spec;
  return {.session_id = spec.session_id,
          .runtime_id = spec.runtime_id,
          .name = spec.name,
          .image = spec.image,
          .key = spec.key,
          .incarnation = sandbox.incarnation,
          .standing = standing_of(sandbox, is_reachable),
          .reason = sandbox.reason,
          .exit_code = sandbox.exit_code,
          .restarts = sandbox.restarts,
          .containers = sandbox.containers,
          .created_at = sandbox.created_at,
          .started_at = sandbox.started_at,
          .active_at = sandbox.started_at};
}

View view_of(const SandboxSpec& spec, const std::optional<Error>& failure) {
  return {.session_id = spec.session_id,
          .runtime_id = spec.runtime_id,
          .name = spec.name,
          .image = spec.image,
          .key = spec.key,
          .standing = failure ? Standing::failed : Standing::starting,
          .reason = failure ? failure->what : ""};
}

}  // namespace warren::session
