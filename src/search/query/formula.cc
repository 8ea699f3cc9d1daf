#include "search/query/formula.h"

#include <algorithm>
#include <set>

#include "search/index/segment.h"

namespace warren::search {
namespace {

using Kind = RegexNode::Kind;
// Strings of byte classes: upper and lower case are the same class.
using Strings = std::set<std::string>;

constexpr std::size_t most_exact = 64;    // strings that a part may match, if all are known
constexpr std::size_t most_classes = 16;  // of one character of such a string
constexpr std::size_t most_joined = 256;  // strings examined where two parts meet
constexpr std::size_t most_ends = 20;     // beginnings or ends of a part to remember
constexpr std::size_t most_length = 256;  // of an exact string

Formula both(Formula a, Formula b) {
  if (a.kind == Formula::Kind::everything) return b;
  if (b.kind == Formula::Kind::everything) return a;
  Formula all{.kind = Formula::Kind::both};
  for (Formula* one : {&a, &b}) {
    if (one->kind == Formula::Kind::both)
      std::ranges::move(one->parts, std::back_inserter(all.parts));
    else
      all.parts.push_back(std::move(*one));
  }
  return all;
}

Formula either(Formula a, Formula b) {
  if (a.kind == Formula::Kind::everything || b.kind == Formula::Kind::everything) return {};
  Formula any{.kind = Formula::Kind::either};
  for (Formula* one : {&a, &b}) {
    if (one->kind == Formula::Kind::either)
      std::ranges::move(one->parts, std::back_inserter(any.parts));
    else
      any.parts.push_back(std::move(*one));
  }
  return any;
}

Formula keys_of(std::string_view classes) {
  std::vector<std::uint32_t> keys;
  for (std::size_t i = 0; i + 2 < classes.size(); ++i) {
    auto class_at = [&](std::size_t place) { return static_cast<std::uint32_t>(classes[place]); };
    keys.push_back(class_at(i) << 12 | class_at(i + 1) << 6 | class_at(i + 2));
  }
  std::ranges::sort(keys);
  auto repeated = std::ranges::unique(keys);
  keys.erase(repeated.begin(), repeated.end());
  Formula formula;
  for (auto key : keys)
    formula = both(std::move(formula), Formula{.kind = Formula::Kind::key, .key = key});
  return formula;
}

std::size_t shortest(const Strings& strings) {
  std::size_t size = SIZE_MAX;
  for (const auto& string : strings) size = std::min(size, string.size());
  return size;
}

// At least one of them occurs.
Formula one_of(const Strings& strings) {
  if (strings.empty() || shortest(strings) < 3) return {};
  Formula formula;
  bool is_first = true;
  for (const auto& string : strings) {
    Formula keys = keys_of(string);
    formula = is_first ? std::move(keys) : either(std::move(formula), std::move(keys));
    is_first = false;
  }
  return formula;
}

Strings joined(const Strings& first, const Strings& second) {
  Strings all;
  for (const auto& a : first)
    for (const auto& b : second) all.insert(a + b);
  return all;
}

Strings united(Strings a, const Strings& b) {
  a.insert(b.begin(), b.end());
  return a;
}

// What is known about a part: the strings that it matches, if there are few; otherwise how its
// matches begin and end. The empty string in `begins` means that nothing is known.
struct Known {
  bool is_exact = false;
  bool may_be_empty = false;
  Strings exact, begins, ends;
  Formula formula;
};

Known exactly(Strings strings) {
  Known known;
  known.may_be_empty = strings.contains("");
  known.is_exact = true;
  known.exact = std::move(strings);
  return known;
}

Known anything(bool may_be_empty) {
  Known known;
  known.may_be_empty = may_be_empty;
  known.begins = known.ends = {""};
  return known;
}

// Keeps two bytes of each string, or fewer if there are many. The formula already covers the rest.
void shorten(Known& known, Strings& strings, bool are_begins) {
  known.formula = both(std::move(known.formula), one_of(strings));
  for (std::size_t size = 2;; --size) {
    Strings shorter;
    for (const auto& string : strings)
      shorter.insert(string.size() <= size ? string
                     : are_begins          ? string.substr(0, size)
                                           : string.substr(string.size() - size));
    strings = std::move(shorter);
    if (size == 0 || strings.size() <= most_ends) return;
  }
}

void give_up_exactness(Known& known) {
  if (!known.is_exact) return;
  known.is_exact = false;
  known.begins = known.ends = known.exact;
  known.exact.clear();
}

void simplify(Known& known) {
  std::size_t longest = 0;
  for (const auto& string : known.exact) longest = std::max(longest, string.size());
  if (known.exact.size() > most_exact || longest > most_length) give_up_exactness(known);
  if (known.is_exact) return;
  shorten(known, known.begins, true);
  shorten(known, known.ends, false);
}

const Strings& begins_of(const Known& known) { return known.is_exact ? known.exact : known.begins; }
const Strings& ends_of(const Known& known) { return known.is_exact ? known.exact : known.ends; }

Known then(Known first, Known second) {
  Known known;
  known.may_be_empty = first.may_be_empty && second.may_be_empty;
  known.formula = both(std::move(first.formula), std::move(second.formula));
  const auto& meet_a = ends_of(first);
  const auto& meet_b = begins_of(second);
  bool is_few = meet_a.size() * meet_b.size() <= most_joined;
  if (first.is_exact && second.is_exact && is_few) {
    known.is_exact = true;
    known.exact = joined(first.exact, second.exact);
    simplify(known);
    return known;
  }
  if (is_few && shortest(meet_a) + shortest(meet_b) >= 3)
    known.formula = both(std::move(known.formula), one_of(joined(meet_a, meet_b)));
  known.begins = first.is_exact && is_few
                     ? joined(first.exact, second.is_exact ? second.exact : second.begins)
                     : begins_of(first);
  known.ends = second.is_exact && is_few
                   ? joined(first.is_exact ? first.exact : first.ends, second.exact)
                   : ends_of(second);
  // If a part may be empty, its neighbour's ends show through. Exact parts have "" among their
  // strings.
  if (first.may_be_empty && !first.is_exact) known.begins = united(known.begins, begins_of(second));
  if (second.may_be_empty && !second.is_exact) known.ends = united(known.ends, ends_of(first));
  simplify(known);
  return known;
}

Known or_else(Known first, Known second) {
  if (first.is_exact && second.is_exact) {
    Known known = exactly(united(std::move(first.exact), second.exact));
    known.formula = either(std::move(first.formula), std::move(second.formula));
    simplify(known);
    return known;
  }
  for (Known* one : {&first, &second}) {
    if (!one->is_exact) continue;
    give_up_exactness(*one);
    one->formula = both(std::move(one->formula), one_of(one->begins));
  }
  Known known;
  known.may_be_empty = first.may_be_empty || second.may_be_empty;
  known.begins = united(std::move(first.begins), second.begins);
  known.ends = united(std::move(first.ends), second.ends);
  known.formula = either(std::move(first.formula), std::move(second.formula));
  simplify(known);
  return known;
}

Known known_of(const RegexNode& node);

Known known_of_chars(const RegexNode& node) {
  // A line end may lie between two blocks, so no key that we ask for contains one.
  if (node.has_others || node.ascii.none() || node.ascii['\n']) return anything(false);
  Strings classes;
  for (std::size_t c = 0; c < 128; ++c)
    if (node.ascii[c])
      classes.insert(std::string(1, static_cast<char>(byte_class(static_cast<unsigned char>(c)))));
  return classes.size() <= most_classes ? exactly(std::move(classes)) : anything(false);
}

Known known_of_repeat(const RegexNode& node) {
  Known one = known_of(node.parts[0]);
  if (node.least == 0)
    return node.most == 1 ? or_else(std::move(one), exactly({""})) : anything(true);
  constexpr int most_copies = 8;
  Known all = one;
  for (int i = 1; i < std::min(node.least, most_copies); ++i) all = then(std::move(all), one);
  if (node.least > most_copies || node.most != node.least) {
    // More of the same follows, so the end is known as well as the beginning.
    Known more = anything(true);
    Known last = one;
    all = then(std::move(all), then(std::move(more), or_else(std::move(last), exactly({""}))));
  }
  return all;
}

Known known_of(const RegexNode& node) {
  switch (node.kind) {
    case Kind::chars:
      return known_of_chars(node);
    case Kind::bytes: {
      std::string classes;
      for (unsigned char c : node.text) classes += static_cast<char>(byte_class(c));
      return exactly({classes});
    }
    case Kind::opaque:
      return anything(true);
    case Kind::sequence: {
      Known all = exactly({""});
      for (const auto& part : node.parts) all = then(std::move(all), known_of(part));
      return all;
    }
    case Kind::choice: {
      Known any = known_of(node.parts[0]);
      for (std::size_t i = 1; i < node.parts.size(); ++i)
        any = or_else(std::move(any), known_of(node.parts[i]));
      return any;
    }
    case Kind::repeat:
      return known_of_repeat(node);
    default:
      return exactly({""});  // an assertion has no width
  }
}

}  // namespace

Formula formula_of(std::string_view literal) {
  Formula formula;
  // Split at line ends: see known_of_chars.
  for (std::size_t at = 0; at <= literal.size();) {
    std::size_t end = std::min(literal.find('\n', at), literal.size());
    std::string classes;
    for (unsigned char c : literal.substr(at, end - at))
      classes += static_cast<char>(byte_class(c));
    formula = both(std::move(formula), keys_of(classes));
    at = end + 1;
  }
  return formula;
}

Formula formula_of(const Regex& regex) {
  Known known = known_of(regex.root);
  if (!known.is_exact) return std::move(known.formula);
  return both(std::move(known.formula), one_of(known.exact));
}

}  // namespace warren::search
