#pragma once
// A YAML text as a plain tree in which every value knows its line.
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace warren {

struct Yaml {
  enum class Kind { nothing, text, list, map };
  Kind kind = Kind::nothing;
  std::string text = {};
  std::vector<Yaml> items = {};  // of a list or a map, in the order of the file
  std::string key = {};          // what it is called, if it is part of a map
  int line = 0;                  // of its key, or else of itself; the first is 1

  const Yaml* find(std::string_view name) const;
};

struct YamlMistake {
  int line = 1;
  std::string what;
};

// At most 1 MiB, 32 levels and 20,000 values, those counted twice that are referred to twice: a
// small text can otherwise stand for a tree that no memory holds.
std::expected<Yaml, YamlMistake> parse_yaml(std::string_view text);

}  // namespace warren
