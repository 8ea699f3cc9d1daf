#include "search/regex.h"

#include <fmt/format.h>

#include <algorithm>

#include "search/regex_classes.h"

namespace warren::search {
namespace {

using Kind = RegexNode::Kind;
constexpr int most_depth = 100;
constexpr std::size_t most_nodes = 20'000;

struct Flags {
  bool ignores_case = false, is_multi = true, dot_is_all = false, is_lazy = false;
};

// Each function returns false for what it does not know; nothing it built is used then.
class Parser {
 public:
  Parser(std::string_view text, bool ignores_case) : text_(text) {
    flags_.ignores_case = ignores_case;
  }
  std::optional<Regex> parse() {
    Regex regex;
    if (!choice(regex.root, 0) || at_ != text_.size()) return std::nullopt;
    regex.is_multi_line = says_newline_;
    if (!says_newline_) remove_newlines(regex.root);
    return regex;
  }

 private:
  bool has(char c) const { return at_ < text_.size() && text_[at_] == c; }
  bool take(std::string_view word) {
    if (!text_.substr(at_).starts_with(word)) return false;
    at_ += word.size();
    return true;
  }

  bool choice(RegexNode& node, int depth) {
    if (depth > most_depth) return false;
    node.kind = Kind::choice;
    do {
      if (!sequence(node.parts.emplace_back(), depth)) return false;
    } while (take("|"));
    unwrap(node);
    return true;
  }

  bool sequence(RegexNode& node, int depth) {
    node.kind = Kind::sequence;
    while (at_ < text_.size() && !has('|') && !has(')')) {
      if (++nodes_ > most_nodes) return false;
      if (take("\\Q")) {
        if (!quoted(node)) return false;
        continue;
      }
      auto& part = node.parts.emplace_back();
      if (take("(")) {
        bool is_flags = false;
        if (!group(part, depth, is_flags)) return false;
        if (is_flags) {
          node.parts.pop_back();
          continue;
        }
      } else if (!one(part)) {
        return false;
      }
      if (!repeats(part)) return false;
    }
    unwrap(node);
    return true;
  }

  static void unwrap(RegexNode& node) {
    if (node.parts.empty()) node = RegexNode{};
    if (node.parts.size() != 1) return;
    RegexNode only = std::move(node.parts[0]);
    node = std::move(only);
  }

  bool quoted(RegexNode& node) {
    while (at_ < text_.size() && !take("\\E")) {
      if (++nodes_ > most_nodes || !character(node.parts.emplace_back())) return false;
    }
    // A repetition after \E concerns the last character: rare, and left to RE2.
    return at_ == text_.size() || std::string_view("*+?{").find(text_[at_]) == std::string::npos;
  }

  bool group(RegexNode& node, int depth, bool& is_flags) {
    Flags before = flags_;
    if (take("?")) {
      if (take("P<")) {
        auto end = text_.find('>', at_);
        if (end == std::string_view::npos) return false;
        at_ = end + 1;
      } else if (!flags(is_flags)) {
        return false;
      }
      if (is_flags) return true;
    }
    if (!choice(node, depth + 1) || !take(")")) return false;
    flags_ = before;
    return true;
  }

  // i, -s and the like; `is_alone`: for the rest of the group, not for a group of their own.
  bool flags(bool& is_alone) {
    bool value = true;
    for (; at_ < text_.size(); ++at_) {
      switch (text_[at_]) {
        case '-':
          value = false;
          break;
        case 'i':
          flags_.ignores_case = value;
          break;
        case 'm':
          flags_.is_multi = value;
          break;
        case 's':
          flags_.dot_is_all = value;
          break;
        case 'U':
          flags_.is_lazy = value;
          break;
        case ')':
          is_alone = true;
          [[fallthrough]];
        case ':':
          ++at_;
          return true;
        default:
          return false;
      }
    }
    return false;
  }

  bool repeats(RegexNode& node) {
    for (bool is_first = true; at_ < text_.size(); is_first = false) {
      int least = 0, most = -1;
      if (take("*")) {
      } else if (take("+")) {
        least = 1;
      } else if (take("?")) {
        most = 1;
      } else if (!has('{') || !bounds(least, most)) {
        return true;
      }
      if (!is_first) return false;  // a** and the like
      RegexNode repeat;
      repeat.kind = Kind::repeat;
      repeat.least = least;
      repeat.most = most;
      repeat.is_greedy = take("?") == flags_.is_lazy;
      repeat.parts.push_back(std::move(node));
      node = std::move(repeat);
    }
    return true;
  }

