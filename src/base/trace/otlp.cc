#include "base/trace/otlp.h"

#include <algorithm>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/connect.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http.hpp>
#include <boost/json.hpp>
#include <charconv>
#include <cmath>
#include <random>

#include "base/log.h"
#include "base/utf8.h"

namespace warren {

namespace {

namespace http = boost::beast::http;
namespace json = boost::json;
namespace ssl = asio::ssl;
using asio::ip::tcp;

constexpr auto as_result = asio::as_tuple(asio::use_awaitable);
constexpr int attempts = 4;
constexpr std::chrono::milliseconds first_pause = 500ms;
constexpr std::chrono::milliseconds longest_pause = 30s;

json::value json_of(const TraceValue& value) {
  struct Visitor {
    json::value operator()(const std::string& text) const {
      return {{"stringValue", valid_utf8(text)}};
    }
    json::value operator()(std::int64_t number) const {
      return {{"intValue", std::to_string(number)}};
    }
    json::value operator()(double number) const {
      if (std::isfinite(number)) return {{"doubleValue", number}};
      return {{"doubleValue", std::isnan(number) ? "NaN" : number > 0 ? "Infinity" : "-Infinity"}};
    }
    json::value operator()(bool truth) const { return {{"boolValue", truth}}; }
  };
  return std::visit(Visitor(), value);
}

json::array json_of(const TraceAttributes& attributes) {
  json::array out;
  for (auto& [key, value] : attributes) {
    json::object entry;
    entry["key"] = valid_utf8(key);
    entry["value"] = json_of(value);
    out.push_back(std::move(entry));
  }
  return out;
}

std::string unix_nanos(WallClock::time_point time) {
  using std::chrono::nanoseconds;
  return std::to_string(std::chrono::duration_cast<nanoseconds>(time.time_since_epoch()).count());
}

json::object json_of(const SpanRecord& span) {
  json::object out;
  out["traceId"] = hex(span.context.trace_id);
  out["spanId"] = hex(span.context.span_id);
  if (span.parent != decltype(span.parent){}) out["parentSpanId"] = hex(span.parent);
  out["name"] = valid_utf8(span.name);
  out["kind"] = int(span.kind);
  out["startTimeUnixNano"] = unix_nanos(span.start);
  out["endTimeUnixNano"] = unix_nanos(span.end);
  out["attributes"] = json_of(span.attributes);
  if (span.error) out["status"] = {{"code", 2}, {"message", valid_utf8(*span.error)}};
  return out;
}

struct Answer {
  unsigned status = 0;
  std::chrono::milliseconds retry_after{0};
  std::string body;
};

Errc code_of(const Answer& answer) {
  switch (answer.status) {
    case 429:
    case 502:
    case 503:
    case 504:
      return Errc::unavailable;
    default:
      return Errc::refused;
  }
}

std::uint64_t number_in(const json::value& value) {
  if (auto* number = value.if_int64()) return std::uint64_t(std::max<std::int64_t>(0, *number));
  std::uint64_t number = 0;
  if (auto* text = value.if_string())
    std::from_chars(text->data(), text->data() + text->size(), number);
  return number;
}

// {"partialSuccess": {"rejectedSpans": "2"}}
std::uint64_t rejected_in(const Answer& answer) {
  boost::system::error_code error;
  auto parsed = json::parse(answer.body, error);
  auto* object = error ? nullptr : parsed.if_object();
  auto* partial = object ? object->if_contains("partialSuccess") : nullptr;
  auto* inner = partial ? partial->if_object() : nullptr;
  auto* rejected = inner ? inner->if_contains("rejectedSpans") : nullptr;
  return rejected ? number_in(*rejected) : 0;
}

std::string authority_of(const OtlpSettings& settings) {
  return settings.host.contains(':') ? fmt::format("[{}]:{}", settings.host, settings.port)
                                     : fmt::format("{}:{}", settings.host, settings.port);
}

auto unavailable(const OtlpSettings& settings, std::string_view doing,
                 const boost::system::error_code& error) {
  return fail(Errc::unavailable, "{} {}: {}", doing, authority_of(settings), error.message());
}

template <class Stream>
Async<Answer> exchange(Stream& stream, const OtlpSettings& settings, const std::string& body) {
  http::request<http::string_body> request(http::verb::post, settings.target, 11);
  request.set(http::field::host, authority_of(settings));
  request.set(http::field::user_agent, "warren");
  request.set(http::field::content_type, "application/json");
  request.set(http::field::connection, "close");
  for (auto& [name, value] : settings.headers) request.set(name, value);
  request.body() = body;
  request.prepare_payload();
  auto [write_error, written] = co_await http::async_write(stream, request, as_result);
  if (write_error) co_return unavailable(settings, "writing to", write_error);

  boost::beast::flat_buffer buffer;
  http::response_parser<http::string_body> parser;
  parser.body_limit(64 << 10);
  auto [read_error, bytes] = co_await http::async_read(stream, buffer, parser, as_result);
  // If the body is cut short or too long, the status has still been read.
  if (read_error && !parser.is_header_done())
    co_return unavailable(settings, "reading from", read_error);
  auto& response = parser.get();
  Answer answer{response.result_int(), 0ms, response.body()};
  unsigned seconds = 0;
  auto after = response[http::field::retry_after];
  std::from_chars(after.data(), after.data() + after.size(), seconds);
  answer.retry_after =
      std::min<std::chrono::milliseconds>(std::chrono::seconds(seconds), longest_pause);
  co_return answer;
}

Async<Answer> post(const OtlpSettings& settings, ssl::context* tls, const std::string& body) {
  auto executor = co_await asio::this_coro::executor;
  tcp::resolver resolver(executor);
  auto [resolve_error, addresses] =
      co_await resolver.async_resolve(settings.host, settings.port, as_result);
  if (resolve_error) co_return unavailable(settings, "looking up", resolve_error);
  tcp::socket socket(executor);
  auto [connect_error, address] = co_await asio::async_connect(socket, addresses, as_result);
  if (connect_error) co_return unavailable(settings, "connecting to", connect_error);
  if (!tls) co_return co_await exchange(socket, settings, body);

  ssl::stream<tcp::socket> stream(std::move(socket), *tls);
  // SNI must not be an IP address, but a certificate can be checked against one.
  boost::system::error_code not_an_address;
  asio::ip::make_address(settings.host, not_an_address);
  if (not_an_address) SSL_set_tlsext_host_name(stream.native_handle(), settings.host.c_str());
  stream.set_verify_callback(ssl::host_name_verification(settings.host));
  auto [tls_error] = co_await stream.async_handshake(ssl::stream_base::client, as_result);
  if (tls_error) co_return unavailable(settings, "TLS with", tls_error);
  co_return co_await exchange(stream, settings, body);
}

// Half of the pause is random, so that many processes do not retry at once.
std::chrono::milliseconds jittered(std::chrono::milliseconds pause) {
  static thread_local std::minstd_rand random(std::random_device{}());
  auto half = pause.count() / 2;
  return std::chrono::milliseconds(half + std::uniform_int_distribution<long>(0, half)(random));
}

}  // namespace

std::string otlp_json(const TraceAttributes& resource, std::span<const SpanRecord> spans) {
  json::array list;
  for (auto& span : spans) list.push_back(json_of(span));
  json::object scope_spans;
  scope_spans["scope"] = {{"name", "warren"}};
  scope_spans["spans"] = std::move(list);
  json::object resource_spans;
  resource_spans["resource"].emplace_object()["attributes"] = json_of(resource);
  resource_spans["scopeSpans"].emplace_array().push_back(std::move(scope_spans));
  json::object request;
  request["resourceSpans"].emplace_array().push_back(std::move(resource_spans));
  return json::serialize(request);
}

Result<std::unique_ptr<OtlpExporter>> OtlpExporter::create(asio::any_io_executor executor,
                                                           OtlpSettings settings) {
  std::unique_ptr<Tls> tls;
  if (settings.tls) {
    tls = std::make_unique<Tls>(ssl::context::tls_client);
    tls->set_verify_mode(ssl::verify_peer);
    boost::system::error_code error;
    if (settings.ca_file.empty())
      tls->set_default_verify_paths(error);
    else
      tls->load_verify_file(settings.ca_file, error);
    if (error)
      return fail(Errc::invalid, "OTEL_EXPORTER_OTLP_CERTIFICATE {}: {}", settings.ca_file,
                  error.message());
  }
  return std::unique_ptr<OtlpExporter>(
      new OtlpExporter(executor, std::move(settings), std::move(tls)));
}

OtlpExporter::OtlpExporter(asio::any_io_executor executor, OtlpSettings settings,
                           std::unique_ptr<Tls> tls)
    : settings_(std::move(settings)),
      tls_(std::move(tls)),
      wake_(executor),
      done_(executor),
      tasks_(executor) {
  tasks_.start("trace.export", run());
}

OtlpExporter::~OtlpExporter() = default;

void OtlpExporter::add(SpanRecord record) {
  if (stopping_ || queue_.size() >= settings_.queue) {
    ++dropped_;
    return;
  }
  queue_.push_back(std::move(record));
  if (queue_.size() == settings_.batch) wake_.notify();
}

awaitable<void> OtlpExporter::shutdown(Clock::time_point deadline) {
  // If the caller is cancelled here, it stops waiting for the collector, but still waits for the
  // task.
  bool throws = co_await asio::this_coro::throw_if_cancelled();
  co_await asio::this_coro::throw_if_cancelled(false);
  stopping_ = true;
  wake_.notify();
  if (tasks_.running() > 0) co_await done_.wait(deadline);
  tasks_.stop();
  co_await tasks_.join();
  co_await asio::this_coro::throw_if_cancelled(throws);
  dropped_ += std::exchange(in_flight_, 0) + queue_.size();
  queue_.clear();
}

Async<> OtlpExporter::run() {
  while (true) {
    if (queue_.size() < settings_.batch && !stopping_)
      co_await wake_.wait(Clock::now() + settings_.delay);
    if (queue_.empty() && !stopping_) continue;
    if (queue_.empty()) break;
    auto body = take_batch();
    auto rejected = co_await send(std::move(body));
    if (!rejected && rejected.error().code == Errc::cancelled) break;
    count(rejected);
  }
  done_.notify();
  co_return ok;
}

std::string OtlpExporter::take_batch() {
  in_flight_ = std::min(queue_.size(), settings_.batch);
  auto end = queue_.begin() + std::ptrdiff_t(in_flight_);
  std::vector<SpanRecord> spans(std::make_move_iterator(queue_.begin()),
                                std::make_move_iterator(end));
  queue_.erase(queue_.begin(), end);
  return otlp_json(settings_.resource, spans);
}

Async<std::uint64_t> OtlpExporter::send(std::string body) {
  auto pause = first_pause;
  for (int attempt = 1;; ++attempt, pause *= 2) {
    auto answer =
        co_await with_deadline(Clock::now() + settings_.timeout, post(settings_, tls_.get(), body));
    if (answer && answer->status / 100 == 2) co_return rejected_in(*answer);
    auto error = answer
                     ? Error{code_of(*answer),
                             fmt::format("{} answered {}", authority_of(settings_), answer->status)}
                     : answer.error();
    bool passes = error.code == Errc::unavailable || error.code == Errc::timeout;
    if (!passes || attempt == attempts) co_return std::unexpected(std::move(error));
    auto asked = answer ? answer->retry_after : 0ms;
    co_await sleep_for(std::max(asked, jittered(pause)));
  }
}

void OtlpExporter::count(const Result<std::uint64_t>& rejected) {
  auto spans = std::exchange(in_flight_, 0);
  std::uint64_t lost = rejected ? std::min<std::uint64_t>(*rejected, spans) : spans;
  exported_ += spans - lost;
  dropped_ += lost;
  if (!rejected && !failing_)
    log::warn("trace.export_failed", "spans", lost, "what", rejected.error().what);
  if (rejected && failing_) log::info("trace.export_resumed", "dropped", dropped_);
  failing_ = !rejected;
}

}  // namespace warren
