#include "services/board/store/keys.h"

#include <algorithm>

#include "redis/resp/reply.h"

namespace warren::board {
namespace {

bool is_lower(char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9'); }

bool fits_prefix(char c) {
  return is_lower(c) || (c >= 'A' && c <= 'Z') || c == '_' || c == '.' || c == '-';
}

bool fits_instance(char c) { return is_lower(c) || c == '-'; }

}  // namespace

Result<BoardKeys> BoardKeys::create(std::string_view prefix, std::string_view instance,
                                    Layout layout) {
  if (prefix.empty() || prefix.size() > 32 || !std::ranges::all_of(prefix, fits_prefix))
    return fail(Errc::invalid, "the prefix {} is not 1 to 32 letters, digits, '_', '.' or '-'",
                redis::quoted(prefix.substr(0, 60)));
  if (instance.empty() || instance.size() > 63 || !std::ranges::all_of(instance, fits_instance) ||
      instance.front() == '-')
    return fail(Errc::invalid,
                "the instance {} is not 1 to 63 lower-case letters, digits or '-', '-' not first",
                redis::quoted(instance.substr(0, 60)));
  bool tagged = layout == Layout::cluster;
  return BoardKeys(tagged ? fmt::format("{}:{{{}}}:", prefix, instance)
                          : fmt::format("{}:{}:", prefix, instance));
}

// Of what is special in a glob only braces are not, and nothing else may be in a root.
std::string BoardKeys::all(std::string_view begin) const {
  std::string glob = root_;
  for (char c : begin) {
    if (c == '*' || c == '?' || c == '[' || c == ']' || c == '\\') glob += '\\';
    glob += c;
  }
  return glob + "*";
}

}  // namespace warren::board
