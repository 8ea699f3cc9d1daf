#include "base/trace/trace.h"

#include <doctest/doctest.h>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http.hpp>
#include <boost/json.hpp>
#include <cmath>
#include <cstdlib>
#include <deque>
#include <filesystem>

#include "base/trace/otlp.h"

using namespace warren;
namespace http = boost::beast::http;
namespace json = boost::json;
namespace ssl = asio::ssl;
using asio::ip::tcp;
using Environment = std::map<std::string, std::string>;

namespace {

void run(awaitable<void> body) {
  asio::io_context io(1);
  std::exception_ptr thrown;
  asio::co_spawn(io, std::move(body), [&](std::exception_ptr e) { thrown = e; });
  io.run();
  if (thrown) std::rethrow_exception(thrown);
}

struct Answer {
  unsigned status = 200;
  std::string body = "{}";
  std::string retry_after = "";
  bool never = false;  // reads the request and never answers
  bool not_http = false;
};

// A collector on a loopback port. It gives the configured answers, then 200.
class Collector {
 public:
  explicit Collector(asio::any_io_executor executor, ssl::context* tls = nullptr)
      : acceptor_(executor, {asio::ip::address_v4::loopback(), 0}),
        tls_(tls),
        arrived_(executor),
        tasks_(executor) {
    tasks_.start("collector.accept", accept());
  }

  std::string endpoint() const {
    return fmt::format("{}://127.0.0.1:{}", tls_ ? "https" : "http",
                       acceptor_.local_endpoint().port());
  }
  awaitable<void> until(std::size_t count) {
    auto deadline = Clock::now() + 30s;
    while (requests.size() < count && Clock::now() < deadline) co_await arrived_.wait(deadline);
    REQUIRE(requests.size() >= count);
  }
  awaitable<void> stop() {
    tasks_.stop();
    co_await tasks_.join();
  }
  // From all requests, in order of arrival.
  std::vector<json::object> spans() const {
    std::vector<json::object> all;
    for (auto& request : requests) {
      auto body = json::parse(request.body());
      for (auto& span : body.at_pointer("/resourceSpans/0/scopeSpans/0/spans").as_array())
        all.push_back(span.as_object());
    }
    return all;
  }

  std::vector<http::request<http::string_body>> requests;
  std::deque<Answer> answers;

 private:
  Async<> accept() {
    while (true) {
      auto [error, socket] = co_await acceptor_.async_accept(asio::as_tuple(asio::use_awaitable));
      if (error) co_return ok;
      tasks_.start("collector.connection", connection(std::move(socket)));
    }
  }
  Async<> connection(tcp::socket socket) {
    if (!tls_) co_return co_await serve(socket);
    ssl::stream<tcp::socket> stream(std::move(socket), *tls_);
    auto [error] = co_await stream.async_handshake(ssl::stream_base::server,
                                                   asio::as_tuple(asio::use_awaitable));
    if (!error) co_return co_await serve(stream);
    co_return ok;
  }
  template <class Stream>
  Async<> serve(Stream& stream) {
    boost::beast::flat_buffer buffer;
    http::request<http::string_body> request;
    auto [error, bytes] =
        co_await http::async_read(stream, buffer, request, asio::as_tuple(asio::use_awaitable));
    if (error) co_return ok;
    Answer answer;
    if (!answers.empty()) {
      answer = answers.front();
      answers.pop_front();
    }
    requests.push_back(std::move(request));
    arrived_.notify();
    if (answer.never) co_await sleep_until(Clock::time_point::max());
    if (answer.not_http) {
      auto text = asio::buffer("+PONG\r\n", 7);
      co_await asio::async_write(stream, text, asio::as_tuple(asio::use_awaitable));
      co_return ok;
    }
    http::response<http::string_body> response(http::status(answer.status), 11);
    response.body() = answer.body;
    if (!answer.retry_after.empty()) response.set(http::field::retry_after, answer.retry_after);
    response.prepare_payload();
    response.keep_alive(false);
    // The client may have disconnected by now.
    co_await http::async_write(stream, response, asio::as_tuple(asio::use_awaitable));
    co_return ok;
  }

