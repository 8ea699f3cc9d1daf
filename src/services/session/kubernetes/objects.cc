#include "services/session/kubernetes/objects.h"

#include <time.h>

#include <algorithm>
#include <charconv>
#include <cstring>

#include "base/base64.h"
#include "services/session/drivers/spec_json.h"
#include "services/session/names.h"

namespace warren::session {

namespace {

using kube::Object;

constexpr std::string_view name_prefix = "openhands-runtime-";
constexpr std::string_view anchor_end = "-svc", code_end = "-svc-code", mark_end = "-mark",
                           claim_end = "-pvc", ingress_end = "-ingress-code";
constexpr std::string_view token_label = "warren/incarnation";
constexpr std::string_view spec_key = "warren-spec";
constexpr std::size_t most_secret_key = 253;
constexpr std::string_view workspace_volume = "workspace-volume";

std::string key_for(std::string_view name) { return "warren/" + std::string(name); }

std::uint64_t counted(std::string_view text) {
  std::uint64_t number = 0;
  auto read = std::from_chars(text.data(), text.data() + text.size(), number);
  return read.ec == std::errc() && read.ptr == text.data() + text.size() ? number : 0;
}

json::object labels_for(const SandboxSpec& spec) {
  return {{"app", app_label},
          {"session", session_label(spec)},
          {"app.kubernetes.io/name", app_label},
          {"app.kubernetes.io/instance", session_label(spec)},
          {"app.kubernetes.io/managed-by", "warren"}};
}

json::object base_metadata(const SandboxSpec& spec, std::string_view name) {
  return {{"name", name},
          {"labels", labels_for(spec)},
          {"annotations", json::object{{key_for("session-id"), spec.session_id},
                                       {key_for("runtime-id"), spec.runtime_id}}}};
}

json::object owned_metadata(const SandboxSpec& spec, std::string_view name, const Object& anchor) {
  auto metadata = base_metadata(spec, name);
  metadata["annotations"].as_object()[key_for("anchor")] = kube::uid_of(anchor);
  metadata["ownerReferences"] = json::array{json::object{{"apiVersion", "v1"},
                                                         {"kind", "Service"},
                                                         {"name", kube::name_of(anchor)},
                                                         {"uid", kube::uid_of(anchor)},
                                                         {"controller", true},
                                                         {"blockOwnerDeletion", false}}};
  return metadata;
}

// A pod of an incarnation before gets nothing that is meant for this one.
json::object selector_of(const SandboxSpec& spec, const Stamp& stamp) {
  return {{"app", app_label},
          {"session", session_label(spec)},
          {std::string(token_label), stamp.token}};
}

void write_stamp(json::object& annotations, const SandboxSpec& spec, const Stamp& stamp) {
  auto shown = spec;
  if (!stamp.secret.empty()) {
    shown.environment.clear();
    shown.key.clear();
  }
  annotations[key_for("turn")] = std::to_string(stamp.turn);
  annotations[key_for("generation")] = std::to_string(stamp.generation);
  annotations[key_for("restarts")] = std::to_string(stamp.restarts);
  annotations[key_for("created-at")] = iso8601(stamp.created_at);
  annotations[key_for("token")] = stamp.token;
  annotations[key_for("spec")] = json::serialize(to_json(shown));
  if (!stamp.secret.empty()) annotations[key_for("secret")] = stamp.secret;
}

json::object pod_metadata(const SandboxSpec& spec, const Object& anchor, const Stamp& stamp) {
  auto metadata = owned_metadata(spec, spec.name, anchor);
  metadata["labels"].as_object()[std::string(token_label)] = stamp.token;
  return metadata;
}

bool is_secret_key(std::string_view name) {
  auto is_usual = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '.' || c == '_';
  };
  return !name.empty() && name.size() <= most_secret_key && name != spec_key && name != "." &&
         name != ".." && std::ranges::all_of(name, is_usual);
}

// What a program in the sandbox finds. What names the sandbox no request changes.
std::map<std::string, std::string> variables_of(const SandboxSpec& spec) {
  std::map<std::string, std::string> all{{"PYTHONUNBUFFERED", "1"}};
  for (const auto& [name, value] : spec.environment) all[name] = value;
  all["OH_SESSION_API_KEYS_0"] = all["SESSION_API_KEY"] = spec.key;
  all["OH_RUNTIME_ID"] = spec.runtime_id;
  all["SESSION_ID"] = spec.session_id;
  all["PORT"] = all["port"] = std::to_string(usual_port(Door::runtime));
  all["OH_VSCODE_PORT"] = all["VSCODE_PORT"] = std::to_string(usual_port(Door::vscode));
  all["OH_VSCODE_BASE_PATH"] = "/" + spec.runtime_id + "/vscode";
  all["WORKER_1"] = std::to_string(usual_port(Door::work_1));
  all["WORKER_2"] = std::to_string(usual_port(Door::work_2));
  return all;
}

// A placeholder of ours in a command means the port that a pod has.
std::string with_ports(std::string word) {
  constexpr std::array places{
      std::pair{"{port}", Door::runtime}, std::pair{"{vscode_port}", Door::vscode},
      std::pair{"{work_1_port}", Door::work_1}, std::pair{"{work_2_port}", Door::work_2}};
  for (auto [place, door] : places) {
    auto port = std::to_string(usual_port(door));
    for (auto at = word.find(place); at != word.npos; at = word.find(place, at + port.size()))
      word.replace(at, std::strlen(place), port);
  }
  return word;
}

json::array command_of(const SandboxSpec& spec, const KubernetesTerms& terms) {
  json::array command;
  if (!terms.command.empty()) {
    for (const auto& word : terms.command) command.emplace_back(word);
    return command;
  }
  if (spec.is_shell && !spec.command.empty()) return {"/bin/sh", "-c", with_ports(spec.command[0])};
  for (const auto& word : spec.command) command.emplace_back(with_ports(word));
  return command;
}

json::object probe(int period, int failures) {
  return {{"httpGet", json::object{{"path", "/alive"}, {"port", "http"}}},
          {"periodSeconds", period},
          {"timeoutSeconds", 5},
          {"failureThreshold", failures}};
}

json::object port_named(std::string_view name, Door door) {
  return {{"name", name}, {"containerPort", usual_port(door)}};
}

Result<json::object> resources_of(const SandboxSpec& spec, const KubernetesOptions& options) {
  json::object requests, limits;
  for (auto [into, key, quantity] :
       {std::tuple{&requests, "cpu", &options.resource_cpu_request},
        std::tuple{&requests, "memory", &options.resource_memory_request},
        std::tuple{&limits, "memory", &options.resource_memory_limit}}) {
    auto times = multiplied(*quantity, spec.resource_factor);
    if (!times) return std::unexpected(times.error());
    (*into)[key] = *times;
  }
  return json::object{{"requests", std::move(requests)}, {"limits", std::move(limits)}};
}

void add_maps(const KubernetesOptions& options, json::array& volumes, json::array& mounts) {
  int count = 0;
  for (const auto& map : options.configmap_volumes) {
    auto volume = fmt::format("configmap-{}", ++count);
    volumes.push_back(
        json::object{{"name", volume}, {"configMap", json::object{{"name", map.name}}}});
    json::object mount{{"name", volume}, {"mountPath", map.path}, {"readOnly", map.is_read_only}};
    if (!map.key.empty()) mount["subPath"] = map.key;
    mounts.push_back(std::move(mount));
  }
}

Result<json::object> container_of(const SandboxSpec& spec, const Stamp& stamp,
                                  const KubernetesTerms& terms, json::array& volumes) {
  const auto& options = terms.options;
  auto resources = resources_of(spec, options);
  if (!resources) return std::unexpected(resources.error());
  json::array environment;
  for (const auto& [name, value] : variables_of(spec)) {
    if (!stamp.secret.empty() && is_secret_key(name)) {
      json::object reference{{"name", stamp.secret}, {"key", name}};
      json::object from{{"secretKeyRef", std::move(reference)}};
      environment.push_back(json::object{{"name", name}, {"valueFrom", std::move(from)}});
    } else {
      environment.push_back(json::object{{"name", name}, {"value", value}});
    }
  }
  json::array mounts{json::object{{"name", workspace_volume}, {"mountPath", terms.workspace}}};
  add_maps(options, volumes, mounts);
  auto may_escalate = options.psc_allow_privilege_escalation.value_or(options.privileged);
  json::object security{{"privileged", options.privileged},
                        {"allowPrivilegeEscalation", may_escalate || options.privileged}};
  if (options.privileged && !spec.run_as_user) security["runAsUser"] = 0;
  json::object container{
      {"name", "runtime"},
      {"image", spec.image},
      {"imagePullPolicy", spec.image_pull_policy.empty() ? "IfNotPresent" : spec.image_pull_policy},
      {"workingDir", spec.working_dir.empty() ? options.working_dir : spec.working_dir},
      {"ports",
       json::array{port_named("http", Door::runtime), port_named("vscode", Door::vscode),
                   port_named("work-1", Door::work_1), port_named("work-2", Door::work_2)}},
      {"env", std::move(environment)},
      {"resources", *std::move(resources)},
      {"securityContext", std::move(security)},
      {"volumeMounts", std::move(mounts)},
      {"startupProbe", probe(1, static_cast<int>(std::max<long>(1, terms.ready_time.count())))},
      {"readinessProbe", probe(5, 3)}};
  if (auto command = command_of(spec, terms); !command.empty())
    container["command"] = std::move(command);
  return container;
}

json::object pod_security(const SandboxSpec& spec, const KubernetesOptions& options) {
  json::object security;
  auto put = [&](const char* key, std::optional<int> asked, std::optional<long long> usual) {
    if (asked)
      security[key] = *asked;
    else if (usual)
      security[key] = *usual;
  };
  put("runAsUser", spec.run_as_user, options.psc_run_as_user);
  put("runAsGroup", spec.run_as_group, options.psc_run_as_group);
  put("fsGroup", spec.fs_group, options.psc_fs_group);
  if (!options.privileged) security["seccompProfile"] = json::object{{"type", "RuntimeDefault"}};
  return security;
}

json::array tolerations_of(const KubernetesOptions& options) {
  json::array all;
  for (const auto& each : options.tolerations) {
    json::object toleration;
    if (!each.key.empty()) toleration["key"] = each.key;
    if (!each.op.empty()) toleration["operator"] = each.op;
    if (!each.value.empty()) toleration["value"] = each.value;
    if (!each.effect.empty()) toleration["effect"] = each.effect;
    if (each.seconds) toleration["tolerationSeconds"] = *each.seconds;
    all.push_back(std::move(toleration));
  }
  return all;
}

// What makes two items of a list the same one.
std::string_view key_of_items(const json::array& items) {
  for (const auto* key : {"name", "mountPath", "containerPort"}) {
    bool have_all = !items.empty() && std::ranges::all_of(items, [key](const auto& item) {
      return item.is_object() && item.get_object().contains(key);
    });
    if (have_all && std::strcmp(key, "name") == 0 && items[0].get_object().contains("mountPath"))
      continue;  // many mounts may be of one volume
    if (have_all) return key;
  }
  return {};
}

void lay_over_items(json::array& base, const json::array& over) {
  auto key = key_of_items(over);
  if (key.empty() || (!base.empty() && key_of_items(base) != key)) {
    base = over;
    return;
  }
  for (const auto& item : over) {
    auto is_same = [&](const json::value& other) { return other.at(key) == item.at(key); };
    auto found = std::ranges::find_if(base, is_same);
    if (found == base.end())
      base.push_back(item);
    else
      lay_over(*found, item);
  }
}

std::string host_of(const SandboxSpec& spec, const KubernetesTerms& terms) {
  return session_label(spec) + "." + terms.options.ingress_domain;
}

}  // namespace

