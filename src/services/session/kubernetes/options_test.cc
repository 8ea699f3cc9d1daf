// Every option of [sandbox.kubernetes]: its documented default, and what another value changes.
#include "services/session/kubernetes/options.h"

#include <doctest/doctest.h>

#include <set>

#include "services/session/kubernetes/objects.h"
#include "services/session/kubernetes/settings.h"

using namespace warren;
using namespace warren::session;

namespace {

OpenHandsFile parsed(const std::string& text) {
  auto file = OpenHandsFile::parse(text, "config.toml");
  REQUIRE_MESSAGE(file, (file ? "" : file.error().what));
  return *std::move(file);
}

std::string refusal(const std::string& text) {
  auto file = OpenHandsFile::parse(text, "config.toml");
  REQUIRE(!file);
  CHECK(file.error().code == Errc::invalid);
  return file.error().what;
}

// All that an option can change: the objects, and how the service coordinates and keeps things.
std::string all_of(const OpenHandsFile& file) {
  KubernetesTerms terms;
  ServiceSettings settings;
  apply(file, terms, settings);
  SandboxSpec spec{.session_id = "7",
                   .name = "openhands-runtime-7",
                   .runtime_id = "r",
                   .image = terms.image.empty() ? "image" : terms.image,
                   .command = {"run"},
                   .key = "key"};
  Stamp stamp{.token = "t"};
  auto anchor = anchor_object(spec, stamp);
  auto pod = pod_object(spec, anchor, terms);
  REQUIRE_MESSAGE(pod, (pod ? "" : pod.error().what));
  const auto& due = settings.housekeeping.due;
  return fmt::format("{}\n{}\n{}\n{} {} {} {} {} {} {}", json::serialize(*pod),
                     json::serialize(claim_object(spec, stamp, terms)),
                     json::serialize(ingress_object(spec, anchor, terms)),
                     settings.sessions.name_space, settings.sessions.attempts,
                     settings.lock_ttl.count(), due.idle.count(), due.idle_stops,
                     due.keep_paused.count(), file.kubernetes.redis_coordination_enabled);
}

struct Case {
  const char *key, *usual, *other;
};

// As the documents have them; what is empty by default is given as such.
constexpr std::array cases{
    Case{"redis_coordination_enabled", "true", "false"},
    Case{"redis_coordination_timeout", "30", "45"},
    Case{"redis_coordination_retry_attempts", "3", "5"},
    Case{"redis_coordination_keep_pod_alive", "true", "false"},
    Case{"redis_coordination_auto_cleanup", "false", "true"},
    Case{"websocket_disconnect_delay", "3600", "60"},
    Case{"namespace", "'default'", "'agents'"},
    Case{"ingress_domain", "'localhost'", "'example.org'"},
    Case{"ingress_tls_secret", "''", "'tls'"},
    Case{"image_pull_secret", "''", "'registry'"},
    Case{"pvc_storage_size", "'2Gi'", "'5Gi'"},
    Case{"pvc_storage_class", "''", "'fast'"},
    Case{"resource_cpu_request", "'1'", "'500m'"},
    Case{"resource_memory_request", "'1Gi'", "'3Gi'"},
    Case{"resource_memory_limit", "'2Gi'", "'4Gi'"},
    Case{"tolerations_yaml", "''", "'- {key: gpu, operator: Exists, effect: NoSchedule}'"},
    Case{"privileged", "false", "true"},
    Case{"psc_run_as_user", "''", "'1000'"},
    Case{"psc_run_as_group", "''", "1001"},
    Case{"psc_fs_group", "''", "'1002'"},
    Case{"psc_allow_privilege_escalation", "''", "'true'"},
    Case{"working_dir", "'/openhands/code/'", "'/srv'"},
    Case{"annotations", "{}", "{'team' = 'blue'}"},
    Case{"configmap_volumes", "''", "'ca-certs:ca.crt:/etc/ssl/ca.crt:ro'"},
};

std::string with(const std::string& lines) { return "[sandbox.kubernetes]\n" + lines + "\n"; }

}  // namespace

TEST_CASE("every option has its documented default, and another value of it changes something") {
  auto usual = all_of(parsed(""));
  for (const auto& each : cases) {
    INFO(each.key);
    CHECK(all_of(parsed(with(fmt::format("{} = {}", each.key, each.usual)))) == usual);
    CHECK(all_of(parsed(with(fmt::format("{} = {}", each.key, each.other)))) != usual);
    // Later versions of OpenHands have the section at the top.
    CHECK(all_of(parsed(fmt::format("[kubernetes]\n{} = {}\n", each.key, each.other))) != usual);
  }
  // These two mean something together with another.
  auto labelled = [](const char* value) {
    return all_of(
        parsed(with(fmt::format("node_selector_key = 'pool'\nnode_selector_val = '{}'", value))));
  };
  CHECK(labelled("a") != usual);
  CHECK(labelled("a") != labelled("b"));
  CHECK(all_of(parsed(with("pod_cleanup_age_threshold = 60"))) == usual);
  auto cleaned = [](int seconds) {
    return all_of(parsed(with(fmt::format(
        "redis_coordination_auto_cleanup = true\npod_cleanup_age_threshold = {}", seconds))));
  };
  CHECK(cleaned(3600) == all_of(parsed(with("redis_coordination_auto_cleanup = true"))));
  CHECK(cleaned(60) != cleaned(3600));
}

