#pragma once
// Where frames of a WebSocket end: enough to say a last word between two of them. Opens no socket.
#include <array>
#include <cstdint>
#include <string_view>

namespace warren::session {

class FrameTracker {
 public:
  void feed(std::string_view bytes);
  bool is_between_frames() const { return head_size_ == 0 && left_ == 0; }

 private:
  std::array<unsigned char, 10> head_ = {};  // of a frame that is not whole
  std::size_t head_size_ = 0;
  std::uint64_t left_ = 0;  // of its mask and data
};

// To a client: the service restarts (1012), connect again.
inline constexpr std::string_view going_away{"\x88\x02\x03\xf4", 4};

}  // namespace warren::session
