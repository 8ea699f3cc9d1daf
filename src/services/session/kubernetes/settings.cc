#include "services/session/kubernetes/settings.h"

#include <fstream>
#include <iterator>

namespace warren::session {

void apply(const OpenHandsFile& file, KubernetesTerms& terms, ServiceSettings& settings) {
  const auto& options = file.kubernetes;
  terms.options = options;
  terms.image = file.image;
  terms.workspace = file.workspace;
  settings.sessions.name_space = options.name_space;
  settings.sessions.attempts = options.redis_coordination_retry_attempts;
  settings.lock_ttl = options.redis_coordination_timeout;
  auto& due = settings.housekeeping.due;
  due.idle = options.websocket_disconnect_delay;
  due.idle_stops = !options.redis_coordination_keep_pod_alive;
  if (options.redis_coordination_auto_cleanup) due.keep_paused = options.pod_cleanup_age_threshold;
}

Result<json::value> pod_template_from(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  if (!in) return fail(Errc::invalid, "{}: it cannot be read", file.string());
  std::string text(std::istreambuf_iterator<char>(in), {});
  auto object = kube::parse_object(text);
  if (!object)
    return fail(Errc::invalid, "{}: {}; use a pod as JSON, or what is to be laid over one",
                file.string(), object.error().what);
  return *std::move(object);
}

}  // namespace warren::session
