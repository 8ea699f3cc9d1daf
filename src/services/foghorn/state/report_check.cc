// What a report may say.
#include <boost/json/serialize.hpp>
#include <cmath>

#include "services/foghorn/state/json_fields.h"
#include "services/foghorn/state/report.h"

namespace warren::foghorn {

namespace {

constexpr std::size_t longest_text = 4096, longest_id = 256, most_words = 256;
constexpr std::int64_t most_viewers = 1'000'000'000;
constexpr double most_bytes = 1e18;  // of memory or a second: an exabyte
// A node of many cores may say more than 100 %. It is an integer of 32 bits where nodes count in those.
constexpr double most_cpu_tenths = 4'294'967'295;

Result<> check_number(std::string_view name, const std::optional<double>& value, double least,
                      double most) {
  if (!value) return ok;
  if (!std::isfinite(*value)) return fail(Errc::invalid, "{}: {} is no number", name, *value);
  if (*value < least) return fail(Errc::invalid, "{}: {} is less than {}", name, *value, least);
  if (*value > most) return fail(Errc::invalid, "{}: {} is more than {}", name, *value, most);
  return ok;
}

Result<> check_text(std::string_view name, const std::optional<std::string>& text,
                    std::size_t longest = longest_text) {
  if (text && text->size() > longest)
    return fail(Errc::invalid, "{}: {} characters are more than {}", name, text->size(), longest);
  return ok;
}

Result<> check_words(std::string_view name, const std::optional<std::vector<std::string>>& words) {
  if (!words) return ok;
  if (words->size() > most_words)
    return fail(Errc::invalid, "{}: {} are more than {}", name, words->size(), most_words);
  for (const auto& word : *words)
    if (word.size() > 128) return fail(Errc::invalid, "{}: a word is longer than 128", name);
  return ok;
}

// The first of the checks that failed.
Result<> all_of(std::initializer_list<Result<>> checks) {
  for (const auto& check : checks)
    if (!check) return check;
  return ok;
}

// More may be used than there is: the limit was lowered, or the two numbers were read at different
// times. A refusal would silence the node just when it is in need.
Result<> check_metrics(const NodeReport& r) {
  return all_of({check_number("cpu_tenths", r.cpu_tenths, 0, most_cpu_tenths),
                 check_number("ram_max", r.ram_max, 0, most_bytes),
                 check_number("ram_current", r.ram_current, 0, most_bytes),
                 check_number("up_speed", r.up_speed, 0, most_bytes),
                 check_number("down_speed", r.down_speed, 0, most_bytes),
                 check_number("bw_limit", r.bw_limit, 0, most_bytes),
                 check_number("latitude", r.latitude, -90, 90),
                 check_number("longitude", r.longitude, -180, 180)});
}

Result<> check_texts(const NodeReport& r) {
  return all_of({check_text("location", r.location), check_text("base_url", r.base_url),
                 check_text("tenant_id", r.tenant_id, longest_id),
                 check_text("storage_local", r.storage_local),
                 check_text("storage_bucket", r.storage_bucket),
                 check_text("storage_prefix", r.storage_prefix), check_words("roles", r.roles),
                 check_words("tags", r.tags), check_words("config_streams", r.config_streams)});
}

Result<> check_mode_word(std::string_view name, const std::optional<std::string>& word) {
  if (word && !parse_node_mode(*word))
    return fail(Errc::invalid, "{}: is not normal, draining or maintenance", name);
  return ok;
}

}  // namespace

Result<> check_stream_report(std::string_view name, const StreamReport& stream) {
  for (auto count : {stream.total, stream.inputs, stream.bytes_up, stream.bytes_down,
                     stream.viewers.value_or(0)})
    if (count < 0) return fail(Errc::invalid, "streams.{}: {} is negative", name, count);
  if (stream.inputs > 1'000'000 || stream.viewers > most_viewers || stream.total > most_viewers)
    return fail(Errc::invalid, "streams.{}: nobody has so many", name);
  if (!stream.status.empty() && stream.status != "live" && stream.status != "offline")
    return fail(Errc::invalid, "streams.{}.status: is not live or offline", name);
  for (const auto* text : {&stream.tenant_id, &stream.playback_id, &stream.buffer_state})
    if (text->size() > 128)
      return fail(Errc::invalid, "streams.{}: {} characters are more than 128", name, text->size());
  return ok;
}

Result<> check_artifact_report(const ArtifactReport& artifact) {
  return all_of({check_id("artifacts.content_id", artifact.content_id),
                 check_text("artifacts.type", artifact.type),
                 check_text("artifacts.path", artifact.path)});
}

namespace {

Result<> check_content(const NodeReport& report) {
  if (report.streams) {
    if (report.streams->size() > most_streams)
      return fail(Errc::invalid, "streams: {} are more than {}", report.streams->size(),
                  most_streams);
    for (const auto& [name, stream] : *report.streams) {
      auto checked = all_of({check_id("streams", name), check_stream_report(name, stream)});
      if (!checked) return checked;
    }
  }
  if (!report.artifacts) return ok;
  if (report.artifacts->size() > most_artifacts)
    return fail(Errc::invalid, "artifacts: {} are more than {}", report.artifacts->size(),
                most_artifacts);
  for (const auto& artifact : *report.artifacts) {
    auto checked = check_artifact_report(artifact);
    if (!checked) return checked;
  }
  return ok;
}

}  // namespace

Result<> check_report(const NodeReport& report) {
  if (report.outputs && json::serialize(*report.outputs).size() > longest_outputs)
    return fail(Errc::invalid, "outputs: more than {} bytes", longest_outputs);
  for (const auto& count : {report.max_transcodes, report.current_transcodes})
    if (count && *count < 0) return fail(Errc::invalid, "transcodes: {} is negative", *count);
  return all_of({check_metrics(report), check_texts(report),
                 check_mode_word("operational_mode", report.operational_mode),
                 check_content(report)});
}

Result<> check_registration(const Registration& registration) {
  return all_of({check_id("node_id", registration.node_id), check_text("host", registration.host),
                 check_text("base_url", registration.base_url),
                 check_text("tenant_id", registration.tenant_id, longest_id),
                 check_mode_word("requested_mode", registration.requested_mode),
                 check_words("roles", registration.roles), check_words("tags", registration.tags)});
}

}  // namespace warren::foghorn
