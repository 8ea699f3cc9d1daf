#include "services/board/crew/reader.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>

#include "base/config.h"
#include "base/nearest.h"

namespace warren::crew {

Place Place::item(const Yaml& item, std::string_view name) const {
  return {reader_, item, path_.empty() ? std::string(name) : fmt::format("{}.{}", path_, name)};
}

std::string Place::text() const {
  if (value_.kind != Yaml::Kind::text || value_.text.empty()) error("must be text");
  return value_.text;
}

Words Place::words() const {
  Words words;
  bool fits = value_.kind == Yaml::Kind::list && !value_.items.empty();
  for (const auto& item : value_.items) {
    fits = fits && item.kind == Yaml::Kind::text && !item.text.contains('\0');
    words.push_back(item.text);
  }
  if (!fits) error("must be a list of text, such as [./run.sh, --fast]");
  return words;
}

int Place::number(int least, int most) const {
  int number = 0;
  const auto* end = value_.text.data() + value_.text.size();
  auto [at, failed] = std::from_chars(value_.text.data(), end, number);
  if (value_.kind == Yaml::Kind::text && failed == std::errc() && at == end && number >= least &&
      number <= most)
    return number;
  error(fmt::format("must be a whole number from {} to {}", least, most));
  return least;
}

milliseconds Place::time() const {
  auto time = parse_duration(value_.text);
  if (time && time->count() > 0) return *time;
  error("must be a duration above zero, such as 250ms, 5s, 2m or 1h");
  return milliseconds(1);
}

std::size_t Place::one_of(std::span<const std::string_view> words) const {
  auto found = std::ranges::find(words, value_.text);
  if (value_.kind == Yaml::Kind::text && found != words.end())
    return static_cast<std::size_t>(found - words.begin());
  auto likely = nearest(value_.text, {words.begin(), words.end()});
  error(fmt::format("must be one of {}{}", fmt::join(words, ", "),
                    likely ? ", did you mean " + *likely + "?" : ""));
  return 0;
}

void Place::error(std::string what) const { reader_.error(value_.line, path_, what); }
void Place::error_in(std::string_view name, std::string what) const {
  item(value_, name).error(std::move(what));
}
void Place::warn(std::string what) const { reader_.warn(value_.line, path_, what); }

void no_effect(const Place& place) { place.warn("has no effect"); }

bool Reader::map(const Place& place, const std::vector<Field>& fields) {
  if (place.value().kind != Yaml::Kind::map) {
    place.error("must be a map");
    return false;
  }
  for (const auto& item : place.value().items) {
    auto at = place.item(item, item.key);
    if (auto field = std::ranges::find(fields, item.key, &Field::name); field != fields.end()) {
      field->read(at);
      continue;
    }
    std::vector<std::string> names;
    for (const auto& field : fields) names.push_back(field.name);
    auto likely = nearest(item.key, names);
    at.error(likely ? fmt::format("unknown key, did you mean {}?", *likely) : "unknown key");
  }
  return true;
}

std::string Reader::message(int line, std::string_view path, std::string_view what) const {
  return fmt::format("{}:{}: {}{}{}", file_, line, path, path.empty() ? "" : ": ", what);
}

std::vector<std::string> Reader::listed(const Remarks& remarks) {
  constexpr std::size_t most = 100;
  std::vector<std::string> texts;
  for (const auto& [line, text] : remarks) {
    if (texts.size() == most) {
      texts.push_back(fmt::format("and {} more", remarks.size() - most));
      break;
    }
    texts.push_back(text);
  }
  return texts;
}

}  // namespace warren::crew
