#pragma once
// A tool in a container, through docker or podman.
#include "services/board/agent/tool.h"
#include "services/board/crew/crew.h"

namespace warren::agent {

// The one of them that is in $PATH. Errc::unavailable says that a role with an image needs one.
Result<std::string> container_program();

// Turns a tool that would run as a process into one that runs in the role's image, with its folder
// at /workspace. Of the environment only names are on the command line, which every user can read.
Result<ToolTerms> in_container(const std::string& program, const std::string& name,
                               const crew::Role& role, ToolTerms tool);
// Ends it, whatever became of the program that started it.
ToolTerms container_removal(const std::string& program, const std::string& name);

}  // namespace warren::agent
