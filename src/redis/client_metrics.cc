#include "redis/client.h"

namespace warren::redis {

namespace {

struct Published {
  explicit Published(Metrics& metrics)
      : answered(calls(metrics, "answered")),
        refused(calls(metrics, "refused")),
        timed_out(calls(metrics, "timed_out")),
        unknown(calls(metrics, "unknown")),
        overloaded(calls(metrics, "overloaded")),
        sent(bytes(metrics, "sent")),
        received(bytes(metrics, "received")),
        connected(connects(metrics, "ok")),
        failed(connects(metrics, "failed")),
        pending(metrics.gauge("warren_redis_pending_calls", "Calls that wait for an answer.")),
        round_trips(metrics.histogram("warren_redis_roundtrip_seconds",
                                      "From writing a command to its answer, sampled.",
                                      {PipelineCounters::round_trip_bounds.begin(),
                                       PipelineCounters::round_trip_bounds.end()})) {}

  void update(const Client::Counters& now) {
    answered.raise_to(double(now.calls.answered));
    refused.raise_to(double(now.calls.refused));
    timed_out.raise_to(double(now.calls.timed_out));
    unknown.raise_to(double(now.calls.unknown));
    overloaded.raise_to(double(now.calls.overloaded));
    sent.raise_to(double(now.calls.bytes_out));
    received.raise_to(double(now.calls.bytes_in));
    connected.raise_to(double(now.connects));
    failed.raise_to(double(now.connect_failures));
    pending.set(double(now.pending));
    auto added = now.calls.round_trips;
    for (std::size_t i = 0; i < added.size(); ++i) added[i] -= last.round_trips[i];
    round_trips.add(added, now.calls.round_trip_seconds - last.round_trip_seconds);
    last = now.calls;
  }

  static Counter calls(Metrics& metrics, const char* outcome) {
    return metrics.counter("warren_redis_calls_total", "Commands by what became of them.",
                           {{"outcome", outcome}});
  }
  static Counter bytes(Metrics& metrics, const char* direction) {
    return metrics.counter("warren_redis_bytes_total", "Bytes on shared connections.",
                           {{"direction", direction}});
  }
  static Counter connects(Metrics& metrics, const char* outcome) {
    return metrics.counter("warren_redis_connects_total", "Attempts to connect, by outcome.",
                           {{"outcome", outcome}});
  }

  Counter answered, refused, timed_out, unknown, overloaded, sent, received, connected, failed;
  Gauge pending;
  Histogram round_trips;
  PipelineCounters last;
};

}  // namespace

std::shared_ptr<void> Client::publish(Metrics& metrics) const {
  return metrics.on_collect(
      [this, published = Published(metrics)]() mutable { published.update(counters()); });
}

}  // namespace warren::redis