  tcp::acceptor acceptor_;
  ssl::context* tls_;
  Event arrived_;
  TaskGroup tasks_;
};

std::unique_ptr<Tracer> make_tracer(asio::any_io_executor executor,
                                    const Environment& environment) {
  auto tracer = Tracer::from_environment(executor, environment);
  REQUIRE_MESSAGE(tracer, (tracer ? "" : tracer.error().what));
  return std::move(*tracer);
}

OtlpSettings settings_of(Environment environment) {
  environment.try_emplace("OTEL_EXPORTER_OTLP_ENDPOINT", "http://host:4318");
  auto settings = otlp_settings(environment, "warren");
  REQUIRE_MESSAGE(settings, (settings ? "" : settings.error().what));
  REQUIRE(*settings);
  return **settings;
}

std::string error_of(Environment environment) {
  environment.try_emplace("OTEL_EXPORTER_OTLP_ENDPOINT", "http://host:4318");
  auto settings = otlp_settings(environment, "warren");
  REQUIRE(!settings);
  CHECK(settings.error().code == Errc::invalid);
  return settings.error().what;
}

const std::string example = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

}  // namespace

TEST_CASE("a traceparent is read and written as it came") {
  auto context = parse_traceparent(example);
  REQUIRE(context);
  CHECK(hex(context->trace_id) == "4bf92f3577b34da6a3ce929d0e0e4736");
  CHECK(hex(context->span_id) == "00f067aa0ba902b7");
  CHECK(context->sampled);
  CHECK(format_traceparent(*context) == example);
  context->sampled = false;
  CHECK(format_traceparent(*context) == example.substr(0, 53) + "00");
}

TEST_CASE("of the flags only the last bit means sampled, and no other is handed on") {
  auto with_flags = [](std::string flags) {
    return parse_traceparent(example.substr(0, 53) + flags);
  };
  CHECK(with_flags("03")->sampled);
  CHECK(with_flags("ff")->sampled);
  CHECK_FALSE(with_flags("02")->sampled);
  CHECK(format_traceparent(*with_flags("ff")).ends_with("-01"));
}

TEST_CASE("a traceparent that breaks the recommendation is ignored") {
  CHECK_FALSE(parse_traceparent(""));
  CHECK_FALSE(parse_traceparent("ff" + example.substr(2)));
  CHECK_FALSE(parse_traceparent(example.substr(0, 54)));
  CHECK_FALSE(parse_traceparent(example + "-01"));
  CHECK_FALSE(parse_traceparent(example + " "));
  CHECK_FALSE(parse_traceparent(" " + example));
  CHECK_FALSE(parse_traceparent("00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01"));
  CHECK_FALSE(parse_traceparent("00-4bf92f3577b34da6a3ce929d0e0e4736-00F067AA0BA902B7-01"));
  CHECK_FALSE(parse_traceparent("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-0A"));
  CHECK_FALSE(parse_traceparent("00-00000000000000000000000000000000-00f067aa0ba902b7-01"));
  CHECK_FALSE(parse_traceparent("00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01"));
  for (std::size_t i = 0; i < example.size(); ++i) {
    auto broken = example;
    broken[i] = 'g';
    CHECK_FALSE(parse_traceparent(broken));
  }
}

TEST_CASE("a later version of traceparent is read as far as this one goes") {
  auto later = "cc" + example.substr(2);
  CHECK(parse_traceparent(later) == parse_traceparent(example));
  CHECK(parse_traceparent(later + "-what-the-future-brings") == parse_traceparent(example));
  CHECK_FALSE(parse_traceparent(later + ".what"));
  CHECK_FALSE(parse_traceparent(later + "0"));
  CHECK(format_traceparent(*parse_traceparent(later)) == example);
}

TEST_CASE("there is no header for a context that is not valid") {
  CHECK(format_traceparent({}) == "");
}

TEST_CASE("traces are off without an endpoint, and when they are switched off") {
  asio::io_context io;
  CHECK_FALSE(make_tracer(io.get_executor(), {})->is_on());
  for (auto [name, value] :
       {std::pair("OTEL_EXPORTER_OTLP_ENDPOINT", ""), std::pair("OTEL_SDK_DISABLED", "true"),
        std::pair("OTEL_TRACES_EXPORTER", "none")}) {
    Environment environment{{"OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1"}};
    environment[name] = value;
    CHECK_FALSE(make_tracer(io.get_executor(), environment)->is_on());
  }
}

