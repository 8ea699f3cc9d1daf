#pragma once
// Commands to a server from outside of what is tested: a blocking connection for one command.
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/error.h"

namespace warren::inline testkit {

struct ControlTarget {
  unsigned short port;
  std::string user = {}, password = {};  // no AUTH without a user
};

// All strings and numbers of the reply, in order, without its nesting; nil is "(nil)".
// Errc::refused: an error reply, word for word. Errc::unavailable: no connection. Errc::timeout.
Result<std::vector<std::string>> control(const ControlTarget& target,
                                         const std::vector<std::string>& words,
                                         Clock::duration limit);

}  // namespace warren::inline testkit
