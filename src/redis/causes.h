#pragma once
// Which failure occurred in Redis, or on the way to it.
#include "base/error.h"

namespace warren::redis::causes {

// On the way to the server.
inline constexpr Cause unreachable(
    "redis.unreachable");                             // nothing listens, or the connection ended
inline constexpr Cause silent("redis.silent");        // no answer in time
inline constexpr Cause not_redis("redis.not_redis");  // another program listens, or no TLS
inline constexpr Cause too_old("redis.too_old");      // older than Redis 6
inline constexpr Cause bad_certificate("redis.bad_certificate");
inline constexpr Cause bad_tls_file(
    "redis.bad_tls_file");  // a certificate or key that cannot be used

// Why a server refused a command.
inline constexpr Cause wrong_password("redis.wrong_password");
inline constexpr Cause not_permitted("redis.not_permitted");  // the user's ACL forbids it
inline constexpr Cause out_of_memory("redis.out_of_memory");
inline constexpr Cause cannot_persist("redis.cannot_persist");
inline constexpr Cause not_ready("redis.not_ready");  // loading, or waiting for replicas or a slot
inline constexpr Cause is_replica("redis.is_replica");
inline constexpr Cause moved("redis.moved");              // the subject is the redirection
inline constexpr Cause asked("redis.asked");              // likewise
inline constexpr Cause split_keys("redis.split_keys");    // some on each server of a moving slot
inline constexpr Cause foreign_key("redis.foreign_key");  // a script used another server's key
inline constexpr Cause unknown_script("redis.unknown_script");
inline constexpr Cause id_not_above("redis.id_not_above");  // of XADD: the stream has a higher one
inline constexpr Cause error_reply("redis.error_reply");    // any other; the subject is the reply

}  // namespace warren::redis::causes
