#include "base/trace/trace.h"

#include <sys/random.h>

#include <algorithm>

#include "base/trace/otlp.h"

namespace warren {

namespace {

// Lowercase only, as the recommendation requires.
int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return -1;
}

template <std::size_t N>
std::optional<std::array<std::uint8_t, N>> parse_hex(std::string_view text) {
  std::array<std::uint8_t, N> bytes;
  for (std::size_t i = 0; i < N; ++i) {
    int high = hex_digit(text[2 * i]), low = hex_digit(text[2 * i + 1]);
    if (high < 0 || low < 0) return std::nullopt;
    bytes[i] = std::uint8_t(high << 4 | low);
  }
  return bytes;
}

template <std::size_t N>
bool is_zero(const std::array<std::uint8_t, N>& id) {
  return id == std::array<std::uint8_t, N>{};
}

template <std::size_t N>
std::array<std::uint8_t, N> random_id() {
  std::array<std::uint8_t, N> id{};
  while (is_zero(id))
    ensure(getrandom(id.data(), N, 0) == ssize_t(N), "the kernel has random bytes");
  return id;
}

}  // namespace

bool TraceContext::is_valid() const { return !is_zero(trace_id) && !is_zero(span_id); }

std::optional<TraceContext> parse_traceparent(std::string_view header) {
  // version-traceid-spanid-flags: 2, 32, 16 and 2 digits.
  constexpr std::size_t length = 55;
  if (header.size() < length) return std::nullopt;
  if (header[2] != '-' || header[35] != '-' || header[52] != '-') return std::nullopt;
  auto version = parse_hex<1>(header.substr(0));
  auto trace_id = parse_hex<16>(header.substr(3));
  auto span_id = parse_hex<8>(header.substr(36));
  auto flags = parse_hex<1>(header.substr(53));
  if (!version || !trace_id || !span_id || !flags || version->front() == 0xff) return std::nullopt;
  // Only a later version may be longer, and only if another field follows.
  if (header.size() > length && (version->front() == 0 || header[length] != '-'))
    return std::nullopt;
  TraceContext context{*trace_id, *span_id, (flags->front() & 1) != 0};
  return context.is_valid() ? std::optional(context) : std::nullopt;
}

std::string format_traceparent(const TraceContext& context) {
  if (!context.is_valid()) return "";
  return fmt::format("00-{}-{}-{}", hex(context.trace_id), hex(context.span_id),
                     context.sampled ? "01" : "00");
}

std::string hex(std::span<const std::uint8_t> bytes) {
  std::string text;
  for (auto byte : bytes) fmt::format_to(std::back_inserter(text), "{:02x}", byte);
  return text;
}

Span& Span::operator=(Span&& other) noexcept {
  end();
  tracer_ = other.tracer_;
  record_ = std::move(other.record_);
  started_ = other.started_;
  context_ = other.context_;
  return *this;
}

void Span::put(std::string_view key, TraceValue value) {
  auto same = [&](auto& attribute) { return attribute.first == key; };
  auto& attributes = record_->attributes;
  if (auto old = std::ranges::find_if(attributes, same); old != attributes.end())
    old->second = std::move(value);
  else
    attributes.emplace_back(key, std::move(value));
}

void Span::fail(std::string_view why) {
  if (record_) record_->error = why;
}

void Span::end() {
  if (!record_) return;
  auto lasted = std::chrono::duration_cast<WallClock::duration>(Clock::now() - started_);
  record_->end = record_->start + lasted;
  tracer_->finish(std::move(record_));
}

Result<std::unique_ptr<Tracer>> Tracer::from_environment(
    asio::any_io_executor executor, const std::map<std::string, std::string>& environment,
    const std::string& default_service) {
  auto settings = otlp_settings(environment, default_service);
  if (!settings) return std::unexpected(settings.error());
  std::unique_ptr<Tracer> tracer(new Tracer);
  if (!*settings) return tracer;
  auto exporter = OtlpExporter::create(executor, std::move(**settings));
  if (!exporter) return std::unexpected(exporter.error());
  tracer->exporter_ = std::move(*exporter);
  return tracer;
}

Tracer::Tracer() = default;
Tracer::~Tracer() = default;

Span Tracer::start(std::string_view name, SpanKind kind, const TraceContext& parent) {
  if (!exporter_) return Span(parent);
  bool begins = !parent.is_valid();
  TraceContext context{begins ? random_id<16>() : parent.trace_id, random_id<8>(), false};
  context.sampled = is_sampled(exporter_->settings(), context.trace_id, parent);
  Span span(context);
  if (!context.sampled) return span;
  span.tracer_ = this;
  span.started_ = Clock::now();
  span.record_ = std::make_unique<SpanRecord>();
  span.record_->name = name;
  span.record_->kind = kind;
  span.record_->context = context;
  if (!begins) span.record_->parent = parent.span_id;
  span.record_->start = WallClock::now();
  return span;
}

void Tracer::finish(std::unique_ptr<SpanRecord> record) { exporter_->add(std::move(*record)); }

std::uint64_t Tracer::exported() const { return exporter_ ? exporter_->exported() : 0; }
std::uint64_t Tracer::dropped() const { return exporter_ ? exporter_->dropped() : 0; }

awaitable<void> Tracer::shutdown(Clock::time_point deadline) {
  if (exporter_) co_await exporter_->shutdown(deadline);
}

}  // namespace warren
