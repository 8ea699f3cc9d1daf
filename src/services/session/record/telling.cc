#include "services/session/record/telling.h"

#include <boost/json.hpp>
#include <cstdio>

#include "base/log.h"
#include "base/utf8.h"

namespace warren::session {

namespace json = boost::json;

namespace {

// With "timestamp" at its end: seconds, with three digits behind the point.
std::string stamped(const json::object& object, WallClock::time_point now) {
  auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(now.time_since_epoch()).count();
  auto text = json::serialize(object);
  text.pop_back();
  return fmt::format("{},\"timestamp\":{}.{:03}}}", text, ms / 1000, ms % 1000);
}

double seconds(Clock::duration time) { return std::chrono::duration<double>(time).count(); }

std::string pod_of(std::string_view resource) {
  return std::string(resource.substr(resource.rfind(':') + 1));
}

void to_standard_error(const std::string& line) {
  auto text = line + "\n";
  std::fwrite(text.data(), 1, text.size(), stderr);
}

const std::vector<double> bounds{0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30, 100};

}  // namespace

std::string resource_json(const OnceView& view, const Actor& actor, WallClock::time_point now) {
  json::object object{{"status", view.status}, {"replica_id", actor.replica_id}};
  if (view.error)
    object["error"] = valid_utf8(view.error->what);
  else
    object["pod_name"] = pod_of(view.name);
  return stamped(object, now);
}

std::string metric_line(std::string_view action, std::string_view name, const Actor& actor,
                        WallClock::time_point now) {
  json::object object{{"action", action},
                      {"pod_name", name},
                      {"namespace", actor.name_space},
                      {"replica_id", actor.replica_id}};
  return "COORDINATION_METRIC: " + stamped(object, now);
}

Telling::Telling(Metrics& metrics, Actor actor, bool is_coordinated, Sink sink)
    : metrics_(metrics),
      actor_(std::move(actor)),
      sink_(sink ? std::move(sink) : to_standard_error),
      locks_(metrics.counter("openhands_coordination_lock_acquisitions_total",
                             "Times that this replica was chosen to create a sandbox.")),
      creations_(metrics.counter("openhands_coordination_pod_creations_total",
                                 "Sandboxes that this replica created.")),
      attaches_(metrics.counter("openhands_coordination_attach_successes_total",
                                "Starts that found the sandbox there.")),
      enabled_(metrics.gauge("openhands_redis_coordination_enabled",
                             "1 while replicas coordinate through Redis.")),
      inconsistent_(metrics.gauge("warren_session_inconsistent_records",
                                  "Records that disagreed with what exists, at the last look.")),
      lock_wait_(metrics.histogram("warren_session_lock_wait_seconds",
                                   "From a start to the choice of who creates.", bounds)),
      resume_(metrics.histogram("warren_session_resume_seconds",
                                "From a resume to a sandbox that can be reached.", bounds)) {
  enabled_.set(is_coordinated ? 1 : 0);
}

void Telling::metric(std::string_view action, std::string_view name) {
  sink_(metric_line(action, name, actor_, WallClock::now()));
}

void Telling::attempt(std::string_view name, int number, int most) {
  log::debug("session.attempted", "message",
             fmt::format("Pod coordination attempt {}/{}", number, most), "pod", name);
}

void Telling::acquired_lock(std::string_view name, Clock::duration waited) {
  locks_.add();
  lock_wait_.observe(seconds(waited));
  log::info("session.lock_acquired", "message", "Acquired lock for pod creation", "pod", name);
}

void Telling::attached(std::string_view name) {
  attaches_.add();
  log::info("session.attached", "message", "Successfully attached to existing pod", "pod", name);
  metric("attach_success", name);
}

void Telling::created(std::string_view name) {
  creations_.add();
  log::info("session.created", "pod", name);
  metric("create_success", name);
}

void Telling::waiting_for_other(std::string_view name, Clock::duration age) {
  auto text = fmt::format("Another replica is creating pod {} (age: {:.1f}s), waiting...", name,
                          seconds(age));
  log::info("session.waited", "message", text);
}

void Telling::no_lock(std::string_view resource) {
  log::warn("session.lock_refused", "message",
            fmt::format("Could not acquire lock for {}", resource));
}

void Telling::without_redis(std::string_view name) {
  log::warn("session.redis_missed", "message", "Redis coordinator not available", "pod", name);
  log::warn("session.fell_back", "message",
            "Redis coordination failed, falling back to legacy pod creation", "pod", name);
}

void Telling::cleaning_up(std::string_view name) {
  log::info("session.record_cleaned", "message",
            fmt::format("Cleaning up Redis state for non-existent pod {}", name));
}

void Telling::creation_failed(std::string_view name, const Error& error) {
  metrics_
      .counter("warren_session_creation_failures_total", "Sandboxes that could not be created.",
               {{"reason", std::string(warren::name(error.code))}})
      .add();
  log::warn("session.creation_failed", "pod", name, "why", error.what);
}

void Telling::resumed(std::string_view name, Clock::duration took) {
  resume_.observe(seconds(took));
  log::info("session.resumed", "pod", name, "seconds", seconds(took));
}

void Telling::coordinated(bool is_so) { enabled_.set(is_so ? 1 : 0); }

void Telling::inconsistent(std::size_t records) { inconsistent_.set(static_cast<double>(records)); }

}  // namespace warren::session