TEST_CASE("a span hands on the context it was given while traces are off") {
  asio::io_context io;
  auto tracer = make_tracer(io.get_executor(), {});
  auto span = tracer->start("a", SpanKind::server, *parse_traceparent(example));
  CHECK_FALSE(span.is_recorded());
  CHECK(format_traceparent(span.context()) == example);
  CHECK_FALSE(tracer->start("a").context().is_valid());
}

TEST_CASE("the general endpoint is a base, the one for traces is taken as it is and wins") {
  auto target = [](Environment environment) {
    auto settings = settings_of(std::move(environment));
    return fmt::format("{} {} {} {}", settings.tls, settings.host, settings.port, settings.target);
  };
  auto base = "OTEL_EXPORTER_OTLP_ENDPOINT", own = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT";
  CHECK(target({{base, "http://host:4318"}}) == "false host 4318 /v1/traces");
  CHECK(target({{base, "http://host:4318/"}}) == "false host 4318 /v1/traces");
  CHECK(target({{base, "https://host/otlp"}}) == "true host 443 /otlp/v1/traces");
  CHECK(target({{base, "http://[::1]:4318"}}) == "false ::1 4318 /v1/traces");
  CHECK(target({{base, "http://a"}, {own, "http://b/traces?x=1#y"}}) == "false b 80 /traces?x=1");
  CHECK(target({{own, "http://b:1"}}) == "false b 1 /");
}

