#include "services/board/agent/container.h"

#include <unistd.h>

#include <cstdlib>
#include <sstream>

namespace warren::agent {

namespace {

// What the programs need to find their daemon.
void add_host_settings(std::map<std::string, std::string>& environment) {
  for (const char* name : {"DOCKER_HOST", "DOCKER_CONTEXT", "DOCKER_CONFIG", "DOCKER_CERT_PATH",
                           "DOCKER_TLS_VERIFY", "CONTAINER_HOST", "XDG_RUNTIME_DIR"})
    if (const char* value = std::getenv(name)) environment.try_emplace(name, value);
}

bool is_in_path(const std::string& program) {
  const char* path = std::getenv("PATH");
  std::istringstream folders(path ? path : "");
  for (std::string folder; std::getline(folders, folder, ':');)
    if (access((std::filesystem::path(folder) / program).c_str(), X_OK) == 0) return true;
  return false;
}

}  // namespace

Result<std::string> container_program() {
  for (const char* program : {"docker", "podman"})
    if (is_in_path(program)) return program;
  return fail(Errc::unavailable,
              "a role with an image needs docker or podman, and neither is in PATH");
}

Result<ToolTerms> in_container(const std::string& program, const std::string& name,
                               const crew::Role& role, ToolTerms tool) {
  std::error_code error;
  auto folder = std::filesystem::canonical(tool.folder, error).string();
  if (error || folder.find_first_of(",\"\n") != folder.npos)
    return fail(Errc::invalid, "{} cannot be mounted in a container", tool.folder.string());
  bool is_writable = role.workspace != crew::WorkspaceMode::read_only;
  std::vector<std::string> argv{program,
                                "run",
                                "--rm",
                                "-i",
                                "--name",
                                name,
                                "--mount",
                                fmt::format("type=bind,source={},target=/workspace{}", folder,
                                            is_writable ? "" : ",readonly"),
                                "--workdir",
                                "/workspace"};
  for (const auto& [variable, value] : role.environment) {
    argv.emplace_back("--env");
    argv.push_back(variable);
  }
  argv.push_back(role.image);
  argv.insert(argv.end(), tool.argv.begin(), tool.argv.end());
  tool.argv = std::move(argv);
  add_host_settings(tool.environment);
  return tool;
}

ToolTerms container_removal(const std::string& program, const std::string& name) {
  ToolTerms terms;
  terms.argv = {program, "rm", "--force", name};
  terms.environment = least_environment();
  add_host_settings(terms.environment);
  terms.timeout = 20s;
  return terms;
}

}  // namespace warren::agent
