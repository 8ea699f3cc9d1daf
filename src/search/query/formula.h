#pragma once
// What a block must contain to have a match: keys of three bytes, joined by "and" and "or".
//
//   foobar                 ->  foo & oob & oba & bar
//   (read|write)_lock      ->  (rea & ead & ad_ & d_l & …) | (wri & rit & …)
//   a.b, fo, .*            ->  everything: the text must be scanned
//
// It is a filter: if it does not hold, there is no match; if it holds, there may be one.
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "search/text/regex.h"

namespace warren::search {

struct Formula {
  enum class Kind : std::uint8_t { everything, key, both, either };
  Kind kind = Kind::everything;
  std::uint32_t key = 0;
  std::vector<Formula> parts = {};
};

Formula formula_of(std::string_view literal);
Formula formula_of(const Regex& regex);

// Whether it holds for a set of keys. `has` answers for one key.
template <class Has>
bool holds(const Formula& formula, const Has& has) {
  switch (formula.kind) {
    case Formula::Kind::everything:
      return true;
    case Formula::Kind::key:
      return has(formula.key);
    case Formula::Kind::both:
      for (const auto& part : formula.parts)
        if (!holds(part, has)) return false;
      return true;
    case Formula::Kind::either:
      for (const auto& part : formula.parts)
        if (holds(part, has)) return true;
      return false;
  }
  return true;
}

}  // namespace warren::search
