#include "base/otlp.h"

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
#include <cstring>
#include <random>

#include "base/log.h"
#include "base/nearest.h"
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

// --- the environment ---

class Environment {
 public:
  explicit Environment(const std::map<std::string, std::string>& variables)
      : variables_(variables) {}

  std::string at(const std::string& name) const {
    auto variable = variables_.find(name);
    return variable == variables_.end() ? "" : variable->second;
  }
  // The name of the one for traces when it is set, else of the one for all signals.
  std::string name_of(const std::string& suffix) const {
    auto traces = "OTEL_EXPORTER_OTLP_TRACES_" + suffix;
    return at(traces).empty() ? "OTEL_EXPORTER_OTLP_" + suffix : traces;
  }
  Result<std::size_t> number(const std::string& name, std::size_t standard) const {
    auto text = at(name);
    if (text.empty()) return standard;
    std::size_t number = 0;
    auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (error != std::errc() || end != text.data() + text.size() || number == 0 ||
        number > 1'000'000'000)
      return fail(Errc::invalid, "{} is \"{}\"; use a whole number above 0", name, text);
    return number;
  }
  Result<std::chrono::milliseconds> time(const std::string& name,
                                         std::chrono::milliseconds standard) const {
    auto ms = number(name, std::size_t(standard.count()));
    if (!ms) return std::unexpected(ms.error());
    return std::chrono::milliseconds(*ms);
  }

 private:
  const std::map<std::string, std::string>& variables_;
};

bool is_printable(std::string_view text) {
  return std::ranges::all_of(text, [](char c) { return c > ' ' && c < 0x7f; });
}

// http://host[:port][/path]
Result<> parse_endpoint(OtlpSettings& settings, const std::string& name, std::string_view url) {
  auto wrong = [&](std::string_view why) {
    return fail(Errc::invalid, "{} {}; use http://host:4318 or https://host:4318", name, why);
  };
  settings.tls = url.starts_with("https://");
  if (!settings.tls && !url.starts_with("http://")) return wrong("is no http:// or https:// URL");
  url.remove_prefix(settings.tls ? 8 : 7);
  if (!is_printable(url)) return wrong("has blanks or control characters");
  auto authority = url.substr(0, url.find_first_of("/?#"));
  url.remove_prefix(authority.size());
  if (authority.contains('@'))
    return fail(Errc::invalid, "{} has credentials; give them in OTEL_EXPORTER_OTLP_HEADERS", name);
  auto host_end = authority.starts_with('[') ? authority.find(']') : authority.find(':');
  if (authority.starts_with('[')) {
    if (host_end == authority.npos) return wrong("has a [ without a ]");
    settings.host = authority.substr(1, host_end++ - 1);
  } else {
    settings.host = authority.substr(0, host_end);
  }
  if (settings.host.empty()) return wrong("names no host");
  settings.port = settings.tls ? "443" : "80";
  if (host_end < authority.size()) {
    unsigned port = 0;
    auto text = authority.substr(host_end + 1);
    auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), port);
    if (authority[host_end] != ':' || error != std::errc() || end != text.data() + text.size() ||
        port == 0 || port > 65535)
      return wrong("has a wrong port");
    settings.port = text;
  }
  settings.target = url.substr(0, url.find('#'));
  if (!settings.target.starts_with('/')) settings.target.insert(0, "/");
  return ok;
}

std::optional<std::string> percent_decoded(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      out += text[i];
      continue;
    }
    unsigned char byte = 0;
    auto digits = text.substr(i + 1, 2);
    auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), byte, 16);
    if (error != std::errc() || digits.size() != 2 || end != digits.data() + 2) return std::nullopt;
    out += char(byte);
    i += 2;
  }
  return out;
}

std::string_view trimmed(std::string_view text) {
  while (text.starts_with(' ')) text.remove_prefix(1);
  while (text.ends_with(' ')) text.remove_suffix(1);
  return text;
}

// name=value,name=value. The values of headers are secrets, so no error repeats one.
Result<std::vector<std::pair<std::string, std::string>>> parse_pairs(const std::string& variable,
                                                                     std::string_view text) {
  std::vector<std::pair<std::string, std::string>> pairs;
  while (!text.empty()) {
    auto entry = text.substr(0, text.find(','));
    text.remove_prefix(std::min(entry.size() + 1, text.size()));
    if (trimmed(entry).empty()) continue;
    auto equals = entry.find('=');
    auto key = trimmed(entry.substr(0, equals));
    auto value =
        equals == entry.npos ? std::nullopt : percent_decoded(trimmed(entry.substr(equals + 1)));
    if (!value || key.empty() || !is_printable(key))
      return fail(Errc::invalid,
                  "{}: entry {} is wrong; use name=value,name=value with %2C for a comma", variable,
                  pairs.size() + 1);
    pairs.emplace_back(key, *value);
  }
  return pairs;
}

Result<> parse_headers(OtlpSettings& settings, const Environment& environment) {
  auto name = environment.name_of("HEADERS");
  auto headers = parse_pairs(name, environment.at(name));
  if (!headers) return std::unexpected(headers.error());
  for (auto& [header, value] : *headers) {
    auto is_token = [](char c) { return !std::strchr("\"(),/:;<=>?@[\\]{}", c); };
    bool is_control = std::ranges::any_of(value, [](char c) { return c < ' ' || c == 0x7f; });
    if (!std::ranges::all_of(header, is_token) || is_control)
      return fail(Errc::invalid, "{}: {} is no header, or its value has control characters", name,
                  header);
  }
  settings.headers = std::move(*headers);
  return ok;
}