  // {2} {2,} {2,5}; anything else after "{" is an ordinary character.
  bool bounds(int& least, int& most) {
    std::size_t at = at_ + 1;
    auto number = [&](int& into) {
      std::size_t start = at;
      into = 0;
      while (at < text_.size() && text_[at] >= '0' && text_[at] <= '9' && at - start < 5)
        into = into * 10 + (text_[at++] - '0');
      return at > start;
    };
    if (!number(least)) return false;
    most = least;
    if (at < text_.size() && text_[at] == ',') {
      ++at;
      if (!number(most)) most = -1;
    }
    if (at == text_.size() || text_[at] != '}') return false;
    at_ = at + 1;
    return true;
  }

  bool one(RegexNode& node) {
    switch (text_[at_]) {
      case '^':
        ++at_;
        node.kind = flags_.is_multi ? Kind::begin_line : Kind::begin_text;
        return true;
      case '$':
        ++at_;
        node.kind = flags_.is_multi ? Kind::end_line : Kind::end_text;
        return true;
      case '.':
        ++at_;
        node.kind = Kind::chars;
        node.ascii.set();
        node.has_others = true;
        if (flags_.dot_is_all)
          says_newline_ = true;
        else
          node.ascii.reset('\n');
        return true;
      case '[':
        return char_class(node);
      case '\\':
        return escape(node);
      case '*':
      case '+':
      case '?':
        return false;
      default:
        return character(node);
    }
  }

  bool char_class(RegexNode& node) {
    auto read = read_class(text_.substr(at_), flags_.ignores_case);
    if (!read) return false;
    at_ += read->size;
    node = std::move(read->node);
    says_newline_ |= read->says_newline;
    return true;
  }

  bool escape(RegexNode& node) {
    auto assertion = [&](Kind kind) {
      at_ += 2;
      node.kind = kind;
      return true;
    };
    if (at_ + 1 == text_.size()) return false;
    switch (text_[at_ + 1]) {
      case 'A':
        return assertion(Kind::begin_text);
      case 'z':
        return assertion(Kind::end_text);
      case 'b':
        return assertion(Kind::boundary);
      case 'B':
        return assertion(Kind::not_boundary);
      default:
        break;
    }
    auto read = read_escape(text_.substr(at_), flags_.ignores_case);
    if (!read) return false;
    at_ += read->size;
    node = std::move(read->node);
    says_newline_ |= read->says_newline;
    return true;
  }

  bool character(RegexNode& node) {
    auto read = read_character(text_.substr(at_), flags_.ignores_case);
    if (!read) return false;
    at_ += read->size;
    node = std::move(read->node);
    says_newline_ |= read->says_newline;
    return true;
  }

  static void remove_newlines(RegexNode& node) {
    node.ascii.reset('\n');
    // In one line the ends of the text are the ends of the line.
    if (node.kind == Kind::begin_text) node.kind = Kind::begin_line;
    if (node.kind == Kind::end_text) node.kind = Kind::end_line;
    for (auto& part : node.parts) remove_newlines(part);
  }

  std::string_view text_;
  std::size_t at_ = 0, nodes_ = 0;
  Flags flags_;
  bool says_newline_ = false;
};

// Writes [\x41-\x5A…]. Both libraries read \xNN below 80 alike.
std::string class_text(const RegexNode& node, bool for_bytes) {
  std::string inside;
  for (std::size_t i = 0; i < 128; ++i) {
    if (!node.ascii[i]) continue;
    std::size_t last = i;
    while (last + 1 < 128 && node.ascii[last + 1]) ++last;
    inside += fmt::format("\\x{:02X}", i);
    if (last > i) inside += fmt::format("-\\x{:02X}", last);
    i = last;
  }
  if (node.has_others && !for_bytes) inside += "\\x{80}-\\x{10FFFF}";
  if (inside.empty()) return "[^\\x00-\\x{10FFFF}]";
  if (node.ascii.count() == 1 && !node.has_others) return inside;
  return "[" + inside + "]";
}

class Writer {
 public:
  explicit Writer(bool for_bytes) : for_bytes_(for_bytes) {}
  std::string text;

