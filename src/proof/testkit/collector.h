#pragma once
// A collector of OpenTelemetry traces: OTLP as JSON over HTTP, on a port of this machine.
//
//   Collector collector(executor);
//   … OTEL_EXPORTER_OTLP_ENDPOINT=collector.endpoint() …
//   co_await eventually(30s, "it is there", has_span, collector);
//   co_await collector.stop();
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "net/http/server.h"

namespace warren {

struct CollectedSpan {
  std::string service, name;
  std::string trace_id, span_id, parent_id;  // hexadecimal; without a parent: empty
  std::uint64_t start_ns = 0, end_ns = 0;    // since 1970
  std::map<std::string, std::string> texts;  // attributes with text values
  std::string error;                         // empty: the span has not failed
};

class Collector {
 public:
  explicit Collector(const asio::any_io_executor& executor);
  awaitable<void> stop();  // call before destruction

  std::string endpoint() const;
  const std::vector<CollectedSpan>& spans() const { return spans_; }  // in order of arrival
  // Descriptions of what arrived but does not follow the protocol.
  const std::vector<std::string>& problems() const { return problems_; }

 private:
  void take(const HttpRequest& request, HttpAnswer& answer);
  void refuse(HttpAnswer& answer, std::string why);

  std::unique_ptr<HttpServer> server_;
  std::vector<CollectedSpan> spans_;
  std::vector<std::string> problems_;
  TaskGroup tasks_;
};

}  // namespace warren
