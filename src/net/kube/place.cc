#include "net/kube/place.h"

#include <algorithm>

#include "net/http/target.h"

namespace warren::kube {

namespace {

// Valid for any kind: some kinds allow dots and colons. Rejects characters with a meaning in paths.
Result<> check_part(std::string_view part) {
  auto is_usual = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '.' || c == ':' || c == '_';
  };
  bool is_way = part == "." || part == "..";
  if (!is_way && part.size() <= 253 && std::ranges::all_of(part, is_usual)) return ok;
  return fail(Errc::invalid,
              "invalid name \"{}\": use at most 253 letters, digits, dashes and dots", part);
}

}  // namespace

Result<std::string> target_of(const Place& place, const QueryWords& query) {
  for (std::string_view part : {std::string_view(place.space), std::string_view(place.name),
                                std::string_view(place.subresource)})
    if (auto good = check_part(part); !good) return std::unexpected(good.error());
  const auto& kind = place.kind;
  auto target = kind.group.empty() ? fmt::format("/api/{}", kind.version)
                                   : fmt::format("/apis/{}/{}", kind.group, kind.version);
  if (kind.is_namespaced && !place.space.empty()) target += "/namespaces/" + place.space;
  target += fmt::format("/{}", kind.plural);
  if (!place.name.empty()) target += "/" + place.name;
  if (!place.subresource.empty()) target += "/" + place.subresource;
  char mark = '?';
  for (const auto& [name, value] : query) {
    if (value.empty()) continue;
    target += fmt::format("{}{}={}", mark, name, percent_encoded(value));
    mark = '&';
  }
  return target;
}

std::string text_of(const Place& place) {
  std::string text(place.kind.plural);
  if (!place.name.empty()) text += "/" + place.name;
  if (!place.subresource.empty()) text += "/" + place.subresource;
  if (!place.space.empty()) text += " in " + place.space;
  return text;
}

}  // namespace warren::kube
