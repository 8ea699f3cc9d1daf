#pragma once
// Parses YAML into a plain tree in which every value knows its line.
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace warren {

struct Yaml {
  enum class Kind { nothing, text, list, map };
  Kind kind = Kind::nothing;
  std::string text = {};
  std::vector<Yaml> items = {};  // of a list or a map, in file order
  std::string key = {};          // its key, if it is in a map
  int line = 0;                  // of the key if there is one, else of the value; from 1

  const Yaml* find(std::string_view name) const;
};

struct YamlMistake {
  int line = 1;
  std::string what;
};

// Accepts at most 1 MiB, 32 levels and 20,000 values. A value with two references counts twice,
// since a small text could otherwise expand into a tree that no memory holds.
std::expected<Yaml, YamlMistake> parse_yaml(std::string_view text);

}  // namespace warren
