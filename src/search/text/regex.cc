#include "search/text/regex.h"

#include <fmt/format.h>

#include <algorithm>

#include "search/text/regex_classes.h"

namespace warren::search {
namespace {

using Kind = RegexNode::Kind;
constexpr int most_depth = 100;
constexpr std::size_t most_nodes = 20'000;

struct Flags {
  bool ignores_case = false, is_multi = true, dot_is_all = false, is_lazy = false;
};

// Each function returns false for syntax that it does not know. Then its result is not used.
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
    // A repetition after \E applies to the last character. That is rare, and left to RE2.
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

  // i, -s and the like. `is_alone`: they apply to the rest of the group and start no group.
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
    // Within one line, the ends of the text are the ends of the line.
    if (node.kind == Kind::begin_text) node.kind = Kind::begin_line;
    if (node.kind == Kind::end_text) node.kind = Kind::end_line;
    for (auto& part : node.parts) remove_newlines(part);
  }

  std::string_view text_;
  std::size_t at_ = 0, nodes_ = 0;
  Flags flags_;
  bool says_newline_ = false;
};

}  // namespace

std::optional<Regex> parse_regex(std::string_view pattern, bool ignores_case) {
  return Parser(pattern, ignores_case).parse();
}

}  // namespace warren::search
