#include "search/query/languages_match.h"

#include <algorithm>
#include <array>

#include "base/nearest.h"
#include "search/source/classify.h"

namespace warren::search {
namespace {

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; }

bool equals(std::string_view a, std::string_view b) {
  return std::ranges::equal(a, b, [](char x, char y) { return lower(x) == lower(y); });
}

struct Alias {
  std::string_view word, language;
};
constexpr std::array aliases{
    Alias{"cpp", "C++"},       Alias{"cxx", "C++"},   Alias{"js", "JavaScript"},
    Alias{"ts", "TypeScript"}, Alias{"py", "Python"}, Alias{"golang", "Go"},
    Alias{"rs", "Rust"},       Alias{"rb", "Ruby"},   Alias{"sh", "Shell"},
    Alias{"bash", "Shell"},    Alias{"csharp", "C#"}, Alias{"cs", "C#"},
    Alias{"md", "Markdown"},   Alias{"yml", "YAML"},  Alias{"asm", "Assembly"}};

}  // namespace

bool is_language(std::string_view language, std::string_view word) {
  if (equals(language, word)) return true;
  return std::ranges::any_of(aliases, [&](const Alias& alias) {
    return equals(alias.word, word) && equals(alias.language, language);
  });
}

bool is_known_language(std::string_view word) {
  for (std::uint16_t i = 0; i < language_count(); ++i)
    if (is_language(language_name(i), word)) return true;
  return false;
}

std::optional<std::string> nearest_language(std::string_view word) {
  auto lowered = [](std::string_view text) {
    std::string low(text);
    std::ranges::transform(low, low.begin(), lower);
    return low;
  };
  std::vector<std::string> names;
  for (std::uint16_t i = 1; i < language_count(); ++i) names.push_back(lowered(language_name(i)));
  for (const auto& alias : aliases) names.emplace_back(alias.word);
  auto meant = nearest(lowered(word), names);
  if (!meant) return meant;
  for (std::uint16_t i = 1; i < language_count(); ++i)
    if (is_language(language_name(i), *meant)) return std::string(language_name(i));
  return std::nullopt;
}

}  // namespace warren::search
