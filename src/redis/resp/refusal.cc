#include "redis/resp/refusal.h"

#include <algorithm>
#include <array>

#include "redis/causes.h"

namespace warren::redis {

namespace {

struct Meaning {
  std::string_view words;
  Refusal refusal;
  Cause cause;
};

// Matches Redis' whole phrase, not just the first word: a script may return an error of its own
// that starts with the same word after half of its work is done. Redis itself sends these to a
// script no later than at its first write. A cause never belongs to two kinds of refusal.
constexpr std::array meanings{
    Meaning{"MOVED ", Refusal::moved, causes::moved},
    Meaning{"ASK ", Refusal::ask, causes::asked},
    Meaning{"READONLY You can't write against", Refusal::not_primary, causes::is_replica},
    Meaning{"READONLY Can not run script with write flag", Refusal::not_primary,
            causes::is_replica},
    Meaning{"MASTERDOWN Link with MASTER is down", Refusal::not_primary, causes::is_replica},
    Meaning{"UNBLOCKED force unblock from blocking operation", Refusal::not_primary,
            causes::is_replica},
    Meaning{"LOADING Redis is loading", Refusal::later, causes::not_ready},
    Meaning{"BUSY Redis is busy", Refusal::later, causes::not_ready},
    Meaning{"NOREPLICAS Not enough good replicas", Refusal::later, causes::not_ready},
    Meaning{"CLUSTERDOWN The cluster is down", Refusal::later, causes::not_ready},
    Meaning{"CLUSTERDOWN Hash slot not served", Refusal::later, causes::not_ready},
    Meaning{"TRYAGAIN Multiple keys request", Refusal::later, causes::split_keys},
    Meaning{"OOM command not allowed", Refusal::exhausted, causes::out_of_memory},
    Meaning{"OOM allow-oom flag is not set", Refusal::exhausted, causes::out_of_memory},
    Meaning{"MISCONF Redis is configured to", Refusal::exhausted, causes::cannot_persist},
    Meaning{"MISCONF Errors writing to the AOF", Refusal::exhausted, causes::cannot_persist},
    Meaning{"NOAUTH ", Refusal::denied, causes::wrong_password},
    Meaning{"WRONGPASS ", Refusal::denied, causes::wrong_password},
    Meaning{"DENIED ", Refusal::denied, causes::wrong_password},
    Meaning{"NOPERM ", Refusal::denied, causes::not_permitted},
    Meaning{"NOSCRIPT ", Refusal::final, causes::unknown_script},
};
// Errors of commands inside a script: Redis 6 puts the position in the script in front of them.
constexpr std::array of_scripts{
    Meaning{"The ID specified in XADD is equal or smaller", Refusal::final, causes::id_not_above},
    Meaning{"attempted to access a non local key", Refusal::final, causes::foreign_key},
};
constexpr Meaning any_other{"", Refusal::final, causes::error_reply};

// How EXEC reports one of these reasons.
constexpr std::string_view discarded = "EXECABORT Transaction discarded because of: ";

const Meaning& meaning_of(std::string_view error) {
  if (error.starts_with(discarded)) error.remove_prefix(discarded.size());
  for (const auto& meaning : meanings)
    if (error.starts_with(meaning.words)) return meaning;
  for (const auto& meaning : of_scripts)
    if (error.starts_with("ERR ") && error.contains(meaning.words)) return meaning;
  return any_other;
}

}  // namespace

Refusal classify(std::string_view error) { return meaning_of(error).refusal; }

Error error_of(const Reply& reply) {
  auto code = [](Refusal refusal) {
    switch (refusal) {
      case Refusal::denied:
        return Errc::denied;
      case Refusal::exhausted:
      case Refusal::later:
      case Refusal::not_primary:
        return Errc::unavailable;
      case Refusal::final:
      case Refusal::moved:
      case Refusal::ask:
        return Errc::refused;
    }
    std::abort();
  };
  const auto& meaning = meaning_of(reply.text);
  return {code(meaning.refusal), meaning.cause, reply.text, reply.text};
}

Refusal refusal_of(const Error& error) {
  auto found = std::ranges::find(meanings, error.cause, &Meaning::cause);
  return found == meanings.end() ? Refusal::final : found->refusal;
}

Error on_the_way(Error error) {
  if (error.cause) return error;
  if (error.code == Errc::unavailable) error.cause = causes::unreachable;
  if (error.code == Errc::timeout) error.cause = causes::silent;
  if (error.code == Errc::protocol) error.cause = causes::not_redis;
  return error;
}

std::optional<std::string_view> said(const Error& error, std::string_view word) {
  std::string_view text = error.subject;
  bool is_said = error.cause == causes::error_reply && error_word(text) == word;
  if (!is_said) return std::nullopt;
  return text.substr(std::min(text.size(), word.size() + 1));
}

std::string_view error_word(std::string_view text) { return text.substr(0, text.find(' ')); }

}  // namespace warren::redis
