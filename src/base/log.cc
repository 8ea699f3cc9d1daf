#include "base/log.h"

#include <cstdio>

namespace warren::log {
Result<> configure(const Options&) { return ok; }
bool enabled(Level level, std::string_view) { return level >= Level::info; }
void write(Level, std::string_view event, std::span<const Field> fields) {
  std::string line(event);
  for (auto& f : fields) line += fmt::format(" {}={}", f.key, f.value);
  fmt::print(stderr, "{}\n", line);
}
}  // namespace warren::log
