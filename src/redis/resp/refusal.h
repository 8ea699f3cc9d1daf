#pragma once
// What an error reply means. This is the one place that turns Redis' words into codes.
#include <optional>
#include <string_view>

#include "base/error.h"
#include "redis/resp/reply.h"

namespace warren::redis {

// What a refusal means for the command. Unless it is final, the command did not run.
enum class Refusal {
  final,        // up to the caller: WRONGTYPE, a script's own error, …
  denied,       // NOAUTH, WRONGPASS, NOPERM, DENIED
  exhausted,    // OOM, MISCONF: no writes until the server has memory, or a disk, again
  later,        // the same server will accept it soon: LOADING, BUSY, NOREPLICAS, …
  not_primary,  // READONLY, MASTERDOWN: it is a replica now
  moved,        // MOVED slot address
  ask,          // ASK slot address
};
Refusal classify(std::string_view error);

// Converts an error reply into an Error, with the server's own words and the matching cause.
// Temporary conditions are unavailable, so that may_retry() is true for them; missing permissions
// are denied; the rest is refused.
Error error_of(const Reply& reply);
// For an Error made by error_of(): the result of classify(). For any other: final.
Refusal refusal_of(const Error& error);
// For an error on the way to a server: adds the cause that its code implies there, if it has none.
Error on_the_way(Error error);
// The text after the word, if one of our scripts refused with it: "WORKSPACE default-1".
std::optional<std::string_view> said(const Error& error, std::string_view word);
// "WRONGTYPE" from "WRONGTYPE Operation against …".
std::string_view error_word(std::string_view text);

}  // namespace warren::redis
