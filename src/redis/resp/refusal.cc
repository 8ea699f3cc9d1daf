#include "redis/resp/refusal.h"

#include <array>

namespace warren::redis {

namespace {

struct Words {
  std::string_view begin;
  Refusal refusal;
};

// By Redis' own words and not just the first one: a script may answer with an error of its own that
// begins like one of these, after it has done half of its work. Redis itself says them to a script
// no later than at its first write.
constexpr std::array words{
    Words{"MOVED ", Refusal::moved},
    Words{"ASK ", Refusal::ask},
    Words{"READONLY You can't write against", Refusal::not_primary},
    Words{"READONLY Can not run script with write flag", Refusal::not_primary},
    Words{"MASTERDOWN Link with MASTER is down", Refusal::not_primary},
    Words{"UNBLOCKED force unblock from blocking operation", Refusal::not_primary},
    Words{"LOADING Redis is loading", Refusal::later},
    Words{"BUSY Redis is busy", Refusal::later},
    Words{"NOREPLICAS Not enough good replicas", Refusal::later},
    Words{"TRYAGAIN Multiple keys request", Refusal::later},
    Words{"CLUSTERDOWN The cluster is down", Refusal::later},
    Words{"CLUSTERDOWN Hash slot not served", Refusal::later},
    Words{"OOM command not allowed", Refusal::exhausted},
    Words{"OOM allow-oom flag is not set", Refusal::exhausted},
    Words{"MISCONF Redis is configured to", Refusal::exhausted},
    Words{"MISCONF Errors writing to the AOF", Refusal::exhausted},
    Words{"NOAUTH ", Refusal::denied},
    Words{"WRONGPASS ", Refusal::denied},
    Words{"NOPERM ", Refusal::denied},
    Words{"DENIED ", Refusal::denied},
};
// How EXEC is refused for one of these reasons.
constexpr std::string_view discarded = "EXECABORT Transaction discarded because of: ";

}  // namespace

Refusal classify(std::string_view error) {
  if (error.starts_with(discarded)) error.remove_prefix(discarded.size());
  for (const auto& [begin, refusal] : words)
    if (error.starts_with(begin)) return refusal;
  return Refusal::final;
}

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
  return {code(classify(reply.text)), reply.text};
}

std::string_view error_word(std::string_view text) { return text.substr(0, text.find(' ')); }

}  // namespace warren::redis
