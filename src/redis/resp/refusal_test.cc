#include "redis/resp/refusal.h"

#include <doctest/doctest.h>

#include <array>

#include "redis/causes.h"

using namespace warren;
using namespace warren::redis;

namespace {

struct Meaning {
  std::string_view words;  // as in Redis 7
  Refusal refusal;
  Errc code;
  bool passes;
};

constexpr std::array meanings{
    Meaning{"OOM command not allowed when used memory > 'maxmemory'.", Refusal::exhausted,
            Errc::unavailable, true},
    Meaning{"OOM command not allowed when used memory > 'maxmemory'. script: 2fa2, on @user:1.",
            Refusal::exhausted, Errc::unavailable, true},
    Meaning{"OOM allow-oom flag is not set on the script, can not run it when used memory > "
            "'maxmemory'",
            Refusal::exhausted, Errc::unavailable, true},
    Meaning{"MISCONF Redis is configured to save RDB snapshots, but it's currently unable to "
            "persist to disk.",
            Refusal::exhausted, Errc::unavailable, true},
    Meaning{"MISCONF Redis is configured to persist data to AOF, but it's currently unable to "
            "persist to disk.",
            Refusal::exhausted, Errc::unavailable, true},
    Meaning{"MISCONF Errors writing to the AOF file: No space left on device", Refusal::exhausted,
            Errc::unavailable, true},
    Meaning{"LOADING Redis is loading the dataset in memory", Refusal::later, Errc::unavailable,
            true},
    Meaning{"BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN "
            "NOSAVE.",
            Refusal::later, Errc::unavailable, true},
    Meaning{"BUSY Redis is busy running a module command.", Refusal::later, Errc::unavailable,
            true},
    Meaning{"NOREPLICAS Not enough good replicas to write.", Refusal::later, Errc::unavailable,
            true},
    Meaning{"TRYAGAIN Multiple keys request during rehashing of slot", Refusal::later,
            Errc::unavailable, true},
    Meaning{"CLUSTERDOWN The cluster is down", Refusal::later, Errc::unavailable, true},
    Meaning{"CLUSTERDOWN The cluster is down and only accepts read commands", Refusal::later,
            Errc::unavailable, true},
    Meaning{"CLUSTERDOWN Hash slot not served", Refusal::later, Errc::unavailable, true},
    Meaning{"READONLY You can't write against a read only replica.", Refusal::not_primary,
            Errc::unavailable, true},
    Meaning{"READONLY Can not run script with write flag on readonly replica", Refusal::not_primary,
            Errc::unavailable, true},
    Meaning{"MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.",
            Refusal::not_primary, Errc::unavailable, true},
    Meaning{"MASTERDOWN Link with MASTER is down, replica-serve-stale-data is set to 'no' and "
            "'allow-stale' flag is not set on the script.",
            Refusal::not_primary, Errc::unavailable, true},
    Meaning{"UNBLOCKED force unblock from blocking operation, instance state changed (master -> "
            "replica?)",
            Refusal::not_primary, Errc::unavailable, true},
    Meaning{"EXECABORT Transaction discarded because of: OOM command not allowed when used memory",
            Refusal::exhausted, Errc::unavailable, true},
    Meaning{"EXECABORT Transaction discarded because of: NOREPLICAS Not enough good replicas to "
            "write.",
            Refusal::later, Errc::unavailable, true},

    // A router follows these. Any other caller that gets one uses a cluster without knowing it.
    Meaning{"MOVED 3999 127.0.0.1:6381", Refusal::moved, Errc::refused, false},
    Meaning{"ASK 3999 127.0.0.1:6381", Refusal::ask, Errc::refused, false},

    Meaning{"NOAUTH Authentication required.", Refusal::denied, Errc::denied, false},
    Meaning{"WRONGPASS invalid username-password pair or user is disabled.", Refusal::denied,
            Errc::denied, false},
    Meaning{"NOPERM this user has no permissions to run the 'set' command", Refusal::denied,
            Errc::denied, false},
    Meaning{"DENIED Redis is running in protected mode", Refusal::denied, Errc::denied, false},

    Meaning{"ERR syntax error", Refusal::final, Errc::refused, false},
    Meaning{"WRONGTYPE Operation against a key holding the wrong kind of value", Refusal::final,
            Errc::refused, false},
    Meaning{"FENCED 41 is not the newest token", Refusal::final, Errc::refused, false},
    Meaning{"NOSCRIPT No matching script. Please use EVAL.", Refusal::final, Errc::refused, false},
    Meaning{"EXECABORT Transaction discarded because of previous errors.", Refusal::final,
            Errc::refused, false},
    Meaning{"CROSSSLOT Keys in request don't hash to the same slot", Refusal::final, Errc::refused,
            false},
    Meaning{"UNBLOCKED client unblocked via CLIENT UNBLOCK", Refusal::final, Errc::refused, false},
    Meaning{"BUSYKEY Target key name already exists.", Refusal::final, Errc::refused, false},
    Meaning{"BUSYGROUP Consumer Group name already exists", Refusal::final, Errc::refused, false},
    Meaning{"NOGROUP No such consumer group", Refusal::final, Errc::refused, false},
    // A script's own errors, returned after half of its work was done.
    Meaning{"BUSY somebody else has it", Refusal::final, Errc::refused, false},
    Meaning{"OOM in my head", Refusal::final, Errc::refused, false},
    Meaning{"", Refusal::final, Errc::refused, false},
};

}  // namespace

