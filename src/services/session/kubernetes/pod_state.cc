#include "services/session/kubernetes/pod_state.h"

#include <algorithm>

#include "services/session/names.h"

namespace warren::session {

namespace {

using kube::items_at;
using kube::Object;
using kube::text_at;

// The first container is the sandbox; others are what a template adds.
const Object* status_of_main(const Object& pod) {
  const auto& containers = items_at(pod, "/spec/containers");
  auto name = containers.empty() ? std::string_view() : text_at(containers[0], "/name");
  for (const auto& status : items_at(pod, "/status/containerStatuses"))
    if (text_at(status, "/name") == name) return &status;
  return nullptr;
}

const Object* condition_of(const Object& pod, std::string_view type) {
  for (const auto& condition : items_at(pod, "/status/conditions"))
    if (text_at(condition, "/type") == type) return &condition;
  return nullptr;
}

std::string with_message(std::string_view reason, std::string_view message) {
  if (message.empty()) return std::string(reason);
  if (reason.empty()) return std::string(message);
  return fmt::format("{}: {}", reason, message);
}

enum class Waits { goes_on, never, unless_it_appears };

Waits what_waiting_means(std::string_view reason) {
  if (reason == "ImagePullBackOff" || reason == "InvalidImageName" ||
      reason == "ErrImageNeverPull" || reason == "CrashLoopBackOff" ||
      reason == "RunContainerError")
    return Waits::never;
  if (reason == "CreateContainerConfigError" || reason == "CreateContainerError")
    return Waits::unless_it_appears;
  return Waits::goes_on;
}

// Of what a container waits for, if it is worth telling; and whether that is in vain.
void read_waiting(const Object& pod, PodState& state, const KubernetesTerms& terms,
                  WallClock::time_point now) {
  auto began = made_at(pod).value_or(now);
  for (const auto* list : {"/status/initContainerStatuses", "/status/containerStatuses"})
    for (const auto& status : items_at(pod, list)) {
      auto reason = text_at(status, "/state/waiting/reason");
      auto message = text_at(status, "/state/waiting/message");
      auto means = what_waiting_means(reason);
      bool is_late = now - began >= terms.config_time;
      bool is_vain = means == Waits::never || (means == Waits::unless_it_appears && is_late);
      bool is_usual =
          reason.empty() || reason == "ContainerCreating" || reason == "PodInitializing";
      if (is_vain) state.phase = Phase::ended;
      if (is_vain || (!is_usual && state.reason.empty()))
        state.reason = with_message(reason, message);
      if (is_vain) return;
    }
  const auto* scheduled = condition_of(pod, "PodScheduled");
  if (!scheduled || text_at(*scheduled, "/status") != "False" || !state.reason.empty()) return;
  state.reason = with_message(text_at(*scheduled, "/reason"), text_at(*scheduled, "/message"));
  if (terms.schedule_time > 0ms && now - began >= terms.schedule_time) state.phase = Phase::ended;
}

void read_end(const Object& pod, PodState& state) {
  state.phase = Phase::ended;
  const auto* main = status_of_main(pod);
  std::string_view word = main ? text_at(*main, "/state/terminated/reason") : std::string_view();
  auto of_pod = with_message(text_at(pod, "/status/reason"), text_at(pod, "/status/message"));
  if (main && !word.empty()) {
    auto code = kube::number_at(*main, "/state/terminated/exitCode", -1);
    state.exit_code = static_cast<int>(code);
    auto message = text_at(*main, "/state/terminated/message");
    state.reason = with_message(fmt::format("{} (exit code {})", word, code), message);
    if (!of_pod.empty()) state.reason = of_pod + "; " + state.reason;
  } else {
    state.reason = of_pod;
  }
  if (state.reason.empty()) state.reason = "its pod has ended";
}

std::optional<Door> door_of_port(std::string_view name, std::int64_t number) {
  constexpr std::array names{std::pair{"http", Door::runtime},  std::pair{"agent", Door::runtime},
                             std::pair{"vscode", Door::vscode}, std::pair{"code", Door::vscode},
                             std::pair{"work-1", Door::work_1}, std::pair{"worker1", Door::work_1},
                             std::pair{"work-2", Door::work_2}, std::pair{"worker2", Door::work_2}};
  for (auto [word, door] : names)
    if (name == word) return door;
  constexpr std::array numbers{std::pair{8080, Door::runtime}, std::pair{8081, Door::vscode},
                               std::pair{30082, Door::work_1}, std::pair{30083, Door::work_2}};
  for (auto [known, door] : numbers)
    if (number == known) return door;
  for (auto door : all_doors)
    if (number == usual_port(door)) return door;
  return std::nullopt;
}

std::map<Door, Endpoint> endpoints_of(const Object& pod) {
  std::map<Door, Endpoint> endpoints;
  std::string host(text_at(pod, "/status/podIP"));
  const auto& containers = items_at(pod, "/spec/containers");
  if (host.empty() || containers.empty()) return endpoints;
  for (const auto& port : items_at(containers[0], "/ports")) {
    auto number = kube::number_at(port, "/containerPort", 0);
    auto door = door_of_port(text_at(port, "/name"), number);
    if (door && number > 0 && number < 65536)
      endpoints.try_emplace(*door, Endpoint{host, static_cast<unsigned short>(number)});
  }
  return endpoints;
}

ContainerState container_from(const Object& status) {
  using Is = ContainerState::Is;
  ContainerState one{.name = std::string(text_at(status, "/name"))};
  const char* state = "/state/waiting";
  if (!text_at(status, "/state/running/startedAt").empty()) {
    one.is = Is::running;
    state = "/state/running";
  } else if (!text_at(status, "/state/terminated/finishedAt").empty() ||
             !text_at(status, "/state/terminated/reason").empty()) {
    one.is = Is::terminated;
    state = "/state/terminated";
  }
  one.reason = text_at(status, std::string(state) + "/reason");
  one.message = text_at(status, std::string(state) + "/message");
  one.exit_code = static_cast<int>(kube::number_at(status, "/state/terminated/exitCode", 0));
  one.restarts = static_cast<int>(kube::number_at(status, "/restartCount", 0));
  const auto* object = status.if_object();
  const auto* ready = object ? object->if_contains("ready") : nullptr;
  one.is_ready = ready && ready->is_bool() && ready->get_bool();
  return one;
}

}  // namespace

SandboxEvent event_of(const Object& event) {
  SandboxEvent one{.type = std::string(text_at(event, "/type")),
                   .reason = std::string(text_at(event, "/reason")),
                   .message = std::string(text_at(event, "/message"))};
  one.count = static_cast<int>(kube::number_at(event, "/count", 1));
  for (const auto* when : {"/lastTimestamp", "/eventTime", "/metadata/creationTimestamp"})
    if (one.last_at.empty()) one.last_at = text_at(event, when);
  return one;
}

PodState state_of_pod(const Object& pod, const KubernetesTerms& terms, WallClock::time_point now) {
  PodState state;
  state.endpoints = endpoints_of(pod);
  for (const auto& status : items_at(pod, "/status/containerStatuses"))
    state.restarts += static_cast<int>(kube::number_at(status, "/restartCount", 0));
  for (const auto* list : {"/status/initContainerStatuses", "/status/containerStatuses"})
    for (const auto& status : items_at(pod, list))
      state.containers.push_back(container_from(status));
  const auto* main = status_of_main(pod);
  auto ran = main ? parse_time(text_at(*main, "/state/running/startedAt")) : std::nullopt;
  if (!ran) ran = parse_time(text_at(pod, "/status/startTime"));
  state.started_at = ran.value_or(made_at(pod).value_or(now));
  auto phase = text_at(pod, "/status/phase");
  if (kube::is_leaving(pod)) {
    state.phase = Phase::ending;
  } else if (phase == "Failed" || phase == "Succeeded") {
    read_end(pod, state);
    ++state.restarts;
  } else if (phase == "Running") {
    const auto* ready = condition_of(pod, "Ready");
    bool is_ready = ready && text_at(*ready, "/status") == "True";
    state.phase = is_ready ? Phase::running : Phase::starting;
    if (!is_ready) read_waiting(pod, state, terms, now);
    if (!is_ready && state.reason.empty() && ready && text_at(*ready, "/reason") == "NodeLost")
      state.reason = with_message("NodeLost", text_at(*ready, "/message"));
  } else {
    read_waiting(pod, state, terms, now);
  }
  return state;
}

std::optional<SandboxSpec> spec_of_foreign_pod(const Object& pod, std::string_view name_space) {
  std::string session(label_of(pod, "session"));
  std::string name(kube::name_of(pod));
  bool is_of_session = label_of(pod, "app") == app_label && check_session_id(session) &&
                       name == "openhands-runtime-" + session;
  const auto& containers = items_at(pod, "/spec/containers");
  if (!is_of_session || containers.empty()) return std::nullopt;
  const auto& main = containers[0];
  SandboxSpec spec{.session_id = session,
                   .name = name,
                   .runtime_id = runtime_id_of(name_space, session),
                   .image = std::string(text_at(main, "/image")),
                   .working_dir = std::string(text_at(main, "/workingDir")),
                   .runtime_class = std::string(text_at(pod, "/spec/runtimeClassName"))};
  for (const auto* list : {"/command", "/args"})
    for (const auto& word : items_at(main, list))
      if (word.is_string()) spec.command.emplace_back(word.get_string());
  for (const auto& variable : items_at(main, "/env"))
    if (!text_at(variable, "/value").empty())
      spec.environment[std::string(text_at(variable, "/name"))] = text_at(variable, "/value");
  for (const auto* variable : {"OH_SESSION_API_KEYS_0", "SESSION_API_KEY"})
    if (spec.key.empty() && spec.environment.contains(variable))
      spec.key = spec.environment[variable];
  return spec;
}

}  // namespace warren::session
