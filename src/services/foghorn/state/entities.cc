#include "services/foghorn/state/entities.h"

#include <algorithm>
#include <array>

#include "base/utf8.h"

namespace warren::foghorn {

using balance::NodeMode;

std::string_view name(NodeMode mode) {
  switch (mode) {
    case NodeMode::normal:
      return "normal";
    case NodeMode::draining:
      return "draining";
    case NodeMode::maintenance:
      return "maintenance";
  }
  return "";
}

std::optional<NodeMode> parse_node_mode(std::string_view word) {
  if (word.empty()) return NodeMode::normal;
  for (auto mode : {NodeMode::normal, NodeMode::draining, NodeMode::maintenance})
    if (word == name(mode)) return mode;
  return {};
}

WallTime later_than(WallTime seen) {
  return std::max<WallTime>(WallClock::now(), seen + WallTime::duration(1));
}

std::string_view bare_name(std::string_view stream) {
  constexpr std::array<std::string_view, 5> prefixes{"live+", "vod+", "pull+", "dvr+",
                                                     "processing+"};
  for (auto prefix : prefixes)
    if (stream.starts_with(prefix)) return stream.substr(prefix.size());
  return stream;
}

Result<> check_id(std::string_view what, std::string_view id) {
  constexpr std::size_t longest = 128;
  if (id.empty()) return fail(Errc::invalid, "{}: is empty", what);
  if (id.size() > longest)
    return fail(Errc::invalid, "{}: {} characters are more than {}", what, id.size(), longest);
  for (auto rest = id; !rest.empty();) {
    auto [value, length] = first_code_point(rest);
    bool is_control = value < 0x20 || value == 0x7f || (value >= 0x80 && value < 0xa0);
    if (is_control || (value == 0xfffd && length == 1))
      return fail(Errc::invalid, "{}: has a control character or is no UTF-8", what);
    if (value < 0x80 && std::string_view(" :*?[{}/\\").contains(static_cast<char>(value)))
      return fail(Errc::invalid, "{}: has a '{}', which an id may not have", what,
                  static_cast<char>(value));
    rest.remove_prefix(length);
  }
  return ok;
}

}  // namespace warren::foghorn
