#include "base/yaml.h"

#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <optional>

namespace warren {

namespace {

constexpr std::size_t most_bytes = 1u << 20, most_values = 20'000;
constexpr int most_levels = 32;

int line_of(const YAML::Node& node) { return std::max(node.Mark().line + 1, 1); }

class Copier {
 public:
  Yaml copy(const YAML::Node& node, int level) {
    Yaml result;
    result.line = line_of(node);
    if (++values_ > most_values || level > most_levels) {
      refuse(result.line, level > most_levels ? "nested too deeply" : "too many values");
      return result;
    }
    if (node.IsScalar()) {
      // Counted at each use, because aliases repeat the same text.
      bytes_ += node.Scalar().size();
      if (bytes_ > 4 * most_bytes) {
        refuse(result.line, "too much text");
        return result;
      }
      result.kind = Yaml::Kind::text;
      result.text = node.Scalar();
    } else if (node.IsSequence()) {
      result.kind = Yaml::Kind::list;
      for (const auto& item : node) add(result, copy(item, level + 1));
    } else if (node.IsMap()) {
      result.kind = Yaml::Kind::map;
      for (const auto& entry : node) copy_entry(result, entry.first, entry.second, level);
    }
    return result;
  }
  const std::optional<YamlMistake>& mistake() const { return mistake_; }

 private:
  void copy_entry(Yaml& map, const YAML::Node& key, const YAML::Node& value, int level) {
    if (!key.IsScalar()) return refuse(line_of(key), "a key must be text");
    if (map.find(key.Scalar()))
      return refuse(line_of(key), fmt::format("{}: stands here twice", key.Scalar()));
    auto copied = copy(value, level + 1);
    copied.key = key.Scalar();
    copied.line = line_of(key);
    add(map, std::move(copied));
  }
  void add(Yaml& to, Yaml item) {
    if (!mistake_) to.items.push_back(std::move(item));
  }
  void refuse(int line, std::string what) {
    if (!mistake_) mistake_ = YamlMistake{line, std::move(what)};
  }

  std::size_t values_ = 0, bytes_ = 0;
  std::optional<YamlMistake> mistake_;
};

std::expected<Yaml, YamlMistake> load(std::string_view text) {
  auto documents = YAML::LoadAll(std::string(text));
  if (documents.size() > 1)
    return std::unexpected(YamlMistake{line_of(documents[1]), "only one document may be here"});
  Copier copier;
  auto tree = documents.empty() ? Yaml{.line = 1} : copier.copy(documents[0], 0);
  if (copier.mistake()) return std::unexpected(*copier.mistake());
  return tree;
}

}  // namespace

const Yaml* Yaml::find(std::string_view name) const {
  auto found = std::ranges::find(items, name, &Yaml::key);
  return kind == Kind::map && found != items.end() ? &*found : nullptr;
}

std::expected<Yaml, YamlMistake> parse_yaml(std::string_view text) {
  if (text.size() > most_bytes)
    return std::unexpected(YamlMistake{1, "the file is larger than 1 MiB"});
  try {
    return load(text);
  } catch (const YAML::Exception& thrown) {
    // what() would repeat the line number.
    return std::unexpected(YamlMistake{std::max(thrown.mark.line + 1, 1), thrown.msg});
  } catch (const std::exception& thrown) {
    return std::unexpected(YamlMistake{1, thrown.what()});
  }
}

}  // namespace warren
