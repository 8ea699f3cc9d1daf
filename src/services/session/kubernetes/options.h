#pragma once
// What an OpenHands config.toml says of sandboxes in a cluster: the section [sandbox.kubernetes], or
// [kubernetes] as later versions have it, with the names and the defaults of OpenHands' documents.
//
//   auto file = OpenHandsFile::read("config.toml");
//   if (file->runtime == "kubernetes") use(file->kubernetes);
//
// Both sections refuse a key that nobody knows. All other sections are OpenHands' own: of those only
// what is named below is read.
#include <chrono>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/error.h"

namespace warren::session {

// A ConfigMap, or one key of it, as a file or a folder in the sandbox.
struct MountedMap {
  std::string name = {}, key = {}, path = {};
  bool is_read_only = false;

  bool operator==(const MountedMap&) const = default;
};
// "name:path[:mode]" and "name:key:path[:mode]", with commas between them.
Result<std::vector<MountedMap>> mounted_maps_from(std::string_view text);

// Pods with these may run on nodes with such taints.
struct Toleration {
  std::string key = {}, op = {}, value = {}, effect = {};
  std::optional<long long> seconds = {};

  bool operator==(const Toleration&) const = default;
};
Result<std::vector<Toleration>> tolerations_from(std::string_view yaml);

// Members are called as the keys are.
struct KubernetesOptions {
  bool redis_coordination_enabled = true;
  std::chrono::seconds redis_coordination_timeout = 30s;
  int redis_coordination_retry_attempts = 3;
  bool redis_coordination_keep_pod_alive = true;
  bool redis_coordination_auto_cleanup = false;
  std::chrono::seconds pod_cleanup_age_threshold = 3600s;
  std::chrono::seconds websocket_disconnect_delay = 3600s;

  std::string name_space = "default";
  std::string ingress_domain = "localhost", ingress_tls_secret = {};
  std::string image_pull_secret = {};
  std::string pvc_storage_size = "2Gi", pvc_storage_class = {};
  std::string resource_cpu_request = "1";
  std::string resource_memory_request = "1Gi", resource_memory_limit = "2Gi";
  std::string node_selector_key = {}, node_selector_val = {};
  std::vector<Toleration> tolerations = {};  // tolerations_yaml
  bool privileged = false;
  std::optional<long long> psc_run_as_user = {}, psc_run_as_group = {}, psc_fs_group = {};
  std::optional<bool> psc_allow_privilege_escalation = {};
  std::string working_dir = "/openhands/code/";
  std::map<std::string, std::string> annotations = {};
  std::vector<MountedMap> configmap_volumes = {};
};

struct OpenHandsFile {
  KubernetesOptions kubernetes = {};
  std::string runtime = {};              // [core] runtime
  std::string image = {};                // [sandbox] runtime_container_image
  std::string workspace = "/workspace";  // [core] workspace_mount_path_in_sandbox

  // Errc::invalid with file, line and what would be right.
  static Result<OpenHandsFile> read(const std::filesystem::path& path);
  static Result<OpenHandsFile> parse(std::string_view text, const std::string& path);
};

// "500m", "1.5", "2Gi", "1e3": so many times as much. Errc::invalid: this is no quantity.
Result<std::string> multiplied(std::string_view quantity, int factor);

}  // namespace warren::session
