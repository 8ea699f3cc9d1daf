#include "services/session/drivers/driver.h"

#include "base/hmac.h"

namespace warren::session {

std::string hash_of(const SandboxSpec& spec) {
  std::string text = spec.image;
  for (const auto& word : spec.command) text.append(1, '\0').append(word);
  text += fmt::format("\n{}\n{}\n{}\n{}", spec.is_shell, spec.working_dir, spec.resource_factor,
                      spec.runtime_class);
  return hmac_sha256("warren sandbox", text).substr(0, 16);
}

std::string_view name(Phase phase) {
  switch (phase) {
    case Phase::starting:
      return "starting";
    case Phase::running:
      return "running";
    case Phase::ending:
      return "ending";
    case Phase::paused:
      return "paused";
    case Phase::ended:
      return "ended";
  }
  std::abort();
}

std::string_view name(Door door) {
  switch (door) {
    case Door::runtime:
      return "runtime";
    case Door::vscode:
      return "vscode";
    case Door::work_1:
      return "work-1";
    case Door::work_2:
      return "work-2";
  }
  std::abort();
}

std::optional<Door> door_called(std::string_view called) {
  for (auto door : all_doors)
    if (name(door) == called) return door;
  return std::nullopt;
}

int usual_port(Door door) {
  switch (door) {
    case Door::runtime:
      return 60000;
    case Door::vscode:
      return 60001;
    case Door::work_1:
      return 12000;
    case Door::work_2:
      return 12001;
  }
  std::abort();
}

}  // namespace warren::session
