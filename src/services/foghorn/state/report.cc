#include "services/foghorn/state/report.h"

#include "services/foghorn/state/json_fields.h"

namespace warren::foghorn {

namespace {

constexpr std::size_t longest_report = 4u << 20;

// A group of members that newer and older nodes send in an object of its own.
template <class Body>
void group(Reader& reader, std::string_view name, Body body) {
  const auto* found = reader.find(name);
  if (!found) return;
  if (!found->is_object()) return reader.wrong(name, "an object");
  auto where = std::string(name) + '.';
  Reader inner(found->get_object(), where);
  body(inner);
  if (auto result = inner.result(); !result) reader.fail_with(result.error());
}

void read_outputs(Reader& reader, NodeReport& report) {
  reader.maybe("outputs", report.outputs);
  std::optional<std::string> text;
  reader.maybe("outputs_json", text);
  if (!text || text->empty()) return;
  auto outputs = parse_object(*text, longest_outputs, {}, deepest_part);
  if (!outputs) return reader.fail_with({Errc::invalid, "outputs_json: " + outputs.error().what});
  tidy(*outputs);
  report.outputs = *std::move(outputs);
}

void read_node(Reader& reader, NodeReport& report) {
  reader.maybe("cpu_tenths", report.cpu_tenths);
  reader.maybe("ram_max", report.ram_max);
  reader.maybe("ram_current", report.ram_current);
  reader.maybe("up_speed", report.up_speed);
  reader.maybe("down_speed", report.down_speed);
  reader.maybe("bw_limit", report.bw_limit);
  reader.maybe("latitude", report.latitude);
  reader.maybe("longitude", report.longitude);
  reader.maybe("location", report.location);
  reader.maybe("base_url", report.base_url);
  reader.maybe("tenant_id", report.tenant_id);
  reader.maybe("is_healthy", report.is_healthy);
  reader.maybe("operational_mode", report.operational_mode);
  reader.maybe("tags", report.tags);
  reader.maybe("config_streams", report.config_streams);
  reader.maybe("disk_total_bytes", report.disk_total_bytes);
  reader.maybe("disk_used_bytes", report.disk_used_bytes);
  read_outputs(reader, report);
}

// Each either in its group or directly.
void read_groups(Reader& reader, NodeReport& report) {
  auto capabilities = [&report](Reader& from, bool is_group) {
    from.maybe(is_group ? "ingest" : "cap_ingest", report.cap_ingest);
    from.maybe(is_group ? "edge" : "cap_edge", report.cap_edge);
    from.maybe(is_group ? "storage" : "cap_storage", report.cap_storage);
    from.maybe(is_group ? "processing" : "cap_processing", report.cap_processing);
    from.maybe("roles", report.roles);
  };
  auto storage = [&report](Reader& from, bool is_group) {
    from.maybe(is_group ? "local_path" : "storage_local", report.storage_local);
    from.maybe(is_group ? "s3_bucket" : "storage_bucket", report.storage_bucket);
    from.maybe(is_group ? "s3_prefix" : "storage_prefix", report.storage_prefix);
  };
  auto limits = [&report](Reader& from, bool) {
    from.maybe("max_transcodes", report.max_transcodes);
    from.maybe("current_transcodes", report.current_transcodes);
    from.maybe("storage_capacity_bytes", report.storage_capacity_bytes);
    from.maybe("storage_used_bytes", report.storage_used_bytes);
  };
  auto both = [&reader](std::string_view name, auto& read) {
    read(reader, false);
    group(reader, name, [&read](Reader& inner) { read(inner, true); });
  };
  both("capabilities", capabilities);
  both("storage", storage);
  both("limits", limits);
}

void read_stream(Reader& reader, StreamReport& stream) {
  reader.always("total", stream.total);
  reader.always("inputs", stream.inputs);
  reader.always("bytes_up", stream.bytes_up);
  reader.always("bytes_down", stream.bytes_down);
  reader.maybe("viewers", stream.viewers);
  reader.always("replicated", stream.replicated);
  reader.always("tenant_id", stream.tenant_id);
  reader.always("playback_id", stream.playback_id);
  reader.always("status", stream.status);
  reader.always("buffer_state", stream.buffer_state);
}

void read_streams(Reader& reader, NodeReport& report) {
  const auto* streams = reader.find("streams");
  if (!streams) return;
  if (!streams->is_object()) return reader.wrong("streams", "an object");
  if (streams->get_object().size() > most_streams)
    return reader.fail_with({Errc::invalid, fmt::format("streams: more than {}", most_streams)});
  auto& all = report.streams.emplace();
  for (const auto& member : streams->get_object()) {
    auto where = fmt::format("streams.{}", std::string_view(member.key()).substr(0, 128));
    if (!member.value().is_object()) return reader.wrong(where, "an object");
    auto [stream, is_new] = all.try_emplace(std::string(bare_name(member.key())));
    if (!is_new) return reader.wrong(where, "one stream: another one has the same bare name");
    where += '.';
    Reader inner(member.value().get_object(), where);
    read_stream(inner, stream->second);
    if (auto result = inner.result(); !result) return reader.fail_with(result.error());
  }
}

// As the media server names kinds by where it keeps them.
std::string type_of(const std::string& path) {
  if (path.contains("/dvr/")) return "dvr";
  return path.contains("/vod/") ? "vod" : "clip";
}

void read_artifact(Reader& reader, ArtifactReport& artifact) {
  reader.always("content_id", artifact.content_id);
  if (artifact.content_id.empty()) reader.always("clip_hash", artifact.content_id);
  reader.always("type", artifact.type);
  if (artifact.type.empty()) reader.always("artifact_type", artifact.type);
  reader.always("path", artifact.path);
  if (artifact.path.empty()) reader.always("file_path", artifact.path);
  reader.always("size", artifact.size);
  if (artifact.size == 0) reader.always("size_bytes", artifact.size);
  if (artifact.type.empty()) artifact.type = type_of(artifact.path);
}

void read_artifacts(Reader& reader, NodeReport& report) {
  const auto* artifacts = reader.find("artifacts");
  if (!artifacts) return;
  if (!artifacts->is_array()) return reader.wrong("artifacts", "a list");
  if (artifacts->get_array().size() > most_artifacts)
    return reader.fail_with(
        {Errc::invalid, fmt::format("artifacts: more than {}", most_artifacts)});
  auto& all = report.artifacts.emplace();
  for (const auto& item : artifacts->get_array()) {
    if (!item.is_object()) return reader.wrong("artifacts", "a list of objects");
    Reader inner(item.get_object(), "artifacts.");
    read_artifact(inner, all.emplace_back());
    if (auto result = inner.result(); !result) return reader.fail_with(result.error());
  }
}

}  // namespace

Result<NodeReport> parse_report(std::string_view text) {
  Scratch scratch;
  auto object = parse_object(text, longest_report, scratch.memory(), deepest_part);
  if (!object) return std::unexpected(object.error());
  NodeReport report;
  Reader reader(*object);
  read_node(reader, report);
  read_groups(reader, report);
  read_streams(reader, report);
  read_artifacts(reader, report);
  auto result = reader.result();
  if (result) result = check_report(report);
  if (!result) return std::unexpected(result.error());
  return report;
}

Result<ArtifactReport> parse_artifact_report(std::string_view text) {
  auto object = parse_object(text, 64u << 10);
  if (!object) return std::unexpected(object.error());
  ArtifactReport artifact;
  Reader reader(*object);
  read_artifact(reader, artifact);
  auto result = reader.result();
  if (result) result = check_artifact_report(artifact);
  if (!result) return std::unexpected(result.error());
  return artifact;
}

Result<StreamReport> parse_stream_report(std::string_view text) {
  auto object = parse_object(text, 64u << 10);
  if (!object) return std::unexpected(object.error());
  StreamReport stream;
  Reader reader(*object);
  read_stream(reader, stream);
  auto result = reader.result();
  if (result) result = check_stream_report("", stream);
  if (!result) return std::unexpected(result.error());
  return stream;
}

Result<Registration> parse_registration(std::string_view text) {
  auto object = parse_object(text, 64u << 10);
  if (!object) return std::unexpected(object.error());
  Registration registration;
  Reader reader(*object);
  reader.always("node_id", registration.node_id);
  reader.always("host", registration.host);
  reader.maybe("base_url", registration.base_url);
  reader.maybe("tenant_id", registration.tenant_id);
  reader.maybe("requested_mode", registration.requested_mode);
  reader.always("roles", registration.roles);
  reader.always("tags", registration.tags);
  reader.always("cap_ingest", registration.cap_ingest);
  reader.always("cap_edge", registration.cap_edge);
  reader.always("cap_storage", registration.cap_storage);
  reader.always("cap_processing", registration.cap_processing);
  auto result = reader.result();
  if (result && !registration.node_id.empty()) result = check_registration(registration);
  if (!result) return std::unexpected(result.error());
  return registration;
}

void add(NodeReport& to, const NodeReport& said) {
  auto each = [&](auto... members) {
    (..., (said.*members ? void(to.*members = said.*members) : void()));
  };
  using R = NodeReport;
  each(&R::cpu_tenths, &R::ram_max, &R::ram_current, &R::up_speed, &R::down_speed, &R::bw_limit,
       &R::location, &R::is_healthy, &R::outputs, &R::cap_ingest, &R::cap_edge, &R::cap_storage,
       &R::cap_processing, &R::roles, &R::tags, &R::config_streams, &R::storage_capacity_bytes,
       &R::storage_used_bytes, &R::disk_total_bytes, &R::disk_used_bytes, &R::storage_local,
       &R::storage_bucket, &R::storage_prefix, &R::max_transcodes, &R::current_transcodes,
       &R::operational_mode);
  // These are said only by what is not empty.
  for (auto member : {&R::base_url, &R::tenant_id})
    if (said.*member && !(said.*member)->empty()) to.*member = said.*member;
  if (said.latitude && said.longitude && (*said.latitude != 0 || *said.longitude != 0)) {
    to.latitude = said.latitude;
    to.longitude = said.longitude;
  }
}

}  // namespace warren::foghorn