// ---- What is read.

std::string_view annotation_of(const Object& object, std::string_view name) {
  // A slash in a JSON pointer is ~1.
  return kube::text_at(object, "/metadata/annotations/warren~1" + std::string(name));
}

std::string_view label_of(const Object& object, std::string_view name) {
  return kube::text_at(object, "/metadata/labels/" + std::string(name));
}

std::string_view anchor_of(const Object& object) { return annotation_of(object, "anchor"); }

// 2026-11-18T21:38:01Z, and with a fraction.
std::optional<WallClock::time_point> parse_time(std::string_view text) {
  std::string whole(text);
  std::tm parts{};
  const char* end = strptime(whole.c_str(), "%Y-%m-%dT%H:%M:%S", &parts);
  if (!end) return std::nullopt;
  auto time = WallClock::from_time_t(timegm(&parts));
  if (*end == '.') {
    std::chrono::nanoseconds unit = 100ms;
    for (++end; *end >= '0' && *end <= '9'; ++end, unit /= 10)
      time += std::chrono::duration_cast<WallClock::duration>(unit * (*end - '0'));
  }
  if (std::string_view(end) != "Z") return std::nullopt;
  return time;
}

std::optional<Stamp> stamp_of(const Object& object) {
  if (annotation_of(object, "turn").empty()) return std::nullopt;
  Stamp stamp{.turn = counted(annotation_of(object, "turn")),
              .generation = counted(annotation_of(object, "generation")),
              .restarts = static_cast<int>(
                  std::min<std::uint64_t>(counted(annotation_of(object, "restarts")), 1'000'000)),
              .token = std::string(annotation_of(object, "token")),
              .secret = std::string(annotation_of(object, "secret"))};
  stamp.created_at = parse_time(annotation_of(object, "created-at"))
                         .value_or(made_at(object).value_or(WallClock::time_point()));
  stamp.is_stop = annotation_of(object, "ended") == "stopped";
  stamp.has_foreign_files = annotation_of(object, "files") == "foreign";
  return stamp;
}

