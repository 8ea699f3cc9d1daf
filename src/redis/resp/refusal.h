#pragma once
// What an error reply means: the one place where Redis' words become codes.
#include <optional>
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

// An error reply as an Error, with the server's own words and the cause that they stand for. What
// passes by itself is unavailable, so that may_retry() is true of it; what the user may not do is
// denied; the rest is refused.
Error error_of(const Reply& reply);
// Of an Error that error_of() made: what classify() said. Final of every other.
Refusal refusal_of(const Error& error);
// An error of the way to a server: without a cause it gets the one that its code stands for there.
Error on_the_way(Error error);
// What follows the word, if a script of ours refused with it: "WORKSPACE default-1".
std::optional<std::string_view> said(const Error& error, std::string_view word);
// "WRONGTYPE" of "WRONGTYPE Operation against …".
std::string_view error_word(std::string_view text);

}  // namespace warren::redis
