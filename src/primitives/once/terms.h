#pragma once
// What one thing that is created once looks like from outside: its keys, its times, its records.
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

// Where one thing is in Redis. In a cluster all three share a hash tag; a user who may use only some
// prefix can be given them all by it.
struct OnceKeys {
  std::string lock;      // for others to see: there while somebody works on it
  std::string resource;  // for others to see: the text that OnceTerms::show gives
  std::string state;     // what decides; others leave it alone
};
// <prefix>lock:<name>, <prefix>resource:<name> and <prefix>once:<name>, in a cluster with {<name>}.
OnceKeys once_keys(const std::string& prefix, const std::string& name, bool is_cluster);

// What somebody left, or is at.
struct OnceRecord {
  std::string name;
  // A word of the caller's: "created", "paused"; of who works on it: "creating", "pausing". "failed"
  // is ours: the last creation ended with `error`, and there is no record.
  std::string status;
  std::string bytes;     // what the last step left; empty while it is created for the first time
  FencingToken token{};  // of the step that wrote this: names this version
  bool is_busy = false;  // somebody works on it
  bool is_orphan =
      false;            // somebody worked on it, and has not been heard of since: may be taken over
  std::string owner{};  // who works on it, or did last: a holder, and the number of an attempt
  std::optional<Error> error{};             // of the last step, when that failed
  std::chrono::milliseconds retry_after{};  // when failed: for so long nobody tries again
};

// What a step did not finish. Whoever comes next may find some of it, or all.
struct OnceEarlier {
  std::string status;    // what the last one was at: "creating"
  FencingToken token{};  // its token, for resources that were marked with it
  std::string note;      // what it noted last: see OnceClaim::note
  // The text in the resource key, when that is not ours: another program may have made one.
  std::string foreign;
};

// What a step leaves behind. Without a status nothing: the record is removed.
struct OnceLeft {
  std::string status = "created";
  std::string bytes{};
};

// A step from one record to another: who may take it, and what others see meanwhile.
struct OnceStep {
  std::string status = "creating";  // while it is under way; names the step
  // From which settled statuses it may begin; empty: from any. In others the record is left as it is.
  std::vector<std::string> from{};
  // Only from this version.
  std::optional<FencingToken> version{};
  // Also from somebody who is at another step, and alive: his work is cancelled when he hears of it.
  bool takes_over = false;
};

enum class OnceWithoutRedis : std::uint8_t {
  fail,  // what cannot be decided ends with an error; work whose claim cannot be renewed is cancelled
  optimistic,  // the work runs all the same, without a token: only for what refuses a second one itself
};

enum class OnceAbandoned : std::uint8_t {
  goes_on,   // for the others who wait, or come later
  is_ended,  // the work is cancelled, and the next one may begin at once
};

// What others see in the resource key. `bytes` is the record, or what a step noted.
struct OnceView {
  std::string_view name, status, bytes;
  const Error* error = nullptr;  // when failed
};

struct OnceTerms {
  std::string prefix;  // "openhands:"; of all keys and of the channel
  // A step of somebody who has not been heard of for so long is taken over.
  std::chrono::milliseconds alive = 9s;
  // How long the keys live, as others see them.
  std::chrono::milliseconds lock_ttl = 30s;
  std::chrono::milliseconds busy_ttl = 600s;  // and the longest that a step may take
  std::chrono::milliseconds record_ttl = 3600s;
  std::chrono::milliseconds failed_ttl = 300s;
  // Who asks so soon after a failure is given its error.
  std::chrono::milliseconds retry_after = 5s;
  OnceWithoutRedis without_redis = OnceWithoutRedis::fail;
  // When optimistic: how long to wait for Redis first.
  std::chrono::milliseconds patience = 2s;
  OnceAbandoned when_abandoned = OnceAbandoned::goes_on;
  // Without it the resource key is not written.
  std::function<std::string(const OnceView&)> show{};
};

}  // namespace warren
