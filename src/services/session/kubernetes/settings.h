#pragma once
// What an OpenHands config.toml says of the service as a whole: how replicas coordinate, and how long
// what nobody uses is kept.
#include "services/session/kubernetes/objects.h"
#include "services/session/serve/service.h"

namespace warren::session {

void apply(const OpenHandsFile& file, KubernetesTerms& terms, ServiceSettings& settings);

// A JSON object from a file, for --pod-template. Errc::invalid, with its name.
Result<json::value> pod_template_from(const std::filesystem::path& file);

}  // namespace warren::session
