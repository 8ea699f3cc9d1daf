#pragma once
// Which failure Redis, or the way to it, met.
#include "base/error.h"

namespace warren::redis::causes {

// The way there.
inline constexpr Cause unreachable(
    "redis.unreachable");                             // nothing listens, or the connection ended
inline constexpr Cause silent("redis.silent");        // no answer in time
inline constexpr Cause not_redis("redis.not_redis");  // something else listens, or TLS met none
inline constexpr Cause too_old("redis.too_old");      // before Redis 6
inline constexpr Cause bad_certificate("redis.bad_certificate");
inline constexpr Cause bad_tls_file(
    "redis.bad_tls_file");  // a certificate or key that cannot be used

// What a server refused a command for.
inline constexpr Cause wrong_password("redis.wrong_password");
inline constexpr Cause not_permitted("redis.not_permitted");  // the ACL of the user
inline constexpr Cause out_of_memory("redis.out_of_memory");
inline constexpr Cause cannot_persist("redis.cannot_persist");
inline constexpr Cause not_ready("redis.not_ready");  // it loads, or waits for replicas or a slot
inline constexpr Cause is_replica("redis.is_replica");
inline constexpr Cause moved("redis.moved");              // the subject is the redirection
inline constexpr Cause asked("redis.asked");              // and here
inline constexpr Cause split_keys("redis.split_keys");    // some at each end of a slot that moves
inline constexpr Cause foreign_key("redis.foreign_key");  // a script met a key that is not here
inline constexpr Cause unknown_script("redis.unknown_script");
inline constexpr Cause id_not_above("redis.id_not_above");  // of XADD: the stream has a higher one
inline constexpr Cause error_reply("redis.error_reply");    // any other; the subject is all of it

}  // namespace warren::redis::causes