std::optional<SandboxSpec> spec_of(const Object& object) {
  auto value = parse_json(annotation_of(object, "spec"));
  if (!value) return std::nullopt;
  auto spec = spec_from(*value);
  if (!spec) return std::nullopt;
  return *std::move(spec);
}

std::optional<SandboxSpec> spec_of_secret(const Object& secret) {
  auto text = from_base64(kube::text_at(secret, "/data/" + std::string(spec_key)));
  auto value = text ? parse_json(*text) : fail(Errc::protocol, "");
  if (!value) return std::nullopt;
  auto spec = spec_from(*value);
  if (!spec) return std::nullopt;
  return *std::move(spec);
}

std::optional<WallClock::time_point> active_at(const Object& object) {
  return parse_time(annotation_of(object, "active-at"));
}

// ---- Names.

std::string anchor_name(const std::string& name) { return name + std::string(anchor_end); }
std::string code_name(const std::string& name) { return name + std::string(code_end); }
std::string claim_name(const std::string& name) { return name + std::string(claim_end); }
std::string mark_name(const std::string& name) { return name + std::string(mark_end); }
std::string ingress_name(const std::string& name) { return name + std::string(ingress_end); }
std::string secret_name(const std::string& name, std::string_view token) {
  return name + "-" + std::string(token);
}

