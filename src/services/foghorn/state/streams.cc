// What nodes say of the streams that they carry.
#include <array>
#include <cmath>

#include "services/foghorn/state/core.h"
#include "services/foghorn/state/json_fields.h"

namespace warren::foghorn {

namespace {

std::string_view type_of_codec(std::string_view codec, const json::object& track) {
  constexpr std::array<std::string_view, 5> video{"H264", "HEVC", "VP8", "VP9", "AV1"};
  constexpr std::array<std::string_view, 5> audio{"AAC", "MP3", "Opus", "opus", "AC3"};
  if (std::ranges::find(video, codec) != video.end()) return "video";
  if (std::ranges::find(audio, codec) != audio.end()) return "audio";
  if (track.contains("width")) return "video";
  return track.contains("channels") ? "audio" : "";
}

double number(const json::object& object, std::string_view name) {
  const auto* found = object.if_contains(name);
  return found && found->is_number() ? found->to_number<double>() : 0;
}

int whole(const json::object& object, std::string_view name) {
  auto value = number(object, name);
  return value > 0 && value < 1e9 ? static_cast<int>(value) : 0;
}

StreamTrack track_of(std::string_view id, const json::object& object) {
  StreamTrack track;
  track.track_id = id;
  if (const auto* codec = object.if_contains("codec"); codec && codec->is_string())
    track.codec = std::string_view(codec->get_string());
  track.type = type_of_codec(track.codec, object);
  track.bitrate = tidy(number(object, "kbits"));
  track.fps = tidy(number(object, "fpks") / 1000);
  track.width = whole(object, "width");
  track.height = whole(object, "height");
  track.channels = whole(object, "channels");
  track.sample_rate = whole(object, "rate");
  return track;
}

void set_details(StreamState& stream, json::object details) {
  stream.tracks.clear();
  stream.issues.clear();
  if (const auto* issues = details.if_contains("issues"); issues && issues->is_string())
    stream.issues = std::string_view(issues->get_string());
  stream.has_issues = !stream.issues.empty();
  for (const auto& member : details)
    if (member.key() != "issues" && member.value().is_object())
      stream.tracks.push_back(track_of(member.key(), member.value().get_object()));
  stream.raw_details = std::move(details);
}

void set_live(StreamState& stream) {
  if (stream.status == "live") return;
  stream.status = "live";
  stream.started_at = WallClock::now();
}

void set_identity(std::string& member, const std::string& said) {
  if (!said.empty()) member = said;
}

void set_idle(StreamInstanceState& instance) {
  instance.status = "offline";
  instance.buffer_state = "EMPTY";
  instance.inputs = instance.total_connections = instance.viewers = 0;
}

Result<> check_names(const std::string& node, const std::string& stream) {
  auto checked = check_id("node_id", node);
  return checked ? check_id("stream", stream) : checked;
}

Result<> check_length(std::string_view what, std::string_view text, std::size_t most) {
  if (text.size() <= most) return ok;
  return fail(Errc::invalid, "{}: {} characters are more than {}", what, text.size(), most);
}

constexpr std::size_t longest_details = 256u << 10;

// Over HTTP and over gRPC.
Result<> check_contact(const ViewerContact& contact) {
  auto checked = check_length("correlation_id", contact.correlation_id, 256);
  if (checked) checked = check_length("session_id", contact.session_id, 256);
  return checked ? check_length("client_ip", contact.client_ip, 256) : checked;
}

}  // namespace

StreamState Cluster::Core::stream_or_new(std::string_view name) const {
  const auto* known = model.stream(name);
  if (known && known->is_known) return known->state;
  StreamState state;
  state.internal_name = state.stream_name = name;
  return state;
}

StreamInstanceState Cluster::Core::instance_or_new(const std::string& stream,
                                                   const std::string& node) const {
  if (const auto* known = model.instance(stream, node)) return *known;
  StreamInstanceState instance;
  instance.internal_name = stream;
  instance.node_id = node;
  return instance;
}

void Cluster::Core::set_stream(StreamState state) {
  const auto* known = model.stream(state.internal_name);
  bool is_same = known && known->is_known && says_the_same(known->state, state);
  if (is_same && !kept_.contains({Kind::stream, state.internal_name})) return;
  state.last_update = later_than(state.last_update);
  mark({Kind::stream, state.internal_name});
  model.put_stream(std::move(state), Clock::now());
}

void Cluster::Core::set_instance(StreamInstanceState instance) {
  const auto* known = model.instance(instance.internal_name, instance.node_id);
  if (known && says_the_same(*known, instance)) return;
  instance.last_update = WallClock::now();
  mark({Kind::instance, instance.internal_name, instance.node_id});
  model.put_instance(std::move(instance));
}

void Cluster::Core::take_stats(const std::string& node, const std::string& stream,
                               const StreamReport& report) {
  auto instance = instance_or_new(stream, node);
  instance.total_connections = report.total;
  instance.inputs = report.inputs;
  instance.bytes_up = report.bytes_up;
  instance.bytes_down = report.bytes_down;
  if (report.viewers) instance.viewers = *report.viewers;
  instance.replicated = report.replicated;
  set_identity(instance.tenant_id, report.tenant_id);
  set_identity(instance.buffer_state, report.buffer_state);
  bool is_offline = report.status == "offline";
  if (is_offline) set_idle(instance);
  bool serves = instance.inputs > 0;
  if (serves || report.status == "live") instance.status = "live";

  auto state = stream_or_new(stream);
  set_identity(state.tenant_id, report.tenant_id);
  set_identity(state.playback_id, report.playback_id);
  if (serves && !instance.replicated && !is_origin(stream, state.node_id)) state.node_id = node;
  if (serves || report.status == "live") set_live(state);
  if (!is_offline && !instance.replicated) set_identity(state.buffer_state, report.buffer_state);
  set_instance(std::move(instance));
  set_stream(std::move(state));
  if (is_offline) settle_stream(stream);
}

// Of two the first one stays, or each report would move the stream.
bool Cluster::Core::is_origin(std::string_view stream, std::string_view node) const {
  const auto* record = model.node(node);
  const auto* instance = model.instance(stream, node);
  return record && !record->is_stale() && instance && instance->inputs > 0 && !instance->replicated;
}

// All that the node carries: what is not named it carries no longer.
std::size_t Cluster::Core::take_streams(const std::string& node,
                                        const std::map<std::string, StreamReport>& streams) {
  auto record = *model.node(node);
  if (!std::exchange(record.lists_streams, true)) model.put_node(std::move(record));
  auto before = model.carried(node).streams;
  std::size_t left_out = 0;
  for (const auto& [name, report] : streams)
    if (has_room_for_stream(name))
      take_stats(node, name, report);
    else
      ++left_out;
  for (const auto& name : before)
    if (!streams.contains(name)) drop_instance(name, node);
  return left_out;
}

void Cluster::Core::drop_instance(const std::string& stream, const std::string& node) {
  model.erase_instance(stream, node);
  mark({Kind::instance, stream, node});
  settle_stream(stream);
  forget_left(node);
}

void Cluster::Core::settle_stream(const std::string& stream) {
  const auto* record = model.stream(stream);
  if (!record || !record->is_known) return;
  for (const auto& [node, instance] : record->instances) {
    const auto* carrier = model.node(node);
    if (instance.status != "offline" && instance.inputs > 0 && carrier && !carrier->is_stale())
      return;
  }
  auto state = record->state;
  state.status = "offline";
  state.buffer_state = "EMPTY";
  set_stream(std::move(state));
}

void Cluster::Core::settle_abandoned() {
  for (const auto& stream : std::exchange(abandoned_, {})) settle_stream(stream);
}

Result<> Cluster::stream_buffer(const std::string& node, const std::string& stream,
                                std::string buffer_state, std::string tenant,
                                std::string playback_id, std::string_view details) {
  if (auto hears = core_->hears(); !hears) return hears;
  auto name = std::string(bare_name(stream));
  auto checked = check_names(node, name);
  if (checked) checked = check_length("buffer_state", buffer_state, 128);
  if (checked) checked = check_length("tenant_id", tenant, 128);
  if (checked) checked = check_length("playback_id", playback_id, 128);
  if (!checked) return checked;
  auto state = core_->stream_or_new(name);
  if (!details.empty()) {
    auto parsed = parse_object(details, longest_details, {}, deepest_part);
    if (!parsed) return fail(Errc::invalid, "details: {}", parsed.error().what);
    tidy(*parsed);
    set_details(state, *std::move(parsed));
    checked = check_length("details", to_json(state), longest_value);
    if (!checked) return checked;
  }
  if (auto room = core_->make_room(node, name); !room) return room;
  core_->touch(node);
  auto instance = core_->instance_or_new(name, node);
  instance.status = "live";
  state.stream_name = stream;
  set_live(state);
  for (auto* member : {&instance.buffer_state, &state.buffer_state})
    set_identity(*member, buffer_state);
  for (auto* member : {&instance.tenant_id, &state.tenant_id}) set_identity(*member, tenant);
  set_identity(state.playback_id, playback_id);
  if (state.node_id.empty() && !instance.replicated) state.node_id = node;
  core_->set_instance(std::move(instance));
  core_->set_stream(std::move(state));
  core_->changed();
  return ok;
}

Result<> Cluster::stream_tracks(const std::string& node, const std::string& stream,
                                std::string track_list) {
  if (auto hears = core_->hears(); !hears) return hears;
  auto name = std::string(bare_name(stream));
  auto checked = check_names(node, name);
  if (checked) checked = check_length("track list", track_list, longest_details);
  if (checked) checked = core_->make_room(node, name);
  if (!checked) return checked;
  core_->touch(node);
  auto instance = core_->instance_or_new(name, node);
  auto state = core_->stream_or_new(name);
  instance.last_track_list = track_list;
  state.last_track_list = std::move(track_list);
  checked = check_length("track list", to_json(state), longest_value);
  if (!checked) return checked;
  core_->set_instance(std::move(instance));
  core_->set_stream(std::move(state));
  core_->changed();
  return ok;
}

Result<> Cluster::stream_stats(const std::string& node, const std::string& stream,
                               const StreamReport& report) {
  if (auto hears = core_->hears(); !hears) return hears;
  auto name = std::string(bare_name(stream));
  auto checked = check_names(node, name);
  if (checked) checked = check_stream_report(name, report);
  if (checked) checked = core_->make_room(node, name);
  if (!checked) return checked;
  core_->touch(node);
  core_->take_stats(node, name, report);
  core_->changed();
  return ok;
}

Result<> Cluster::stream_progress(const std::string& node, const std::string& stream,
                                  const boost::json::object& details) {
  if (auto hears = core_->hears(); !hears) return hears;
  auto name = std::string(bare_name(stream));
  auto checked = check_names(node, name);
  if (!checked) return checked;
  auto instance = core_->instance_or_new(name, node);
  for (const auto& member : details) instance.raw_details[member.key()] = member.value();
  tidy(instance.raw_details);
  checked = check_length("details", to_json(instance), longest_details);
  if (checked) checked = core_->make_room(node, name);
  if (!checked) return checked;
  core_->touch(node);
  core_->set_instance(std::move(instance));
  core_->changed();
  return ok;
}

Result<> Cluster::stream_offline(const std::string& node, const std::string& stream) {
  if (auto hears = core_->hears(); !hears) return hears;
  auto name = std::string(bare_name(stream));
  auto checked = check_names(node, name);
  if (!checked) return checked;
  // Before all is loaded it may be one that is not known yet.
  if (!core_->model.stream(name) && core_->is_loaded())
    return fail(Errc::not_found, "there is no stream {}", name);
  bool is_told = core_->model.instance(name, node) || !core_->is_loaded();
  auto room = is_told ? core_->make_room(node, name) : Result<>();
  if (!room) return room;
  core_->touch(node);
  if (is_told) {
    auto instance = core_->instance_or_new(name, node);
    set_idle(instance);
    core_->set_instance(std::move(instance));
  }
  core_->settle_stream(name);
  core_->changed();
  return ok;
}

Result<> Cluster::forget_stream(const std::string& stream) {
  if (auto loaded = core_->loaded(); !loaded) return loaded;
  auto name = std::string(bare_name(stream));
  if (!core_->model.stream(name)) return fail(Errc::not_found, "there is no stream {}", name);
  core_->forget_stream(name);
  core_->changed();
  return ok;
}

void Cluster::Core::forget_stream(const std::string& stream) {
  const auto* record = model.stream(stream);
  if (!record) return;
  std::vector<std::string> carriers;
  for (const auto& [node, instance] : record->instances) carriers.push_back(node);
  if (record->is_known) {
    model.erase_stream(stream);
    mark({Kind::stream, stream});
  }
  for (const auto& node : carriers) {
    model.erase_instance(stream, node);
    mark({Kind::instance, stream, node});
  }
}

// --- viewers
// ---------------------------------------------------------------------------------------

Result<> Cluster::viewer_connected(const std::string& node, const std::string& stream,
                                   const ViewerContact& contact) {
  if (auto hears = core_->hears(); !hears) return hears;
  auto name = std::string(bare_name(stream));
  auto checked = check_names(node, name);
  if (checked) checked = check_contact(contact);
  if (checked) checked = core_->admit(node);
  if (!checked) return checked;
  core_->touch(node);
  bool is_expected = core_->viewers.connected(Clock::now(), node, name, contact);
  if (!is_expected) core_->tell_arrival(contact.correlation_id);
  if (core_->model.node(node)) core_->viewers.arrived(node, viewer_cost(node));
  if (const auto* known = core_->model.instance(name, node)) {
    auto instance = *known;
    ++instance.viewers;
    core_->set_instance(std::move(instance));
    core_->changed();
  }
  return ok;
}

Result<> Cluster::viewer_disconnected(const std::string& node, const std::string& stream,
                                      const ViewerContact& contact) {
  if (auto hears = core_->hears(); !hears) return hears;
  auto name = std::string(bare_name(stream));
  auto checked = check_names(node, name);
  if (checked) checked = check_contact(contact);
  if (checked) checked = core_->admit(node);
  if (!checked) return checked;
  core_->touch(node);
  core_->viewers.disconnected(Clock::now(), node, name, contact);
  const auto* known = core_->model.instance(name, node);
  if (known && known->viewers > 0) {
    auto instance = *known;
    --instance.viewers;
    core_->set_instance(std::move(instance));
    core_->changed();
  }
  return ok;
}

}  // namespace warren::foghorn
