#include "services/board/crew/environment.h"

#include <algorithm>

namespace warren::crew {

namespace {

bool may_begin(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool may_follow(char c) { return may_begin(c) || (c >= '0' && c <= '9'); }

// How many characters of a name the text begins with.
std::size_t name_length(std::string_view text) {
  if (text.empty() || !may_begin(text[0])) return 0;
  return static_cast<std::size_t>(std::ranges::find_if_not(text, may_follow) - text.begin());
}

class Expansion {
 public:
  Expansion(const Environment& host, std::vector<std::string>& unset)
      : host_(host), unset_(unset) {}

  std::string of(std::string_view text) {
    std::string result;
    while (!text.empty()) {
      auto dollar = text.find('$');
      result += text.substr(0, dollar);
      if (dollar == text.npos) break;
      text.remove_prefix(dollar + 1);
      bool has_brace = text.starts_with('{');
      auto length = name_length(text.substr(has_brace));
      bool is_name = length > 0 && (!has_brace || text.substr(1 + length).starts_with('}'));
      if (!is_name) {
        result += '$';
        continue;
      }
      result += value_of(std::string(text.substr(has_brace, length)));
      text.remove_prefix(length + (has_brace ? 2 : 0));
    }
    return result;
  }

 private:
  std::string value_of(const std::string& name) {
    auto found = host_.find(name);
    if (found != host_.end()) return found->second;
    unset_.push_back(name);
    return "";
  }
  const Environment& host_;
  std::vector<std::string>& unset_;
};

}  // namespace

std::optional<Variable> parse_variable(std::string_view line, const Environment& host) {
  auto length = name_length(line);
  if (length == 0 || line.contains('\0')) return {};
  Variable variable{std::string(line.substr(0, length)), {}, {}};
  if (length == line.size()) {
    auto found = host.find(variable.name);
    if (found != host.end())
      variable.value = found->second;
    else
      variable.unset.push_back(variable.name);
    return variable;
  }
  if (line[length] != '=') return {};
  variable.value = Expansion(host, variable.unset).of(line.substr(length + 1));
  return variable;
}

}  // namespace warren::crew