std::string pod_of_service(std::string_view service) {
  if (!service.starts_with(name_prefix)) return "";
  for (auto end : {code_end, anchor_end, mark_end})
    if (service.ends_with(end)) return std::string(service.substr(0, service.size() - end.size()));
  return "";
}

std::string pod_of_claim(std::string_view claim) {
  if (!claim.starts_with(name_prefix) || !claim.ends_with(claim_end)) return "";
  return std::string(claim.substr(0, claim.size() - claim_end.size()));
}

std::string session_label(const SandboxSpec& spec) {
  std::string_view name = spec.name;
  if (name.starts_with(name_prefix)) name.remove_prefix(name_prefix.size());
  return std::string(name);
}

// ---- What is made.

Object anchor_object(const SandboxSpec& spec, const Stamp& stamp) {
  auto metadata = base_metadata(spec, anchor_name(spec.name));
  write_stamp(metadata["annotations"].as_object(), spec, stamp);
  auto selector = selector_of(spec, stamp);
  json::object port{{"name", "execution-server"}, {"port", 8080}, {"targetPort", "http"}};
  return json::object{{"apiVersion", "v1"},
                      {"kind", "Service"},
                      {"metadata", std::move(metadata)},
                      {"spec", json::object{{"type", "ClusterIP"},
                                            {"selector", std::move(selector)},
                                            {"ports", json::array{std::move(port)}}}}};
}

