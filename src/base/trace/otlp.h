#pragma once
// Sends spans to an OpenTelemetry collector as JSON over HTTP.
//
//   ended spans ─> queue (bounded; if full, the new span is dropped and counted) ─> batches ─> POST
//
// The environment, as OpenTelemetry defines it:
//   OTEL_EXPORTER_OTLP_TRACES_ENDPOINT       the URL, used unchanged: http:// or https://
//   OTEL_EXPORTER_OTLP_ENDPOINT              the base URL: /v1/traces is appended
//   OTEL_EXPORTER_OTLP_[TRACES_]HEADERS      name=value,… with percent-encoding
//   OTEL_EXPORTER_OTLP_[TRACES_]TIMEOUT      per request, in milliseconds: 10000
//   OTEL_EXPORTER_OTLP_[TRACES_]CERTIFICATE  file with the authorities to trust for https://
//   OTEL_EXPORTER_OTLP_[TRACES_]PROTOCOL     http/json, or http/protobuf, whose receivers take JSON
//                                            too
//   OTEL_SERVICE_NAME, OTEL_RESOURCE_ATTRIBUTES
//   OTEL_TRACES_SAMPLER                      [parentbased_]always_on, always_off, traceidratio
//   OTEL_TRACES_SAMPLER_ARG                  the ratio, from 0 to 1
//   OTEL_BSP_MAX_QUEUE_SIZE 2048, OTEL_BSP_MAX_EXPORT_BATCH_SIZE 512, OTEL_BSP_SCHEDULE_DELAY 5000
//   OTEL_SDK_DISABLED=true, OTEL_TRACES_EXPORTER=none switch it off
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/task.h"
#include "base/trace/trace.h"

namespace boost::asio::ssl {
class context;
}

namespace warren {

struct OtlpSettings {
  bool tls = false;
  std::string host;
  std::string port;
  std::string target;  // path and query
  std::string ca_file;
  std::vector<std::pair<std::string, std::string>> headers;
  std::chrono::milliseconds timeout = 10s;
  TraceAttributes resource;
  bool follows_parent = true;
  double ratio = 1;  // of the traces that begin here
  std::size_t queue = 2048;
  std::size_t batch = 512;
  std::chrono::milliseconds delay = 5s;  // the longest that an ended span waits before it is sent
};

// Returns nullopt if no endpoint is set. Errc::invalid names the variable and says what is allowed.
Result<std::optional<OtlpSettings>> otlp_settings(
    const std::map<std::string, std::string>& environment, const std::string& default_service);

// Whether a span of this trace is recorded.
bool is_sampled(const OtlpSettings& settings, const std::array<std::uint8_t, 16>& trace_id,
                const TraceContext& parent);

// An ExportTraceServiceRequest. It is always valid UTF-8.
std::string otlp_json(const TraceAttributes& resource, std::span<const SpanRecord> spans);

class OtlpExporter {
 public:
  // Errc::invalid when the certificates cannot be read.
  static Result<std::unique_ptr<OtlpExporter>> create(asio::any_io_executor executor,
                                                      OtlpSettings settings);
  ~OtlpExporter();

  const OtlpSettings& settings() const { return settings_; }
  // Never blocks.
  void add(SpanRecord record);
  awaitable<void> shutdown(Clock::time_point deadline);
  std::uint64_t exported() const { return exported_; }
  std::uint64_t dropped() const { return dropped_; }

 private:
  using Tls = asio::ssl::context;
  OtlpExporter(asio::any_io_executor executor, OtlpSettings settings, std::unique_ptr<Tls> tls);
  Async<> run();
  std::string take_batch();
  // Returns how many spans of the body the collector rejected.
  Async<std::uint64_t> send(std::string body);
  void count(const Result<std::uint64_t>& rejected);

  OtlpSettings settings_;
  std::unique_ptr<Tls> tls_;
  std::deque<SpanRecord> queue_;
  std::size_t in_flight_ = 0;
  std::uint64_t exported_ = 0;
  std::uint64_t dropped_ = 0;
  bool stopping_ = false;
  bool failing_ = false;  // logs an outage in two lines, instead of one per batch
  Event wake_;
  Event done_;
  TaskGroup tasks_;
};

}  // namespace warren
