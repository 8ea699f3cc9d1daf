#pragma once
// What an error reply means: the one place where Redis' words become codes.
#include <string_view>

#include "base/error.h"
#include "redis/resp/reply.h"

namespace warren::redis {

// What a refusal means for the command. None of those that are not final ran.
enum class Refusal {
  final,        // the caller's business: WRONGTYPE, a script's own error, …
  denied,       // NOAUTH, WRONGPASS, NOPERM, DENIED
  exhausted,    // OOM, MISCONF: the server takes no writes until it has memory, or a disk, again
  later,        // the same server will take it soon: LOADING, BUSY, NOREPLICAS, …
  not_primary,  // READONLY, MASTERDOWN: it is a replica now
  moved,        // MOVED slot address
  ask,          // ASK slot address
};
Refusal classify(std::string_view error);

// An error reply as an Error, with the server's own words. What passes by itself is unavailable, so
// that may_retry() is true of it; what the user may not do is denied; the rest is refused.
Error error_of(const Reply& reply);
// "WRONGTYPE" of "WRONGTYPE Operation against …".
std::string_view error_word(std::string_view text);

}  // namespace warren::redis
