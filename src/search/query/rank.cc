#include "search/query/rank.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace warren::search {
namespace {

constexpr auto word_bytes = [] {
  std::array<bool, 256> table{};
  for (int c = 0; c < 256; ++c)
    table[static_cast<std::size_t>(c)] = c >= 0x80 || (c >= '0' && c <= '9') ||
                                         (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                                         c == '_';
  return table;
}();
bool is_word(char c) { return word_bytes[static_cast<unsigned char>(c)]; }

// Prefers the kinds of definitions that people look for most.
double kind_weight(std::string_view kind) {
  if (kind == "class" || kind == "struct" || kind == "interface" || kind == "trait") return 100;
  if (kind == "function" || kind == "method" || kind == "type" || kind == "enum") return 90;
  if (kind == "typedef" || kind == "macro" || kind == "union" || kind == "constant") return 70;
  if (kind == "variable" || kind == "field" || kind == "member" || kind == "enumerator") return 40;
  return 20;
}

struct Reason {
  double points = 0;
  std::string_view text = {};
  const Signal* signal = nullptr;

  std::string explained() const {
    bool is_definition = signal->definition != Signal::Definition::none;
    return fmt::format("{} {}{}", text, signal->pattern,
                       is_definition ? fmt::format(" ({})", signal->kind) : "");
  }
};

Reason best_of(const Signal& signal) {
  using enum Signal::Definition;
  Reason best{.signal = &signal};
  auto offer = [&](double points, std::string_view what) {
    if (points > best.points) best.points = points, best.text = what;
  };
  if (signal.definition != none)
    offer((signal.definition == exact ? 7000 : 4000) + kind_weight(signal.kind),
          signal.definition == exact ? "the definition of" : "a definition with a part of");
  if (signal.path == Signal::Path::base) offer(5500, "the file is named");
  if (signal.path == Signal::Path::base_word) offer(1500, "a word in the file's name:");
  if (signal.content == Signal::Content::word) offer(500, "a whole word:");
  if (signal.path == Signal::Path::partial) offer(100, "in the path:");
  if (signal.content == Signal::Content::partial) offer(50, "a part of a word:");
  return best;
}

double penalty(FileClass file_class) {
  switch (file_class) {
    case FileClass::code:
      return 0;
    case FileClass::documentation:
      return 150;
    case FileClass::test:
      return 200;
    case FileClass::vendored:
      return 300;
    case FileClass::generated:
      return 400;
  }
  return 0;
}

}  // namespace

bool is_whole_word(std::string_view text, std::size_t begin, std::size_t end) {
  if (begin == end) return false;
  bool starts = begin == 0 || !is_word(text[begin - 1]) || !is_word(text[begin]);
  bool ends = end >= text.size() || !is_word(text[end]) || !is_word(text[end - 1]);
  return starts && ends;
}

Signal::Path path_signal(std::string_view path, std::size_t begin, std::size_t end) {
  auto slash = path.rfind('/');
  std::size_t base = slash == std::string_view::npos ? 0 : slash + 1;
  if (begin < base) return Signal::Path::partial;
  auto dot = path.find('.', base + 1);
  bool is_all = begin == base && (end == path.size() || end == dot);
  if (is_all) return Signal::Path::base;
  return is_whole_word(path, begin, end) ? Signal::Path::base_word : Signal::Path::partial;
}

double score_of(std::span<const Signal> signals, std::size_t asked, FileClass file_class,
                std::uint64_t matches, std::vector<std::string>* why) {
  double score = 0;
  // The reasons are only written on request: most files are never shown.
  auto add = [&](double points, auto&& words) {
    if (points == 0) return;
    score += points;
    if (why != nullptr) why->push_back(fmt::format("{:.6g} {}", points, words()));
  };
  Reason best;
  double rest = 0;
  for (const auto& signal : signals) {
    Reason reason = best_of(signal);
    if (reason.points > best.points) std::swap(best, reason);
    rest += reason.points;
  }
  add(best.points, [&] { return best.explained(); });
  // Finding more of the words counts for more, but not as much as one definition.
  add(std::min(rest / 10, 300.0), [] { return "other patterns"; });
  if (asked > 1)
    add(400.0 * static_cast<double>(signals.size()) / static_cast<double>(asked),
        [&] { return fmt::format("{} of {} patterns", signals.size(), asked); });
  add(static_cast<double>(std::min<std::uint64_t>(matches, 100)) / 10,
      [] { return "how often it is there"; });
  add(-penalty(file_class), [&] { return name(file_class); });
  return score;
}

}  // namespace warren::search
