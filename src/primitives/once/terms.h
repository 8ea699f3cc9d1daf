#pragma once
// How a thing that is created once looks from outside: its keys, its times, its records.
#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/error.h"
#include "primitives/lease/token.h"

namespace warren {

inline constexpr std::size_t most_once_record = 1u << 20;  // bytes
inline constexpr std::size_t most_once_note = 4u << 10;
inline constexpr std::size_t most_once_name = 512;

// The keys of one thing. In a cluster all three share a hash tag. One prefix covers them all, so
// that an ACL can grant them to a user.
struct OnceKeys {
  std::string lock;      // for others to see: exists while a process works on it
  std::string resource;  // for others to see: the text from OnceTerms::show
  std::string state;     // the key that decides; other programs leave it alone
};
// <prefix>lock:<name>, <prefix>resource:<name> and <prefix>once:<name>, in a cluster with {<name>}.
OnceKeys once_keys(const std::string& prefix, const std::string& name, bool is_cluster);

// What a process left, or is working on.
struct OnceRecord {
  std::string name;
  // A word of the caller's: "created", "paused"; while a step is under way: "creating", "pausing".
  // "failed" is ours: the last creation ended with `error`, and there is no record.
  std::string status;
  std::string bytes;       // what the last step left; empty during the first creation
  FencingToken token{};    // of the step that wrote this; identifies the version
  bool is_busy = false;    // a process is working on it
  bool is_orphan = false;  // the worker has not been heard of any more: the step may be taken over
  std::string owner{};     // the last process to work on it: a holder and the number of an attempt
  std::optional<Error> error{};             // of the last step, if it failed
  std::chrono::milliseconds retry_after{};  // if failed: how long no process tries again
};

// A step that did not finish. The next process may find some or all of its effects.
struct OnceEarlier {
  std::string status;    // the step that was under way: "creating"
  FencingToken token{};  // its token, for resources that were marked with it
  std::string note;      // its last note: see OnceClaim::note
  // The text in the resource key if it is not ours: another program may have created the resource.
  std::string foreign;
};

// What a step leaves behind. With an empty status the record is removed.
struct OnceLeft {
  std::string status = "created";
  std::string bytes{};
};

// A step from one record to another: when it may be taken, and what others see meanwhile.
struct OnceStep {
  std::string status = "creating";  // names the step; others see it while the step is under way
  // The settled statuses from which it may begin, or empty for any. In other statuses the record is
  // left as it is.
  std::vector<std::string> from{};
  // If set: begins only from this version.
  std::optional<FencingToken> version{};
  // Also begins while a live process is taking another step. That process cancels its work when it
  // hears of this.
  bool takes_over = false;
};

enum class OnceWithoutRedis : std::uint8_t {
  fail,  // undecided calls end with an error, and work whose claim cannot be renewed is cancelled
  // The work runs without a token: only for a resource that itself refuses a second one.
  optimistic,
};

enum class OnceAbandoned : std::uint8_t {
  goes_on,   // for other callers, present or future
  is_ended,  // the work is cancelled, and the next caller may begin at once
};

// What others see in the resource key. `bytes` is the record, or the note of a step.
struct OnceView {
  std::string_view name, status, bytes;
  const Error* error = nullptr;  // if failed
};

struct OnceTerms {
  std::string prefix;  // "openhands:"; of all keys and of the channel
  // A step is taken over if its process has not been heard of for this long.
  std::chrono::milliseconds alive = 9s;
  // How long the keys live that others see.
  std::chrono::milliseconds lock_ttl = 30s;
  std::chrono::milliseconds busy_ttl = 600s;  // also the longest that a step may take
  std::chrono::milliseconds record_ttl = 3600s;
  std::chrono::milliseconds failed_ttl = 300s;
  // How long after a failure callers get its error.
  std::chrono::milliseconds retry_after = 5s;
  OnceWithoutRedis without_redis = OnceWithoutRedis::fail;
  // If optimistic: how long to wait for Redis first.
  std::chrono::milliseconds patience = 2s;
  OnceAbandoned when_abandoned = OnceAbandoned::goes_on;
  // If not set, the resource key is not written.
  std::function<std::string(const OnceView&)> show{};
};

}  // namespace warren