TEST_CASE("an endpoint that is no URL is refused, naming the variable") {
  for (auto url : {"host:4318", "grpc://host:4317", "http://", "http://:4318",
                   "http://host:", "http://host:0", "http://host:65536", "http://host:4318x",
                   "http://[::1", "http://[::1]4318", "http://ho st", "http://host/\r\nx: y"}) {
    CAPTURE(url);
    CHECK(error_of({{"OTEL_EXPORTER_OTLP_ENDPOINT", url}}).starts_with("OTEL_EXPORTER_OTLP_END"));
  }
  auto error = error_of({{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://me:s3cret@host"}});
  CHECK(error ==
        "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT has credentials; give them in "
        "OTEL_EXPORTER_OTLP_HEADERS");
}

TEST_CASE("headers, resource, limits and sampler come from the standard variables") {
  auto settings = settings_of({{"OTEL_EXPORTER_OTLP_HEADERS", "api-key=a%2Cb%3D , x=1"},
                               {"OTEL_RESOURCE_ATTRIBUTES", "service.name=no,zone=b%20c"},
                               {"OTEL_SERVICE_NAME", "foghorn"},
                               {"OTEL_EXPORTER_OTLP_TIMEOUT", "250"},
                               {"OTEL_BSP_MAX_QUEUE_SIZE", "20"},
                               {"OTEL_BSP_SCHEDULE_DELAY", "30"},
                               {"OTEL_TRACES_SAMPLER", "traceidratio"},
                               {"OTEL_TRACES_SAMPLER_ARG", "0.25"}});
  CHECK(settings.headers ==
        std::vector<std::pair<std::string, std::string>>{{"api-key", "a,b="}, {"x", "1"}});
  CHECK(settings.resource == TraceAttributes{{"zone", "b c"}, {"service.name", "foghorn"}});
  CHECK(settings.timeout == 250ms);
  CHECK(settings.queue == 20);
  CHECK(settings.batch == 20);
  CHECK(settings.delay == 30ms);
  CHECK_FALSE(settings.follows_parent);
  CHECK(settings.ratio == 0.25);
  auto own = settings_of({{"OTEL_EXPORTER_OTLP_HEADERS", "a=1"},
                          {"OTEL_EXPORTER_OTLP_TRACES_HEADERS", "b=2"},
                          {"OTEL_RESOURCE_ATTRIBUTES", "service.name=lamp"}});
  CHECK(own.headers == std::vector<std::pair<std::string, std::string>>{{"b", "2"}});
  CHECK(own.resource == TraceAttributes{{"service.name", "lamp"}});
  CHECK(settings_of({}).resource == TraceAttributes{{"service.name", "warren"}});
}

TEST_CASE("a wrong variable is refused by name, and a header's value is never repeated") {
  CHECK(error_of({{"OTEL_TRACES_SAMPLER", "parentbased_alwayson"}}) ==
        "OTEL_TRACES_SAMPLER is \"parentbased_alwayson\"; use parentbased_always_on");
  for (auto ratio : {"1.5", "-1", "half", "nan", "0.5x"})
    CHECK(error_of({{"OTEL_TRACES_SAMPLER", "traceidratio"}, {"OTEL_TRACES_SAMPLER_ARG", ratio}})
              .starts_with("OTEL_TRACES_SAMPLER_ARG is "));
  CHECK(error_of({{"OTEL_EXPORTER_OTLP_TIMEOUT", "10s"}}) ==
        "OTEL_EXPORTER_OTLP_TIMEOUT is \"10s\"; use a whole number above 0");
  CHECK(error_of({{"OTEL_BSP_MAX_QUEUE_SIZE", "0"}}).starts_with("OTEL_BSP_MAX_QUEUE_SIZE is "));
  CHECK(error_of({{"OTEL_EXPORTER_OTLP_PROTOCOL", "grpc"}}) ==
        "OTEL_EXPORTER_OTLP_PROTOCOL is \"grpc\"; use http/json, usually on port 4318");
  for (auto headers : {"s3cret", "a=s3cret%0d%0ab: c", "a=s3cret%zz", "=s3cret", "a b=s3cret",
                       "a:b=s3cret", "a=s3cret%4"}) {
    CAPTURE(headers);
    auto error = error_of({{"OTEL_EXPORTER_OTLP_HEADERS", headers}});
    CHECK(error.starts_with("OTEL_EXPORTER_OTLP_HEADERS"));
    CHECK_FALSE(error.contains("s3cret"));
  }
}

TEST_CASE("certificates that cannot be read are an error at the start") {
  asio::io_context io;
  auto tracer = Tracer::from_environment(io.get_executor(),
                                         {{"OTEL_EXPORTER_OTLP_ENDPOINT", "https://127.0.0.1:1"},
                                          {"OTEL_EXPORTER_OTLP_CERTIFICATE", "/nowhere/ca.pem"}});
  REQUIRE(!tracer);
  CHECK(tracer.error().what.contains("OTEL_EXPORTER_OTLP_CERTIFICATE /nowhere/ca.pem"));
}

TEST_CASE("a sampler follows the parent when it is based on it, and the ratio otherwise") {
  auto parent = *parse_traceparent(example);
  auto silent = parent;
  silent.sampled = false;
  std::array<std::uint8_t, 16> low{1}, high{};
  high.fill(0xff);
  auto sampler = [](const char* name, const char* ratio = "") {
    return settings_of({{"OTEL_TRACES_SAMPLER", name}, {"OTEL_TRACES_SAMPLER_ARG", ratio}});
  };
  for (auto name : {"", "parentbased_always_on", "parentbased_always_off"}) {
    CHECK(is_sampled(sampler(name), low, parent));
    CHECK_FALSE(is_sampled(sampler(name), high, silent));
    CHECK(is_sampled(sampler(name), low, {}) == (name != std::string("parentbased_always_off")));
  }
  CHECK(is_sampled(sampler("always_on"), low, silent));
  CHECK_FALSE(is_sampled(sampler("always_off"), high, parent));
  CHECK(is_sampled(sampler("traceidratio", "0.5"), high, silent));
  CHECK_FALSE(is_sampled(sampler("traceidratio", "0.5"), low, parent));
  CHECK(is_sampled(sampler("parentbased_traceidratio", "0.5"), low, parent));
  CHECK_FALSE(is_sampled(sampler("parentbased_traceidratio", "0"), high, {}));
  CHECK(is_sampled(sampler("traceidratio"), low, {}));
}

TEST_CASE("a ratio chooses that part of the traces") {
  run([]() -> awaitable<void> {
    auto executor = co_await asio::this_coro::executor;
    auto tracer = make_tracer(executor, {{"OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1"},
                                         {"OTEL_TRACES_SAMPLER", "parentbased_traceidratio"},
                                         {"OTEL_TRACES_SAMPLER_ARG", "0.25"}});
    int sampled = 0;
    for (int i = 0; i < 4000; ++i) {
      auto span = tracer->start("a");
      CHECK(span.context().is_valid());
      CHECK(span.is_recorded() == span.context().sampled);
      sampled += span.context().sampled;
    }
    CHECK(std::abs(sampled - 1000) < 200);  // seven standard deviations
    co_await tracer->shutdown(Clock::now());
  }());
}

TEST_CASE("a span arrives at the collector with all its facts") {
  run([]() -> awaitable<void> {
    auto executor = co_await asio::this_coro::executor;
    Collector collector(executor);
    auto tracer = make_tracer(executor, {{"OTEL_EXPORTER_OTLP_ENDPOINT", collector.endpoint()},
                                         {"OTEL_EXPORTER_OTLP_HEADERS", "api-key=s3cret"},
                                         {"OTEL_RESOURCE_ATTRIBUTES", "zone=b"}});
    auto before = WallClock::now();
    auto remote = *parse_traceparent(example);
    std::string child_id;
    {
      auto span = tracer->start("http.request", SpanKind::server, remote);
      span.set("text", "a \"b\" \xff");
      span.set("count", std::uint32_t(7));
      span.set("count", -8);
      span.set("share", 0.5);
      span.set("endless", INFINITY);
      span.set("hit", true);
      auto child = tracer->start("lease.acquire", SpanKind::client, span.context());
      child.fail("lease lost");
      child_id = hex(child.context().span_id);
    }
    {
      auto root = tracer->start("timer");
    }
    co_await tracer->shutdown(Clock::now() + 30s);
    REQUIRE(collector.requests.size() == 1);
    auto& request = collector.requests[0];
    CHECK(request.method() == http::verb::post);
    CHECK(request.target() == "/v1/traces");
    CHECK(request[http::field::content_type] == "application/json");
    CHECK("http://" + std::string(request[http::field::host]) == collector.endpoint());
    CHECK(request["api-key"] == "s3cret");
    auto resource = json::parse(request.body()).at_pointer("/resourceSpans/0/resource");
    CHECK(resource == json::parse(R"({"attributes": [
        {"key": "zone", "value": {"stringValue": "b"}},
        {"key": "service.name", "value": {"stringValue": "warren"}}]})"));
    auto spans = collector.spans();
    REQUIRE(spans.size() == 3);

    auto& child = spans[0];
    auto& span = spans[1];
    CHECK(span["name"] == "http.request");
    CHECK(span["kind"] == 2);
    CHECK(span["traceId"] == "4bf92f3577b34da6a3ce929d0e0e4736");
    CHECK(span["parentSpanId"] == "00f067aa0ba902b7");
    CHECK(span["spanId"].as_string().size() == 16);
    CHECK_FALSE(span.contains("status"));
    CHECK(span["attributes"] == json::parse(R"([
        {"key": "text", "value": {"stringValue": "a \"b\" \ufffd"}},
        {"key": "count", "value": {"intValue": "-8"}},
        {"key": "share", "value": {"doubleValue": 0.5}},
        {"key": "endless", "value": {"doubleValue": "Infinity"}},
        {"key": "hit", "value": {"boolValue": true}}])"));
    auto nanos = [](json::value& time) { return std::stoll(std::string(time.as_string())); };
    auto start = nanos(span["startTimeUnixNano"]), end = nanos(span["endTimeUnixNano"]);
    CHECK(start >= std::chrono::nanoseconds(before.time_since_epoch()).count());
    CHECK(end >= start);
    CHECK(end <= std::chrono::nanoseconds((before + 60s).time_since_epoch()).count());

    CHECK(child["name"] == "lease.acquire");
    CHECK(child["kind"] == 3);
    CHECK(child["spanId"].as_string() == child_id);
    CHECK(child["parentSpanId"] == span["spanId"]);
    CHECK(child["traceId"] == span["traceId"]);
    CHECK(child["status"] == json::parse(R"({"code": 2, "message": "lease lost"})"));
    CHECK_FALSE(spans[2].contains("parentSpanId"));
    CHECK(spans[2]["traceId"] != span["traceId"]);
    CHECK(tracer->exported() == 3);
    CHECK(tracer->dropped() == 0);
    co_await collector.stop();
  }());
}

TEST_CASE("a span that is moved or ended early is sent once") {
  run([]() -> awaitable<void> {
    auto executor = co_await asio::this_coro::executor;
    Collector collector(executor);
    auto tracer = make_tracer(executor, {{"OTEL_EXPORTER_OTLP_ENDPOINT", collector.endpoint()}});
    {
      auto first = tracer->start("first");
      auto moved = std::move(first);
      auto second = tracer->start("second");
      moved = std::move(second);  // ends the first
      moved.end();
      moved.set("late", 1);
      moved.fail("late");
      moved.end();
    }
    co_await tracer->shutdown(Clock::now() + 30s);
    auto spans = collector.spans();
    REQUIRE(spans.size() == 2);
    CHECK(spans[0]["name"] == "first");
    CHECK(spans[1]["name"] == "second");
    CHECK(spans[1]["attributes"].as_array().empty());
    co_await collector.stop();
  }());
}

TEST_CASE("spans are sent when a batch is full or the delay is over, without a shutdown") {
  run([]() -> awaitable<void> {
    auto executor = co_await asio::this_coro::executor;
    Collector collector(executor);
    Environment environment{{"OTEL_EXPORTER_OTLP_ENDPOINT", collector.endpoint()},
                            {"OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "10"},
                            {"OTEL_BSP_SCHEDULE_DELAY", "3600000"}};
    auto patient = make_tracer(executor, environment);
    for (int i = 0; i < 25; ++i) patient->start("full");
    co_await collector.until(2);
    CHECK(collector.spans().size() == 20);
    environment["OTEL_BSP_SCHEDULE_DELAY"] = "20";
    auto quick = make_tracer(executor, environment);
    quick->start("late");
    co_await collector.until(3);
    CHECK(collector.spans().back()["name"] == "late");
    co_await quick->shutdown(Clock::now() + 30s);
    co_await patient->shutdown(Clock::now() + 30s);
    CHECK(patient->exported() == 25);
    co_await collector.stop();
  }());
}

TEST_CASE("a collector that is busy is asked again, and not sooner than it says") {
  run([]() -> awaitable<void> {
    auto executor = co_await asio::this_coro::executor;
    Collector collector(executor);
    collector.answers = {{503, "", "1"}, {429, "", ""}};
    auto tracer = make_tracer(executor, {{"OTEL_EXPORTER_OTLP_ENDPOINT", collector.endpoint()}});
    tracer->start("a");
    auto before = Clock::now();
    co_await tracer->shutdown(Clock::now() + 60s);
    CHECK(Clock::now() - before >= 1s);
    CHECK(collector.requests.size() == 3);
    CHECK(collector.requests[2].body() == collector.requests[0].body());
    CHECK(tracer->exported() == 1);
    CHECK(tracer->dropped() == 0);
    co_await collector.stop();
  }());
}

TEST_CASE("what the collector refuses or rejects is counted as dropped and not sent again") {
  run([]() -> awaitable<void> {
    auto executor = co_await asio::this_coro::executor;
    Collector collector(executor);
    collector.answers = {{400, "no", ""}, {200, R"({"partialSuccess":{"rejectedSpans":"2"}})", ""}};
    auto tracer = make_tracer(executor, {{"OTEL_EXPORTER_OTLP_ENDPOINT", collector.endpoint()},
                                         {"OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "5"}});
    for (int i = 0; i < 10; ++i) tracer->start("a");
    co_await tracer->shutdown(Clock::now() + 30s);
    CHECK(collector.requests.size() == 2);
    CHECK(tracer->exported() == 3);
    CHECK(tracer->dropped() == 7);
    co_await collector.stop();
  }());
}

TEST_CASE("an answer that is no HTTP is a failed attempt, one that is far too long is not") {
  run([]() -> awaitable<void> {
    auto executor = co_await asio::this_coro::executor;
    Collector collector(executor);
    collector.answers = {{200, "", "", false, true}, {200, std::string(1 << 20, 'x'), ""}};
    auto tracer = make_tracer(executor, {{"OTEL_EXPORTER_OTLP_ENDPOINT", collector.endpoint()}});
    tracer->start("a");
    co_await tracer->shutdown(Clock::now() + 30s);
    CHECK(collector.requests.size() == 2);
    CHECK(tracer->exported() == 1);
    co_await collector.stop();
  }());
}

TEST_CASE("with the collector away the queue stays bounded, and every lost span is counted") {
  run([]() -> awaitable<void> {
    auto executor = co_await asio::this_coro::executor;
    std::string away;
    {
      Collector collector(executor);
      away = collector.endpoint();
      co_await collector.stop();
    }
    auto tracer = make_tracer(executor, {{"OTEL_EXPORTER_OTLP_ENDPOINT", away},
                                         {"OTEL_BSP_MAX_QUEUE_SIZE", "100"},
                                         {"OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "50"}});
    for (int i = 0; i < 1000; ++i) tracer->start("a");
    CHECK(tracer->dropped() == 900);
    auto before = Clock::now();
    co_await tracer->shutdown(before + 100ms);
    CHECK(Clock::now() - before < 20s);
    CHECK(tracer->dropped() == 1000);
    CHECK(tracer->exported() == 0);
    tracer->start("after the end");
    CHECK(tracer->dropped() == 1001);
  }());
}

TEST_CASE("a collector that never answers is left at the timeout and asked again") {
  run([]() -> awaitable<void> {
    auto executor = co_await asio::this_coro::executor;
    Collector collector(executor);
    collector.answers = {{200, "", "", true}};
    auto tracer = make_tracer(executor, {{"OTEL_EXPORTER_OTLP_ENDPOINT", collector.endpoint()},
                                         {"OTEL_EXPORTER_OTLP_TIMEOUT", "50"}});
    tracer->start("a");
    co_await tracer->shutdown(Clock::now() + 60s);
    CHECK(collector.requests.size() == 2);
    CHECK(tracer->exported() == 1);
    co_await collector.stop();
  }());
}

TEST_CASE("a shutdown ends at its deadline though the collector hangs") {
  run([]() -> awaitable<void> {
    auto executor = co_await asio::this_coro::executor;
    Collector collector(executor);
    collector.answers = {{200, "", "", true}};
    auto tracer = make_tracer(executor, {{"OTEL_EXPORTER_OTLP_ENDPOINT", collector.endpoint()},
                                         {"OTEL_EXPORTER_OTLP_TIMEOUT", "3600000"},
                                         {"OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "2"}});
    for (int i = 0; i < 5; ++i) tracer->start("a");
    auto before = Clock::now();
    co_await tracer->shutdown(before + 100ms);
    CHECK(Clock::now() - before >= 100ms);
    CHECK(Clock::now() - before < 20s);
    CHECK(tracer->dropped() == 5);
    co_await collector.stop();
  }());
}

TEST_CASE("a shutdown whose caller is cancelled gives up what is queued, and still joins") {
  run([]() -> awaitable<void> {
    auto executor = co_await asio::this_coro::executor;
    Collector collector(executor);
    collector.answers = {{200, "", "", true}};
    auto tracer = make_tracer(executor, {{"OTEL_EXPORTER_OTLP_ENDPOINT", collector.endpoint()}});
    tracer->start("a");
    using namespace asio::experimental::awaitable_operators;
    co_await (tracer->shutdown(Clock::now() + 1h) || collector.until(1));
    CHECK(tracer->dropped() == 1);
    co_await collector.stop();
  }());
}

TEST_CASE("over https the collector must show a certificate that the given authority signed") {
  std::string pattern = std::filesystem::temp_directory_path() / "warren-trace-XXXXXX";
  std::filesystem::path folder = mkdtemp(pattern.data());
  auto made = fmt::format(
      "cd {} && openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 "
      "-subj /CN=collector -addext subjectAltName=IP:127.0.0.1 -keyout key.pem -out cert.pem 2>log",
      folder.native());
  REQUIRE(std::system(made.c_str()) == 0);
  ssl::context tls(ssl::context::tls_server);
  tls.use_certificate_chain_file(folder / "cert.pem");
  tls.use_private_key_file(folder / "key.pem", ssl::context::pem);
  run([](ssl::context& server, std::string authority) -> awaitable<void> {
    auto executor = co_await asio::this_coro::executor;
    Collector collector(executor, &server);
    Environment environment{{"OTEL_EXPORTER_OTLP_ENDPOINT", collector.endpoint()}};
    auto distrusting = make_tracer(executor, environment);
    distrusting->start("a");
    co_await distrusting->shutdown(Clock::now() + 200ms);
    CHECK(distrusting->dropped() == 1);
    CHECK(collector.requests.empty());

    environment["OTEL_EXPORTER_OTLP_CERTIFICATE"] = authority;
    auto trusting = make_tracer(executor, environment);
    trusting->start("a");
    co_await trusting->shutdown(Clock::now() + 30s);
    CHECK(trusting->exported() == 1);

    auto other_name = collector.endpoint();
    other_name.replace(other_name.find("127.0.0.1"), 9, "localhost");
    environment["OTEL_EXPORTER_OTLP_ENDPOINT"] = other_name;
    auto misled = make_tracer(executor, environment);
    misled->start("a");
    co_await misled->shutdown(Clock::now() + 200ms);
    CHECK(misled->dropped() == 1);
    CHECK(collector.requests.size() == 1);
    co_await collector.stop();
  }(tls, folder / "cert.pem"));
  std::filesystem::remove_all(folder);
}
