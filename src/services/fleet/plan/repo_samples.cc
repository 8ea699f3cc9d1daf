#include "services/fleet/plan/repo_samples.h"

#include <fmt/format.h>

namespace warren::fleet {

namespace {

// As it stands between the quotes of a label.
std::string label(std::string_view text) {
  std::string out;
  for (char c : text) {
    if (c == '\\' || c == '"') out += '\\';
    if (c == '\n')
      out += "\\n";
    else
      out += c;
  }
  return out;
}

}  // namespace

std::string repo_family(std::string_view name, std::string_view help,
                        const std::vector<RepoSample>& samples) {
  if (samples.empty()) return "";
  auto text = fmt::format("# HELP warren_fleet_repo_{0} {1}\n# TYPE warren_fleet_repo_{0} gauge\n",
                          name, help);
  for (const auto& sample : samples)
    text += fmt::format("warren_fleet_repo_{}{{repo=\"{}\",slot=\"{}\",node=\"{}\"}} {}\n", name,
                        label(sample.repo), sample.slot, label(sample.node), sample.value);
  return text;
}

}  // namespace warren::fleet
