#pragma once
// Sends commands to a server from outside the code under test: one blocking connection per command.
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/error.h"

namespace warren::inline testkit {

struct ControlTarget {
  unsigned short port;
  std::string user = {}, password = {};  // without a user: no AUTH
};

// Returns all strings and numbers of the reply in order, without its nesting; nil is "(nil)".
// Errc::refused: an error reply, word for word. Errc::unavailable: no connection. Errc::timeout.
Result<std::vector<std::string>> control(const ControlTarget& target,
                                         const std::vector<std::string>& words,
                                         Clock::duration limit);

}  // namespace warren::inline testkit
