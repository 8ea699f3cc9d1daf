#include "services/board/watch/seen.h"

#include <algorithm>

namespace warren::watch {

bool Seen::add(const std::string& key, board::UnixTime at) {
  latest_ = std::max(latest_, at);
  if (key.empty()) return true;
  if (!shown_.try_emplace(key, at).second) return false;
  if (shown_.size() >= forget_at_) forget_old();
  return true;
}

void Seen::forget_old() {
  // Twice the overlap: an event that was heard late is older than the moment at which it is read.
  auto from = latest_ - 2 * overlap;
  std::erase_if(shown_, [from](const auto& entry) { return entry.second < from; });
  forget_at_ = std::max<std::size_t>(10'000, 2 * shown_.size());
}

}  // namespace warren::watch
