#include "proof/testkit/collector.h"

#include <boost/json.hpp>
#include <charconv>

namespace warren {

namespace {

namespace json = boost::json;

std::string text_of(const json::object& object, std::string_view name) {
  const auto* value = object.if_contains(name);
  return value && value->is_string() ? std::string(value->get_string()) : "";
}

const json::array& list_of(const json::object& object, std::string_view name) {
  static const json::array none;
  const auto* value = object.if_contains(name);
  return value && value->is_array() ? value->get_array() : none;
}

std::uint64_t number_of(const std::string& text) {
  std::uint64_t number = 0;
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

std::map<std::string, std::string> texts_of(const json::object& object) {
  std::map<std::string, std::string> texts;
  for (const auto& attribute : list_of(object, "attributes")) {
    if (!attribute.is_object()) continue;
    const auto* value = attribute.get_object().if_contains("value");
    if (value && value->is_object())
      texts[text_of(attribute.get_object(), "key")] = text_of(value->get_object(), "stringValue");
  }
  return texts;
}

CollectedSpan span_of(const json::object& object, const std::string& service) {
  CollectedSpan span;
  span.service = service;
  span.name = text_of(object, "name");
  span.trace_id = text_of(object, "traceId");
  span.span_id = text_of(object, "spanId");
  span.parent_id = text_of(object, "parentSpanId");
  span.start_ns = number_of(text_of(object, "startTimeUnixNano"));
  span.end_ns = number_of(text_of(object, "endTimeUnixNano"));
  span.texts = texts_of(object);
  const auto* status = object.if_contains("status");
  if (status && status->is_object()) span.error = text_of(status->get_object(), "message");
  return span;
}

// Returns an empty text if the span is valid.
std::string problem_of(const CollectedSpan& span) {
  if (span.name.empty()) return "a span has no name";
  if (span.trace_id.size() != 32 || span.span_id.size() != 16) return span.name + ": its ids";
  if (span.start_ns == 0 || span.end_ns < span.start_ns) return span.name + ": its times";
  return "";
}

}  // namespace

Collector::Collector(const asio::any_io_executor& executor) : tasks_(executor) {
  HttpTerms terms;
  terms.most_body = 16u << 20;
  auto handler = [this](const HttpRequest& request, HttpAnswer& answer) {
    take(request, answer);
    return HttpServer::Work();
  };
  auto server = HttpServer::listen(executor, std::move(terms), std::move(handler));
  ensure(server.has_value(), "a collector finds a port");
  server_ = *std::move(server);
  tasks_.start("collector", server_->run());
}

awaitable<void> Collector::stop() {
  tasks_.stop();
  co_await tasks_.join();
}

std::string Collector::endpoint() const {
  return fmt::format("http://127.0.0.1:{}", server_->port());
}

void Collector::refuse(HttpAnswer& answer, std::string why) {
  problems_.push_back(std::move(why));
  answer.status = 400;
}

void Collector::take(const HttpRequest& request, HttpAnswer& answer) {
  answer.type = "application/json";
  answer.body = "{}";
  if (request.method != "POST" || request.path != "/v1/traces")
    return refuse(answer, fmt::format("{} {}", request.method, request.path));
  boost::system::error_code error;
  auto body = json::parse(request.body, error);
  if (error || !body.is_object()) return refuse(answer, "a body that is no object");
  for (const auto& of_service : list_of(body.get_object(), "resourceSpans")) {
    const auto* resource = of_service.as_object().if_contains("resource");
    auto service = resource ? texts_of(resource->as_object())["service.name"] : "";
    for (const auto& scope : list_of(of_service.as_object(), "scopeSpans")) {
      for (const auto& one : list_of(scope.as_object(), "spans")) {
        auto span = span_of(one.as_object(), service);
        if (auto problem = problem_of(span); !problem.empty()) problems_.push_back(problem);
        spans_.push_back(std::move(span));
      }
    }
  }
}

}  // namespace warren
