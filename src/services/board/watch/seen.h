#pragma once
// Which happenings were shown, so that history and live events make one stream: each once.
#include <string>
#include <unordered_map>

#include "services/board/store/types.h"

namespace warren::watch {

class Seen {
 public:
  // How far back history is read again after a gap: clocks of those who create artefacts differ,
  // and an event may come later than a younger one. What is older than this need not be remembered.
  static constexpr std::chrono::minutes overlap{5};

  // Nothing before this moment counts as missed.
  explicit Seen(board::UnixTime begin) : begin_(begin), latest_(begin) {}

  // False: it was shown before. An empty key is always new.
  bool add(const std::string& key, board::UnixTime at);
  // From where history has to be read to find whatever was missed.
  board::UnixTime resume_from() const { return std::max(begin_, latest_ - overlap); }

 private:
  void forget_old();

  board::UnixTime begin_, latest_;
  std::unordered_map<std::string, board::UnixTime> shown_;
  std::size_t forget_at_ = 10'000;
};

}  // namespace warren::watch
