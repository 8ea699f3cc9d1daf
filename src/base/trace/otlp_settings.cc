// Parses the OTEL_… variables.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>

#include "base/nearest.h"
#include "base/trace/otlp.h"

namespace warren {

namespace {

class Environment {
 public:
  explicit Environment(const std::map<std::string, std::string>& variables)
      : variables_(variables) {}

  std::string at(const std::string& name) const {
    auto variable = variables_.find(name);
    return variable == variables_.end() ? "" : variable->second;
  }
  // The name of the trace-specific variable if it is set, otherwise of the one for all signals.
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

// name=value,name=value. Header values are secrets, so no error repeats one.
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

bool is_sampled(const OtlpSettings& settings, const std::array<std::uint8_t, 16>& trace_id,
                const TraceContext& parent) {
  if (settings.follows_parent && parent.is_valid()) return parent.sampled;
  // The last 56 bits of every trace id are random, so every service with this ratio picks the same
  // traces.
  std::uint64_t random = 0;
  for (std::size_t i = 9; i < 16; ++i) random = random << 8 | trace_id[i];
  return random >= std::uint64_t(std::ldexp(1 - settings.ratio, 56));
}

}  // namespace warren
