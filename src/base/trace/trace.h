#pragma once
// Traces: which work caused which, across processes.
//
//   browser ── traceparent ──> warren ── traceparent ──> another service
//                                │ spans, in batches
//                                └──> the collector that OTEL_EXPORTER_OTLP_ENDPOINT names
//
//   auto span = tracer.start("lease.acquire", SpanKind::client, parent);
//   span.set("lease.name", name);
//   if (!reply) span.fail(reply.error().what);      // the span ends with its scope
//
// Without an endpoint, a span is a null pointer: it allocates nothing, and only passes on the
// context it was given. Spans belong to the thread of the tracer's executor.
#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "base/clock.h"
#include "base/error.h"
#include "base/task.h"

namespace warren {

struct TraceContext {
  std::array<std::uint8_t, 16> trace_id{};
  std::array<std::uint8_t, 8> span_id{};
  bool sampled = false;

  bool is_valid() const;  // neither id is all zeros; no trace uses an invalid context
  bool operator==(const TraceContext&) const = default;
};

// As the W3C recommendation defines it. Returns nullopt if the header must be ignored. Of a later
// version, only the fields of this version are read.
std::optional<TraceContext> parse_traceparent(std::string_view header);
// Returns "" for an invalid context: then send no header.
std::string format_traceparent(const TraceContext& context);
std::string hex(std::span<const std::uint8_t> bytes);  // lowercase

// The values are those of OTLP.
enum class SpanKind { internal = 1, server = 2, client = 3, producer = 4, consumer = 5 };

using TraceValue = std::variant<std::string, std::int64_t, double, bool>;
using TraceAttributes = std::vector<std::pair<std::string, TraceValue>>;

struct SpanRecord {
  std::string name;
  SpanKind kind;
  TraceContext context;
  std::array<std::uint8_t, 8> parent{};  // all zeros for the first span of a trace
  WallClock::time_point start;
  WallClock::time_point end;  // start plus the duration measured by the monotonic clock
  TraceAttributes attributes;
  std::optional<std::string> error;  // why it failed, if it did
};

class Tracer;

class Span {
 public:
  Span(Span&& other) noexcept = default;
  Span& operator=(Span&& other) noexcept;
  ~Span() { end(); }

  // The context to pass on: as parent of further spans, and in the traceparent header of requests.
  const TraceContext& context() const { return context_; }
  bool is_recorded() const { return record_ != nullptr; }

  // Text, integers, floating-point numbers and booleans. If a key is set twice, the last value
  // counts.
  template <class T>
  void set(std::string_view key, const T& value) {
    if (!record_) return;
    if constexpr (std::is_same_v<T, bool>)
      put(key, value);
    else if constexpr (std::is_integral_v<T>)
      put(key, std::int64_t(value));
    else if constexpr (std::is_floating_point_v<T>)
      put(key, double(value));
    else
      put(key, std::string(value));
  }
  void fail(std::string_view why);
  // Ends the span before its scope does. Later attributes are lost.
  void end();

 private:
  friend class Tracer;
  explicit Span(const TraceContext& context) : context_(context) {}
  void put(std::string_view key, TraceValue value);

  Tracer* tracer_ = nullptr;
  std::unique_ptr<SpanRecord> record_;  // null when the span is not recorded
  Clock::time_point started_;
  TraceContext context_;
};

class OtlpExporter;

// Owned by main. It outlives its spans.
class Tracer {
 public:
  // Off unless OTEL_EXPORTER_OTLP_TRACES_ENDPOINT or OTEL_EXPORTER_OTLP_ENDPOINT is set. otlp.h
  // lists the variables. Errc::invalid names the wrong one.
  static Result<std::unique_ptr<Tracer>> from_environment(
      asio::any_io_executor executor, const std::map<std::string, std::string>& environment,
      const std::string& default_service = "warren");
  ~Tracer();

  bool is_on() const { return exporter_ != nullptr; }
  // With an invalid parent, the span starts a new trace.
  Span start(std::string_view name, SpanKind kind = SpanKind::internal,
             const TraceContext& parent = {});

  // Spans that the collector accepted, and spans that were lost because the queue was full, the
  // collector rejected them or was unreachable, or time ran out at shutdown.
  std::uint64_t exported() const;
  std::uint64_t dropped() const;

  // Sends what is queued, until the deadline. Must be awaited before the tracer is destroyed.
  awaitable<void> shutdown(Clock::time_point deadline);

 private:
  friend class Span;
  Tracer();
  void finish(std::unique_ptr<SpanRecord> record);

  std::unique_ptr<OtlpExporter> exporter_;
};

}  // namespace warren
