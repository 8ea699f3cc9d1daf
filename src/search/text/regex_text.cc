// Writes a regular expression in the syntax of the libraries that search for it.
#include <fmt/format.h>

#include <algorithm>

#include "search/text/regex.h"

namespace warren::search {
namespace {

using Kind = RegexNode::Kind;

// Writes [\x41-\x5A…]. Both libraries read \xNN below 80 in the same way.
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

// If RE2 merges [Kk] with other single-character choices, it takes it for "k in any case", which
// also includes the Kelvin sign (and the long s for s). It leaves a repetition alone.
bool is_joined_wrongly(const RegexNode& node) {
  if (node.kind != Kind::chars || node.has_others || node.ascii.count() != 2) return false;
  return (node.ascii['k'] && node.ascii['K']) || (node.ascii['s'] && node.ascii['S']);
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
        if (!for_bytes_ && is_joined_wrongly(node)) text += "{1}";
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
    const auto& part = node.parts[0];
    inner(part, part.kind != Kind::chars || is_joined_wrongly(part));
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
// The approximate number of automaton states.
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

// May match the empty string, at a line end or elsewhere.
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

// Beyond this, Hyperscan takes longer to compile than a query should.
constexpr std::size_t most_hyperscan_size = 1000;

}  // namespace

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
    case Kind::begin_line:  // every line has both ends, though not always in one place
    case Kind::end_line:
      return true;
    case Kind::sequence:
      // ^x*$ does not match every line, so at most one line end may be required.
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
