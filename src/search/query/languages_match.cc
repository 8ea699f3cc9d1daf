#include "search/query/languages_match.h"

#include <algorithm>
#include <array>

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

}  // namespace warren::search
