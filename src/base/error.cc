#include "base/error.h"

#include <cstdlib>

#include "base/log.h"

namespace warren {

std::string_view name(Errc code) {
  switch (code) {
    case Errc::invalid:
      return "invalid";
    case Errc::not_found:
      return "not_found";
    case Errc::held_elsewhere:
      return "held_elsewhere";
    case Errc::lease_lost:
      return "lease_lost";
    case Errc::denied:
      return "denied";
    case Errc::refused:
      return "refused";
    case Errc::unavailable:
      return "unavailable";
    case Errc::overloaded:
      return "overloaded";
    case Errc::timeout:
      return "timeout";
    case Errc::unknown_outcome:
      return "unknown_outcome";
    case Errc::protocol:
      return "protocol";
    case Errc::cancelled:
      return "cancelled";
  }
  std::abort();
}

bool may_retry(const Error& error) {
  switch (error.code) {
    case Errc::unavailable:
    case Errc::overloaded:
    case Errc::timeout:
    case Errc::unknown_outcome:
      return true;
    case Errc::invalid:
    case Errc::not_found:
    case Errc::held_elsewhere:
    case Errc::lease_lost:
    case Errc::denied:
    case Errc::refused:
    case Errc::protocol:
    case Errc::cancelled:
      return false;
  }
  std::abort();
}

Error within(std::string_view where, Error error) {
  error.what = fmt::format("{}: {}", where, error.what);
  return error;
}

void broken_invariant(const char* file, int line, std::string_view what) {
  log::error("process.aborted", "broken", what, "at", fmt::format("{}:{}", file, line));
  std::abort();
}

}  // namespace warren
