#pragma once
// What coordination says of itself, in the words that OpenHands' documents promise: log lines, a line
// with JSON for who collects those, and counters.
#include <functional>
#include <string>

#include "base/metrics.h"
#include "primitives/once/terms.h"

namespace warren::session {

struct Actor {
  std::string name_space = "default";
  std::string replica_id = {};  // new at every start
};

// The value of openhands:resource:<key>: {"status", "replica_id", "timestamp", "pod_name" or "error"}.
std::string resource_json(const OnceView& view, const Actor& actor, WallClock::time_point now);
// The line, without its end: COORDINATION_METRIC: {"action", "pod_name", "namespace", …}
std::string metric_line(std::string_view action, std::string_view name, const Actor& actor,
                        WallClock::time_point now);

class Telling {
 public:
  using Sink = std::function<void(const std::string& line)>;
  // Without a sink the metric lines go to standard error.
  Telling(Metrics& metrics, Actor actor, bool is_coordinated, Sink sink = nullptr);

  void attempt(std::string_view name, int number, int most);
  void acquired_lock(std::string_view name, Clock::duration waited);
  void attached(std::string_view name);
  void created(std::string_view name);
  void waiting_for_other(std::string_view name, Clock::duration age);
  void no_lock(std::string_view resource);
  void without_redis(std::string_view name);
  void cleaning_up(std::string_view name);
  void creation_failed(std::string_view name, const Error& error);
  void resumed(std::string_view name, Clock::duration took);
  void inconsistent(std::size_t records);
  void coordinated(bool is_so);

  const Actor& actor() const { return actor_; }

 private:
  void metric(std::string_view action, std::string_view name);

  Metrics& metrics_;
  Actor actor_;
  Sink sink_;
  Counter locks_, creations_, attaches_;
  Gauge enabled_, inconsistent_;
  Histogram lock_wait_, resume_;
};

}  // namespace warren::session