Result<> parse_resource(OtlpSettings& settings, const Environment& environment,
                        const std::string& default_service) {
  auto name = "OTEL_RESOURCE_ATTRIBUTES";
  auto pairs = parse_pairs(name, environment.at(name));
  if (!pairs) return std::unexpected(pairs.error());
  std::string service = environment.at("OTEL_SERVICE_NAME");
  for (auto& [key, value] : *pairs) {
    if (key != "service.name")
      settings.resource.emplace_back(key, value);
    else if (service.empty())
      service = value;
  }
  settings.resource.emplace_back("service.name", service.empty() ? default_service : service);
  return ok;
}

Result<> parse_sampler(OtlpSettings& settings, const Environment& environment) {
  static const std::vector<std::string> known = {"always_on",
                                                 "always_off",
                                                 "traceidratio",
                                                 "parentbased_always_on",
                                                 "parentbased_always_off",
                                                 "parentbased_traceidratio"};
  auto name = environment.at("OTEL_TRACES_SAMPLER");
  if (name.empty()) return ok;
  if (std::ranges::find(known, name) == known.end())
    return fail(Errc::invalid, "OTEL_TRACES_SAMPLER is \"{}\"; use {}", name,
                nearest(name, known).value_or("always_on, always_off or traceidratio"));
  settings.follows_parent = name.starts_with("parentbased_");
  settings.ratio = name.ends_with("always_off") ? 0 : 1;
  auto text = environment.at("OTEL_TRACES_SAMPLER_ARG");
  if (!name.ends_with("traceidratio") || text.empty()) return ok;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), settings.ratio);
  if (error != std::errc() || end != text.data() + text.size() ||
      !(settings.ratio >= 0 && settings.ratio <= 1))
    return fail(Errc::invalid, "OTEL_TRACES_SAMPLER_ARG is \"{}\"; use a ratio from 0 to 1", text);
  return ok;
}

Result<> parse_limits(OtlpSettings& settings, const Environment& environment) {
  auto timeout = environment.time(environment.name_of("TIMEOUT"), settings.timeout);
  if (!timeout) return std::unexpected(timeout.error());
  auto delay = environment.time("OTEL_BSP_SCHEDULE_DELAY", settings.delay);
  if (!delay) return std::unexpected(delay.error());
  auto queue = environment.number("OTEL_BSP_MAX_QUEUE_SIZE", settings.queue);
  if (!queue) return std::unexpected(queue.error());
  auto batch = environment.number("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", settings.batch);
  if (!batch) return std::unexpected(batch.error());
  settings.timeout = *timeout;
  settings.delay = *delay;
  settings.queue = *queue;
  settings.batch = std::min(*batch, *queue);
  return ok;
}

// --- the request ---

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

// --- the answer ---

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
  // A body that is cut short or too long still follows a status.
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
  // An address is no name to ask for, but it is one to check.
  boost::system::error_code not_an_address;
  asio::ip::make_address(settings.host, not_an_address);
  if (not_an_address) SSL_set_tlsext_host_name(stream.native_handle(), settings.host.c_str());
  stream.set_verify_callback(ssl::host_name_verification(settings.host));
  auto [tls_error] = co_await stream.async_handshake(ssl::stream_base::client, as_result);
  if (tls_error) co_return unavailable(settings, "TLS with", tls_error);
  co_return co_await exchange(stream, settings, body);
}

// Half of the pause is random, so that many processes do not come back at once.
std::chrono::milliseconds jittered(std::chrono::milliseconds pause) {
  static thread_local std::minstd_rand random(std::random_device{}());
  auto half = pause.count() / 2;
  return std::chrono::milliseconds(half + std::uniform_int_distribution<long>(0, half)(random));
}

}  // namespace

Result<std::optional<OtlpSettings>> otlp_settings(
    const std::map<std::string, std::string>& variables, const std::string& default_service) {
  Environment environment(variables);
  auto endpoint = environment.name_of("ENDPOINT");
  if (environment.at(endpoint).empty() || environment.at("OTEL_SDK_DISABLED") == "true" ||
      environment.at("OTEL_TRACES_EXPORTER") == "none")
    return std::nullopt;
  auto protocol = environment.name_of("PROTOCOL");
  if (auto text = environment.at(protocol);
      !text.empty() && text != "http/json" && text != "http/protobuf")
    return fail(Errc::invalid, "{} is \"{}\"; use http/json, usually on port 4318", protocol, text);

  OtlpSettings settings;
  auto parsed = parse_endpoint(settings, endpoint, environment.at(endpoint));
  if (parsed) parsed = parse_headers(settings, environment);
  if (parsed) parsed = parse_resource(settings, environment, default_service);
  if (parsed) parsed = parse_sampler(settings, environment);
  if (parsed) parsed = parse_limits(settings, environment);
  if (!parsed) return std::unexpected(parsed.error());
  if (endpoint == "OTEL_EXPORTER_OTLP_ENDPOINT")
    settings.target += settings.target.ends_with('/') ? "v1/traces" : "/v1/traces";
  settings.ca_file = environment.at(environment.name_of("CERTIFICATE"));
  return settings;
}

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
  // A caller that is cancelled in here waits no longer for the collector, but still for the task.
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
    std::vector<SpanRecord> spans;
    in_flight_ = std::min(queue_.size(), settings_.batch);
    std::move(queue_.begin(), queue_.begin() + std::ptrdiff_t(in_flight_),
              std::back_inserter(spans));
    queue_.erase(queue_.begin(), queue_.begin() + std::ptrdiff_t(in_flight_));
    auto body = otlp_json(settings_.resource, spans);
    auto rejected = co_await send(std::move(body));
    if (!rejected && rejected.error().code == Errc::cancelled) break;
    count(rejected);
  }
  done_.notify();
  co_return ok;
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
