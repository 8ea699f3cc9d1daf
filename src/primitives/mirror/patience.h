#pragma once
// How long a mirror waits for an answer, and what the client may do until then. Shared by the real
// mirror and the simulated one.
#include "primitives/mirror/machine.h"
#include "redis/call.h"

namespace warren::mirror {

inline constexpr auto patience = 2s;  // for a short answer
// A long answer is awaited until its connection ends, which happens after a few seconds without a
// byte: if it were requested again, the server would queue it twice. This bound only makes every
// wait end.
inline constexpr auto bulk_patience = 10min;
inline constexpr std::size_t slowest_upload = 64;  // bytes per millisecond

inline redis::CallOptions options_for(const Request& request, Clock::time_point now) {
  redis::CallOptions options;
  // The machine asks again by itself, and perhaps for something else.
  if (request.is_bulk()) return options.by(now + bulk_patience).fail_fast().unless_keys_are_split();
  if (request.kind == Request::Kind::tail) return options.by(now + patience).idempotent();
  std::size_t bytes = 0;
  for (const auto& arg : request.args) bytes += arg.size();
  return options.by(now + patience + std::chrono::milliseconds(bytes / slowest_upload));
}

}  // namespace warren::mirror