TEST_CASE("each option arrives where it belongs") {
  auto file = parsed(R"(
[core]
runtime = "kubernetes"
workspace_mount_path_in_sandbox = "/work"
max_iterations = 5
[llm]
model = "x"
[sandbox]
runtime_container_image = "ghcr.io/runtime:1"
timeout = 120
[sandbox.kubernetes]
namespace = "agents"
ingress_domain = "example.org"
ingress_tls_secret = "tls"
image_pull_secret = "registry"
pvc_storage_size = "5Gi"
pvc_storage_class = "fast"
resource_cpu_request = "500m"
resource_memory_request = "1Gi"
resource_memory_limit = "2Gi"
node_selector_key = "pool"
node_selector_val = "agents"
tolerations_yaml = """
- key: gpu
  operator: Equal
  value: "yes"
  effect: NoExecute
  tolerationSeconds: 60
"""
psc_run_as_user = "1000"
psc_run_as_group = "1001"
psc_fs_group = "1002"
annotations = { team = "blue" }
configmap_volumes = "ca-certs:ca.crt:/etc/ssl/ca.crt:ro,my-config:/app/config"
)");
  CHECK(file.runtime == "kubernetes");
  KubernetesTerms terms;
  ServiceSettings settings;
  apply(file, terms, settings);
  CHECK(terms.image == "ghcr.io/runtime:1");
  SandboxSpec spec{.session_id = "7", .name = "openhands-runtime-7", .image = terms.image};
  spec.resource_factor = 2;
  Stamp stamp{.token = "t"};
  auto pod = pod_object(spec, anchor_object(spec, stamp), terms);
  REQUIRE(pod);
  auto at = [&](const char* pointer) { return kube::text_at(*pod, pointer); };
  auto number = [&](const char* pointer) { return kube::number_at(*pod, pointer, -1); };
  CHECK(at("/spec/imagePullSecrets/0/name") == "registry");
  CHECK(at("/spec/nodeSelector/pool") == "agents");
  CHECK(at("/spec/tolerations/0/value") == "yes");
  CHECK(number("/spec/tolerations/0/tolerationSeconds") == 60);
  CHECK(number("/spec/securityContext/runAsUser") == 1000);
  CHECK(number("/spec/securityContext/runAsGroup") == 1001);
  CHECK(number("/spec/securityContext/fsGroup") == 1002);
  CHECK(at("/metadata/annotations/team") == "blue");
  CHECK(at("/spec/containers/0/image") == "ghcr.io/runtime:1");
  CHECK(at("/spec/containers/0/workingDir") == "/openhands/code/");
  CHECK(at("/spec/containers/0/volumeMounts/0/mountPath") == "/work");
  CHECK(at("/spec/containers/0/volumeMounts/1/subPath") == "ca.crt");
  CHECK(at("/spec/containers/0/volumeMounts/2/mountPath") == "/app/config");
  CHECK(at("/spec/volumes/2/configMap/name") == "my-config");
  // Twice as much for a request with this factor.
  CHECK(at("/spec/containers/0/resources/requests/cpu") == "1000m");
  CHECK(at("/spec/containers/0/resources/requests/memory") == "2Gi");
  CHECK(at("/spec/containers/0/resources/limits/memory") == "4Gi");
  auto ingress = ingress_object(spec, anchor_object(spec, stamp), terms);
  CHECK(kube::text_at(ingress, "/spec/rules/0/host") == "7.example.org");
  CHECK(kube::text_at(ingress, "/spec/tls/0/secretName") == "tls");
  auto claim = claim_object(spec, stamp, terms);
  CHECK(kube::text_at(claim, "/spec/resources/requests/storage") == "5Gi");
  CHECK(kube::text_at(claim, "/spec/storageClassName") == "fast");
  CHECK(settings.sessions.name_space == "agents");
}

TEST_CASE("what an option cannot be is refused, with its line and what would be right") {
  CHECK(refusal(with("namspace = 'x'")) ==
        "file config.toml:2: there is no option namspace; did you mean namespace?");
  CHECK(refusal(with("namespace = 'A B'")).contains("config.toml:2: namespace: use a name"));
  CHECK(refusal(with("redis_coordination_timeout = 0")).contains("use a whole number from 1"));
  CHECK(refusal(with("privileged = 'perhaps'")).contains("use true or false"));
  CHECK(refusal(with("pvc_storage_size = 'much'")).contains("use a quantity"));
  CHECK(refusal(with("tolerations_yaml = '{a: b}'")).contains("use a list in YAML"));
  CHECK(refusal(with("configmap_volumes = 'name'")).contains("name:path[:mode]"));
  CHECK(refusal(with("annotations = 'x'")).contains("use a table of texts"));
  CHECK(refusal("[sandbox\n").contains("config.toml:1"));
}

TEST_CASE("quantities are multiplied in their own unit") {
  CHECK(*multiplied("500m", 3) == "1500m");
  CHECK(*multiplied("1", 4) == "4");
  CHECK(*multiplied("0.5", 3) == "1.5");
  CHECK(*multiplied("2Gi", 2) == "4Gi");
  for (const auto* wrong : {"", "Gi", "1.2.3", "-1", "1 Gi", "1X", "9999999999"})
    CHECK_MESSAGE(!multiplied(wrong, 1), wrong);
}