TEST_CASE("an error reply says whether it passes by itself, and what the client does about it") {
  for (const auto& [words, refusal, code, does_pass] : meanings) {
    CAPTURE(words);
    CHECK(classify(words) == refusal);
    auto error = error_of(Reply{Reply::Kind::error, 0, std::string(words), {}});
    CHECK(error.code == code);
    CHECK(error.what == words);
    CHECK(may_retry(error) == does_pass);
    CHECK(error.cause);
    CHECK(refusal_of(error) == refusal);
  }
}

TEST_CASE("a refusal has a cause that no program has to read out of its words") {
  auto cause = [](std::string_view words) {
    return error_of(Reply{Reply::Kind::error, 0, std::string(words), {}}).cause;
  };
  CHECK(cause("OOM command not allowed when used memory > 'maxmemory'.") == causes::out_of_memory);
  CHECK(cause("MISCONF Errors writing to the AOF file: No space left") == causes::cannot_persist);
  CHECK(cause("LOADING Redis is loading the dataset in memory") == causes::not_ready);
  CHECK(cause("READONLY You can't write against a read only replica.") == causes::is_replica);
  CHECK(cause("NOPERM this user has no permissions") == causes::not_permitted);
  CHECK(cause("WRONGPASS invalid username-password pair") == causes::wrong_password);
  CHECK(cause("TRYAGAIN Multiple keys request during rehashing") == causes::split_keys);
  CHECK(cause("NOSCRIPT No matching script. Please use EVAL.") == causes::unknown_script);
  CHECK(cause("FENCED 41 is not the newest token") == causes::error_reply);
  // Redis 7, and Redis 6, which puts the position in the script first.
  for (auto* words : {"ERR Script attempted to access a non local key in a cluster node script: f.",
                      "ERR Error running script (call to f_2): @user_script:1: @user_script: 1: "
                      "Script attempted to access a non local key in a cluster node"})
    CHECK(cause(words) == causes::foreign_key);
  for (auto* words :
       {"ERR The ID specified in XADD is equal or smaller than the target stream top item",
        "ERR Error running script (call to f_2): @user_script:9: ERR The ID specified in XADD is "
        "equal or smaller than the target stream top item"})
    CHECK(cause(words) == causes::id_not_above);
}

TEST_CASE("what a script of ours says behind its word is read from what the error is about") {
  auto error = error_of(Reply{Reply::Kind::error, 0, "WORKSPACE default-1", {}});
  CHECK(said(error, "WORKSPACE") == "default-1");
  CHECK(!said(error, "WORK"));
  CHECK(said(error_of(Reply{Reply::Kind::error, 0, "FENCED", {}}), "FENCED") == "");
  CHECK(!said(Error{Errc::refused, "WORKSPACE default-1"}, "WORKSPACE"));  // not a server's answer
  CHECK(
      !said(error_of(Reply{Reply::Kind::error, 0, "NOSCRIPT No matching script", {}}), "NOSCRIPT"));
}

TEST_CASE("on the way to a server an error without a cause gets the one of its code") {
  CHECK(on_the_way({Errc::unavailable, "refused"}).cause == causes::unreachable);
  CHECK(on_the_way({Errc::timeout, "silent"}).cause == causes::silent);
  CHECK(on_the_way({Errc::protocol, "HTTP/1.1 400"}).cause == causes::not_redis);
  CHECK(!on_the_way({Errc::cancelled, "the caller left"}).cause);
  Error password{Errc::denied, causes::wrong_password, "", "no"};
  CHECK(on_the_way(password).cause == causes::wrong_password);
}

TEST_CASE("what passes by itself is what was not reached, not answered, or not taken now") {
  for (auto code : {Errc::unavailable, Errc::overloaded, Errc::timeout, Errc::unknown_outcome}) {
    CAPTURE(name(code));
    CHECK(may_retry({code, ""}));
  }
  for (auto code : {Errc::invalid, Errc::not_found, Errc::held_elsewhere, Errc::lease_lost,
                    Errc::denied, Errc::refused, Errc::protocol, Errc::cancelled}) {
    CAPTURE(name(code));
    CHECK_FALSE(may_retry({code, ""}));
  }
}
