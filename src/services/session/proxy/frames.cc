#include "services/session/proxy/frames.h"

#include <algorithm>

namespace warren::session {

void FrameTracker::feed(std::string_view bytes) {
  while (!bytes.empty()) {
    if (left_ > 0) {
      auto taken = std::min<std::uint64_t>(left_, bytes.size());
      left_ -= taken;
      bytes.remove_prefix(taken);
      continue;
    }
    head_[head_size_++] = static_cast<unsigned char>(bytes.front());
    bytes.remove_prefix(1);
    if (head_size_ < 2) continue;
    auto length = static_cast<std::uint64_t>(head_[1] & 0x7f);
    std::size_t more = length == 126 ? 2 : length == 127 ? 8 : 0;
    if (head_size_ < 2 + more) continue;
    if (more > 0) length = 0;
    for (std::size_t i = 0; i < more; ++i) length = length << 8 | head_[2 + i];
    bool has_mask = (head_[1] & 0x80) != 0;
    left_ = length + (has_mask ? 4 : 0);
    head_size_ = 0;
  }
}

}  // namespace warren::session
