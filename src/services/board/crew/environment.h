#pragma once
// One line of a role's environment: NAME=value, or NAME alone for the host's value.
#include <optional>
#include <string>
#include <vector>

#include "services/board/crew/crew.h"

namespace warren::crew {

struct Variable {
  std::string name;
  std::optional<std::string> value;  // none: NAME alone, and the host has none
  std::vector<std::string> unset;    // what the host was asked for and does not have
};

// $OTHER and ${OTHER} within a value are the host's. None when the line is neither form.
std::optional<Variable> parse_variable(std::string_view line, const Environment& host);

}  // namespace warren::crew
