#include "search/query/definitions.h"

#include <algorithm>
#include <functional>
#include <tuple>

namespace warren::search {
namespace {

using TakeSymbol = std::function<bool(const Symbol&)>;

constexpr std::size_t name_bytes_at_once = 256 << 10;
constexpr std::size_t most_named = 1000;

Definition definition_of(const Symbol& symbol) {
  return {.file = symbol.file, .line = symbol.line, .kind = symbol.kind, .name = symbol.name};
}

void sort(std::vector<Definition>& definitions) {
  std::ranges::sort(definitions, [](const Definition& a, const Definition& b) {
    return std::tie(a.file, a.line, a.name) < std::tie(b.file, b.line, b.name);
  });
}

void find_literal(const Segment& segment, const Literal& literal, Watch& watch,
                  const TakeSymbol& take) {
  auto names = segment.symbol_names();
  for (std::size_t from = 0; from < names.size() && watch.why() == Stop::none;) {
    auto found = literal.find(names.substr(from));
    if (found == names.npos) return;
    auto begin = names.rfind('\0', from + found) + 1;  // 0 if no NUL precedes: the first name
    segment.symbols_named_at(begin, take);
    from = std::min(names.find('\0', from + found), names.size() - 1) + 1;
  }
}

// Treats the names as lines of a text, and searches that like any other.
void find_in_lines(const Segment& segment, const std::shared_ptr<const Matcher>& matcher,
                   Watch& watch, const TakeSymbol& take) {
  auto names = segment.symbol_names();
  matcher->expect(names.size());
  Finder finder(matcher, &watch);
  std::vector<Span> spans;
  for (std::size_t from = 0; from < names.size() && !watch.is_over();) {
    auto end = std::min(names.find('\0', from + name_bytes_at_once), names.size() - 1) + 1;
    std::string text(names.substr(from, end - from));
    unsigned char all = 0;
    for (char& c : text) {
      all |= static_cast<unsigned char>(c);
      c = c == '\0' ? '\n' : c;
    }
    spans.clear();
    finder.find_all(text, all < 0x80, spans);
    std::size_t next = 0;  // after the last name found
    for (const auto& span : spans) {
      if (span.begin < next) continue;
      auto begin = span.begin == 0 ? 0 : text.rfind('\n', span.begin - 1) + 1;
      segment.symbols_named_at(from + begin, take);
      next = std::min(text.find('\n', span.begin), text.size()) + 1;
    }
    from = end;
  }
}

// For patterns that may match a line end. Equal names are adjacent and checked once.
void find_one_by_one(const Segment& segment, const std::shared_ptr<const Matcher>& matcher,
                     Watch& watch, const TakeSymbol& take) {
  Finder finder(matcher);
  const char* last = nullptr;
  bool is_match = false;
  std::uint32_t seen = 0;
  segment.each_symbol([&](const Symbol& symbol) {
    if (symbol.name.data() != last) is_match = finder.finds(symbol.name, false);
    last = symbol.name.data();
    if (is_match && !take(symbol)) return false;
    return ++seen % 1024 != 0 || !watch.is_over();
  });
}

}  // namespace

std::vector<Definition> definitions_named(const Segment& segment, const Pattern& pattern) {
  std::vector<Definition> definitions;
  segment.find_symbols(pattern.text, [&](const Symbol& symbol) {
    if (symbol.name != pattern.text && !pattern.ignores_case) return false;
    definitions.push_back(definition_of(symbol));
    return definitions.size() < most_named;
  });
  sort(definitions);
  return definitions;
}

std::vector<Definition> definitions_matching(const Segment& segment,
                                             const std::shared_ptr<const Matcher>& matcher,
                                             Watch& watch) {
  std::vector<Definition> definitions;
  TakeSymbol take = [&](const Symbol& symbol) {
    definitions.push_back(definition_of(symbol));
    return definitions.size() % 1024 != 0 || !watch.is_over();
  };
  if (const auto* literal = matcher->literal())
    find_literal(segment, *literal, watch, take);
  else if (matcher->is_multi_line())
    find_one_by_one(segment, matcher, watch, take);
  else
    find_in_lines(segment, matcher, watch, take);
  sort(definitions);
  return definitions;
}

}  // namespace warren::search
