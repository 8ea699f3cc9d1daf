#include "services/foghorn/helmsman/messages.h"

#include <boost/json/object.hpp>
#include <boost/json/parse.hpp>

namespace warren::helmsman {

namespace pb = foghorn_control;

namespace {

constexpr std::size_t longest_outputs = 64u << 10;

Result<std::string> stream_named(const std::string& name) {
  auto bare = std::string(foghorn::bare_name(name));
  auto checked = foghorn::check_id("stream_name", bare);
  if (!checked) return std::unexpected(checked.error());
  return bare;
}

constexpr std::size_t longest_word = 256, longest_url = 8192;

// Texts that are checked nowhere else, as nothing keeps them.
Result<> check_words(std::initializer_list<std::pair<std::string_view, std::string_view>> words,
                     std::size_t longest = longest_word) {
  for (auto [name, text] : words)
    if (text.size() > longest)
      return fail(Errc::invalid, "{}: {} characters are more than {}", name, text.size(), longest);
  return ok;
}

template <class Message>
Result<> check_viewer(const Message& message) {
  auto checked =
      check_words({{"connection_id", message.connection_id()}, {"connector", message.connector()}});
  return checked ? check_words({{"request_url", message.request_url()}}, longest_url) : checked;
}

template <class Message>
foghorn::ViewerContact contact_of(const Message& message) {
  return {correlation_id(message.request_url()), message.session_id(), message.host()};
}

foghorn::StreamReport stream_report(const pb::NodeLifecycleUpdate::Stream& from) {
  foghorn::StreamReport to;
  to.total = from.total();
  to.inputs = from.inputs();
  to.bytes_up = from.bytes_up();
  to.bytes_down = from.bytes_down();
  to.viewers = from.viewers();
  to.replicated = from.replicated();
  to.tenant_id = from.tenant_id();
  to.playback_id = from.playback_id();
  to.status = from.status();
  to.buffer_state = from.buffer_state();
  return to;
}

Result<> put_outputs(const std::string& text, foghorn::NodeReport& to) {
  if (text.size() > longest_outputs) return fail(Errc::invalid, "outputs_json: too long");
  boost::system::error_code error;
  auto value = boost::json::parse(text, error);
  if (error || !value.is_object()) return fail(Errc::invalid, "outputs_json: not an object");
  to.outputs = std::move(value.get_object());
  return ok;
}

void put_capabilities(const pb::NodeLifecycleUpdate& from, foghorn::NodeReport& to) {
  if (from.has_capabilities()) {
    const auto& can = from.capabilities();
    to.cap_ingest = can.ingest();
    to.cap_edge = can.edge();
    to.cap_storage = can.storage();
    to.cap_processing = can.processing();
    to.roles.emplace(can.roles().begin(), can.roles().end());
  }
  if (from.has_storage()) {
    to.storage_local = from.storage().local_path();
    to.storage_bucket = from.storage().s3_bucket();
    to.storage_prefix = from.storage().s3_prefix();
  }
  if (from.has_limits()) {
    to.max_transcodes = from.limits().max_transcodes();
    to.current_transcodes = from.limits().current_transcodes();
    to.storage_capacity_bytes = from.limits().storage_capacity_bytes();
    to.storage_used_bytes = from.limits().storage_used_bytes();
  }
}

}  // namespace

foghorn::Registration registration_of(const pb::Register& message, std::string host) {
  foghorn::Registration to;
  to.node_id = message.node_id();
  to.host = std::move(host);
  if (message.has_base_url()) to.base_url = message.base_url();
  if (message.has_tenant_id()) to.tenant_id = message.tenant_id();
  if (message.has_requested_mode()) to.requested_mode = message.requested_mode();
  to.roles.assign(message.roles().begin(), message.roles().end());
  to.tags.assign(message.tags().begin(), message.tags().end());
  to.cap_ingest = message.cap_ingest();
  to.cap_edge = message.cap_edge();
  to.cap_storage = message.cap_storage();
  to.cap_processing = message.cap_processing();
  return to;
}

Result<foghorn::NodeReport> report_of(const pb::NodeLifecycleUpdate& from) {
  foghorn::NodeReport to;
  if (from.has_cpu_tenths()) to.cpu_tenths = from.cpu_tenths();
  if (from.has_ram_max()) to.ram_max = from.ram_max();
  if (from.has_ram_current()) to.ram_current = from.ram_current();
  if (from.has_up_speed()) to.up_speed = from.up_speed();
  if (from.has_down_speed()) to.down_speed = from.down_speed();
  if (from.has_bw_limit()) to.bw_limit = from.bw_limit();
  // 0, 0 is what a node says that does not know where it is.
  if (from.has_latitude() && from.has_longitude() &&
      (from.latitude() != 0 || from.longitude() != 0)) {
    to.latitude = from.latitude();
    to.longitude = from.longitude();
  }
  if (from.has_location()) to.location = from.location();
  if (from.has_base_url()) to.base_url = from.base_url();
  if (from.has_tenant_id()) to.tenant_id = from.tenant_id();
  if (from.has_is_healthy()) to.is_healthy = from.is_healthy();
  if (from.has_disk_total_bytes()) to.disk_total_bytes = from.disk_total_bytes();
  if (from.has_disk_used_bytes()) to.disk_used_bytes = from.disk_used_bytes();
  if (from.has_operational_mode()) to.operational_mode = from.operational_mode();
  if (from.tags_size() > 0) to.tags.emplace(from.tags().begin(), from.tags().end());
  put_capabilities(from, to);
  if (from.has_outputs_json()) {
    auto put = put_outputs(from.outputs_json(), to);
    if (!put) return std::unexpected(put.error());
  }
  if (from.has_streams()) {
    if (std::size_t(from.streams().by_name_size()) > foghorn::most_streams)
      return fail(Errc::invalid, "streams: more than {}", foghorn::most_streams);
    to.streams.emplace();
    for (const auto& [name, stream] : from.streams().by_name())
      to.streams->emplace(foghorn::bare_name(name), stream_report(stream));
  }
  if (from.has_artifacts()) {
    if (std::size_t(from.artifacts().items_size()) > foghorn::most_artifacts)
      return fail(Errc::invalid, "artifacts: more than {}", foghorn::most_artifacts);
    to.artifacts.emplace();
    for (const auto& each : from.artifacts().items())
      to.artifacts->push_back({each.content_id(), each.type(), each.path(), each.size()});
  }
  auto checked = foghorn::check_report(to);
  if (!checked) return std::unexpected(checked.error());
  return to;
}

Result<> apply(foghorn::Cluster& cluster, const std::string& node, const pb::MistTrigger& trigger) {
  auto named = [&](const std::string& name, auto use) -> Result<> {
    auto stream = stream_named(name);
    if (!stream) return std::unexpected(stream.error());
    return use(*stream);
  };
  auto words = check_words({{"trigger_type", trigger.trigger_type()},
                            {"node_id", trigger.node_id()},
                            {"node_id", trigger.node_lifecycle_update().node_id()},
                            {"node_id", trigger.stream_lifecycle_update().node_id()},
                            {"request_id", trigger.request_id()}});
  if (!words) return words;
  using Case = pb::MistTrigger::TriggerPayloadCase;
  switch (trigger.trigger_payload_case()) {
    case Case::kViewerConnect: {
      const auto& viewer = trigger.viewer_connect();
      return named(viewer.stream_name(), [&](const std::string& stream) -> Result<> {
        if (auto checked = check_viewer(viewer); !checked) return checked;
        return cluster.viewer_connected(node, stream, contact_of(viewer));
      });
    }
    case Case::kViewerDisconnect: {
      const auto& viewer = trigger.viewer_disconnect();
      return named(viewer.stream_name(), [&](const std::string& stream) -> Result<> {
        if (auto checked = check_viewer(viewer); !checked) return checked;
        return cluster.viewer_disconnected(node, stream, contact_of(viewer));
      });
    }
    case Case::kStreamBuffer: {
      const auto& said = trigger.stream_buffer();
      return named(said.stream_name(), [&](const std::string& stream) {
        return cluster.stream_buffer(node, stream, said.buffer_state(), said.tenant_id(),
                                     said.playback_id(), said.details_json());
      });
    }
    case Case::kStreamEnd:
      return named(trigger.stream_end().stream_name(),
                   [&](const std::string& stream) { return cluster.stream_offline(node, stream); });
    case Case::kTrackList:
      return named(trigger.track_list().stream_name(), [&](const std::string& stream) {
        return cluster.stream_tracks(node, stream, trigger.track_list().track_list());
      });
    case Case::kStreamLifecycleUpdate: {
      const auto& said = trigger.stream_lifecycle_update();
      return named(said.internal_name(), [&](const std::string& stream) -> Result<> {
        if (said.status() == "offline") return cluster.stream_offline(node, stream);
        foghorn::StreamReport report{said.total_viewers(),  said.total_inputs(),
                                     said.uploaded_bytes(), said.downloaded_bytes(),
                                     said.total_viewers(),  said.replicated(),
                                     said.tenant_id(),      said.playback_id(),
                                     said.status(),         said.buffer_state()};
        auto checked = foghorn::check_stream_report(stream, report);
        if (!checked) return checked;
        return cluster.stream_stats(node, stream, report);
      });
    }
    case Case::kNodeLifecycleUpdate: {
      auto report = report_of(trigger.node_lifecycle_update());
      if (!report) return std::unexpected(report.error());
      return cluster.report(node, *report);
    }
    case Case::TRIGGER_PAYLOAD_NOT_SET:
      break;
  }
  return fail(Errc::invalid, "a trigger that is not known: {}", trigger.trigger_type());
}

std::string host_of_peer(std::string peer) {
  auto scheme = peer.find(':');
  auto port = peer.rfind(':');
  if (scheme == peer.npos || port == scheme) return {};
  auto host = peer.substr(scheme + 1, port - scheme - 1);
  for (auto [escaped, plain] : {std::pair("%5B", ""), std::pair("%5D", "")})
    if (auto at = host.find(escaped); at != host.npos) host.replace(at, 3, plain);
  return host;
}

std::string correlation_id(std::string_view url) {
  auto query = url.find('?');
  while (query != url.npos) {
    url.remove_prefix(query + 1);
    if (url.starts_with("fwcid=")) return std::string(url.substr(6, url.find_first_of("&#") - 6));
    query = url.find('&');
  }
  return {};
}

}  // namespace warren::helmsman