Object mark_object(const SandboxSpec& spec, const Stamp& stamp) {
  auto metadata = base_metadata(spec, mark_name(spec.name));
  auto& annotations = metadata["annotations"].as_object();
  write_stamp(annotations, spec, stamp);
  annotations[key_for("ended")] = stamp.is_stop ? "stopped" : "paused";
  if (stamp.has_foreign_files) annotations[key_for("files")] = "foreign";
  return json::object{{"apiVersion", "v1"},
                      {"kind", "Service"},
                      {"metadata", std::move(metadata)},
                      {"spec", json::object{{"type", "ClusterIP"}, {"clusterIP", "None"}}}};
}

Object claim_object(const SandboxSpec& spec, const Stamp& stamp, const KubernetesTerms& terms) {
  auto metadata = base_metadata(spec, claim_name(spec.name));
  auto& annotations = metadata["annotations"].as_object();
  write_stamp(annotations, spec, stamp);
  // The Secret ends with the incarnation.
  annotations.erase(key_for("secret"));
  json::object requests{{"storage", terms.options.pvc_storage_size}};
  json::object claim{{"accessModes", json::array{"ReadWriteOnce"}},
                     {"resources", json::object{{"requests", std::move(requests)}}}};
  if (!terms.options.pvc_storage_class.empty())
    claim["storageClassName"] = terms.options.pvc_storage_class;
  return json::object{{"apiVersion", "v1"},
                      {"kind", "PersistentVolumeClaim"},
                      {"metadata", std::move(metadata)},
                      {"spec", std::move(claim)}};
}

Object secret_object(const SandboxSpec& spec, const Stamp& stamp) {
  auto metadata = base_metadata(spec, stamp.secret);
  auto& annotations = metadata["annotations"].as_object();
  annotations[key_for("turn")] = std::to_string(stamp.turn);
  annotations[key_for("token")] = stamp.token;
  json::object data{{spec_key, json::serialize(to_json(spec))}};
  for (const auto& [name, value] : variables_of(spec))
    if (is_secret_key(name)) data[name] = value;
  return json::object{{"apiVersion", "v1"},
                      {"kind", "Secret"},
                      {"metadata", std::move(metadata)},
                      {"immutable", true},
                      {"stringData", std::move(data)}};
}

Result<Object> pod_object(const SandboxSpec& spec, const Object& anchor,
                          const KubernetesTerms& terms) {
  const auto& options = terms.options;
  auto stamp = stamp_of(anchor).value_or(Stamp());
  json::object claim{{"claimName", claim_name(spec.name)}};
  json::array volumes{
      json::object{{"name", workspace_volume}, {"persistentVolumeClaim", std::move(claim)}}};
  auto container = container_of(spec, stamp, terms, volumes);
  if (!container) return std::unexpected(container.error());
  auto metadata = pod_metadata(spec, anchor, stamp);
  auto& annotations = metadata["annotations"].as_object();
  annotations[key_for("hash")] = spec.hash;
  annotations["cluster-autoscaler.kubernetes.io/safe-to-evict"] = "false";
  for (const auto& [name, value] : options.annotations) annotations[name] = value;
  json::object pod{{"restartPolicy", "Never"},
                   {"automountServiceAccountToken", false},
                   {"enableServiceLinks", false},
                   {"terminationGracePeriodSeconds", terms.grace.count()},
                   {"securityContext", pod_security(spec, options)},
                   {"containers", json::array{*std::move(container)}},
                   {"volumes", std::move(volumes)}};
  if (!options.image_pull_secret.empty())
    pod["imagePullSecrets"] = json::array{json::object{{"name", options.image_pull_secret}}};
  if (!options.node_selector_key.empty())
    pod["nodeSelector"] = json::object{{options.node_selector_key, options.node_selector_val}};
  if (auto tolerations = tolerations_of(options); !tolerations.empty())
    pod["tolerations"] = std::move(tolerations);
  if (!spec.runtime_class.empty()) pod["runtimeClassName"] = spec.runtime_class;
  Object object = json::object{{"apiVersion", "v1"},
                               {"kind", "Pod"},
                               {"metadata", std::move(metadata)},
                               {"spec", std::move(pod)}};
  if (terms.pod_template.is_null()) return object;
  if (!terms.pod_template.is_object()) return fail(Errc::invalid, "the pod template is no object");
  lay_over(object, terms.pod_template);
  // Who it is, and whose, is not the template's.
  auto ours = pod_metadata(spec, anchor, stamp);
  lay_over(object.as_object()["metadata"], ours);
  object.as_object()["metadata"].as_object()["ownerReferences"] = ours["ownerReferences"];
  return object;
}