  void write(const RegexNode& node) {
    switch (node.kind) {
      case Kind::empty:
        text += "(?:)";
        break;
      case Kind::chars:
        text += class_text(node, for_bytes_);
        break;
      case Kind::bytes:
        if (!for_bytes_)
          text += node.text;
        else
          for (unsigned char c : node.text) text += fmt::format("\\x{:02X}", c);
        break;
      case Kind::opaque:
        text += node.text;
        break;
      case Kind::begin_line:
        text += for_bytes_ ? "^" : "(?m:^)";
        break;
      case Kind::end_line:
        text += for_bytes_ ? "$" : "(?m:$)";
        break;
      case Kind::begin_text:
        text += "\\A";
        break;
      case Kind::end_text:
        text += "\\z";
        break;
      case Kind::boundary:
        text += "\\b";
        break;
      case Kind::not_boundary:
        text += "\\B";
        break;
      case Kind::sequence:
        for (const auto& part : node.parts) inner(part, part.kind == Kind::choice);
        break;
      case Kind::choice:
        for (std::size_t i = 0; i < node.parts.size(); ++i) {
          if (i > 0) text += "|";
          write(node.parts[i]);
        }
        break;
      case Kind::repeat:
        repeat(node);
        break;
    }
  }

 private:
  void inner(const RegexNode& node, bool is_grouped) {
    if (is_grouped) text += "(?:";
    write(node);
    if (is_grouped) text += ")";
  }
  void repeat(const RegexNode& node) {
    inner(node.parts[0], node.parts[0].kind != Kind::chars);
    if (node.least == 0 && node.most == -1)
      text += "*";
    else if (node.least == 1 && node.most == -1)
      text += "+";
    else if (node.least == 0 && node.most == 1)
      text += "?";
    else if (node.most == -1)
      text += fmt::format("{{{},}}", node.least);
    else if (node.most == node.least)
      text += fmt::format("{{{}}}", node.least);
    else
      text += fmt::format("{{{},{}}}", node.least, node.most);
    if (!node.is_greedy && !for_bytes_) text += "?";
  }
  bool for_bytes_;
};

struct Measure {
  bool has_opaque = false, has_others = false, has_text_ends = false, has_nothing = false;
};
// Places of the automaton, roughly.
std::size_t measure(const RegexNode& node, Measure& seen) {
  std::size_t size = 1;
  for (const auto& part : node.parts) size += measure(part, seen);
  if (node.kind == Kind::opaque) seen.has_opaque = true;
  if (node.kind == Kind::chars && node.has_others) seen.has_others = true;
  if (node.kind == Kind::chars && node.ascii.none()) seen.has_nothing = true;
  if (node.kind == Kind::begin_text || node.kind == Kind::end_text) seen.has_text_ends = true;
  if (node.kind == Kind::repeat)
    size *= static_cast<std::size_t>(std::max({1, node.least, node.most}));
  return std::min<std::size_t>(size, 1u << 30);
}

// May match the empty string, at a line's end or elsewhere.
bool may_be_empty(const RegexNode& node) {
  switch (node.kind) {
    case Kind::chars:
    case Kind::bytes:
      return false;
    case Kind::sequence:
      return std::ranges::all_of(node.parts, may_be_empty);
    case Kind::choice:
      return std::ranges::any_of(node.parts, may_be_empty);
    case Kind::repeat:
      return node.least == 0 || may_be_empty(node.parts[0]);
    default:
      return true;
  }
}

std::size_t line_ends(const RegexNode& node) {
  std::size_t count = node.kind == Kind::begin_line || node.kind == Kind::end_line ? 1 : 0;
  for (const auto& part : node.parts) count += line_ends(part);
  return count;
}

// Beyond this Hyperscan's compiler takes longer than a query should.
constexpr std::size_t most_hyperscan_size = 1000;

}  // namespace

std::optional<Regex> parse_regex(std::string_view pattern, bool ignores_case) {
  return Parser(pattern, ignores_case).parse();
}

std::string for_re2(const Regex& regex) {
  Writer writer(false);
  writer.write(regex.root);
  return std::move(writer.text);
}

std::optional<HyperscanPattern> for_hyperscan(const Regex& regex) {
  Measure seen;
  if (measure(regex.root, seen) > most_hyperscan_size) return std::nullopt;
  if (seen.has_opaque || seen.has_text_ends || seen.has_nothing || may_be_empty(regex.root))
    return std::nullopt;
  Writer writer(true);
  writer.write(regex.root);
  return HyperscanPattern{.text = std::move(writer.text), .is_for_ascii = seen.has_others};
}

bool matches_everything(const RegexNode& node) {
  switch (node.kind) {
    case Kind::empty:
      return true;
    case Kind::begin_line:
    case Kind::end_line:
      return true;  // every line has both, though not always in one place
    case Kind::sequence:
      // ^x*$ does not match every line, so at most one end of the line may be asked for.
      return line_ends(node) <= 1 && std::ranges::all_of(node.parts, matches_everything);
    case Kind::choice:
      return std::ranges::any_of(node.parts, matches_everything);
    case Kind::repeat:
      return node.least == 0 || matches_everything(node.parts[0]);
    default:
      return false;
  }
}

}  // namespace warren::search
