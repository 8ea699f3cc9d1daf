// The members of each entity, in the order in which they are written.
#include <algorithm>
#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>

#include "services/foghorn/state/json_fields.h"

namespace warren::foghorn {

namespace {

template <class Io, class Track>
void members(Io& io, Track& track)
  requires std::same_as<std::remove_const_t<Track>, StreamTrack>
{
  io.always("track_id", track.track_id);
  io.always("codec", track.codec);
  io.always("type", track.type);
  io.unless_empty("bitrate", track.bitrate);
  io.unless_empty("fps", track.fps);
  io.unless_empty("width", track.width);
  io.unless_empty("height", track.height);
  io.unless_empty("channels", track.channels);
  io.unless_empty("sample_rate", track.sample_rate);
}

template <class Io, class Stream>
void members(Io& io, Stream& stream)
  requires std::same_as<std::remove_const_t<Stream>, StreamState>
{
  io.always("stream_name", stream.stream_name);
  io.always("internal_name", stream.internal_name);
  io.need("internal_name", stream.internal_name);
  io.unless_empty("playback_id", stream.playback_id);
  io.always("node_id", stream.node_id);
  io.always("tenant_id", stream.tenant_id);
  io.always("status", stream.status);
  io.always("buffer_state", stream.buffer_state);
  io.unless_empty("issues", stream.issues);
  io.always("has_issues", stream.has_issues);
  io.unless_empty("started_at", stream.started_at);
  io.always("last_update", stream.last_update);
  io.unless_empty("raw_details", stream.raw_details);
  io.always("viewers", stream.viewers);
  io.unless_empty("last_track_list", stream.last_track_list);
  io.unless_empty("total_connections", stream.total_connections);
  io.unless_empty("inputs", stream.inputs);
  io.unless_empty("bytes_up", stream.bytes_up);
  io.unless_empty("bytes_down", stream.bytes_down);
}

template <class Io, class Instance>
void members(Io& io, Instance& instance)
  requires std::same_as<std::remove_const_t<Instance>, StreamInstanceState>
{
  io.always("node_id", instance.node_id);
  io.always("tenant_id", instance.tenant_id);
  io.always("status", instance.status);
  io.always("buffer_state", instance.buffer_state);
  io.unless_empty("last_track_list", instance.last_track_list);
  io.always("viewers", instance.viewers);
  io.unless_empty("bytes_up", instance.bytes_up);
  io.unless_empty("bytes_down", instance.bytes_down);
  io.unless_empty("total_connections", instance.total_connections);
  io.unless_empty("inputs", instance.inputs);
  io.unless_empty("replicated", instance.replicated);
  io.always("last_update", instance.last_update);
  io.unless_empty("raw_details", instance.raw_details);
}

template <class Io, class Node>
void members(Io& io, Node& node)
  requires std::same_as<std::remove_const_t<Node>, NodeState>
{
  io.always("node_id", node.node_id);
  io.need("node_id", node.node_id);
  io.always("base_url", node.base_url);
  io.unless_empty("tenant_id", node.tenant_id);
  io.unless_empty("cluster_id", node.cluster_id);
  io.always("is_healthy", node.is_healthy);
  io.always("is_stale", node.is_stale);
  io.always("last_update", node.last_update);
  io.always("last_heartbeat", node.last_heartbeat);
  io.unless_empty("operational_mode", node.operational_mode);
  io.unless_empty("latitude", node.latitude);
  io.unless_empty("longitude", node.longitude);
  io.unless_empty("location", node.location);
  io.unless_empty("outputs", node.outputs);
  io.unless_empty("cpu", node.cpu);
  io.unless_empty("ram_max", node.ram_max);
  io.unless_empty("ram_current", node.ram_current);
  io.unless_empty("up_speed", node.up_speed);
  io.unless_empty("down_speed", node.down_speed);
  io.unless_empty("bw_limit", node.bw_limit);
  io.unless_empty("cap_ingest", node.cap_ingest);
  io.unless_empty("cap_edge", node.cap_edge);
  io.unless_empty("cap_storage", node.cap_storage);
  io.unless_empty("cap_processing", node.cap_processing);
  io.unless_empty("roles", node.roles);
  io.unless_empty("storage_capacity_bytes", node.storage_capacity_bytes);
  io.unless_empty("storage_used_bytes", node.storage_used_bytes);
  io.unless_empty("disk_total_bytes", node.disk_total_bytes);
  io.unless_empty("disk_used_bytes", node.disk_used_bytes);
  io.unless_empty("storage_local", node.storage_local);
  io.unless_empty("storage_bucket", node.storage_bucket);
  io.unless_empty("storage_prefix", node.storage_prefix);
  io.unless_empty("max_transcodes", node.max_transcodes);
  io.unless_empty("current_transcodes", node.current_transcodes);
  io.unless_empty("gpu_vendor", node.gpu_vendor);
  io.unless_empty("gpu_count", node.gpu_count);
  io.unless_empty("gpu_mem_mb", node.gpu_mem_mb);
  io.unless_empty("gpu_cc", node.gpu_cc);
  io.unless_empty("port", node.port);
  io.unless_empty("dtsc_port", node.dtsc_port);
  io.unless_empty("tags", node.tags);
  io.unless_empty("config_streams", node.config_streams);
  io.unless_empty("host", node.host);
  io.unless_empty("owner_epoch", node.owner_epoch);
  // Of the instance that wrote it, which are no business of ours; and content, which has keys of
  // its own.
  io.skip("add_bandwidth");
  io.skip("artifacts");
}

template <class Io, class Copy>
void members(Io& io, Copy& copy)
  requires std::same_as<std::remove_const_t<Copy>, ArtifactCopy>
{
  io.always("node_id", copy.node_id);
  io.need("node_id", copy.node_id);
  io.unless_empty("path", copy.path);
  io.always("size", copy.size);
  io.always("cached_at", copy.cached_at);
}

template <class Entity>
Result<Entity> read_entity(const json::object& object) {
  Entity entity;
  Reader reader(object);
  members(reader, entity);
  auto result = reader.result();
  if (!result) return std::unexpected(result.error());
  if constexpr (requires { entity.others; }) entity.others = reader.others();
  return entity;
}

// A list of entities, under a name of its parent.
template <class Item>
Result<std::vector<Item>> read_list(Reader& reader, std::string_view name) {
  std::vector<Item> items;
  const auto* list = reader.find(name);
  if (!list) return items;
  if (!list->is_array()) return fail(Errc::invalid, "{}: is not a list", name);
  for (const auto& each : list->get_array()) {
    if (!each.is_object()) return fail(Errc::invalid, "{}: has an item that is no object", name);
    auto item = read_entity<Item>(each.get_object());
    if (!item) return fail(Errc::invalid, "{}: {}", name, item.error().what);
    items.push_back(*std::move(item));
  }
  return items;
}

template <class Item>
std::string list_of(const std::vector<Item>& items) {
  std::vector<std::string> texts;
  for (const auto& item : items) {
    Writer writer;
    members(writer, item);
    texts.push_back(writer.take());
  }
  return json_list(texts);
}

// The one that was seen last: the surest to be there.
const ArtifactCopy* preferred(const ArtifactState& artifact) {
  const ArtifactCopy* best = nullptr;
  for (const auto& copy : artifact.copies)
    if (!best || copy.cached_at > best->cached_at) best = &copy;
  return best;
}

}  // namespace

Result<StreamState> parse_stream(std::string_view text) {
  Scratch scratch;
  auto object = parse_object(text, longest_value, scratch.memory());
  if (!object) return std::unexpected(object.error());
  StreamState stream;
  Reader reader(*object);
  members(reader, stream);
  auto tracks = read_list<StreamTrack>(reader, "tracks");
  if (!tracks) return std::unexpected(tracks.error());
  auto result = reader.result();
  if (!result) return std::unexpected(result.error());
  stream.tracks = *std::move(tracks);
  stream.others = reader.others();
  return stream;
}

std::string to_json(const StreamState& stream) {
  Writer writer;
  members(writer, stream);
  writer.raw("tracks", stream.tracks.empty() ? "null" : list_of(stream.tracks));
  writer.others(stream.others);
  return writer.take();
}

Result<StreamInstanceState> parse_instance(std::string_view text) {
  Scratch scratch;
  auto object = parse_object(text, longest_value, scratch.memory());
  if (!object) return std::unexpected(object.error());
  std::string stream, node;
  Reader reader(*object);
  reader.always("internal_name", stream);
  reader.need("internal_name", stream);
  reader.always("node_id", node);
  reader.need("node_id", node);
  const auto* state = reader.find("state");
  if (!state || !state->is_object()) reader.wrong("state", "an object");
  auto result = reader.result();
  if (!result) return std::unexpected(result.error());
  auto instance = read_entity<StreamInstanceState>(state->get_object());
  if (!instance) return fail(Errc::invalid, "state.{}", instance.error().what);
  instance->internal_name = std::move(stream);
  instance->node_id = std::move(node);
  return instance;
}

std::string to_json(const StreamInstanceState& instance) {
  Writer state;
  members(state, instance);
  state.others(instance.others);
  Writer writer;
  writer.always("internal_name", instance.internal_name);
  writer.always("node_id", instance.node_id);
  writer.raw("state", state.take());
  return writer.take();
}

Result<NodeState> parse_node(std::string_view text) {
  Scratch scratch;
  auto object = parse_object(text, longest_value, scratch.memory());
  if (!object) return std::unexpected(object.error());
  NodeState node;
  std::string outputs_raw;
  std::int64_t pending = 0;
  Reader reader(*object);
  members(reader, node);
  reader.always("outputs_raw", outputs_raw);
  reader.always("pending_redirects", pending);
  auto result = reader.result();
  if (!result) return std::unexpected(result.error());
  node.others = reader.others();
  if (node.outputs.empty() && !outputs_raw.empty()) {
    auto outputs = parse_object(outputs_raw, longest_value);
    if (outputs) node.outputs = *std::move(outputs);
    tidy(node.outputs);
  }
  // Nobody is at (0, 0): whoever reports it does not know.
  if (!node.latitude || !node.longitude || (*node.latitude == 0 && *node.longitude == 0))
    node.latitude = node.longitude = std::nullopt;
  return node;
}

std::string to_json(const NodeState& node) {
  Writer writer;
  members(writer, node);
  if (!node.outputs.empty())
    writer.always("outputs_raw", std::string(json::serialize(node.outputs)));
  writer.always("pending_redirects", std::int64_t{0});
  writer.others(node.others);
  return writer.take();
}

Result<ArtifactState> parse_artifact(std::string_view text) {
  Scratch scratch;
  auto object = parse_object(text, longest_value, scratch.memory());
  if (!object) return std::unexpected(object.error());
  ArtifactState artifact;
  ArtifactCopy only;
  Reader reader(*object);
  reader.always("content_id", artifact.content_id);
  reader.need("content_id", artifact.content_id);
  reader.always("type", artifact.type);
  reader.always("node_id", only.node_id);
  reader.always("size", only.size);
  reader.always("cached_at", only.cached_at);
  auto copies = read_list<ArtifactCopy>(reader, "nodes");
  if (!copies) return std::unexpected(copies.error());
  auto result = reader.result();
  if (!result) return std::unexpected(result.error());
  artifact.copies = *std::move(copies);
  artifact.others = reader.others();
  // As whoever knows of one copy writes it.
  if (artifact.copies.empty() && !only.node_id.empty()) artifact.copies = {std::move(only)};
  std::ranges::sort(artifact.copies, {}, &ArtifactCopy::node_id);
  return artifact;
}

std::string to_json(const ArtifactState& artifact) {
  Writer writer;
  writer.always("content_id", artifact.content_id);
  writer.always("type", artifact.type);
  if (const auto* best = preferred(artifact)) {
    writer.always("node_id", best->node_id);
    writer.always("size", best->size);
    writer.always("cached_at", best->cached_at);
  }
  writer.raw("nodes", list_of(artifact.copies));
  writer.others(artifact.others);
  return writer.take();
}

Result<NodeModeState> parse_mode(std::string_view text) {
  Scratch scratch;
  auto object = parse_object(text, longest_value, scratch.memory());
  if (!object) return std::unexpected(object.error());
  NodeModeState mode;
  std::string word;
  Reader reader(*object);
  reader.always("node_id", mode.node_id);
  reader.need("node_id", mode.node_id);
  reader.always("mode", word);
  reader.always("set_by", mode.set_by);
  reader.always("set_at", mode.set_at);
  auto parsed = parse_node_mode(word);
  if (!parsed) reader.wrong("mode", "normal, draining or maintenance");
  auto result = reader.result();
  if (!result) return std::unexpected(result.error());
  mode.mode = *parsed;
  return mode;
}

std::string to_json(const NodeModeState& mode) {
  Writer writer;
  writer.always("node_id", mode.node_id);
  writer.always("mode", std::string(name(mode.mode)));
  writer.always("set_by", mode.set_by);
  writer.always("set_at", mode.set_at);
  return writer.take();
}

Result<PenaltyState> parse_penalties(std::string_view text) {
  Scratch scratch;
  auto object = parse_object(text, longest_value, scratch.memory());
  if (!object) return std::unexpected(object.error());
  PenaltyState penalties;
  json::object nodes;
  Reader reader(*object);
  reader.always("instance_id", penalties.instance_id);
  reader.need("instance_id", penalties.instance_id);
  reader.always("at", penalties.at);
  reader.always("nodes", nodes);
  reader.unless_empty("arrivals", penalties.arrivals);
  Reader sums(nodes, "nodes.");
  for (const auto& member : nodes)
    sums.always(member.key(), penalties.nodes[std::string(member.key())]);
  if (auto result = sums.result(); !result) return std::unexpected(result.error());
  auto result = reader.result();
  if (!result) return std::unexpected(result.error());
  return penalties;
}

std::string to_json(const PenaltyState& penalties) {
  Writer nodes;
  for (const auto& [node, bandwidth] : penalties.nodes) nodes.always(node, bandwidth);
  Writer writer;
  writer.always("instance_id", penalties.instance_id);
  writer.always("at", penalties.at);
  writer.raw("nodes", nodes.take());
  writer.unless_empty("arrivals", penalties.arrivals);
  return writer.take();
}

}  // namespace warren::foghorn