Object code_object(const SandboxSpec& spec, const Object& anchor) {
  auto selector = selector_of(spec, stamp_of(anchor).value_or(Stamp()));
  json::object port{{"name", "code"}, {"port", 8081}, {"targetPort", "vscode"}};
  return json::object{{"apiVersion", "v1"},
                      {"kind", "Service"},
                      {"metadata", owned_metadata(spec, code_name(spec.name), anchor)},
                      {"spec", json::object{{"type", "ClusterIP"},
                                            {"selector", std::move(selector)},
                                            {"ports", json::array{std::move(port)}}}}};
}

Object ingress_object(const SandboxSpec& spec, const Object& anchor, const KubernetesTerms& terms) {
  auto host = host_of(spec, terms);
  auto metadata = owned_metadata(spec, ingress_name(spec.name), anchor);
  metadata["annotations"].as_object()["external-dns.alpha.kubernetes.io/hostname"] = host;
  json::object service{{"name", code_name(spec.name)}, {"port", json::object{{"number", 8081}}}};
  json::object path{{"path", "/"},
                    {"pathType", "Prefix"},
                    {"backend", json::object{{"service", std::move(service)}}}};
  json::object rule{{"host", host},
                    {"http", json::object{{"paths", json::array{std::move(path)}}}}};
  json::object ingress{{"rules", json::array{std::move(rule)}}};
  if (!terms.ingress_class.empty()) ingress["ingressClassName"] = terms.ingress_class;
  if (!terms.options.ingress_tls_secret.empty())
    ingress["tls"] = json::array{json::object{{"hosts", json::array{json::value(host)}},
                                              {"secretName", terms.options.ingress_tls_secret}}};
  return json::object{{"apiVersion", "networking.k8s.io/v1"},
                      {"kind", "Ingress"},
                      {"metadata", std::move(metadata)},
                      {"spec", std::move(ingress)}};
}

Object route_object(const SandboxSpec& spec, const Object& anchor, const KubernetesTerms& terms) {
  json::object parent{{"name", terms.gateway}};
  if (!terms.gateway_space.empty()) parent["namespace"] = terms.gateway_space;
  json::object backend{{"name", code_name(spec.name)}, {"port", 8081}};
  json::object rule{{"backendRefs", json::array{std::move(backend)}}};
  return json::object{
      {"apiVersion", "gateway.networking.k8s.io/v1"},
      {"kind", "HTTPRoute"},
      {"metadata", owned_metadata(spec, ingress_name(spec.name), anchor)},
      {"spec", json::object{{"parentRefs", json::array{std::move(parent)}},
                            {"hostnames", json::array{json::value(host_of(spec, terms))}},
                            {"rules", json::array{std::move(rule)}}}}};
}

void lay_over(json::value& base, const json::value& over) {
  if (base.is_array() && over.is_array()) return lay_over_items(base.get_array(), over.get_array());
  if (!base.is_object() || !over.is_object()) {
    base = over;
    return;
  }
  auto& members = base.get_object();
  for (const auto& [key, value] : over.get_object()) {
    if (value.is_null())
      members.erase(key);
    else if (members.contains(key))
      lay_over(members[key], value);
    else
      members[key] = value;
  }
}

}  // namespace warren::session
