#pragma once
// Shows the progress of a long operation: as a bar on a terminal, and otherwise as a line now and
// then.
#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <string>
#include <utility>

#include "base/clock.h"
#include "cli/cli.h"
#include "cli/say.h"

namespace warren::cli {

class Progress {
 public:
  explicit Progress(const Paint& paint) : paint_(paint), is_terminal_(isatty(STDERR_FILENO)) {}
  ~Progress() { clear(); }

  void show(double part, const std::string& text) {
    auto now = Clock::now();
    if (now < next_) return;
    next_ = now + (is_terminal_ ? Clock::duration(100ms) : Clock::duration(10s));
    auto percent = static_cast<int>(100 * std::clamp(part, 0.0, 1.0));
    if (!is_terminal_) return say("{:3} %  {}\n", percent, text);
    // A line wider than the terminal could not be erased.
    constexpr int most = 30, besides = 11;
    int width = std::clamp(columns() - besides - static_cast<int>(text.size()), 0, most);
    auto room = static_cast<std::size_t>(std::max(0, columns() - besides));
    std::string bar(static_cast<std::size_t>(width * percent / 100), '#');
    say("\r\x1b[K[{:<{}}] {:3} %  {}", paint_.green(bar),
        width + static_cast<int>(paint_.green("").size()), percent, text.substr(0, room));
    std::fflush(stderr);
    is_shown_ = true;
  }
  void clear() {
    if (std::exchange(is_shown_, false)) say("\r\x1b[K");
  }

 private:
  static int columns() {
    winsize size{};
    return ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
  }

  const Paint& paint_;
  bool is_terminal_;
  bool is_shown_ = false;
  Clock::time_point next_{};
};

}  // namespace warren::cli
